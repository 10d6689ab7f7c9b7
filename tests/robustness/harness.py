"""Does a saved model that was tampered with ever do harm: python tests/robustness/harness.py --mutants 10000.

Every mutant is loaded and used in a process of its own kind of worker. Nothing may come of it but a valid result or
one clear error: no crash, no hang, no traceback of another kind, no answer that is not one, no flood of memory.
Failures are printed with the seed that repeats them, and kept in a file with ``--report``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from mutants import mutants
from specimens import InvalidError, exercise, specimens

import tacenda
from tacenda import artifact
from tacenda.errors import TacendaError

SECONDS = 30  # a mutant that takes longer hangs
MEMORY = 6 << 30  # bytes of address space beyond what the worker has
LONGEST = 1000  # characters of an error message


def outcome(folder: Path, algorithm: bool) -> str:
    """Load and use the model in a folder; "" where the result is valid or the error clear."""
    try:
        if algorithm:
            from tacenda_surprise.algorithm import TacendaAlgorithm

            model: Any = TacendaAlgorithm.load(folder)
        else:
            model = tacenda.load(folder)
        exercise(model)
    except TacendaError as error:
        text = str(error)
        if len(text) > LONGEST:
            return f"a message of {len(text)} characters"
        if any(not character.isprintable() for character in text):
            return f"a message with control characters: {text!r:.200}"
    except InvalidError as error:
        return f"it gave {error}"
    except MemoryError:
        return "it asked for too much memory"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {Path(last.filename).name}:{last.lineno}: {error!s:.200}"
    return ""


def in_child(folder: Path, algorithm: bool) -> str:
    """`outcome` in a forked child, so that a crash or a hang is one too."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        signal.alarm(SECONDS)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.write(writing, outcome(folder, algorithm).encode()[:60_000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return (
            "it hung" if number == signal.SIGALRM else f"it crashed ({signal.Signals(number).name})"
        )
    return said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--mutants", type=int, default=10_000, help="in all, shared among the models"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="the name of one model")
    parser.add_argument("--report", type=Path, help="a JSON file for the failures")
    arguments = parser.parse_args()
    chosen = {n: make for n, make in specimens().items() if arguments.only in (None, n)}
    each = -(-arguments.mutants // len(chosen))
    failures: list[dict[str, str]] = []
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for model, make in chosen.items():
            fitted = make()
            fitted.save(place / model)
            algorithm = not hasattr(fitted, "kind")
            whole = artifact.read(place / model)
            complaint = in_child(place / model, algorithm)
            if complaint:
                raise SystemExit(f"{model} as it was saved: {complaint}")
            rng = np.random.default_rng([arguments.seed, sum(model.encode())])
            found = 0
            for i, (note, mutant) in enumerate(itertools.islice(mutants(whole, rng), each)):
                artifact.write(place / "mutant", mutant)
                complaint = in_child(place / "mutant", algorithm)
                if complaint:
                    found += 1
                    failures.append(
                        {"model": model, "mutant": str(i), "altered": note, "result": complaint}
                    )
                    print(f"{model} {i}: {note}: {complaint}", flush=True)
            print(f"{model}: {each} mutants, {found} failures", flush=True)
    if arguments.report:
        arguments.report.write_text(json.dumps(failures, indent=1), encoding="utf-8")
    total = each * len(chosen)
    print(f"{total} mutants, {len(failures)} failures, {time.monotonic() - begun:.0f} s")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
