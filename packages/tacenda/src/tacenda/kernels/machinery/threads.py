"""Threads that share the work of compiled functions without the GIL; a forked child makes its own pools."""

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Any

import numpy as np

_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}


def usable_cores() -> int:
    """Count the cores this process may run on, which are fewer than the machine's under taskset."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_parts(loop: Callable[..., None], n: int, threads: int, *given: Any) -> None:
    """Call ``loop(*given, first, last)`` for as many ranges as threads, which make up 0 .. n; errors are raised here.

    Do not share small work: a thread takes tens of microseconds to start.
    """
    if threads <= 1 or n < 2:
        loop(*given, 0, n)
        return
    borders = np.linspace(0, n, threads + 1).astype(int).tolist()
    over_ranges(lambda *span: loop(*given, *span), pairwise(borders), threads)


def over_ranges(
    work: Callable[[int, int], None], ranges: Iterable[tuple[int, int]], threads: int
) -> None:
    """Call ``work(first, last)`` for each of the ranges, in their order, in the next idle thread.

    An error in one of them is raised here; ranges that no thread has begun by then are left out.

    ``work`` must not call this function with the same number of threads: all threads of the pool are busy, and the
    inner call would wait for them for ever.
    """
    # next() of a list's iterator is one step under the GIL: no two threads get the same range
    remaining = iter(list(ranges))

    def work_on_remaining() -> None:
        try:
            for first, last in remaining:
                work(first, last)
        except BaseException:
            deque(remaining, maxlen=0)  # leave nothing for the other threads
            raise

    others = []
    if threads > 1:
        key = os.getpid(), threads  # the threads of a pool do not survive a fork
        pool = _pools.get(key)
        if pool is None:
            pool = _pools[key] = ThreadPoolExecutor(threads - 1, thread_name_prefix="tacenda")
        others = [pool.submit(work_on_remaining) for _ in range(threads - 1)]
    try:
        work_on_remaining()
    finally:
        wait(others)  # each of them, as they write into arrays of the caller
    for other in others:
        other.result()
