"""Threads over compiled functions that release the GIL: a pool that is kept, and never shared with a fork."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

__all__ = ["in_parts"]

_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}


def in_parts(work: Callable[[int, int], None], n: int, threads: int) -> None:
    """Calls ``work(first, last)`` for ranges that make up 0 .. n, one a thread; raises what a call raises.

    Small work is not shared: a thread takes tens of microseconds to start on it.
    """
    if threads <= 1 or n < 2:
        work(0, n)
        return
    key = os.getpid(), threads  # the threads of a pool do not survive a fork
    pool = _pools.get(key)
    if pool is None:
        pool = _pools[key] = ThreadPoolExecutor(threads - 1, thread_name_prefix="tacenda")
    borders = np.linspace(0, n, threads + 1).astype(int).tolist()
    spans = list(pairwise(borders))
    others = [pool.submit(work, first, last) for first, last in spans[1:]]
    try:
        work(*spans[0])
    finally:
        for other in others:
            other.result()
