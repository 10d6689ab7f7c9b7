"""Whether figures are those of today's code: what has changed since they were measured.

A figure is fresh as long as the code it measures has not changed. `code` gives a digest of that code without its
docstrings and comments, so that better words change nothing. Where the code has changed, but small fits of it still
give the same (`benchmarks.witnesses`), figures that are no times stand too.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import tokenize
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import parts
from benchmarks.parts import ROOT, Part

WITNESSED = Path(__file__).resolve().parent / "witnesses.json"
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
TOLERANCE = 1e-4  # of witnesses: figures have fewer digits
# The witnesses of what is measured, by its beginning. What is not named (the trainer, readers) is heard through the
# models of the same figures; figures without a witness are stale as soon as their code changes.
WITNESSES_OF = {
    "lm/ngram": ("n_grams",),
    "lm/log_bilinear": ("hlbl", "lbl"),
    "lm/hidden_markov": ("vlhmm", "hmm"),
    "lm/boltzmann": ("machines",),
    "lm/state_space": ("state_space",),
    "lm/recurrent": ("recurrent",),
    "lm/cache": ("caches",),
    "lm/mixture": ("mixture",),
    "lm/surprisal": ("surprisal",),
    "lm/unknown_words": ("surprisal",),
    "embeddings/lds": ("lds",),
    "embeddings/varembed": ("varembed",),
    "embeddings/spacy": ("spacy",),
    "surprise": ("ratings",),
}


def of_part(part: Part) -> str:
    """`fresh`, `stale` (the code has changed since), `partial` or `missing`: the worst of its result files."""
    found = {state(result) for result in part.results}
    return next(each for each in ("missing", "stale", "partial", "fresh") if each in found)


def state(result: str) -> str:
    """`fresh`, `stale`, `partial` or `missing`: whether the code still gives all figures as they were measured."""
    if not (parts.RESULTS / f"{result}.json").exists():
        return "missing"
    part = parts.part_of(result)
    other = rewritten if part and part.timed else changed  # witnesses say nothing of times
    if any(other(result, run) for run in runs(result)):
        return "stale"
    return "partial" if _report(result).get("unfinished") else "fresh"


def runs(result: str) -> list[dict[str, Any]]:
    """The descriptions of all runs in which rows of ours in a result file were measured; none if there is no file."""
    if not (parts.RESULTS / f"{result}.json").exists():
        return []
    report = _report(result)
    return [each.run for each in runs_of(report, report["rows"]) if each.ours]


class Run(NamedTuple):
    """The description of a run, its rows, and whether one of them is ours.

    Other libraries' figures are not made old by any change of ours.
    """

    run: dict[str, Any]
    rows: list[dict[str, Any]]
    ours: bool


def runs_of(report: dict[str, Any], rows: list[dict[str, Any]]) -> list[Run]:
    """The runs in which these rows of a report were measured, the newest first."""
    if "run" not in report:
        return []
    left = list(rows)
    found = []
    for earlier in report.get("earlier", ()):
        key = report.get("keep") or _key(report["rows"], earlier["rows"])
        of_run = [row for row in left if row.get(key) in earlier["rows"]]
        left = [row for row in left if row.get(key) not in earlier["rows"]]
        if of_run:
            found.append(Run(earlier["run"], of_run, _ours(of_run)))
    return ([Run(report["run"], left, _ours(left))] if left else []) + found


def _key(rows: list[dict[str, Any]], names: list[Any]) -> str:
    """The column that tells rows apart, of a file that does not name it."""
    return next(
        key for key in rows[0] if all(any(row.get(key) == n for row in rows) for n in names)
    )


def _ours(rows: list[dict[str, Any]]) -> bool:
    return any(row.get("library", "tacenda").startswith("tacenda") for row in rows)


def _report(result: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (parts.RESULTS / f"{result}.json").read_text(encoding="utf-8")
    )
    return found


def changed(result: str, run: dict[str, Any]) -> list[str]:
    """The code measured by ``result`` that has changed since this run, unless witnesses say that it does the same."""
    part, found = parts.part_of(result), rewritten(result, run)
    return [] if part and found and _same_since(part, run) else found


def rewritten(result: str, run: dict[str, Any]) -> list[str]:
    """The code measured by ``result`` that has changed since this run, as `lm/ngram`; all of it if unknown."""
    part = parts.part_of(result)
    then = run.get("code", {})
    measured = dict.fromkeys(part.measures) if part else ()
    return [each for each in measured if then.get(each) != code(each)]


def _same_since(part: Part, run: dict[str, Any]) -> bool:
    """Whether the witnesses of all that a part measures gave the same, on one machine, at the run and today."""
    names = {name for each in part.measures for name in _witnesses(each)}
    if not names:
        return False
    today = {"code": {each: code(each) for each in part.measures}}
    return any(
        then["machine"] == now["machine"]
        and all(alike(then["said"].get(name), now["said"].get(name)) for name in names)
        for then in heard()
        for now in heard()
        if covers(then, run) and covers(now, today)
    )


def alike(then: list[float] | None, now: list[float] | None) -> bool:
    """Whether a witness gave the same twice, but for what another order of summation does."""
    if not then or not now or len(then) != len(now):
        return False
    scale = max(map(abs, then))
    return all(abs(a - b) <= TOLERANCE * scale for a, b in zip(then, now, strict=True))


def _witnesses(measured: str) -> tuple[str, ...]:
    return next((names for code, names in WITNESSES_OF.items() if measured.startswith(code)), ())


def covers(witness: dict[str, Any], run: dict[str, Any]) -> bool:
    """Whether a record of the witnesses is of the code that was run."""
    code = run.get("code", {})
    return bool(code) and all(witness["code"].get(each) == code[each] for each in code)


@cache
def heard() -> list[dict[str, Any]]:
    """What `benchmarks.witnesses` has written: code and means of one checkout each, newest last."""
    found: list[dict[str, Any]] = (
        json.loads(WITNESSED.read_text(encoding="utf-8")) if WITNESSED.exists() else []
    )
    return found


def exists(measured: str, root: Path = ROOT) -> bool:
    package, _, below = measured.partition("/")
    return (root / parts.SOURCES[package] / below).exists()


@cache
def code(measured: str, root: Path = ROOT) -> str:
    """Digest of the Python code of a file or folder of the packages, docstrings and comments apart.

    `benchmarks.reporting` calls it when a benchmark starts, so that it describes the code that was run.
    """
    package, _, below = measured.partition("/")
    source = root / parts.SOURCES[package]
    path = source / below
    files = [path] if path.suffix == ".py" else sorted(path.rglob("*.py"))
    if not path.exists() or not files:
        raise FileNotFoundError(f"benchmarks/parts.py measures {measured!r}, which does not exist.")
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(source).as_posix()}\n".encode())
        digest.update(_without_words(file.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()[:16]


def _without_words(source: str) -> str:
    """The source without docstrings, comments and empty lines."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            first, last = docstring.lineno - 1, docstring.end_lineno or docstring.lineno
            lines[first:last] = [""] * (last - first)
    return "\n".join(line.rstrip() for line in lines if line.strip())
