"""Measures what the documentation states: the parts that are missing or older than the code, then the tables.

    python -m benchmarks                          # what `make bench` does: hours, and it resumes
    python -m benchmarks --list                   # fresh, changed and missing parts, and what has changed
    python -m benchmarks ratings "ratings.accuracy ml-1m"    # some parts, by name or by what it begins with
    python -m benchmarks --again language_models.ngrams      # also if it is fresh

Each part is a process of its own and keeps its own unfinished work under TACENDA_BENCH_CACHE. One that fails is
reported at the end and does not stop the others.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from benchmarks import freshness, reporting
from benchmarks.parts import PARTS, Part

QUIET = 0.5  # processes that want a core: above, timings say more about the others


def state(part: Part) -> str:
    """Return `fresh`, `missing`, or `changed` with the modules that were different when the part was measured."""
    modules: dict[str, None] = {}
    for result in part.results:
        if (report := reporting.stored(result)) is None:
            return "missing"
        modules |= dict.fromkeys(reporting.changed(report, report["rows"]))
    named = ", ".join("code that was not recorded" if name == "?" else name for name in modules)
    return f"changed: {named}" if modules else "fresh"


def chosen(names: list[str]) -> list[Part]:
    """Return the parts whose names are or begin with one of these; all if there are none."""
    found = [part for part in PARTS if not names or any(_called(part, name) for name in names)]
    for name in names:
        if not any(_called(part, name) for part in PARTS):
            raise SystemExit(
                f"There is no part {name!r}: python -m benchmarks --list shows their names."
            )
    return found


def _called(part: Part, name: str) -> bool:
    return part.name == name or part.name.startswith((f"{name}.", f"{name} "))


def run(part: Part) -> bool:
    """Return whether the part's process ended well."""
    load = reporting.load() or 0.0
    if part.timed and load > QUIET:
        print(f"{part.name}: the load is {load:.1f}; its times want a quiet machine.", flush=True)
    print(f"\n{part.name}", flush=True)
    command = [sys.executable, "-m", f"benchmarks.{part.module}", *part.arguments]
    return subprocess.run(command, cwd=freshness.ROOT).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        usage="python -m benchmarks [PART ...] [--list] [--again]",
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="all if none is named")
    parser.add_argument("--list", action="store_true", help="print the state of each, run nothing")
    parser.add_argument("--again", action="store_true", help="run those that are fresh too")
    options = parser.parse_args()
    failed = []
    for part in chosen(options.parts):
        if options.list or (state(part) == "fresh" and not options.again):
            print(f"{part.name}{' (timed)' * part.timed}: {state(part)}", flush=True)
        elif not run(part):
            failed.append(part.name)
    if not options.list:
        command = [sys.executable, "-m", "benchmarks.tables"]
        if subprocess.run(command, cwd=freshness.ROOT).returncode:
            failed.append("tables")
    if failed:
        raise SystemExit(f"These parts failed; the others stand: {', '.join(failed)}.")


if __name__ == "__main__":
    main()
