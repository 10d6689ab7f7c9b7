"""What every benchmark shares: timing, a description of the run, one JSON file of results."""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks import freshness, parts
from tacenda.kernels.machinery.threads import usable_cores

RESULTS = parts.RESULTS
LIBRARIES = (
    "tacenda", "tacenda-embeddings", "tacenda-lm", "tacenda-surprise",
    "numpy", "scipy", "numba", "torch", "spacy", "thinc", "gensim", "scikit-surprise",
    "cornac", "lenskit", "myfm", "setuptools",
)  # fmt: skip


OPTIONS: dict[str, dict[str, Any]] = {
    "cache": {
        "type": Path,
        "default": parts.kept_folder(),
        "help": "where finished work is kept (default: TACENDA_BENCH_CACHE)",
    },
    "only": {"nargs": "*", "default": [], "help": "rows with one of these in the name"},
    "again": {"action": "store_true", "help": "measure what is finished too"},
    "no-save": {"action": "store_true", "help": "measure, leave results/ alone"},
}


class Command(argparse.ArgumentParser):
    """The command line of a benchmark, described by the first line of its docstring, with some of `OPTIONS`."""

    def __init__(self, description: str | None, *options: str, **more: Any) -> None:
        super().__init__(description=(description or "").partition("\n")[0], **more)
        for name in options:
            self.add_argument(f"--{name}", **OPTIONS[name])


def timed(fn: Callable[[], Any], repeats: int = 5, warmup: int = 1) -> list[float]:
    """Wall seconds of each of ``repeats`` calls, after ``warmup`` calls that do not count.

    The warm-up takes compilation and cold caches out; time those apart where they matter. What a call returns is
    freed when the clock has stopped.
    """
    for _ in range(warmup):
        fn()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = fn()
        seconds.append(time.perf_counter() - start)
        del result
    return seconds


def summary(values: list[float]) -> dict[str, float | int]:
    """Median and spread of repeated measurements, as the ``rows`` of `save` carry them."""
    return {
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
        "repeats": len(values),
    }


def load() -> float | None:
    """Processes that wanted a core during the last minute, on average; None where the system does not say."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def of_process(module: str, *arguments: object) -> Any:
    """What a module prints as JSON on its last line, in a process of its own."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def peak() -> int:
    """The most bytes that were resident in this process so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def pyplot() -> Any:
    """Matplotlib, which comes with the benchmarks only, without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ("git", *arguments), cwd=parts.ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


# As it was when the benchmark started: the code may change while a long one runs.
STARTED = {
    "commit": _git("rev-parse", "--short=10", "HEAD"),
    "modified": bool(_git("status", "--porcelain", "--", "packages")),
    "load at the start": load(),
}
CODE = {
    each: freshness.code(each) for each in {each for part in parts.PARTS for each in part.measures}
}


def description(name: str, seeds: Sequence[int] | None) -> dict[str, Any]:
    """The run: commit, digests of the code measured, seeds, processor, load, threads, versions, date (UTC)."""
    libraries = {}
    for library in LIBRARIES:
        try:
            libraries[library] = version(library)
        except PackageNotFoundError:
            continue
    part = parts.part_of(name)
    return {
        **STARTED,
        "load at the end": load(),
        "code": {each: CODE[each] for each in part.measures} if part else {},
        "seeds": None if seeds is None else list(seeds),
        "cpu": _cpu_model(),
        "cores": usable_cores(),
        "threads": {k: v for k, v in sorted(os.environ.items()) if k.endswith("_NUM_THREADS")},
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "libraries": libraries,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def save(
    name: str,
    protocol: dict[str, Any],
    rows: list[dict[str, Any]],
    *,
    seeds: Sequence[int] | None = None,
    keep: str | None = None,
    unfinished: bool = False,
    dry: bool = False,
) -> Path:
    """Write ``benchmarks/results/<name>.json`` in one step and print the rows as a table.

    Parameters
    ----------
    protocol
        What was measured and how: data, sizes, units, what was left out.
    rows
        One dict for each measured thing, ours and its peers', with the same keys.
    seeds
        Of everything random in the rows; None where nothing is.
    keep
        Name of the key that tells rows apart: rows of the file that were not measured this time stay,
        each with the description of its own run under ``earlier``. None: all rows are new.
    unfinished
        Whether rows or seeds are still missing, which `make bench` then measures.
    dry
        Print the rows, write nothing.
    """
    print_table(rows)
    path = RESULTS / f"{name}.json"
    if dry:
        return path
    RESULTS.mkdir(parents=True, exist_ok=True)
    report = {
        "name": name,
        "run": description(name, seeds),
        "protocol": protocol,
        "keep": keep,
        "unfinished": unfinished,
        "rows": rows,
    }
    if keep is not None and path.exists():
        report = _with_earlier(report, json.loads(path.read_text(encoding="utf-8")), keep)
    write(path, report)
    return path


def write(path: Path, content: Any) -> None:
    """Write JSON in one step, so that a file is never half written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(content, indent=2, default=_plain) + "\n", encoding="utf-8")
    temporary.replace(path)


def published(beside: str) -> Any:
    """What others report, in `published.json` beside a file: an attribute a table, keys that are numbers as numbers."""

    def keyed(pairs: list[tuple[str, Any]]) -> dict[Any, Any]:
        return {int(key) if key.isdigit() else key: value for key, value in pairs}

    text = (Path(beside).parent / "published.json").read_text(encoding="utf-8")
    return SimpleNamespace(**json.loads(text, object_pairs_hook=keyed))


def machine() -> dict[str, Any]:
    """What the digits of a result may depend on: processor and libraries."""
    versions = {each: version(each) for each in ("numpy", "scipy", "numba", "torch", "spacy")}
    return {"cpu": _cpu_model(), "python": platform.python_version(), "libraries": versions}


def _with_earlier(new: dict[str, Any], old: dict[str, Any], key: str) -> dict[str, Any]:
    """The new report with the rows of the old one that it has none for, in the old order."""
    measured = {row[key]: row for row in new["rows"]}
    rows = [measured.pop(row[key], row) for row in old["rows"]] + list(measured.values())
    names = {row[key] for row in new["rows"]}
    runs = [*old.get("earlier", []), {"run": old["run"]}]
    runs[-1]["rows"] = [
        row[key] for row in old["rows"] if not _in(old.get("earlier", []), row[key])
    ]
    for run in runs:
        run["rows"] = [name for name in run["rows"] if name not in names]
    earlier = [run for run in runs if run["rows"]]
    return {**new, "rows": rows, **({"earlier": earlier} if earlier else {})}


def _in(runs: list[dict[str, Any]], name: Any) -> bool:
    return any(name in run["rows"] for run in runs)


def print_table(rows: list[dict[str, Any]]) -> None:
    """The rows as an aligned text table; nested values are left to the JSON file."""
    keys = list(dict.fromkeys(k for row in rows for k, v in row.items() if not isinstance(v, dict)))
    cells = [keys] + [[_cell(row.get(k)) for k in keys] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(keys))]
    for line in cells:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        )


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _plain(value: Any) -> Any:
    """NumPy scalars and arrays, and paths, as JSON has them."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
