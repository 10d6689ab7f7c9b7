"""Counting: the distinct n-grams of a text of every order, with their counts, in bounded memory; imports numba.

A row is uint64 (columns,): its key, the words of an n-gram packed from the highest bits down, then what is known of
the n-gram. A word is packed as its id + 1, and 0 is where no word stands, so rows sort as their words do. The key has
the first word first ("in the order of prefixes", so that the n-grams that continue one are neighbors) or the last word
first ("of suffixes", so that those are neighbors that have the last words in common). Blocks of rows are arrays
(n-grams, columns).

A sentence is read as ``<s> w_1 ... w_m </s>``, and both marks have the id of ``</s>``: in the first place of an n-gram
the id can only mean ``<s>``, in the last place only ``</s>``.

Each word is counted with the N - 1 before it, or as many as there are. These rows are sorted by their last words, so
the n-grams of every lower order come out of one pass: those with the same last n words are neighbors (as in lmplz:
Heafield et al., "Scalable Modified Kneser-Ney Language Model Estimation", ACL 2013).

Rows may be more than fit into memory. A `Sorter` sorts what fits and writes it to disk as a run; the runs are merged
when they are read back. A `Spool` keeps rows as they come, in memory while they are few and in a file beyond.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.errors import DataError
from tacenda.kernels.machinery.compiled import njit
from tacenda.progress import Progress, track

Int64 = npt.NDArray[np.int64]
Rows = npt.NDArray[np.uint64]

_HIGHEST_COUNT = 103  # from this one on counts are counted together in the counts of counts
_MOST_TOKENS = 2**31  # with as many ends of sentences, what is counted fits 32 bits
_LEAST = 1 << 12  # rows of a block, however small the budget
_MOST = 3 << 26  # bytes of a sorter, and of what is kept in memory: with more nothing is faster
_MOST_RUNS = 48  # more are merged into one: this bounds the open files and the small reads
_FEW = 24  # rows that are sorted by insertion
_DIGITS = 8  # of eight bits in a column
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


class Packing(NamedTuple):
    """How the words of an n-gram are packed into columns; no word is in two."""

    bits: int  # of a word
    per_column: int  # words

    @classmethod
    def of(cls, n_types: int) -> Packing:
        """Return the packing of ids from 0 to n_types - 1."""
        bits = max(n_types.bit_length(), 1)
        return cls(bits, 64 // bits)

    def columns(self, n: int) -> int:
        """Return how many columns the key of an n-gram has."""
        return -(-n // self.per_column)

    def without_last(self, n: int) -> tuple[int, np.uint64]:
        """Return the column of the last word of the keys of n-grams, and the bits of the words before it there."""
        column, place = divmod(n - 1, self.per_column)
        low = 64 - self.bits * place
        return column, np.uint64((1 << 64) - (1 << low))

    def parent(self, row: Rows, n: int) -> Rows:
        """Return the key of a row of an n-gram without its last word: (columns of n - 1,)."""
        column, kept = self.without_last(n)
        key = row[: self.columns(n - 1)].copy()
        if column < len(key):
            key[column] &= kept
        return key

    def last(self, keys: Rows, n: int) -> npt.NDArray[np.int64]:
        """Return the last words of the keys of n-grams, ids, -1 for nothing: int64 (n-grams,)."""
        column, place = divmod(n - 1, self.per_column)
        shifted = keys[:, column] >> np.uint64(64 - self.bits * (place + 1))
        return (shifted & np.uint64((1 << self.bits) - 1)).astype(np.int64) - 1

    def keys(self, words: npt.NDArray[np.integer[Any]]) -> Rows:
        """Pack the words of n-grams (n-grams, n) in their order: (n-grams, columns)."""
        found = np.zeros((len(words), self.columns(words.shape[1])), np.uint64)
        for i, word in enumerate(words.T):
            column, place = divmod(i, self.per_column)
            shift = np.uint64(64 - self.bits * (place + 1))
            found[:, column] |= (word + 1).astype(np.uint64) << shift
        return found

    def words(self, keys: Rows, n: int) -> npt.NDArray[np.int64]:
        """Return what `keys` packed: int64 (n-grams, n)."""
        return np.stack([self.last(keys, i) for i in range(1, n + 1)], axis=1)

    def reverse(self, rows: Rows, n: int) -> Rows:
        """Return rows of n-grams with the words of their keys in the opposite order."""
        out = np.empty_like(rows)
        _reverse(rows, n, self.bits, self.per_column, out)
        return out

    def find_parents(self, rows: Rows, n: int, above: Rows) -> Int64:
        """Return the place in sorted rows of n-grams without their last word of each of sorted rows, or -1."""
        places = np.empty(len(rows), np.int64)
        find_keys(rows, *self.without_last(n), above, self.columns(n - 1), places)
        return places


class Parents:
    """The rows of the order below, read along with the n-grams."""

    def __init__(self, blocks: Iterator[Rows], n: int, packing: Packing, width: int) -> None:
        self._blocks, self._n, self._packing = blocks, n, packing
        self._none = np.empty((0, width), np.uint64)
        self._held: Rows | None = None

    def of(self, rows: Rows) -> tuple[Rows, Int64]:
        """Return the parents up to the last row's, and the place of each row's among them, or -1."""
        key, n_keys = self._packing.parent(rows[-1], self._n), self._packing.columns(self._n - 1)
        taken = [self._none]
        for block in self.rest():
            cut = first_not_below(block, key, n_keys, True)
            taken.append(block[:cut])
            if cut < len(block):
                self._held = block[cut:]
                break
        there = np.concatenate(taken)
        return there, self._packing.find_parents(rows, self._n, there)

    def rest(self) -> Iterator[Rows]:
        """Yield what is left, to be forgotten."""
        while (rows := next(self._blocks, None) if self._held is None else self._held) is not None:
            self._held = None
            yield rows


def regroup(blocks: Iterable[Rows], n: int, packing: Packing) -> Iterator[Rows]:
    """Cut sorted rows of n-grams so that those that differ in the last word of the key alone stay together."""
    held: Rows | None = None
    for rows in blocks:
        if not len(rows):
            continue
        joined = rows if held is None else np.concatenate([held, rows])
        parent = packing.parent(joined[-1], n)
        cut = first_not_below(joined, parent, len(parent), False)
        if cut:
            yield joined[:cut]
        held = joined[cut:]
    if held is not None:
        yield held


# -- a text ------------------------------------------------------------------------------------------


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


def count_sorted_rows(corpus: Corpus, order: int, scratch: Scratch) -> Iterator[Rows]:
    """Yield the distinct rows of a text, sorted, each word with the ``order`` - 1 before it, and how often it occurs.

    A ``</s>`` written inside a sentence ends it. Rows of two texts, sorted together and added up, are the rows of both.
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
    with closing(bar):
        for whole_ids, whole_offsets in corpus.blocks(scratch.rows_of_block(order)):
            ids, offsets = whole_ids, whole_offsets
            if len(written := np.flatnonzero(ids == boundary)):  # no sentence is empty
                ids, cuts = np.delete(ids, written), np.union1d(offsets, written)
                offsets = np.unique(cuts - np.searchsorted(written, cuts))
            rows = np.zeros((len(ids) + len(offsets) - 1, n_keys + 1), np.uint64)
            write_text_rows(ids, offsets, boundary, order, *packing, rows)
            sorter.append(rows)
            bar.update(len(whole_ids))
    yield from sorter.read_sorted()


def count_by_order(rows: Iterable[Rows], n_types: int, order: int, scratch: Scratch) -> Counted:
    """Find the n-grams of all orders in `count_sorted_rows`; their counts must be below 2^32.

    All ``n_types`` types are unigrams, even those that are not in the text.
    """
    packing = Packing.of(n_types)
    spools = [Spool(scratch, packing.columns(n) + 1) for n in range(2, order + 1)]
    tally = np.zeros((order, 2, _HIGHEST_COUNT + 1), np.int64)
    unigrams = np.zeros((2, n_types), np.int64)
    # the last row of each order, to which the next block may add
    open_rows: list[Rows] = [np.empty((0, packing.columns(n) + 1), np.uint64) for n in range(order)]

    def take(n: int, found: Rows) -> None:
        """Keep all rows of order n, and hand them down."""
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
        # of the highest order occurrences are the adjusted counts too: no longer n-gram tells what comes before
        found[:, -1] |= found[:, -1] << np.uint64(32)
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
        self._folder: Path | None = None
        self._n_files = 0
        self._in_memory = 0

    def name_new_file(self) -> Path:
        """Return the name of a file that is not there yet."""
        if self._folder is None:
            with _explain_full_disk("the temporary folder"):
                self._folder = Path(mkdtemp(prefix="tacenda-n-grams-"))
            finalize(self, _remove, self._folder, os.getpid())
        self._n_files += 1
        return self._folder / f"{self._n_files}"

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
        """Return how many rows of so many columns are worked on at once."""
        return max(min(self.budget // 128, 1 << 24) // (8 * width), _LEAST)

    def close(self) -> None:
        """Remove the folder at once: after an error its files may fill the disk as long as the traceback is kept."""
        if self._folder is not None:
            rmtree(self._folder, ignore_errors=True)


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child that ends must not take its parent's files along
        rmtree(folder, ignore_errors=True)


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
        self._file: Path | None = scratch.name_new_file() if in_file else None
        self.n_rows = 0

    def append(self, rows: Rows) -> None:
        """Add rows at the end."""
        self.n_rows += len(rows)
        if self._file is None:
            if self._scratch.reserve(rows.nbytes):
                self._held.append(np.array(rows))
                return
            self._file = self._scratch.name_new_file()
            self._scratch.release(self._held)
        new, self._held = [*self._held, rows], []
        with _explain_full_disk(self._file.parent), self._file.open("ab") as file:
            for block in new:
                file.write(np.ascontiguousarray(block).data)

    def __call__(self, size: int | None = None) -> Iterator[Rows]:
        """Yield all rows in blocks, from a file in blocks of ``size``."""
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

    def read_whole(self) -> npt.NDArray[np.uint64]:
        """Return all rows of one column, (rows,); a mapped file if they are in a file, which must not be removed."""
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
        Whether rows of equal keys become one with the sum of their single column after the key.
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
                if self._adds:
                    self._n = len(self._sort(self._buffer[: self._n]))
                if not self._adds or self._n > self._capacity // 2:
                    self._write_run()  # unless adding up has made it much less
            taken = min(len(rows), self._capacity - self._n)
            if self._n + taken > len(self._buffer):
                size = min(max(2 * len(self._buffer), self._n + taken), self._capacity)
                grown = np.empty((size, self._width), np.uint64)
                grown[: self._n] = self._buffer[: self._n]
                self._buffer = grown
            self._buffer[self._n : self._n + taken] = rows[:taken]
            self._n += taken
            rows = rows[taken:]

    def read_sorted(self) -> Iterator[Rows]:
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


# -- compiled loops over rows ------------------------------------------------------------------------


@njit
def sort_rows(rows, n_keys):
    """Sort rows in place by their first ``n_keys`` columns: radix sort from the highest digit, without a second array.

    Rows are moved to the range of their digit, cycle by cycle, and each range is sorted by the next digit (the
    "American flag sort" of McIlroy, Bostic and McIlroy 1993); short ranges by insertion.
    """
    width = rows.shape[1]
    ranges = np.empty((256 * _DIGITS * n_keys + 1, 3), np.int64)
    free, ends = np.empty(256, np.int64), np.empty(256, np.int64)
    held = np.empty((1, width), np.uint64)
    ranges[0, 0], ranges[0, 1], ranges[0, 2] = 0, len(rows), 0
    n_ranges = 1
    while n_ranges:
        n_ranges -= 1
        low, high, digit = ranges[n_ranges, 0], ranges[n_ranges, 1], ranges[n_ranges, 2]
        if high - low <= _FEW:
            _insert(rows, low, high, digit // _DIGITS, n_keys, held)
            continue
        if digit == _DIGITS * n_keys:
            continue  # they are equal
        column, shift = digit // _DIGITS, np.uint64(56 - 8 * (digit % _DIGITS))
        ends[:] = 0  # how many rows have each digit; below, where the rows of each digit end
        for i in range(low, high):
            ends[(rows[i, column] >> shift) & np.uint64(255)] += 1
        begin = low
        for b in range(256):
            free[b] = begin
            begin += ends[b]
            ends[b] = begin
        begin = low
        for b in range(256):
            if ends[b] - begin < high - low:
                while free[b] < ends[b]:
                    i = free[b]
                    to = np.int64((rows[i, column] >> shift) & np.uint64(255))
                    while to != b:
                        j = free[to]
                        free[to] += 1
                        for k in range(width):
                            rows[i, k], rows[j, k] = rows[j, k], rows[i, k]
                        to = np.int64((rows[i, column] >> shift) & np.uint64(255))
                    free[b] += 1
            if ends[b] - begin > 1:
                ranges[n_ranges, 0], ranges[n_ranges, 1] = begin, ends[b]
                ranges[n_ranges, 2] = digit + 1
                n_ranges += 1
            begin = ends[b]


@njit
def _insert(rows, low, high, first, n_keys, held):
    """Sort a few rows by insertion; their columns before ``first`` are equal."""
    width = rows.shape[1]
    for i in range(low + 1, high):
        if not _is_below(rows, i, rows, i - 1, first, n_keys):
            continue
        for k in range(width):
            held[0, k] = rows[i, k]
        j = i
        while j > low and _is_below(held, 0, rows, j - 1, first, n_keys):
            for k in range(width):
                rows[j, k] = rows[j - 1, k]
            j -= 1
        for k in range(width):
            rows[j, k] = held[0, k]


@njit
def _is_below(a, i, b, j, first, n_keys):
    """Whether row i of a is below row j of b in the columns from ``first`` to ``n_keys``."""
    for k in range(first, n_keys):
        if a[i, k] != b[j, k]:
            return a[i, k] < b[j, k]
    return False


@njit
def add_up(rows, n_keys):
    """Add up the column after the keys of sorted rows with equal keys, in place; return how many rows are left."""
    n = 0
    for i in range(len(rows)):
        same = n > 0
        for k in range(n_keys):
            same = same and rows[i, k] == rows[n - 1, k]
        if same:
            rows[n - 1, n_keys] += rows[i, n_keys]
        else:
            if n != i:
                for k in range(rows.shape[1]):
                    rows[n, k] = rows[i, k]
            n += 1
    return n


@njit
def write_text_rows(ids, offsets, boundary, order, bits, per_column, rows):
    """Write one row for each word and each end of a sentence: it and the words before it, latest first, and a one.

    ``ids`` (tokens,) and ``offsets`` (sentences + 1,) are a text; ``rows`` (tokens + sentences, columns) zeros. Before
    the first word stands ``<s>``, which has the id of ``boundary``; before it there is nothing, which is packed as 0.
    """
    last = rows.shape[1] - 1
    i = 0
    for s in range(len(offsets) - 1):
        begin, end = offsets[s], offsets[s + 1]
        for t in range(begin, end + 1):
            column, shift = 0, 64 - bits
            for k in range(min(order, t - begin + 2)):
                w = boundary if t - k in (end, begin - 1) else ids[t - k]
                rows[i, column] |= np.uint64(w + 1) << np.uint64(shift)
                shift -= bits
                if k % per_column == per_column - 1:
                    column += 1
                    shift = 64 - bits
            rows[i, last] = np.uint64(1)
            i += 1


@njit
def drop_first_words(rows, n_keys, column, kept, out, n_out):
    """Write the distinct n-grams without their first words of sorted rows; the key has the latest word first.

    In ``column`` the bits ``kept`` belong to the words that stay. After its key a row has its counts: how often it
    occurs in the lower half, and in the upper its adjusted count, the number of distinct words before it, or
    how often it occurs where it begins with ``<s>``. The ``n_out`` first rows of ``out`` exist, and the
    last of them goes on; return how many there are then.
    """
    keys_out = out.shape[1] - 1
    for i in range(len(rows)):
        same = n_out > 0
        for k in range(keys_out):
            key = rows[i, k] & kept if k == column else rows[i, k]
            same = same and out[n_out - 1, k] == key
        if not same:
            for k in range(keys_out):
                out[n_out, k] = rows[i, k] & kept if k == column else rows[i, k]
            out[n_out, keys_out] = np.uint64(0)
            n_out += 1
        occurrences = rows[i, n_keys] & _LOW
        begins = rows[i, column] & ~kept == 0  # no word stands before
        adjusted = occurrences if begins else np.uint64(1)
        out[n_out - 1, keys_out] += (adjusted << _HALF) + occurrences
    return n_out


@njit
def _reverse(rows, n_words, bits, per_column, out):
    """Copy rows with the words of their keys in the opposite order; the other columns stay."""
    n_keys = -(-n_words // per_column)
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    for i in range(len(rows)):
        for k in range(n_keys):
            out[i, k] = np.uint64(0)
        for j in range(n_words):
            to = n_words - 1 - j
            word = rows[i, j // per_column] >> np.uint64(64 - bits * (j % per_column + 1)) & mask
            out[i, to // per_column] |= word << np.uint64(64 - bits * (to % per_column + 1))
        for k in range(n_keys, rows.shape[1]):
            out[i, k] = rows[i, k]


@njit
def find_keys(rows, column, kept, above, n_keys, places):
    """Write the place in ``above`` of every row's key without its last word, or -1 where it is not there.

    Both are sorted. The keys of ``above`` have ``n_keys`` columns; in ``column`` of the rows the bits ``kept``
    belong to the words that stay.
    """
    j = 0
    for i in range(len(rows)):
        found = False
        while j < len(above):
            order = 0
            for k in range(n_keys):
                key = rows[i, k] & kept if k == column else rows[i, k]
                if key != above[j, k]:
                    order = -1 if key < above[j, k] else 1
                    break
            found = order == 0
            if order <= 0:
                break
            j += 1
        places[i] = j if found else -1


@njit
def first_not_below(rows, key, n_keys, above):
    """Return the first of sorted rows whose key is not below ``key`` (columns,), or above it where ``above``."""
    low, high = 0, len(rows)
    while low < high:
        middle = (low + high) >> 1
        before = above
        for k in range(n_keys):
            if rows[middle, k] != key[k]:
                before = rows[middle, k] < key[k]
                break
        if before:
            low = middle + 1
        else:
            high = middle
    return low
