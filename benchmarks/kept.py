"""Work that is kept between runs, below TACENDA_BENCH_CACHE: folders of fitted models and texts, and single figures.

Whatever is kept carries what it was made by (`freshness.used`). It is taken again as long as its facts are the same and
none of those modules has changed, and counts as used by the run that takes it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import freshness
from tacenda import store


def place() -> Path:
    """Return where work is kept: TACENDA_BENCH_CACHE, or below the user's cache."""
    user = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "tacenda-bench"
    return Path(os.environ.get("TACENDA_BENCH_CACHE", user))


def digest(facts: Any) -> str:
    """Return a short digest of JSON values."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:12]


@cache
def whole() -> str:
    """Return a digest of all our code, under which unfinished work is kept: no other code goes on with it."""
    return digest([freshness.digest(source) for source in freshness.SOURCES.values()])


def read_json(path: Path) -> Any:
    """Return the value in a JSON file, or None where there is no file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def write_json(path: Path, value: Any) -> None:
    """Write JSON in one step, so that a file is never half written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(value, indent=2, default=_plain) + "\n", encoding="utf-8")
    temporary.replace(path)


def _plain(value: Any) -> Any:
    """NumPy scalars and arrays, and paths, as JSON has them."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def folder(
    name: str, facts: Any, make: Callable[[Path], Any], ours: bool = True
) -> tuple[Path, dict[str, Any]]:
    """Return a folder with finished work, and what is said of it; made now unless it is kept.

    Parameters
    ----------
    name, facts
        What the work is called, and what else tells it from other work: settings, texts, seeds.
    make
        Fills the folder that it is given, and may return figures as JSON values. It may leave unfinished work in
        ``checkpoints`` there, which an interrupted run finds again.
    ours
        Whether our code makes it: no change of ours makes what other libraries have made old.

    Returns
    -------
    The folder, and the figures; ``seconds`` of the processor are among them, None of work that was interrupted.
    """
    here = place() / "work" / f"{name}-{digest(facts)}"
    lock = here.with_name(f"{here.name}.lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    with store.locked(lock):  # another process that wants the same waits, and finds it kept
        return here, _keep(here, facts, make, ours)


def _keep(here: Path, facts: Any, make: Callable[[Path], Any], ours: bool) -> dict[str, Any]:
    """Return the figures of kept work, made now unless it is there."""
    record = here / "made.json"
    if known := read_json(record):
        if not (ours and freshness.changed(known)):
            freshness.take(known)
            return dict(known["figures"])
        shutil.rmtree(here)
    making = here.with_name(f"{here.name}-{whole()}")
    resumed = making.exists()
    making.mkdir(parents=True, exist_ok=True)
    begun = time.process_time()
    with freshness.recording() as made_by:
        found = make(making)
    figures = {"seconds": time.process_time() - begun, **(found if isinstance(found, dict) else {})}
    figures |= {"seconds": None} if resumed else {}
    shutil.rmtree(making / "checkpoints", ignore_errors=True)
    shutil.rmtree(here, ignore_errors=True)
    making.rename(here)
    write_json(record, {"figures": figures, "facts": facts, **(made_by if ours else {})})
    return figures


class Cells:
    """Measured figures by name, in ``<cache>/cells/<name>.json``; saved as they come."""

    def __init__(self, name: str) -> None:
        self.path = place() / "cells" / f"{name}.json"
        self._known = self._read()

    def _read(self) -> dict[str, dict[str, Any]]:
        # the modules of each cell, many of which have the same
        return dict(read_json(self.path) or {"cells": {}, "code": {}})

    def __contains__(self, key: str) -> bool:
        cell = self._known["cells"].get(key)
        return cell is not None and not (cell["code"] and freshness.changed(self._record(cell)))

    def __getitem__(self, key: str) -> Any:
        cell = self._known["cells"][key]
        freshness.take(self._record(cell))
        return cell["value"]

    def _record(self, cell: dict[str, Any]) -> dict[str, Any]:
        return {**cell, "code": self._known["code"].get(cell["code"], {})}

    def clear(self) -> None:
        """Forget everything, on disk too."""
        self.path.unlink(missing_ok=True)
        self._known = self._read()

    def measure(self, key: str, run: Callable[[], Any], ours: bool = True) -> Any:
        """Return the figures of this name, measured now unless they are kept; no change of ours makes others' old."""
        if key not in self:
            with freshness.recording() as made_by:
                value = run()
            code = digest(made_by["code"]) if ours else ""
            self._known = self._read()  # another process may have added some
            self._known["code"] |= {code: made_by["code"]} if ours else {}
            settings = made_by["settings"] if ours else {}
            self._known["cells"][key] = {"value": value, "code": code, "settings": settings}
            write_json(self.path, self._known)
        return self[key]


def cell_key(**parts: object) -> str:
    """Return the name of a cell: what its figures are of."""
    return " | ".join(f"{name}={value}" for name, value in parts.items())
