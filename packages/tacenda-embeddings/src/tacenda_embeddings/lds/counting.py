"""Lagged counts of a long circular stream, block by block in bounded memory, in several threads."""

import contextvars
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.kernels.dynamics.lagged_counts import Counts, lagged_counts
from tacenda_embeddings.lds.count_runs import RunStore

_MAX_BLOCK = 4_000_000  # ids; the kernel is fastest while a block of the stream fits the L3 cache
_MIN_BLOCK = 1024

Ids = npt.NDArray[np.int32]


class StreamCounts(NamedTuple):
    """What `count_stream` found."""

    lags: list[Counts]
    unigram: npt.NDArray[np.int64]
    """(vocabulary,), occurrences."""
    storage: tempfile.TemporaryDirectory[str] | None
    """The folder the lags are mapped from, if they are; to be kept as long as they."""


def block_length(memory_budget: int, n_lags: int, workers: int) -> int:
    """How many ids to count at once: the blocks in work may take a quarter of the budget."""
    bytes_per_id = 16 * (n_lags + 1)  # ids, positions, and two copies of an entry for every pair
    in_work = workers if workers == 1 else workers + 1
    block = memory_budget // 4 // in_work // bytes_per_id
    return max(min(block, _MAX_BLOCK), _MIN_BLOCK, n_lags)


def count_stream(
    pieces: Iterable[Ids],
    vocabulary: int,
    n_lags: int,
    *,
    memory_budget: int,
    workers: int = 1,
    scratch: Path | None = None,
) -> StreamCounts:
    """Count all pairs of a circular stream that comes in pieces of any length.

    Parameters
    ----------
    pieces
        int32 ids; laid end to end they are the stream, whose end meets its start.
    vocabulary, n_lags
        Ids are in 0 .. vocabulary - 1; lags run from 1 to n_lags.
    memory_budget
        Bytes: a quarter for the blocks in work, a third for their counts, as much again while those
        are summed. A few arrays of ``vocabulary`` numbers come on top.
    workers
        Threads that count blocks at the same time; the result is the same for any number.
    scratch
        The folder for what does not fit; the system's temporary folder if None.
    """
    unigram = np.zeros(vocabulary, np.int64)
    store = RunStore(vocabulary, memory_budget // 3, scratch)
    blocks = _overlapping(_rechunk(pieces, block_length(memory_budget, n_lags, workers)), n_lags)
    jobs = ((stream, n_history, n_lags, vocabulary) for stream, n_history in blocks)
    results = map(_count_block, jobs) if workers == 1 else _in_threads(jobs, workers)
    for run, occurrences in results:
        unigram += occurrences
        store.add(run)
        del run
    lags, storage = store.finish()
    return StreamCounts(lags, unigram, storage)


_Job = tuple[Ids, int, int, int]
_Result = tuple[list[Counts], npt.NDArray[np.int64]]


def _count_block(job: _Job) -> _Result:
    stream, n_history, n_lags, vocabulary = job
    run = lagged_counts(stream, n_lags, vocabulary, n_history)  # which also checks the ids
    return run, np.bincount(stream[n_history:], minlength=vocabulary)


def _in_threads(jobs: Iterable[_Job], workers: int) -> Iterator[_Result]:
    """Results in the order of the jobs, at most ``workers`` of them in work."""
    with ThreadPoolExecutor(workers, thread_name_prefix="tacenda-counts") as pool:
        running: deque[Future[_Result]] = deque()
        for job in jobs:
            # A thread has a context of its own; the caller's choice of kernels must reach it.
            context = contextvars.copy_context()
            running.append(pool.submit(context.run, _count_block, job))
            if len(running) >= workers:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


def _rechunk(pieces: Iterable[Ids], length: int) -> Iterator[Ids]:
    """The same stream in pieces of ``length``; only the last may be shorter."""
    held: list[Ids] = []
    n_held = 0
    for piece in pieces:
        held.append(np.asarray(piece, np.int32))
        n_held += len(piece)
        if n_held >= length:
            joined = np.concatenate(held) if len(held) > 1 else held[0]
            whole = n_held - n_held % length
            for start in range(0, whole, length):
                yield joined[start : start + length]
            held, n_held = [joined[whole:]], n_held - whole
    if n_held:
        yield np.concatenate(held)


def _overlapping(blocks: Iterable[Ids], n_lags: int) -> Iterator[tuple[Ids, int]]:
    """Each block behind the last ids of the one before, with their number; at the end the wrap.

    The first block has nothing before it until the stream has ended, so its first ids are history
    only, and come once more as a last, tiny block behind the end of the stream. A stream shorter
    than the lags goes round more than once.
    """
    head: Ids | None = None
    tail = np.empty(0, np.int32)
    for block in blocks:
        if head is None:
            head = block[:n_lags].copy()
            yield block, len(head)
            tail = block[-n_lags:].copy()
        else:
            stream = np.concatenate([tail, block])
            yield stream, len(tail)
            tail = stream[-n_lags:].copy()
    if head is not None:
        before = tail if len(tail) == n_lags else np.take(tail, np.arange(-n_lags, 0), mode="wrap")
        yield np.concatenate([before, head]), n_lags
