"""Counting: the distinct n-grams of a text of every order, with their counts, in bounded memory.

A sentence is read as ``<s> w_1 ... w_m </s>``, and both marks have the id of ``</s>``: in the first place of an n-gram
the id can only mean ``<s>``, in the last place only ``</s>``.

Each word is counted with the N - 1 before it, or as many as there are. These rows are sorted by their last words (see
``rows``), so the n-grams of every lower order come out of one pass: in that order, those with the same last n words
are neighbours (as in lmplz: Heafield et al., "Scalable Modified Kneser-Ney Language Model Estimation", ACL 2013).

Rows may be more than fit into memory. A `Sorter` sorts what fits and writes it to disk as a run; the runs are merged
when they are read back. A `Spool` keeps rows as they come, in memory while they are few and in a file beyond.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.corpus.storage import Place
from tacenda.errors import DataError
from tacenda.progress import Progress, track
from tacenda_lm.ngram.rows import (
    Packing,
    Rows,
    add_up,
    drop_first_words,
    first_not_below,
    sort_rows,
    write_text_rows,
)
from tacenda_lm.sequences import Ids, Offsets

Int64 = npt.NDArray[np.int64]

_HIGHEST_COUNT = 103  # from this one on counts are counted together in the counts of counts
_MOST_TOKENS = 2**31  # with as many ends of sentences, what is counted fits 32 bits
_LEAST = 1 << 12  # rows of a block, however small the budget
_MOST = 3 << 26  # bytes of a sorter, and of what is kept in memory: with more nothing is faster
_MOST_RUNS = 48  # more are merged into one: this bounds the open files and the small reads


class Counted(NamedTuple):
    """The distinct n-grams of a text.

    A row of ``orders`` holds the key of an n-gram, the last word first, and a column with its counts, which
    `split_counts` splits. A row whose key ends in nothing is a shorter n-gram at the beginning of a sentence.
    """

    packing: Packing
    unigrams: Int64  # (2, types): adjusted counts, and occurrences without those of <s>
    orders: list[Spool]  # n-grams of 2, 3 ... words, sorted
    counts_of_counts: Int64  # (order, 2, highest count + 1): of adjusted counts, and of occurrences


def split_counts(column: Rows) -> tuple[Int64, Int64]:
    """Return the adjusted counts and the occurrences that a column (n-grams,) holds, int64."""
    occurrences = column & np.uint64(2**32 - 1)
    return (column >> np.uint64(32)).astype(np.int64), occurrences.astype(np.int64)


def sorted_rows(corpus: Corpus, order: int, scratch: Scratch) -> Iterator[Rows]:
    """Yield the distinct rows of a text, sorted, each word with the ``order`` - 1 before it, and how often it occurs.

    A ``</s>`` written inside a sentence ends it. Rows of two texts, sorted together and added up, are those of both.
    Raises DataError for a text of more than 2^31 tokens, or where the disk is full.
    """
    if corpus.n_tokens > _MOST_TOKENS:
        raise DataError(
            f"a text of {corpus.n_tokens} tokens is too long: {_MOST_TOKENS} can be counted"
        )
    boundary = corpus.vocabulary.boundary_id
    packing = Packing.of(len(corpus.vocabulary))
    n_keys = packing.columns(order)
    sorter = Sorter(scratch, n_keys, n_keys + 1, adds=True)
    bar: Progress[object] = track(None, "counting n-grams", total=corpus.n_tokens, unit="token")
    with bar:
        for whole_ids, whole_offsets in corpus.blocks(scratch.rows_of_block(order)):
            ids, offsets = _split_at(whole_ids, whole_offsets, boundary)
            rows = np.zeros((len(ids) + len(offsets) - 1, n_keys + 1), np.uint64)
            write_text_rows(ids, offsets, boundary, order, *packing, rows)
            sorter.append(rows)
            bar.update(len(whole_ids))
    yield from sorter.sorted()


def _split_at(ids: Ids, offsets: Offsets, boundary: int) -> tuple[Ids, Offsets]:
    """Cut sentences where a ``</s>`` is written in them; empty ones are left out."""
    written = np.flatnonzero(ids == boundary)
    if not len(written):
        return ids, offsets
    kept = np.delete(ids, written)
    cuts = np.unique(np.concatenate([offsets, written]))
    return kept, np.unique(cuts - np.searchsorted(written, cuts))


def count_by_order(rows: Iterable[Rows], n_types: int, order: int, scratch: Scratch) -> Counted:
    """Find the n-grams of all orders in `sorted_rows`; their counts must be below 2^32.

    All ``n_types`` types are unigrams, even those that are not in the text.
    """
    packing = Packing.of(n_types)
    spools = [Spool(scratch, packing.columns(n) + 1) for n in range(2, order + 1)]
    tally = np.zeros((order, 2, _HIGHEST_COUNT + 1), np.int64)
    unigrams = np.zeros((2, n_types), np.int64)
    # the last row of each order, to which the next block may add
    open_rows: list[Rows] = [np.empty((0, packing.columns(n) + 1), np.uint64) for n in range(order)]

    def take(n: int, found: Rows) -> None:
        """Keep rows of order n, of which no more come, and hand them down."""
        if not len(found):
            return
        adjusted, occurrences = split_counts(found[:, -1])
        words = packing.last(found, n)
        real = words >= 0
        for counts, row in ((adjusted, tally[n - 1, 0]), (occurrences, tally[n - 1, 1])):
            row += np.bincount(np.minimum(counts[real], _HIGHEST_COUNT), minlength=len(row))
        if n == 1:
            unigrams[0, words], unigrams[1, words] = adjusted, occurrences
            return
        spools[n - 2].append(found)
        begun = open_rows[n - 1]
        out = np.empty((len(found) + len(begun), packing.columns(n - 1) + 1), np.uint64)
        out[: len(begun)] = begun
        column, kept = packing.without_last(n)
        n_out = drop_first_words(found, packing.columns(n), column, kept, out, len(begun))
        open_rows[n - 1] = out[n_out - 1 : n_out].copy()
        take(n - 1, out[: n_out - 1])

    for found in rows:
        found[:, -1] |= found[:, -1] << np.uint64(32)  # the counts of the highest order are both
        take(order, found)
    for n in range(order, 1, -1):
        rest, open_rows[n - 1] = open_rows[n - 1], np.empty((0, 1), np.uint64)
        take(n - 1, rest)
    missing = int(n_types - tally[0, 0].sum())
    tally[0, :, 0] += missing  # types that the text does not have
    return Counted(packing, unigrams, spools, tally)


# -- more rows than memory -----------------------------------------------------------------------------


def default_budget() -> int:
    """Return a quarter of the memory, in bytes, of the machine or of what the process may use of it."""
    try:
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows
        found = 8 << 30
    with suppress(OSError, ValueError):  # a container's limit, where there is one
        found = min(found, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return max(found // 4, 1)


class Scratch:
    """A folder for what does not fit into memory, made when it is needed, and the memory that may be used.

    ``budget`` are the bytes that sorting and what is kept between two passes may take together. The folder is removed
    by `close`, or else with the last reference.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._place = Place()
        self._n_files = 0
        self._in_memory = 0

    def new_file(self) -> Path:
        """Return the name of a file that is not there yet."""
        with _explain_full_disk("the temporary folder"):
            folder = self._place.folder
        self._n_files += 1
        return folder / f"{self._n_files}"

    def reserve(self, n_bytes: int) -> bool:
        """Tell whether so many more bytes may be kept in memory, and count them if so."""
        if self._in_memory + n_bytes > min(self.budget // 12, _MOST):
            return False
        self._in_memory += n_bytes
        return True

    def release(self, blocks: Iterable[Rows]) -> None:
        """Count the bytes of these blocks no longer."""
        self._in_memory -= sum(each.nbytes for each in blocks)

    def rows_of_block(self, width: int) -> int:
        """How many rows of so many columns are worked on at once."""
        return max(min(self.budget // 128, 1 << 24) // (8 * width), _LEAST)

    def close(self) -> None:
        """Remove the folder."""
        if self._n_files:
            shutil.rmtree(self._place.folder, ignore_errors=True)

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def _explain_full_disk(folder: object) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            f"cannot write n-grams to {folder}: {error.strerror or error}; "
            "make room, set TMPDIR to a folder with room, or raise memory_gb"
        ) from error


class Spool:
    """Rows that are kept in the order in which they come, and read back from the beginning.

    Rows of ``in_file`` are never kept in memory.
    """

    def __init__(self, scratch: Scratch, width: int, in_file: bool = False) -> None:
        self._scratch = scratch
        self.width = width
        self._held: list[Rows] = []
        self._file: Path | None = scratch.new_file() if in_file else None
        self._writing: Any = None
        self.n_rows = 0

    def append(self, rows: Rows) -> None:
        """Add rows at the end."""
        self.n_rows += len(rows)
        new = [rows]
        if self._file is None:
            if self._scratch.reserve(rows.nbytes):
                self._held.append(np.array(rows))
                return
            self._file = self._scratch.new_file()
            self._scratch.release(self._held)
            new, self._held = [*self._held, rows], []
        with _explain_full_disk(self._file.parent):
            if self._writing is None:
                self._writing = self._file.open("ab")  # it may have been read in between
            for block in new:
                self._writing.write(np.ascontiguousarray(block).data)

    def _finish_writing(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            with _explain_full_disk(Path(writing.name).parent):
                writing.close()

    def __call__(self, size: int | None = None) -> Iterator[Rows]:
        """Yield all rows in blocks, those of a file in blocks of ``size``."""
        self._finish_writing()
        if self._file is None:
            yield from self._held
            return
        size = size or self._scratch.rows_of_block(self.width)
        with self._file.open("rb") as file:
            while True:
                rows = np.fromfile(file, np.uint64, size * self.width).reshape(-1, self.width)
                if not len(rows):
                    return
                yield rows

    def whole(self) -> npt.NDArray[np.uint64]:
        """Return all rows of one column, (rows,); a mapped file if they are in a file, which must not be removed."""
        self._finish_writing()
        if self._file is None:
            return np.concatenate([np.empty((0, 1), np.uint64), *self._held])[:, 0]
        return np.memmap(self._file, np.uint64, mode="r")

    def drain(self) -> Iterator[Rows]:
        """Yield all rows in blocks, and forget them."""
        if self._file is not None:
            yield from self()
        self._held.reverse()
        while self._held:
            rows = self._held.pop()
            self._scratch.release([rows])
            yield rows
        self.remove()

    def remove(self) -> None:
        """Forget the rows."""
        self._scratch.release(self._held)
        self._held = []
        self._finish_writing()
        if self._file is not None:
            self._file.unlink(missing_ok=True)
            self._file = None


class Sorter:
    """Rows that are taken in any order, and read back once, in the order of their keys.

    Parameters
    ----------
    scratch
        Where runs are written, and how much memory there is.
    n_keys, width
        Columns of the key, and of a whole row.
    adds
        Whether rows of equal keys become one with the sum of their columns after the key, of which there is one.
    """

    def __init__(self, scratch: Scratch, n_keys: int, width: int, adds: bool = False) -> None:
        self._scratch, self._n_keys, self._width, self._adds = scratch, n_keys, width, adds
        self._capacity = max(min(scratch.budget // 10, _MOST) // (8 * width), 2 * _LEAST)
        self._buffer: Rows = np.empty((_LEAST, width), np.uint64)
        self._n = 0
        self._runs: list[Spool] = []

    def append(self, rows: Rows) -> None:
        """Take some rows."""
        while len(rows):
            if self._n == self._capacity:
                self._make_room()
            taken = min(len(rows), self._capacity - self._n)
            if self._n + taken > len(self._buffer):
                size = min(max(2 * len(self._buffer), self._n + taken), self._capacity)
                grown = np.empty((size, self._width), np.uint64)
                grown[: self._n] = self._buffer[: self._n]
                self._buffer = grown
            self._buffer[self._n : self._n + taken] = rows[:taken]
            self._n += taken
            rows = rows[taken:]

    def sorted(self) -> Iterator[Rows]:
        """Yield all rows in the order of their keys, in blocks, and forget them."""
        if not self._runs:
            rows = self._sort(self._buffer[: self._n])
            self._buffer = np.empty((0, self._width), np.uint64)
            yield from self._cut(rows)
            return
        self._write_run()
        yield from self._merge()

    def _cut(self, rows: Rows) -> Iterator[Rows]:
        """Rows in blocks of the size that is worked on at once."""
        size = self._scratch.rows_of_block(self._width)
        for start in range(0, len(rows), size):
            yield rows[start : start + size]

    def _sort(self, rows: Rows) -> Rows:
        sort_rows(rows, self._n_keys)
        return rows[: add_up(rows, self._n_keys)] if self._adds else rows

    def _make_room(self) -> None:
        """Sort what is held, and write it to disk unless adding up has made it much less."""
        if self._adds:
            self._n = len(self._sort(self._buffer[: self._n]))
            if self._n <= self._capacity // 2:
                return
        self._write_run()

    def _write_run(self) -> None:
        run = Spool(self._scratch, self._width, in_file=True)
        run.append(self._sort(self._buffer[: self._n]))
        self._runs.append(run)
        self._n = 0
        if len(self._runs) == _MOST_RUNS:
            whole = Spool(self._scratch, self._width, in_file=True)
            for rows in self._merge():
                whole.append(rows)
            self._runs = [whole]

    def _merge(self) -> Iterator[Rows]:
        """Merge all runs: what is not above the last key that every run has shown can be sorted in memory."""
        self._buffer = np.empty((0, self._width), np.uint64)  # merging needs its memory
        runs, self._runs = self._runs, []
        size = max(4 * self._scratch.rows_of_block(self._width) // len(runs), _LEAST // 4)
        blocks = [run(size) for run in runs]
        held = [next(each, None) for each in blocks]
        while any(each is not None for each in held):
            shown = [each[-1] for each in held if each is not None]
            key = min(shown, key=lambda row: row[: self._n_keys].tolist())
            parts = []
            for i, rows in enumerate(held):
                if rows is None:
                    continue
                cut = first_not_below(rows, key, self._n_keys, True)
                parts.append(rows[:cut])
                held[i] = rows[cut:] if cut < len(rows) else next(blocks[i], None)
            yield from self._cut(self._sort(np.concatenate(parts)))
        for run in runs:
            run.remove()
