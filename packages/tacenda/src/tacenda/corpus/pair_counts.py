"""Lagged counts of a long circular stream, block by block in bounded memory, in several threads.

A *run* is one `Counts` for each lag. Runs pile up in memory; when together they pass the limit they
are summed into one, and if that is still more than half of the limit it is written to files without
names. The sum of everything goes through the rows in order and reads a bounded number of entries at a time, so
memory stays bounded however long the text is (the pattern of a log-structured merge).
"""

import contextvars
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.corpus.storage import GrowingArray, forget_pages
from tacenda.corpus.word_ids import results_in_order
from tacenda.errors import CorpusError, DataError
from tacenda.kernels.sequences import Counts, lagged_counts, merge_counts
from tacenda.offsets import runs

_MAX_BLOCK = 4_000_000  # ids; the kernel is fastest while a block of the stream fits the L3 cache
_MIN_BLOCK = 1024
_MAX_DISK_RUNS = 16  # more are summed into one, which bounds the number of files and of small reads
_ENTRY_BYTES = 8  # an int32 column and a 4-byte count
_MIN_ENTRIES = 1 << 16  # half a megabyte at a time, however small the limit
_ANY_SIZE = 1 << 62  # bytes that stay in memory: the limit of all runs together counts there

Ids = npt.NDArray[np.int32]
_Result = tuple[list[Counts], npt.NDArray[np.int64]]


class StreamCounts(NamedTuple):
    """The result of `count_stream`."""

    lags: list[Counts]
    unigram: npt.NDArray[np.int64]
    """(vocabulary,), occurrences."""


def block_length(memory_budget: int, n_lags: int, threads: int) -> int:
    """Return how many ids to count at once: the blocks in work may take a quarter of the budget."""
    bytes_per_id = 16 * (n_lags + 1)  # ids, positions, and two copies of an entry for every pair
    in_work = threads if threads == 1 else threads + 1
    block = memory_budget // 4 // in_work // bytes_per_id
    return max(min(block, _MAX_BLOCK), _MIN_BLOCK, n_lags)


def count_stream(
    pieces: Iterable[Ids],
    vocabulary: int,
    n_lags: int,
    *,
    memory_budget: int,
    threads: int = 1,
    scratch: Path | None = None,
) -> StreamCounts:
    """Count all pairs of a circular stream that comes in pieces of any length.

    The pieces are int32 ids below ``vocabulary``; laid end to end they are the stream, whose end meets its start.
    Of ``memory_budget`` bytes, a quarter is for the blocks in work, a third for their counts, and as much again
    for the sum of these; a few arrays of ``vocabulary`` numbers come on top. What does not fit goes to files in
    ``scratch``, or in the system's temporary folder.
    """
    unigram = np.zeros(vocabulary, np.int64)
    store = RunStore(vocabulary, memory_budget // 3, scratch)
    blocks = _overlap_blocks(pieces, block_length(memory_budget, n_lags, threads), n_lags)

    def count(block: tuple[Ids, int]) -> _Result:
        stream, n_history = block
        run = lagged_counts(stream, n_lags, vocabulary, n_history)  # which also checks the ids
        return run, np.bincount(stream[n_history:], minlength=vocabulary)

    results = map(count, blocks) if threads == 1 else _run_in_threads(count, blocks, threads)
    for run, occurrences in results:
        unigram += occurrences
        store.add(run)
        del run
    return StreamCounts(store.finish(), unigram)


def _run_in_threads(
    count: Callable[[tuple[Ids, int]], _Result], blocks: Iterable[tuple[Ids, int]], threads: int
) -> Iterator[_Result]:
    """Yield results in the order of the blocks, at most ``threads`` of them in work."""
    with ThreadPoolExecutor(threads, thread_name_prefix="tacenda-counts") as pool:
        # A thread has a context of its own; the caller's choice of kernels must reach it.
        futures = (pool.submit(contextvars.copy_context().run, count, block) for block in blocks)
        yield from results_in_order(futures, threads)


def _overlap_blocks(pieces: Iterable[Ids], length: int, n_lags: int) -> Iterator[tuple[Ids, int]]:
    """Yield a stream in blocks of ``length``, each behind the last ids of the one before, with their number.

    The first of several blocks, none shorter than the lags but the last, has nothing before it until the stream has
    ended, so its first ids are history only, and come once more as a last, tiny block behind the end of the stream.
    A stream of one block that is shorter than the lags goes round more than once.
    """
    head: Ids | None = None
    tail = np.empty(0, np.int32)
    held: list[Ids] = []
    n_held = 0
    for piece in chain(pieces, [None]):
        if piece is not None:
            held.append(np.asarray(piece, np.int32))
            n_held += len(piece)
        if piece is not None and n_held < length:
            continue
        joined = held[0] if len(held) == 1 else np.concatenate([tail[:0], *held])
        whole = n_held - n_held % length if piece is not None else n_held  # the last may be shorter
        if piece is None and head is None and whole:  # the only one: before it is its own end
            yield np.concatenate([joined.take(range(-n_lags, 0), mode="wrap"), joined]), n_lags
            return
        for start in range(0, whole, length):
            block = joined[start : min(start + length, whole)]
            stream = np.concatenate([tail, block]) if len(tail) else block
            if head is None:
                head = block[:n_lags].copy()
            yield stream, len(tail) or len(head)
            tail = stream[-n_lags:].copy()
        held, n_held = [joined[whole:]], n_held - whole
    if head is not None:
        yield np.concatenate([tail, head]), n_lags


# -- partial counts ----------------------------------------------------------------------------------


def merge_rows(sources: Sequence[Counts], vocabulary: int, max_entries: int) -> Iterator[Counts]:
    """Sum matrices, in blocks of rows of at most ``max_entries`` entries in all (or of one row)."""
    exact = all(source.data.dtype == np.int32 for source in sources)
    dtype = np.dtype(np.int32 if exact else np.float32)
    for i, j in runs(np.sum([source.indptr for source in sources], axis=0), max_entries):
        parts = []
        for source in sources:
            # what is mapped is copied: the kernel is compiled for plain arrays alone
            rows: list[Any] = [
                np.array(a) if isinstance(a, np.memmap) else a for a in source.rows(i, j)
            ]
            parts.append(Counts(rows[0], rows[1], rows[2].astype(dtype, copy=False)))
            for array in source:
                forget_pages(array)
        yield merge_counts(parts, vocabulary)


def stack(
    pieces: Iterable[Counts], in_memory: int | None = None, scratch: Path | None = None
) -> Counts:
    """Put blocks of rows one below the other; in files where the result has more than ``in_memory`` bytes.

    Files and the default are those of `tacenda.corpus.storage.GrowingArray`. Raises DataError where the disk is full.
    """
    nothing = Counts(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
    arrays: list[GrowingArray] = []
    try:
        for piece in pieces:
            if not arrays:
                kinds = [array.dtype for array in piece]
                arrays = [GrowingArray(k, in_memory=in_memory, folder=scratch) for k in kinds]
                arrays[0].append(nothing.indptr)
            arrays[0].append(piece.indptr[1:] + arrays[1].size)
            arrays[1].append(piece.indices)
            arrays[2].append(piece.data)
        return Counts(*(each.finish() for each in arrays)) if arrays else nothing
    except CorpusError as error:
        where, cause = scratch or tempfile.gettempdir(), error.__cause__
        raise DataError(
            f"cannot write counts to {where}: {getattr(cause, 'strerror', None) or error}; "
            "name a folder with room as scratch, or raise memory_budget"
        ) from error


class RunStore:
    """Collects runs of (vocabulary, vocabulary) counts within a limit of memory and sums them at the end.

    ``limit`` is in bytes; while runs are summed, up to twice as much is in use. What does not fit goes to files in
    ``scratch``, or in the system's temporary folder.
    """

    def __init__(self, vocabulary: int, limit: int, scratch: Path | None = None) -> None:
        self._vocabulary, self._limit, self._scratch = vocabulary, limit, scratch
        self._max_entries = max(limit // _ENTRY_BYTES // 16, _MIN_ENTRIES)
        self._resident: list[list[Counts]] = []
        self._held = 0  # bytes of these
        self._disk: list[list[Counts]] = []

    def add(self, run: Sequence[Counts]) -> None:
        """Take a run: one `Counts` for each lag."""
        size = sum(array.nbytes for counts in run for array in counts)
        if size > self._limit:  # it may be a mapped file: never to be summed in memory
            self._disk.append(self._sum([list(run)], on_disk=True))
        else:
            self._resident.append(list(run))
            self._held += size
        if self._held > self._limit:
            merged = self._sum(self._resident)
            self._held = sum(array.nbytes for counts in merged for array in counts)
            self._resident = [merged]
            if self._held > self._limit // 2:
                self._disk.append(self._sum(self._resident, on_disk=True))
                self._resident, self._held = [], 0
        if len(self._disk) >= _MAX_DISK_RUNS:
            self._disk = [self._sum(self._disk, on_disk=True)]

    def finish(self) -> list[Counts]:
        """Return the sum of all runs for each lag, mapped from files if it does not fit."""
        runs = [*self._disk, *self._resident]
        if len(runs) > 1:
            return self._sum(runs, on_disk=bool(self._disk))
        return runs[0] if runs else []

    def _sum(self, runs: list[list[Counts]], on_disk: bool = False) -> list[Counts]:
        """Sum runs; each lag of a run is released as soon as it is summed."""
        if len(runs) == 1 and not on_disk:
            return runs[0]
        merged = []
        for _ in range(len(runs[0])):
            rows = merge_rows([run.pop(0) for run in runs], self._vocabulary, self._max_entries)
            merged.append(stack(rows, 0 if on_disk else _ANY_SIZE, self._scratch))
        return merged
