"""What the embedding benchmarks share: folders, a log, and cells that survive a kill.

A *cell* is one measured figure (a row of a table, a data size, a seed). It is written to a JSON
file in the cache as soon as it is measured, and found there again on the next run.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks import parts


def data_folder() -> Path:
    """The evaluation data's folder, from TACENDA_DATA."""
    folder = os.environ.get("TACENDA_DATA")
    if not folder or not Path(folder).is_dir():
        raise SystemExit("These benchmarks measure on real text: set TACENDA_DATA to its folder.")
    return Path(folder)


SEEDS = (0, 1, 2)  # what a finished table has
TEXTS = ("wiki", "wiki+ewt", "wiki+novels+ewt")


class Parser(argparse.ArgumentParser):
    """Everything made of another text than Wikipedia lies in a folder of its own in the cache."""

    def parse_args(self, *args: Any, **more: Any) -> Any:  # type: ignore[override]
        options = super().parse_args(*args, **more)
        if options.text != TEXTS[0]:
            options.cache = options.cache / options.text
        return options


def text_of(cache: Path) -> str:
    return cache.name if cache.name in TEXTS else TEXTS[0]


def results_name(name: str, cache: Path) -> str:
    """`name`, and the text where it is not Wikipedia alone."""
    text = text_of(cache)
    return name if text == TEXTS[0] else f"{name}-{text}"


def arguments(description: str | None, seeds: str = "0-2") -> Parser:
    """A parser with the options that all benchmarks here have."""
    parser = Parser(description=(description or "").split("\n")[0])
    parser.add_argument(
        "--cache",
        type=Path,
        default=parts.kept_folder(),
        help="where corpora, models and cells are kept (default: TACENDA_BENCH_CACHE)",
    )
    parser.add_argument("--text", choices=TEXTS, default=TEXTS[0], help="the unlabelled text")
    parser.add_argument("--seeds", type=number_range, default=number_range(seeds), help="e.g. 0-4")
    parser.add_argument("--only", nargs="*", default=[], help="rows with one of these in the name")
    parser.add_argument("--no-save", action="store_true", help="measure, leave results/ alone")
    return parser


def number_range(text: str) -> list[int]:
    """'0-2' or '0,3,5' as a list."""
    if "-" in text:
        first, last = text.split("-")
        return list(range(int(first), int(last) + 1))
    return [int(part) for part in text.split(",")]


def chosen(rows: Iterable[str], only: list[str]) -> list[str]:
    return [row for row in rows if not only or any(part in row for part in only)]


def logger(name: str, cache: Path) -> logging.Logger:
    """A log to stderr and, appended, to `<cache>/logs/<name>.log`."""
    (cache / "logs").mkdir(parents=True, exist_ok=True)
    log = logging.getLogger(f"bench.{name}")
    if not log.handlers:
        log.setLevel(logging.INFO)
        form = logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S")
        for handler in (
            logging.StreamHandler(sys.stderr),
            logging.FileHandler(cache / "logs" / f"{name}.log", encoding="utf8"),
        ):
            handler.setFormatter(form)
            log.addHandler(handler)
    return log


def write_json(path: Path, value: object) -> None:
    """Written beside the file and moved into its place, so that a kill leaves the old one whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(value, indent=1, sort_keys=True), encoding="utf8")
    temporary.replace(path)


class Cells:
    """Measured figures by name, in `<cache>/cells/<name>.json`; saved as they come."""

    def __init__(self, cache: Path, name: str) -> None:
        self.path = cache / "cells" / f"{name}.json"
        self.values: dict[str, dict[str, Any]] = (
            json.loads(self.path.read_text(encoding="utf8")) if self.path.exists() else {}
        )

    def clear(self) -> None:
        """Forget everything, on disk too."""
        self.values = {}
        self.path.unlink(missing_ok=True)

    def measure(self, key: str, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if key not in self.values:
            value = run()
            if self.path.exists():  # another process may have added cells meanwhile
                self.values = json.loads(self.path.read_text(encoding="utf8"))
            self.values[key] = value
            write_json(self.path, self.values)
        return self.values[key]


def cell_key(**parts: object) -> str:
    return " | ".join(f"{name}={value}" for name, value in parts.items())


def spread(values: list[float]) -> dict[str, Any]:
    """Mean and sample standard deviation (zero for a single value) of `values`."""
    return {
        "mean": statistics.fmean(values),
        "sd": statistics.stdev(values) if len(values) > 1 else 0.0,
        "n": len(values),
    }
