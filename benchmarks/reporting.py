"""What every benchmark shares: its command line, timing by turns, separate processes, and one JSON file a table.

A script hands `main` its tables and its options, and has no command line of its own:

    TABLE = Table("lm-ngrams", PROTOCOL, rows, key="what")

    if __name__ == "__main__":
        main(__doc__, TABLE, repeats=7)

A table is of one protocol and one state of our code. Rows measured before stay in it as long as both are the same; what
would mix with others waits below TACENDA_BENCH_CACHE until the table can be replaced whole (`save`).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from benchmarks import freshness, kept
from tacenda.errors import DataError
from tacenda.kernels.machinery.threads import usable_cores

Row = dict[str, Any]
K = TypeVar("K", bound=Hashable)
RESULTS = Path(__file__).resolve().parent / "results"
LIBRARIES = (
    "tacenda", "tacenda-embeddings", "tacenda-lm", "tacenda-surprise",
    "numpy", "scipy", "numba", "torch", "spacy", "thinc", "gensim", "scikit-surprise",
    "cornac", "lenskit", "myfm", "setuptools",
)  # fmt: skip


# -- the command line ----------------------------------------------------------------------------------


class Options(argparse.Namespace):
    """The command line of a script: what it declared, and the options of all."""

    only: list[str]
    again: bool
    no_save: bool
    # A file for the rows instead of results/, by table: what `benchmarks.check_figures` reads.
    rows_to: Path | None
    tables: Sequence[str]
    whole: bool  # whether all rows are asked for, as they are by default

    def wants(self, name: str) -> bool:
        """Whether a row is asked for: all are where ``--only`` names none."""
        return not self.only or any(part in name for part in self.only)

    def chosen(self, names: Iterable[str]) -> list[str]:
        """Return the names that are called just so or, of what none is called just so, have it in them."""
        every = list(names)
        exact = {part for part in self.only if part in every}
        parts = [part for part in self.only if part not in exact]
        return [
            name
            for name in every
            if not self.only or name in exact or any(p in name for p in parts)
        ]

    def leave_out(self, what: str, why: str) -> None:
        """Say that rows cannot be measured here: those of an earlier run are not to be lost by that."""
        print(f"{what} is left out: {why}", flush=True)
        self.whole = False


@dataclass(frozen=True)
class Table:
    """A results file and what measures its rows.

    Attributes
    ----------
    name
        Of the file below ``benchmarks/results``.
    protocol
        What is measured and how: data, sizes, units, what is left out; or a function of the options that says it.
    rows
        Measures: yields rows, ours and our peers', with the same keys.
    key
        The column that tells rows apart, of a table whose rows can be measured one by one. None: all are new.
    seeds
        Of everything random in the rows, where the script has no option ``seeds``; None where nothing is.
    after
        Called with all rows when the file is written: draws pictures.
    options
        Names of the script's options that belong to the protocol.
    """

    name: str
    protocol: Any
    rows: Callable[[Any], Iterable[Row]]
    key: str | None = None
    seeds: Sequence[int] | None = (0,)
    after: Callable[[list[Row]], None] | None = None
    options: tuple[str, ...] = ()

    def run(self, options: Options) -> None:
        """Measure and save; rows that can be told apart as soon as they are found.

        Raises SystemExit, with how to get them, if the data are not here.
        """
        print(f"\n{self.name}", flush=True)
        found: list[Row] = []
        for row in self._rows(options):
            found.append(row)
            print(*(f"{k}: {cell(v)}" for k, v in flat(row).items()), sep=", ", flush=True)
            if self.key and not (options.no_save or options.rows_to):
                self._save(found, options, False)
        print_table(found)
        if options.rows_to:
            kept.write_json(options.rows_to.with_suffix(f".{self.name}.json"), found)
        elif found and not options.no_save:
            path = self._save(found, options, options.whole)
            if self.after and path:
                self.after(kept.read_json(path)["rows"])

    def _rows(self, options: Options) -> Iterable[Row]:
        try:
            yield from self.rows(options)
        except DataError as error:
            raise SystemExit(f"{error}.") from error

    def _save(self, rows: list[Row], options: Options, whole: bool) -> Path | None:
        protocol = self.protocol(options) if callable(self.protocol) else self.protocol
        protocol = {**protocol, **{name: getattr(options, name) for name in self.options}}
        seeds = getattr(options, "seeds", self.seeds)
        return save(self.name, protocol, rows, seeds=seeds, key=self.key, whole=whole)


def main(doc: str | None, *tables: Table, **declared: Any) -> None:
    """Run a script: its tables, or those that ``--tables`` names, with what the command line says."""
    options = parse(doc, [table.name for table in tables], **declared)
    for table in tables:
        if table.name in options.tables:
            table.run(options)


def parse(doc: str | None, names: Sequence[str] = (), **declared: Any) -> Options:
    """Read the command line of a script.

    Parameters
    ----------
    doc
        Its docstring, whose first line describes it.
    names
        Of its tables, if it has several.
    declared
        The defaults of its own options, by name: numbers, words and lists of them, and tuples of choices, of which any
        may be named and all are by default. With the defaults a run is whole, with others a part of it.
    """
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--only", nargs="*", default=[], help="rows with one of these in the name")
    parser.add_argument("--again", action="store_true", help="measure what is kept too")
    parser.add_argument("--no-save", action="store_true", help="measure, leave results/ alone")
    parser.add_argument("--rows-to", type=Path, help=argparse.SUPPRESS)
    parser.set_defaults(tables=names)
    if len(names) > 1:
        parser.add_argument("--tables", nargs="+", choices=names, help="(default: all)")
    for name, default in declared.items():
        add_option(parser, name, default)
    options = parser.parse_args(namespace=Options())
    given = vars(options)
    options.whole = not options.only and all(given[n] == parser.get_default(n) for n in declared)
    freshness.watch_models()
    return options


def add_option(parser: argparse.ArgumentParser, name: str, default: Any) -> None:
    """Declare an option by its default."""
    flag = f"--{name.replace('_', '-')}"
    if isinstance(default, bool):
        parser.add_argument(flag, action="store_true")
    elif isinstance(default, tuple | list):
        kind = type(default[0]) if default else str
        choices = default if kind is str and isinstance(default, tuple) else None
        parser.add_argument(flag, nargs="+", type=kind, choices=choices, default=list(default))
    else:
        parser.add_argument(
            flag, type=type(default), default=default, help="(default: %(default)s)"
        )


# -- measuring -----------------------------------------------------------------------------------------

TURNS = (
    "the median of the repeats, with the least and the most; what is compared takes turns, one run of each after "
    "another, after one round that does not count; seconds of the processor, one thread"
)


def interleaved(
    works: Mapping[K, Callable[[], Any]],
    repeats: int,
    clock: Callable[[], float] = time.process_time,
) -> dict[K, list[float]]:
    """Return the seconds of every run of each work, by its name; they take turns, and a first round is left out.

    A busy moment of the machine falls on all that is compared.
    """
    seconds: dict[K, list[float]] = {name: [] for name in works}
    for turn in range(repeats + 1):
        for name, work in works.items():
            start = clock()
            result = work()
            took = clock() - start
            del result  # freed when the clock has stopped
            if turn:
                seconds[name].append(took)
    return seconds


def summary(values: Sequence[float]) -> dict[str, float | int]:
    """Return the median and the ends of repeated measurements."""
    return {
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
        "repeats": len(values),
    }


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Return mean and sample standard deviation (zero for a single value)."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": statistics.fmean(values), "sd": deviation, "n": len(values)}


def timing(seconds: Sequence[float], unit: str = "seconds", times: float = 1.0) -> Row:
    """Return columns of repeated times: their median under ``unit``, the least and the most, and how many."""
    own = [times * each for each in seconds]
    return {unit: statistics.median(own), "least": min(own), "most": max(own), "runs": len(own)}


def rate(n: float, seconds: Sequence[float], unit: str) -> Row:
    """Return how many of ``n`` units were done in a second: median, least and most of the runs."""
    return {"runs": len(seconds), **timing([n / each for each in seconds], unit)}


def ratio(own: Sequence[float], other: Sequence[float]) -> dict[str, float | int]:
    """Return the ratios of runs of the same turn, summarized."""
    return summary([a / b for a, b in zip(own, other, strict=True)])


def load() -> float | None:
    """Return how many processes wanted a core in the last minute; None where the system does not say."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def in_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a module with JSON values in a separate process; return its result."""
    module = function.__module__
    if module == "__main__":
        module = sys.modules["__main__"].__spec__.name  # type: ignore[union-attr]
    command = [sys.executable, "-m", "benchmarks.reporting", module, function.__name__]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*command, json.dumps(arguments)],
            env={**os.environ, freshness.HANDED: folder}, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        for file in Path(folder).iterdir():
            freshness.take(kept.read_json(file))
    return json.loads(done.stdout.splitlines()[-1])


def peak() -> int:
    """Return the most bytes that were resident in this process so far."""
    status = Path("/proc/self/status")
    # `ru_maxrss` begins with the peak of the process that started this one
    if status.exists():
        lines = status.read_text(encoding="utf-8").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def published(file: str) -> Any:
    """Return what others report, in `published.json` next to a file: an attribute a table, numbers as keys."""

    def keyed(pairs: list[tuple[str, Any]]) -> dict[Any, Any]:
        return {int(key) if key.isdigit() else key: value for key, value in pairs}

    text = (Path(file).parent / "published.json").read_text(encoding="utf-8")
    return SimpleNamespace(**json.loads(text, object_pairs_hook=keyed))


# -- results -------------------------------------------------------------------------------------------


def stored(name: str) -> Any:
    """Return the report in ``benchmarks/results/<name>.json``, or None where there is none."""
    return kept.read_json(RESULTS / f"{name}.json")


def git(*arguments: str) -> str | None:
    """Return what a command of git prints; None where there is no repository."""
    try:
        done = subprocess.run(
            ("git", *arguments), cwd=freshness.ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


STARTED = {
    "commit": git("rev-parse", "--short=10", "HEAD"),
    "modified": bool(git("status", "--porcelain", "--", "packages")),
    "load at the start": load(),
}


def description(seeds: Sequence[int] | None) -> dict[str, Any]:
    """Describe the run: commit, code and settings used, seeds, processor, load, threads, versions, date (UTC)."""
    libraries = {library: found for library in LIBRARIES if (found := installed(library))}
    return {
        **STARTED,
        "load at the end": load(),
        **freshness.used(),
        "seeds": None if seeds is None else list(seeds),
        "cpu": _cpu_model(),
        "cores": usable_cores(),
        "threads": {k: v for k, v in sorted(os.environ.items()) if k.endswith("_NUM_THREADS")},
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "libraries": libraries,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def installed(library: str) -> str | None:
    """Return the version of a library that is installed; None of one that is not."""
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def device_facts(device: str) -> dict[str, str]:
    """Return the name of a device and the build of torch that runs there."""
    import torch

    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else _cpu_model()
    return {"device": name, "torch": f"{torch.__version__}, CUDA {torch.version.cuda}"}


def save(
    name: str,
    protocol: Mapping[str, Any],
    rows: list[Row],
    *,
    seeds: Sequence[int] | None = None,
    key: str | None = None,
    whole: bool = True,
) -> Path | None:
    """Write ``benchmarks/results/<name>.json`` in one step; return its path, or None where the rows have to wait.

    With a ``key`` rows that were measured before stay, as long as the same protocol and the same code measured them.
    Where the file has rows of others that are not measured yet, or no ``key`` says which are, and these are not
    ``whole`` either, the new ones wait below TACENDA_BENCH_CACHE, and the file stays as it is.
    """
    path, waiting = RESULTS / f"{name}.json", kept.place() / "waiting" / f"{name}.json"
    run = json.loads(json.dumps(description(seeds), default=kept._plain))
    report = {"name": name, "run": run, "protocol": dict(protocol), "key": key, "rows": rows}
    old = kept.read_json(path)
    if key is not None:
        for before in (old, kept.read_json(waiting)):
            if before and goes_with(before, report):
                report = join(report, before, key)
    names = {row.get(key) for row in report["rows"]} if key else set()
    lacking = [row for row in old["rows"] if row.get(key) not in names] if old else []
    if lacking and not whole:
        kept.write_json(waiting, report)
        why = "are of another protocol or of other code" if key else "would be lost"
        print(f"{len(report['rows'])} rows wait: {len(lacking)} of {path.name} {why}")
        return None
    kept.write_json(path, report)
    waiting.unlink(missing_ok=True)
    return path


def goes_with(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether rows of two reports can stand in one table: the same protocol, and no code of ours has changed."""
    same = json.loads(json.dumps(new["protocol"], default=kept._plain)) == old["protocol"]
    return same and not changed(old, old["rows"])


def changed(report: dict[str, Any], rows: list[Row]) -> list[str]:
    """Return the modules of ours that are different today than when rows of ours in a report were measured."""
    runs = (run for run, own in runs_of(report, rows) if ours(own))
    return list(dict.fromkeys(name for run in runs for name in freshness.changed(run)))


def ours(rows: list[Row]) -> bool:
    """Whether any of these rows is ours: no change of ours makes other libraries' figures old."""
    return any(row.get("library", "tacenda").startswith("tacenda") for row in rows)


def join(new: dict[str, Any], old: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the new report with the rows of the old one that it has none for, in the old order, with their runs."""
    measured = {row[key]: row for row in new["rows"]}
    rows = [measured.pop(row[key], row) for row in old["rows"]] + list(measured.values())
    names = {row[key] for row in new["rows"]}
    known = [*new.get("earlier", ())]
    known += [
        {"run": run, "rows": [row[key] for row in own if row[key] not in names]}
        for run, own in runs_of(old, old["rows"])
    ]
    earlier = [each for each in known if each["rows"] and each["run"]["date"] != new["run"]["date"]]
    return {**new, "rows": rows, **({"earlier": earlier} if earlier else {})}


def runs_of(report: dict[str, Any], rows: list[Row]) -> list[tuple[dict[str, Any], list[Row]]]:
    """Return the runs in which these rows of a report were measured, the newest first, each with its rows."""
    if "run" not in report:
        return []
    left, found = list(rows), []
    key = report.get("key")
    for earlier in report.get("earlier", ()):
        own = [row for row in left if row.get(key) in earlier["rows"]]
        left = [row for row in left if row.get(key) not in earlier["rows"]]
        found += [(earlier["run"], own)] if own else []
    return ([(report["run"], left)] if left else []) + found


def print_table(rows: list[Row]) -> None:
    """Print the rows as an aligned text table; nested values are left to the JSON file."""
    rows = list(map(flat, rows))
    keys = list(dict.fromkeys(key for row in rows for key in row))
    cells = [keys] + [[cell(row.get(k)) for k in keys] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(keys))]
    for line in cells:
        print(
            "  ".join(each.ljust(width) for each, width in zip(line, widths, strict=True)).rstrip()
        )


def flat(row: Row) -> Row:
    """Return a row without nested values, and of repeated ones the mean or the median."""
    middle = {
        key: value.get("mean", value.get("median")) if isinstance(value, dict) else value
        for key, value in row.items()
    }
    return {key: value for key, value in middle.items() if value is not None or row[key] is None}


def cell(value: Any) -> str:
    """One value as a log shows it."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


if __name__ == "__main__":  # what `in_process` starts
    _module, _name, _arguments = sys.argv[1:]
    freshness.watch_models()
    _found = getattr(import_module(_module), _name)(*json.loads(_arguments))
    print(json.dumps(_found, default=kept._plain))
