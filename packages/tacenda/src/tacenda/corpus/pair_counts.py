"""Lagged counts of a long circular stream in bounded memory, by several threads.

The stream is counted block by block. The counts of a block are a *run*: one `Counts` for each lag. Runs are kept in
memory. When they exceed a limit, they are summed, and a sum of more than half of the limit is written to unnamed
temporary files. The final sum goes through the rows in order and reads a bounded number of entries at a time, so memory
stays bounded for texts of any length (a log-structured merge).
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
from tacenda.kernels.counts import Counts, lagged_counts, merge_counts
from tacenda.offsets import rechunk, runs

_MAX_BLOCK_IDS = 4_000_000  # the kernel is fastest while a block of the stream fits the L3 cache
_MIN_BLOCK_IDS = 1024
_MAX_DISK_RUNS = 16  # more are summed into one, which bounds the number of files and of small reads
_BYTES_PER_ENTRY = 8  # an int32 column and a 4-byte count
_MIN_ENTRIES_AT_ONCE = 1 << 16  # half a megabyte, however small the limit
#: Bytes: a sum stays in memory whatever its size, as `RunStore` limits all of them together.
_NEVER_ON_DISK = 1 << 62

_SPILL_ADVICE = "; name a folder with room as scratch, or raise memory_budget"

Ids = npt.NDArray[np.int32]
_Result = tuple[list[Counts], npt.NDArray[np.int64]]


class StreamCounts(NamedTuple):
    """Counts of a circular stream."""

    lags: list[Counts]
    """(vocabulary, vocabulary) at index k - 1: how often the column's word is k places before the row's."""
    unigram: npt.NDArray[np.int64]
    """(vocabulary,): occurrences of each word."""


def block_length(memory_budget: int, n_lags: int, threads: int) -> int:
    """Return how many ids to count at once, so that the blocks in work take a quarter of ``memory_budget`` bytes."""
    bytes_per_id = 16 * (n_lags + 1)  # ids, positions, and two copies of an entry for every pair
    in_work = threads if threads == 1 else threads + 1
    block = memory_budget // 4 // in_work // bytes_per_id
    return max(min(block, _MAX_BLOCK_IDS), _MIN_BLOCK_IDS, n_lags)


def count_stream(
    pieces: Iterable[Ids],
    vocabulary: int,
    n_lags: int,
    *,
    memory_budget: int,
    threads: int = 1,
    scratch: Path | None = None,
) -> StreamCounts:
    """Count the pairs of words at distances 1 to ``n_lags`` in a circular stream.

    The stream comes in int32 arrays of any length, with ids below ``vocabulary``. Of ``memory_budget`` bytes, a quarter
    is for the blocks in work, a third for their counts, and as much again for the sum of these; a few arrays of
    ``vocabulary`` numbers come on top. Counts that do not fit are written to files in ``scratch``, by default the
    system's temporary folder. Raises DataError if they cannot be written.
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
    """Yield the counts of the blocks in their order; at most ``threads`` blocks are in work."""
    with ThreadPoolExecutor(threads, thread_name_prefix="tacenda-counts") as pool:
        # a new thread has an empty context: the caller's has its choice of kernels
        futures = (pool.submit(contextvars.copy_context().run, count, block) for block in blocks)
        yield from results_in_order(futures, threads)


def _overlap_blocks(pieces: Iterable[Ids], length: int, n_lags: int) -> Iterator[tuple[Ids, int]]:
    """Yield (ids, number of history ids) for blocks of ``length`` ids, each after the last ``n_lags`` ids before it.

    History ids are context and are not counted themselves. The first of several blocks has no context before the stream
    has ended, so its first ids are only history there. They are counted in a short last block, after the end of the
    stream. A stream of a single block has its own end as context, repeated if it is shorter than the lags.
    """
    blocks = rechunk((np.asarray(piece, np.int32) for piece in pieces), length)
    first, second = next(blocks, np.empty(0, np.int32)), next(blocks, None)
    if second is None:
        context = first.take(range(-n_lags, 0), mode="wrap") if len(first) else first
        yield np.concatenate([context, first]), len(context)
        return
    yield first, n_lags
    tail = first[-n_lags:]
    for block in chain([second], blocks, [first[:n_lags]]):
        stream = np.concatenate([tail, block])
        yield stream, n_lags
        tail = stream[-n_lags:].copy()


# -- partial counts ----------------------------------------------------------------------------------


def sum_in_row_blocks(
    sources: Sequence[Counts], vocabulary: int, max_entries: int
) -> Iterator[Counts]:
    """Yield the sum of matrices in blocks of rows, each made of at most ``max_entries`` entries, or of one row.

    The data are int32 if those of all matrices are, and otherwise float32, as counts are after they were scaled.
    """
    are_integers = all(source.data.dtype == np.int32 for source in sources)
    dtype = np.dtype(np.int32 if are_integers else np.float32)
    for i, j in runs(np.sum([source.indptr for source in sources], axis=0), max_entries):
        parts = []
        for source in sources:
            # mapped arrays are copied, because the kernel is compiled for plain arrays only
            rows: list[Any] = [
                np.array(a) if isinstance(a, np.memmap) else a for a in source.rows(i, j)
            ]
            parts.append(Counts(rows[0], rows[1], rows[2].astype(dtype, copy=False)))
            for array in source:
                forget_pages(array)
        yield merge_counts(parts, vocabulary)


def stack_row_blocks(
    blocks: Iterable[Counts],
    in_memory: int | None = None,
    scratch: Path | None = None,
    advice: str = "; make room there, or set TMPDIR to another folder",
) -> Counts:
    """Return the matrix of blocks of rows in order; an array of more than ``in_memory`` bytes is in a file.

    Files and the default are those of `tacenda.corpus.storage.GrowingArray`. Raises DataError, with ``advice``, if the
    disk is full.
    """
    empty = Counts(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
    arrays: list[GrowingArray] = []
    try:
        for block in blocks:
            if not arrays:
                arrays = [
                    GrowingArray(array.dtype, in_memory=in_memory, folder=scratch)
                    for array in block
                ]
                arrays[0].append(empty.indptr)
            arrays[0].append(block.indptr[1:] + arrays[1].size)
            arrays[1].append(block.indices)
            arrays[2].append(block.data)
        return Counts(*(array.finish() for array in arrays)) if arrays else empty
    except CorpusError as error:
        where, cause = scratch or tempfile.gettempdir(), error.__cause__
        raise DataError(
            f"cannot write counts to {where}: {getattr(cause, 'strerror', None) or error}{advice}"
        ) from error


class RunStore:
    """A store of runs of (vocabulary, vocabulary) counts, which sums them within a limit of memory.

    ``limit`` is in bytes; while runs are summed, up to twice as much is in use. Runs that do not fit are in files in
    ``scratch``, or in the system's temporary folder.
    """

    def __init__(self, vocabulary: int, limit: int, scratch: Path | None = None) -> None:
        self._vocabulary, self._limit, self._scratch = vocabulary, limit, scratch
        self._max_entries = max(limit // _BYTES_PER_ENTRY // 16, _MIN_ENTRIES_AT_ONCE)
        self._resident: list[list[Counts]] = []
        self._resident_bytes = 0
        self._disk: list[list[Counts]] = []

    def add(self, run: Sequence[Counts]) -> None:
        """Add a run, one `Counts` for each lag. Raises DataError if the disk is full."""
        size = _count_bytes(run)
        # such a run may be a mapped file, which must not be summed in memory
        if size > self._limit:
            self._disk.append(self._sum([list(run)], on_disk=True))
        else:
            self._resident.append(list(run))
            self._resident_bytes += size
        if self._resident_bytes > self._limit:
            total = self._sum(self._resident)
            self._resident, self._resident_bytes = [total], _count_bytes(total)
            if self._resident_bytes > self._limit // 2:
                self._disk.append(self._sum(self._resident, on_disk=True))
                self._resident, self._resident_bytes = [], 0
        if len(self._disk) >= _MAX_DISK_RUNS:
            self._disk = [self._sum(self._disk, on_disk=True)]

    def finish(self) -> list[Counts]:
        """Return the sum of all runs for each lag, memory-mapped if a run is on disk. Raises DataError."""
        stored = [*self._disk, *self._resident]
        if len(stored) > 1:
            return self._sum(stored, on_disk=bool(self._disk))
        return stored[0] if stored else []

    def _sum(self, stored: list[list[Counts]], on_disk: bool = False) -> list[Counts]:
        """Sum runs, which are emptied: each lag is released as soon as it is summed."""
        if len(stored) == 1 and not on_disk:
            return stored[0]
        in_memory = 0 if on_disk else _NEVER_ON_DISK
        lags = []
        for _ in range(len(stored[0])):
            sources = [run.pop(0) for run in stored]
            blocks = sum_in_row_blocks(sources, self._vocabulary, self._max_entries)
            lags.append(stack_row_blocks(blocks, in_memory, self._scratch, _SPILL_ADVICE))
        return lags


def _count_bytes(run: Sequence[Counts]) -> int:
    return sum(array.nbytes for counts in run for array in counts)
