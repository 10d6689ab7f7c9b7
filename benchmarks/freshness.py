"""What a run of a benchmark has used, our modules and the settings of our models, and what has changed since.

A result is fresh as long as every module of ours that its run imported is as it was. The modules are those that the
process has imported when it saves, those of the processes that it started (`reporting.in_process`), and those that
work kept from earlier runs was made by (`benchmarks.kept`). The digest of a module leaves docstrings and comments out,
so that better words change nothing.
"""

from __future__ import annotations

import ast
import atexit
import hashlib
import io
import json
import os
import sys
import tokenize
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HANDED = "TACENDA_BENCH_USED"  # the folder where a process that another one started says what it has used
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def read_sources(root: Path = ROOT) -> dict[str, str]:
    """Return the text of every module of our packages by its name."""
    found = {}
    for source in sorted(root.glob("packages/*/src")):
        for path in sorted(source.rglob("*.py")):
            name = ".".join(path.relative_to(source).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path.read_text(encoding="utf-8")
    return found


#: As they were when the benchmark started: the code may change while a long one runs.
SOURCES = read_sources()
_taken: dict[str, str] = {}
_settings: dict[str, list[dict[str, Any]]] = {}


def used() -> dict[str, Any]:
    """Return the digest of each module used so far, and the settings of each class of models, with their defaults."""
    own = {name: digest(SOURCES[name]) for name in sorted(set(sys.modules) & set(SOURCES))}
    return {"code": {**_taken, **own}, "settings": dict(_settings)}


@contextmanager
def recording() -> Iterator[dict[str, Any]]:
    """Yield a record that in the end says what was used: all modules so far, and the models made in this block."""
    record: dict[str, Any] = {}
    before = dict(_settings)
    _settings.clear()
    try:
        yield record
    finally:
        record |= used()
        _settings.clear()
        _settings.update(before)
        take({"settings": record["settings"]})


def take(record: dict[str, Any]) -> None:
    """Count what another process or an earlier run has used as used by this one."""
    _taken.update(record.get("code", {}))
    for model, found in record.get("settings", {}).items():
        for each in found:
            note(model, each)


def note(model: str, settings: dict[str, Any]) -> None:
    """Remember that a model was made with these settings."""
    known = _settings.setdefault(model, [])
    if settings not in known:
        known.append(settings)


def changed(record: dict[str, Any]) -> list[str]:
    """Return the modules of ours that a run used and that are different today, or gone; ``["?"]`` if it names none."""
    then: dict[str, str] = record.get("code") or {}
    return [
        name for name in then if name not in SOURCES or digest(SOURCES[name]) != then[name]
    ] or ([] if then else ["?"])


@cache
def digest(source: str) -> str:
    """Return a digest of Python code without docstrings, comments and empty lines."""
    lines = source.split("\n")  # as tokenize counts them: no form feed ends a line
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            first, last = docstring.lineno - 1, docstring.end_lineno or docstring.lineno
            lines[first:last] = [""] * (last - first)
    code = "\n".join(line.rstrip() for line in lines if line.strip())
    return hashlib.sha256(code.encode()).hexdigest()[:12]


def watch_models() -> None:
    """Note the settings of every model that this process makes or loads from now on."""
    from tacenda.estimator import Estimator

    begin = Estimator.__init__

    def noting(model: Estimator, settings: Any = None) -> None:
        begin(model, settings)
        note(type(model).__name__, model.settings.to_dict())

    if begin.__name__ != noting.__name__:
        Estimator.__init__ = noting  # type: ignore[method-assign]


def _hand_over(folder: str) -> None:
    (Path(folder) / f"{os.getpid()}.json").write_text(json.dumps(used(), default=str))


if HANDED in os.environ:
    atexit.register(_hand_over, os.environ[HANDED])
