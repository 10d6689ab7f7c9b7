"""N-grams as rows that sort as their words do, and the compiled loops over them; imports numba.

A row is uint64 (columns,): its key, the words of an n-gram packed from the highest bits down, then what is known of
the n-gram. A word is packed as its id + 1, and 0 is where no word stands. The key has the first word first ("in the
order of prefixes", so that the n-grams that continue one are neighbours) or the last word first ("of suffixes", so
that those are neighbours that have the last words in common). Blocks of rows are arrays (n-grams, columns).
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.kernels.machinery.compiled import njit

Rows = npt.NDArray[np.uint64]

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
        """How many columns the key of an n-gram has."""
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


class Parents:
    """The rows of the order below, read along with those of an order: see `find_parents`."""

    def __init__(self, blocks: Iterator[Rows], n_keys: int, width: int) -> None:
        self._blocks, self._n_keys = blocks, n_keys
        self._none = np.empty((0, width), np.uint64)
        self._held: Rows | None = None

    def through(self, key: Rows) -> Rows:
        """Return and forget the rows that are left up to a key (columns,), that one included."""
        taken = [self._none]
        while (rows := self._next()) is not None:
            cut = first_not_below(rows, key, self._n_keys, True)
            taken.append(rows[:cut])
            self._held = rows[cut:] if cut < len(rows) else None
            if self._held is not None:
                break
        return np.concatenate(taken)

    def rest(self) -> Iterator[Rows]:
        """Yield what is left."""
        while (rows := self._next()) is not None:
            self._held = None
            yield rows

    def _next(self) -> Rows | None:
        if self._held is None:
            self._held = next(self._blocks, None)
        return self._held


def regroup(blocks: Iterable[Rows], n: int, packing: Packing) -> Iterator[Rows]:
    """Cut sorted rows of n-grams so that those that differ in the last word of the key alone stay together."""
    column, kept = packing.without_last(n)
    n_keys = packing.columns(n)
    held: Rows | None = None
    for rows in blocks:
        if not len(rows):
            continue
        joined = rows if held is None else np.concatenate([held, rows])
        cut = _begin_of_last_group(joined, column, kept, n_keys)
        if cut:
            yield joined[:cut]
        held = joined[cut:]
    if held is not None:
        yield held


@njit
def sort_rows(rows, n_keys):
    """Sort rows in place by their first ``n_keys`` columns: radix sort from the highest digit, without a second array.

    Rows are moved to the range of their digit, cycle by cycle, and each range is sorted by the next digit (the
    "American flag sort" of McIlroy, Bostic and McIlroy 1993); short ranges by insertion.
    """
    width = rows.shape[1]
    ranges = np.empty((256 * _DIGITS * n_keys + 1, 3), np.int64)
    free, ends = np.empty(256, np.int64), np.empty(256, np.int64)
    held = np.empty(width, np.uint64)
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
        ends[:] = 0
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
        if not _below(rows, i, rows, i - 1, first, n_keys):
            continue
        for k in range(width):
            held[k] = rows[i, k]
        j = i
        while j > low:
            order = 0  # of the held row and the one before: -1 below, 1 not
            for k in range(first, n_keys):
                if held[k] != rows[j - 1, k]:
                    order = -1 if held[k] < rows[j - 1, k] else 1
                    break
            if order >= 0:
                break
            for k in range(width):
                rows[j, k] = rows[j - 1, k]
            j -= 1
        for k in range(width):
            rows[j, k] = held[k]


@njit
def _below(a, i, b, j, first, n_keys):
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

    In ``column`` the bits ``kept`` are those of the words that stay. After its key a row has its counts: how often it
    occurs in the lower half, and in the upper its adjusted count, which is how many distinct words stand before it, or
    how often it occurs where it begins with ``<s>``. The ``n_out`` first rows of ``out`` are there already, and the
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
def find_parents(rows, column, kept, above, n_keys, places):
    """Write the place in ``above`` of every row's key without its last word, or -1 where it is not there.

    Both are sorted. The keys of ``above`` have ``n_keys`` columns; in ``column`` of the rows the bits ``kept`` are
    those of the words that stay.
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


@njit
def _begin_of_last_group(rows, column, kept, n_keys):
    """Return where the last rows begin that agree in their keys but for the last word, as in `find_parents`."""
    last = len(rows) - 1
    i = last
    while i > 0:
        for k in range(n_keys):
            mask = kept if k == column else ~np.uint64(0)
            if (rows[i - 1, k] ^ rows[last, k]) & mask:
                return i
        i -= 1
    return i
