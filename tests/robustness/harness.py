"""Does anything do harm: python tests/robustness/harness.py, or with --short what `make test` runs.

Saved models are altered, processes are killed, forked and threaded, and readers are given bombs. Nothing may come of
it but a valid result or one clear error: no crash, no hang, no traceback of another kind, no answer that is not one,
no half of a model, no flood of memory. Failures are printed with what repeats them.

What has been done is kept in the file of ``--log``, from which an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import bombs
import kills
import meanings
import numpy as np
import served
import signals
import surroundings
import together
from children import Cases, outcomes
from mutants import checkpoint_mutants, hostile, mutants
from specimens import exercise, fitted, load, specimens

from tacenda import artifact

_AT_ONCE = 64  # altered models that one child tries
_SHORT = ("lds", "varembed", "hlbl", "vlhmm", "mixture", "rbm")  # one of each family


class Unit(NamedTuple):
    """A part of the work that is done as a whole or not at all."""

    part: str
    name: str
    run: Callable[[Path], Cases]


def altered(name: str, n: int | None, seed: int, folder: Path) -> Cases:
    """Alter a saved model: ``n`` times at random, or every tensor in all ways if that is None."""
    fitted(name).save(folder / "whole")
    whole = artifact.read(folder / "whole")
    exercise(load(folder / "whole", name))
    if n is None:
        found = hostile(whole)
    else:
        rng = np.random.default_rng([seed, *name.encode()])
        found = itertools.islice(mutants(whole, rng), n)

    def attempt(mutant: artifact.Artifact) -> None:
        artifact.write(folder / "mutant", mutant)
        exercise(load(folder / "mutant", name))

    yield from tried((note, partial(attempt, mutant)) for note, mutant in found)


def tried(trials: Iterable[tuple[str, Callable[[], object]]]) -> Cases:
    """Try things, many in one child."""
    left = iter(trials)
    while some := list(itertools.islice(left, _AT_ONCE)):
        notes, acts = zip(*some, strict=True)
        yield from zip(notes, outcomes(acts), strict=True)


def misjoined(name: str, by_hand: bool, n: int, seed: int, folder: Path) -> Cases:
    """Put parts of several models together, ``n`` times at random."""
    rng = np.random.default_rng([seed, *name.encode()])
    yield from tried(itertools.islice(meanings.attempts(name, by_hand, folder, rng), n))


def resumed(name: str, n: int, seed: int, folder: Path) -> Cases:
    """Alter the checkpoint of a fit, and go on from it."""
    specimen = specimens()[name]
    place = folder / "checkpoints"
    specimen.fit(checkpoints=place)
    # the checkpoint of a mixture's component, or that of the first of two fits, lies deeper
    deepest = sorted(place.rglob("checkpoint.json"))[-1].parent
    rng = np.random.default_rng([seed, *name.encode()])

    def attempt(put: Callable[[], None]) -> None:
        put()
        exercise(specimen.fit(checkpoints=place))

    exercise(specimen.fit(checkpoints=place))
    found = itertools.islice(checkpoint_mutants(deepest, rng), n)
    yield from tried((note, partial(attempt, put)) for note, put in found)


def units(options: argparse.Namespace) -> list[Unit]:
    """The whole work."""
    names = list(specimens())
    each = -(-options.mutants // len(names))
    found = [Unit("mutants", name, partial(altered, name, each, options.seed)) for name in names]
    some = _SHORT if options.short else names
    found += [
        Unit(part, name, partial(misjoined, name, part == "by hand", each // 2 + 1, options.seed))
        for part in ("by hand", "saved anew")
        for name in some
    ]
    found += [
        Unit("kills", name, partial(scenario, n, options.seed))
        for (name, scenario), n in zip(
            kills.scenarios(options.short).items(),
            kills.shares(options.kills, options.short),
            strict=True,
        )
    ]
    told = signals.scenarios(options.short)
    found += [
        Unit(
            "signals",
            name,
            partial(signals.signalled, name, -(-options.signals // len(told)), options.seed),
        )
        for name in told
    ]
    found.append(Unit("bombs", "readers", partial(bombs.readers, options.short)))
    found.append(Unit("bombs", "paths", bombs.paths))
    found += [Unit("forks", name, partial(together.forks, name)) for name in some]
    found += [Unit("threads", name, partial(together.threads, name)) for name in some]
    n_requests, n_documents = (64, 0) if options.short else (2_000, 50_000)
    found += [
        Unit("served", name, partial(served.serving, name, n_requests, n_documents))
        for name in served.SERVED
    ]
    found += [
        Unit("surroundings", name, partial(change, options.short))
        for name, change in surroundings.SURROUNDINGS.items()
    ]
    kept = [name for name, specimen in specimens().items() if specimen.keeps_checkpoints]
    n_resumed = 2 if options.short else 200
    found += [
        Unit("checkpoints", name, partial(resumed, name, n_resumed, options.seed)) for name in kept
    ]
    if not options.short:
        found += [Unit("tensors", name, partial(altered, name, None, 0)) for name in names]
    return [u for u in found if not options.only or {u.part, u.name} & set(options.only)]


def run(unit: Unit) -> dict[str, Any]:
    """Do a unit; what was done, as a line of the log."""
    begun = time.monotonic()
    n, failures, kinds = 0, [], Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for what, (complaint, kind) in unit.run(Path(folder)):
            n += 1
            kinds[kind] += 1
            if complaint:
                failures.append({"case": n - 1, "what": what, "result": complaint})
                print(f"{unit.part}, {unit.name}, {n - 1}: {what}: {complaint}", flush=True)
    seconds = round(time.monotonic() - begun, 1)
    print(f"{unit.part}, {unit.name}: {n} cases, {len(failures)} failures, {seconds} s", flush=True)
    return {
        "commit": _commit(),
        "part": unit.part,
        "name": unit.name,
        "cases": n,
        "outcomes": dict(kinds),
        "failures": failures,
        "seconds": seconds,
    }


def _commit() -> str:
    """The commit that is tried."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    found = subprocess.run(
        command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return found.stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mutants", type=int, default=10_000, help="altered models in all")
    parser.add_argument("--kills", type=int, default=200, help="processes killed in all")
    parser.add_argument("--signals", type=int, default=400, help="commands told to end in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", help="parts (mutants, tensors, kills, ...) or models")
    parser.add_argument(
        "--short", action="store_true", help="a part of everything, in half a minute"
    )
    parser.add_argument("--log", type=Path, help="JSON lines; what is in there is not done again")
    options = parser.parse_args()
    if options.short:
        options.mutants, options.kills = min(options.mutants, 170), min(options.kills, 8)
        options.signals = min(options.signals, 3)
    done: dict[tuple[str, str], dict[str, Any]] = {}
    if options.log and options.log.exists():
        lines = map(json.loads, options.log.read_text(encoding="utf-8").splitlines())
        done = {(line["part"], line["name"]): line for line in lines}
    rows = []
    for unit in units(options):
        row = done.get((unit.part, unit.name)) or run(unit)
        rows.append(row)
        if options.log and (unit.part, unit.name) not in done:
            with options.log.open("a", encoding="utf-8") as log:
                log.write(json.dumps(row) + "\n")
    failures = sum(len(row["failures"]) for row in rows)
    counts = dict.fromkeys(dict.fromkeys(row["part"] for row in rows), 0)
    for row in rows:
        counts[row["part"]] += row["cases"]
    print(", ".join(f"{n} {part}" for part, n in counts.items()) + f": {failures} failures")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
