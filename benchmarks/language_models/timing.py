"""Fair timing: what is compared takes turns, so that a busy moment of the machine falls on all of it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

PROTOCOL = (
    "the median of the repeats, with the least and the most; what is compared takes turns, one run of each after "
    "another, after one round that does not count; seconds of the processor, one thread"
)


def interleaved(
    works: Mapping[str, Callable[[], Any]],
    repeats: int,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, list[float]]:
    """Seconds of every run of each work, by its name; a first round of all is left out."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(repeats + 1):
        for name, work in works.items():
            start = clock()
            result = work()
            took = clock() - start
            del result  # freed when the clock has stopped
            if turn:
                seconds[name].append(took)
    return seconds


def rate(n: float, seconds: list[float], unit: str) -> dict[str, float]:
    """How many of ``n`` units were done in a second: median, least and most of the runs."""
    return {
        unit: n / statistics.median(seconds),
        "least": n / max(seconds),
        "most": n / min(seconds),
        "runs": len(seconds),
    }
