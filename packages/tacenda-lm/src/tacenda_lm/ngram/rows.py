"""N-grams as rows that sort as their words do.

A row is uint64 (columns,): its key, the words of an n-gram packed from the highest bits down, then what is known of
the n-gram. A word is packed as its id + 1, and 0 is where no word stands. The key has the first word first ("in the
order of prefixes", so that the n-grams that continue one are neighbours) or the last word first ("of suffixes", so
that those are neighbours that have the last words in common).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Packing", "Parents", "Rows", "grouped"]

Rows = npt.NDArray[np.uint64]


class Packing(NamedTuple):
    """How the words of an n-gram are packed into columns; no word lies in two."""

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
            found[:, column] |= (word + 1).astype(np.uint64) << np.uint64(
                64 - self.bits * (place + 1)
            )
        return found

    def words(self, keys: Rows, n: int) -> npt.NDArray[np.int64]:
        """Return what `keys` packed: int64 (n-grams, n)."""
        return np.stack([self.last(keys, i) for i in range(1, n + 1)], axis=1)

    def turned(self, rows: Rows, n: int) -> Rows:
        """Return rows of n-grams with the words of their keys in the opposite order."""
        from tacenda_lm.ngram import row_kernels

        out = np.empty_like(rows)
        row_kernels.turned(rows, n, self.bits, self.per_column, out)
        return out


class Parents:
    """The rows of the order below, read along with those of an order: see ``row_kernels.parents``."""

    def __init__(self, blocks: Iterator[Rows], n_keys: int, width: int) -> None:
        self._blocks, self._n_keys = blocks, n_keys
        self._none = np.empty((0, width), np.uint64)
        self._held: Rows | None = None

    def through(self, key: Rows) -> Rows:
        """Return and forget the rows that are left up to a key (columns,), that one included."""
        from tacenda_lm.ngram.row_kernels import first_not_below

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


def grouped(blocks: Iterable[Rows], n: int, packing: Packing) -> Iterator[Rows]:
    """Cut sorted rows of n-grams anew, so that those that differ in the last word of the key alone stay together."""
    from tacenda_lm.ngram.row_kernels import begin_of_last_group

    column, kept = packing.without_last(n)
    n_keys = packing.columns(n)
    held: Rows | None = None
    for rows in blocks:
        if not len(rows):
            continue
        joined = rows if held is None else np.concatenate([held, rows])
        cut = begin_of_last_group(joined, column, kept, n_keys)
        if cut:
            yield joined[:cut]
        held = joined[cut:]
    if held is not None:
        yield held
