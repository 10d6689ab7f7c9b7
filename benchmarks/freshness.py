"""What a run of a benchmark has used, our modules and the settings of our models, and what has changed since.

A result is fresh as long as every module of ours that its run imported is as it was. The modules are those that the
process has imported when it saves, those of the processes that it started (`reporting.in_process`), and those that
work kept from earlier runs was made by (`benchmarks.kept`). The digest of a module is of what it computes, so that
better words in docstrings, comments, errors and warnings change nothing.
"""

from __future__ import annotations

import ast
import atexit
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HANDED = "TACENDA_BENCH_USED"  # the folder where a process that another one started says what it has used


def module_paths(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the full name and the file of every module of our packages."""
    for source in sorted(root.glob("packages/*/src")):
        for path in sorted(source.rglob("*.py")):
            name = ".".join(path.relative_to(source).with_suffix("").parts)
            yield name.removesuffix(".__init__"), path


def read_sources(root: Path = ROOT) -> dict[str, str]:
    """Return the text of every module of our packages by its name."""
    return {name: path.read_text(encoding="utf-8") for name, path in module_paths(root)}


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


class _Computing(ast.NodeTransformer):
    """Keeps of a module what computes: no words for readers, and no types that only a checker reads."""

    def visit_Expr(self, node: ast.Expr) -> Any:
        """Leave docstrings out, and other constants that stand alone."""
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> Any:
        """Leave imports for type checkers out."""
        name = ast.unparse(node.test)
        return None if name.endswith("TYPE_CHECKING") else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> Any:
        return _Wordless().visit(self.generic_visit(node))

    def visit_Call(self, node: ast.Call) -> Any:
        """Leave the words of warnings out."""
        self.generic_visit(node)
        warns = ast.unparse(node.func).rpartition(".")[2] in ("warn", "warning")
        return _Wordless().visit(node) if warns else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """Leave annotations out where no decorator reads them: operations and commands are made by theirs."""
        self.generic_visit(node)
        if not node.decorator_list:
            node.returns = None
            for each in ast.walk(node.args):
                if isinstance(each, ast.arg):
                    each.annotation = None
        return node


class _Wordless(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> Any:
        return ast.Constant("") if isinstance(node.value, str) else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        return ast.Constant("")


@cache
def digest(source: str) -> str:
    """Return a digest of what Python code computes.

    Comments, layout, docstrings, the words of errors and warnings, and types that only a checker reads are left out.
    """
    code = ast.dump(_Computing().visit(ast.parse(source)))
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
