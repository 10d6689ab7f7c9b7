"""Rows, in which n-grams are counted, and compiled loops over them; imports numba.

A row is uint64 (columns,): its key, which is the words of an n-gram packed from the highest bits down, then counts or
numbers of the n-gram. A word is packed as its id + 1, and 0 stands for no word, so rows sort as their words do. Either
the first word of the key comes first (rows "by prefix": the n-grams that continue one are neighbors) or the last word
(rows "by suffix": n-grams with the same last words are neighbors). Blocks of rows are arrays (n-grams, columns).
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.kernels.machinery.compiled import njit

Int64 = npt.NDArray[np.int64]
Rows = npt.NDArray[np.uint64]

_INSERTION_ROWS = 24  # as few rows are sorted by insertion
_DIGITS = 8  # of eight bits in a column


class Packing(NamedTuple):
    """A layout of the words of n-grams in columns; no word is split between two."""

    bits: int  # per word
    per_column: int  # words per column

    @classmethod
    def of(cls, n_types: int) -> Packing:
        """Return the packing of ids below ``n_types``."""
        bits = max(n_types.bit_length(), 1)
        return cls(bits, 64 // bits)

    def columns(self, n: int) -> int:
        """Return how many columns the key of an n-gram has."""
        return -(-n // self.per_column)

    def without_last(self, n: int) -> tuple[int, np.uint64]:
        """Return the column with the last word of an n-gram's key, and a mask of the bits before that word."""
        column, place = divmod(n - 1, self.per_column)
        low = 64 - self.bits * place
        return column, np.uint64((1 << 64) - (1 << low))

    def parent(self, row: Rows, n: int) -> Rows:
        """Return the key of an n-gram's row without its last word: (columns of n - 1,)."""
        column, mask = self.without_last(n)
        key = row[: self.columns(n - 1)].copy()
        if column < len(key):
            key[column] &= mask
        return key

    def last(self, keys: Rows, n: int) -> npt.NDArray[np.int64]:
        """Return the ids of the last words of the keys of n-grams, -1 for no word: int64 (n-grams,)."""
        column, place = divmod(n - 1, self.per_column)
        shifted = keys[:, column] >> np.uint64(64 - self.bits * (place + 1))
        return (shifted & np.uint64((1 << self.bits) - 1)).view(np.int64) - 1

    def keys(self, words: npt.NDArray[np.integer[Any]]) -> Rows:
        """Pack the words of n-grams (n-grams, n) in their order: (n-grams, columns)."""
        keys = np.zeros((len(words), self.columns(words.shape[1])), np.uint64)
        for i, word in enumerate(words.T):
            column, place = divmod(i, self.per_column)
            shift = np.uint64(64 - self.bits * (place + 1))
            keys[:, column] |= (word + 1).astype(np.uint64) << shift
        return keys

    def words(self, keys: Rows, n: int) -> npt.NDArray[np.int64]:
        """Unpack the words of keys of n-grams: int64 (n-grams, n), -1 for no word."""
        return np.stack([self.last(keys, i) for i in range(1, n + 1)], axis=1)

    def reverse(self, rows: Rows, n: int, last: Rows) -> Rows:
        """Return rows of n-grams with the words of their keys in the opposite order, and one more column (n-grams,)."""
        out = np.zeros((len(rows), rows.shape[1] + 1), np.uint64)
        columns, places = np.divmod(np.arange(n), self.per_column)
        shifts = (64 - self.bits * (places + 1)).astype(np.uint64)
        _reverse(rows, columns, shifts, np.uint64((1 << self.bits) - 1), out)
        out[:, -1] = last
        return out

    def find_parents(self, rows: Rows, n: int, parents: Rows) -> Int64:
        """Return the place of each n-gram without its last word among ``parents``, or -1; both are sorted."""
        places = np.empty(len(rows), np.int64)
        find_keys(rows, *self.without_last(n), parents, self.columns(n - 1), places)
        return places


class Parents:
    """A reader of the order below, block by block along with the n-grams of an order: both are sorted."""

    def __init__(self, blocks: Iterator[Rows], n: int, packing: Packing, width: int) -> None:
        self._blocks, self._n, self._packing = blocks, n, packing
        self._none = np.empty((0, width), np.uint64)
        self._unread: Rows | None = None  # the rest of the last block

    def read_for(self, rows: Rows) -> tuple[Rows, Int64]:
        """Read the parents up to that of the last row; return them and the place of each row's parent, or -1."""
        key, n_keys = self._packing.parent(rows[-1], self._n), self._packing.columns(self._n - 1)
        parts = [self._none]
        for block in self.read_rest():
            cut = first_not_below(block, key, n_keys, True)
            parts.append(block[:cut])
            if cut < len(block):
                self._unread = block[cut:]
                break
        parents = np.concatenate(parts)
        return parents, self._packing.find_parents(rows, self._n, parents)

    def read_rest(self) -> Iterator[Rows]:
        """Yield all rows that were not read yet."""
        while True:
            rows, self._unread = self._unread, None
            if rows is None:
                rows = next(self._blocks, None)
            if rows is None:
                return
            yield rows


def regroup(blocks: Iterable[Rows], n: int, packing: Packing) -> Iterator[Rows]:
    """Cut sorted rows into other blocks, so that n-grams with the same key but for its last word stay together."""
    last_group: Rows | None = None  # to which the next block may add
    for rows in blocks:
        if not len(rows):
            continue
        joined = rows if last_group is None else np.concatenate([last_group, rows])
        parent = packing.parent(joined[-1], n)
        cut = first_not_below(joined, parent, len(parent), False)
        if cut:
            yield joined[:cut]
        last_group = joined[cut:]
    if last_group is not None:
        yield last_group


# -- compiled loops ------------------------------------------------------------------------------------


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
        if high - low <= _INSERTION_ROWS:
            _insert(rows, low, high, digit // _DIGITS, n_keys, held)
            continue
        if digit == _DIGITS * n_keys:
            continue  # all keys of the range are equal
        column, shift = digit // _DIGITS, np.uint64(56 - 8 * (digit % _DIGITS))
        # how many rows have each digit; then where the rows of each digit end
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
    """Return whether row i of a is below row j of b in the columns from ``first`` to ``n_keys``."""
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
def _reverse(rows, columns, shifts, mask, out):
    """Copy rows to zeros ``out`` with the words of their keys in the opposite order; the other columns stay.

    ``columns`` and ``shifts`` (words,) are the column of each word and the bits below it there; ``mask`` has the bits
    of a word.
    """
    n = len(columns)
    for i in range(len(rows)):
        for j in range(n):
            word = rows[i, columns[j]] >> shifts[j] & mask
            out[i, columns[n - 1 - j]] |= word << shifts[n - 1 - j]
        for k in range(columns[n - 1] + 1, rows.shape[1]):
            out[i, k] = rows[i, k]


@njit
def find_keys(rows, column, mask, parents, n_keys, places):
    """Write the place in ``parents`` of every row's key without its last word, or -1 where it is missing.

    Both are sorted. The keys of ``parents`` have ``n_keys`` columns; in ``column`` of the rows, ``mask`` covers the
    bits of the words before the last.
    """
    j = 0
    for i in range(len(rows)):
        found = False
        while j < len(parents):
            order = 0
            for k in range(n_keys):
                key = rows[i, k] & mask if k == column else rows[i, k]
                if key != parents[j, k]:
                    order = -1 if key < parents[j, k] else 1
                    break
            found = order == 0
            if order <= 0:
                break
            j += 1
        places[i] = j if found else -1


@njit
def first_not_below(rows, key, n_keys, above):
    """Return the first of sorted rows whose key is not below ``key`` (columns,); with ``above``, that is above it."""
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
