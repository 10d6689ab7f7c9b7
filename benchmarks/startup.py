"""How fast the command answers with many plugins: python -m benchmarks.startup [--distributions 50].

`tacenda --help` and `python -c pass` take turns as new processes, in an environment of this one's packages and as many
invented distributions more, each with plugins, a command and a README in its METADATA.
benchmarks/results/startup.json keeps the times.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from benchmarks import reporting

COMMANDS = {
    "python -c pass": ("-c", "pass"),
    "import tacenda": ("-c", "import tacenda"),
    "tacenda --help": ("-m", "tacenda", "--help"),
    "tacenda plugins --no-load": ("-m", "tacenda", "plugins", "--no-load"),
}
PROTOCOL = {
    "seconds": "wall time of a new process, median of the rounds; the commands take turns",
    "ratio": "to `python -c pass`, medians",
    "modules": "in sys.modules when the process ends",
    "distributions": "invented ones, each with an embedder, a language model, a command and 8 kB of README",
}


def invent(folder: Path, n: int) -> None:
    """Write the metadata of n distributions with plugins that nothing imports."""
    readme = "A line of a README, which nobody reads here.\n" * 180
    for i in range(n):
        place = folder / f"plugin_{i}-1.0.dist-info"
        place.mkdir(parents=True)
        headers = f"Metadata-Version: 2.4\nName: plugin-{i}\nVersion: 1.0\nSummary: Invented.\n\n"
        (place / "METADATA").write_text(headers + readme, encoding="utf8")
        kinds = ("embedders", "language_models", "commands")
        groups = (f"[tacenda.{kind}]\nname{i} = plugin_{i}.{kind}:Model\n" for kind in kinds)
        (place / "entry_points.txt").write_text("\n".join(groups), encoding="utf8")


def seconds(arguments: tuple[str, ...], environment: dict[str, str]) -> float:
    """Wall time of one process. Raises CalledProcessError if it fails."""
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - start


def n_modules(arguments: tuple[str, ...], environment: dict[str, str]) -> int:
    """How many modules a process has loaded when it ends."""
    count = (
        "import atexit, sys; atexit.register(lambda: print(len(sys.modules), file=sys.stderr)); "
    )
    if arguments[0] == "-m":
        run = f"import runpy; sys.argv = {list(arguments[1:])}; runpy.run_module({arguments[1]!r}, run_name='__main__')"
    else:
        run = arguments[1]
    done = subprocess.run(
        [sys.executable, "-c", count + run],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stderr.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--distributions", type=int, default=50, help="invented ones")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        invent(folder, options.distributions)
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        for i in range(options.rounds + 1):  # the first round is not counted: its files are cold
            for command, arguments in COMMANDS.items():
                taken = seconds(arguments, environment)
                times[command] += [taken] if i else []
        modules = {name: n_modules(each, environment) for name, each in COMMANDS.items()}
    base = statistics.median(times["python -c pass"])
    rows: list[dict[str, Any]] = [
        {
            "command": command,
            "ms": 1e3 * statistics.median(found),
            "ratio": statistics.median(found) / base,
            "modules": modules[command],
            "distributions": options.distributions,
            "seconds": reporting.summary(found),
        }
        for command, found in times.items()
    ]
    reporting.print_table(rows)
    if not options.no_save:
        others = sum(1 for _ in distributions())
        reporting.save("startup", {**PROTOCOL, "installed beside them": others}, rows)


if __name__ == "__main__":
    main()
