"""Run things in forked children, where a crash, a hang or a flood of memory is an outcome like any other."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tacenda.errors import TacendaError

SECONDS = 3000  # of seconds of work: what takes longer hangs, on a busy machine too
MEMORY = 6 << 30  # bytes of address space beyond what the parent has
LONGEST = 1000  # characters of an error message


class InvalidError(Exception):
    """What came out makes no sense."""


class Outcome(NamedTuple):
    """What came of something: a complaint, or none, and a word for it."""

    complaint: str
    kind: str  # "refused", "answered" or what the act returned; else "wrong", "traceback", "crash", "hang", "memory"


#: Yields what was done, and what came of it.
Cases = Iterator[tuple[str, Outcome]]


def outcome_of(act: Callable[[], object]) -> Outcome:
    """Do something; there is no complaint where it gave a valid result or one clear error."""
    try:
        found = act()
    except TacendaError as error:
        text = str(error)
        if len(text) > LONGEST:
            return Outcome(f"a message of {len(text)} characters", "traceback")
        if not text.isprintable():
            return Outcome(f"a message with control characters: {text!r:.200}", "traceback")
        return Outcome("", "refused")
    except InvalidError as error:
        return Outcome(f"it gave {error}", "wrong")
    except MemoryError:
        return Outcome("it asked for too much memory", "memory")
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        return Outcome(f"{type(error).__name__} in {where}: {str(error)!a:.200}", "traceback")
    return Outcome("", found if isinstance(found, str) else "answered")


def outcomes(
    acts: Sequence[Callable[[], object]], *, seconds: int = SECONDS, memory: int = MEMORY
) -> list[Outcome]:
    """Do things one after another in a child, after a crash in another one; return what came of each."""
    found: list[Outcome] = []
    while len(found) < len(acts):
        found += _some(acts[len(found) :], seconds, memory)
    return found


def _some(acts: Sequence[Callable[[], object]], seconds: int, memory: int) -> list[Outcome]:
    """The outcomes up to the first crash."""
    reading, writing = os.pipe()
    with tempfile.TemporaryFile("w+") as trace:
        child = os.fork()
        if child == 0:
            os.close(reading)
            _limit(memory)
            faulthandler.enable(trace)
            for act in acts:
                faulthandler.dump_traceback_later(seconds, exit=True, file=trace)
                os.write(writing, json.dumps(outcome_of(act)).encode() + b"\n")
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            found = [Outcome(*json.loads(line)) for line in pipe]
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what it started itself
        if status:
            trace.seek(0)
            lines = [line.strip() for line in trace if line.lstrip().startswith("File ")]
            where = f" in {lines[0]:.200}" if lines else ""
            if os.WIFSIGNALED(status):
                found.append(Outcome(f"it crashed ({signal.Signals(status).name}){where}", "crash"))
            else:
                found.append(Outcome(f"it hung{where}", "hang"))
        elif len(found) < len(acts):
            found.append(Outcome("it ended the process", "crash"))
    return found


def _limit(memory: int) -> None:
    """Make a child its own group, keep it quiet, and bound its memory."""
    os.setpgid(0, 0)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + memory,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def kill(act: Callable[[], object], after: float) -> bool:
    """Do something in a child and send it SIGKILL after some seconds; False where it had ended before.

    Raises InvalidError where it failed.
    """
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os._exit(1 if outcome_of(act).complaint else 0)
    deadline = time.monotonic() + after
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            if status:
                raise InvalidError(f"a failure (status {status}) of what was to be killed")
            return False
        time.sleep(min(0.002, max(deadline - time.monotonic(), 0)))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return status == signal.SIGKILL


def require(fits: bool, what: str) -> None:
    """Raise `InvalidError` unless something is as it must be."""
    if not fits:
        raise InvalidError(what)


def require_equal(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], what: str) -> None:
    """Raise `InvalidError` unless two lists of arrays are the same, bit by bit."""
    same = len(found) == len(wanted) and all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        for a, b in zip(found, wanted, strict=True)
    )
    require(same, what)
