"""What came of altered models, kills, threads and surroundings: python -m benchmarks.robustness --log robustness.log

Runs ``tests/robustness/harness.py`` to its end, from where the log leaves off, and counts what the log says. With
``--only threads forks`` it runs these parts alone, from the beginning.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks import freshness
from benchmarks.reporting import Options, Row, Table, main

HARNESS = Path(__file__).parents[1] / "tests" / "robustness" / "harness.py"

#: The parts of the harness, as the table calls them.
PARTS = {
    "by hand": "parts of several models, hashes made to fit",
    "saved anew": "parts of several models, saved as a new model",
    "mutants": "adversarial values, saved as a new model",
    "tensors": "every tensor altered in every way",
    "checkpoints": "altered checkpoints of a fit that resumes",
    "kills": "processes killed while they save, build, fetch or fit",
    "signals": "commands told to end (Ctrl-C, SIGTERM, SIGHUP), and then run again",
    "served": "requests in eight threads, and documents in memory that must not grow",
    "threads": "models used and fitted in threads",
    "forks": "models in forked processes, pools and data loaders",
    "surroundings": "full disk, read-only folders, a clock that jumps, other flags and variables of Python",
    "bombs": "hostile files for every reader, and paths that are none",
}
PROTOCOL = {
    "models": "a small one of every registered model, fitted to made-up data; compact forms too",
    "refused": "one sentence, as an error of Tacenda",
    "right": "the answers of the unaltered model, or those a model of the altered numbers has, finite and normalized; "
    "after a kill the old file or the new one, whole, and after a resumed fit the same bits",
    "told": "other answers than those of the unaltered model, with a warning",
    "another model": "other answers than those of the unaltered model, without a word: what was saved anew is sound, "
    "and nobody can tell it from a model that was fitted so",
    "wrong": "an invalid answer; of parts of several models whose hashes were made to fit, any other answer without a "
    "warning; files left in the folder of a model or corpus; memory that grows with the number of documents",
    "broken": "a crash, a hang, a traceback, or more memory than the test allows",
}  # fmt: skip


def rows(options: Options) -> Iterator[Row]:
    """Count the outcomes of each part."""
    parts = options.chosen(PARTS)
    with tempfile.TemporaryDirectory() as folder:
        from_nothing = options.only and not options.as_it_is
        log = Path(folder, "log") if from_nothing else Path(options.log)
        command = [sys.executable, str(HARNESS), "--log", str(log)]
        if not options.as_it_is:  # it fails where anything did
            subprocess.run([*command, *(["--only", *parts] if options.only else [])], check=False)
        lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    sources = freshness.SOURCES.items()  # the harness tries all of them
    freshness.take({"code": {name: freshness.digest(text) for name, text in sources}})
    found: dict[str, Counter[str]] = {}
    commits: dict[str, set[str]] = {}
    for line in lines:
        found.setdefault(line["part"], Counter()).update(line["outcomes"])
        commits.setdefault(line["part"], set()).add(line["commit"])
    for part in parts:
        if part in found:
            yield {"what": PARTS[part], **_row(found[part]), "at": ", ".join(sorted(commits[part]))}


def _row(kinds: Counter[str]) -> Row:
    own = {
        "refused": kinds["refused"],
        "right": kinds["answered"] + kinds["harmless"],
        "told": kinds["told"],
        "another model": kinds["silent"],
        "wrong": kinds["wrong"],
    }
    return {"tried": kinds.total(), **own, "broken": kinds.total() - sum(own.values())}


TABLE = Table("robustness", PROTOCOL, rows, key="what")

if __name__ == "__main__":
    main(__doc__, TABLE, log="robustness.log", as_it_is=False)
