"""`TableWriter`: takes the n-grams of a model order by order and packs them into the words of a `Table`.

What is known of an order comes in two streams: its n-grams and, while the order above is smoothed, its n-grams as
contexts. When both are there, contexts are read once to choose the widths of the fields, and both to write the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda_lm.ngram.counts import Int64
from tacenda_lm.ngram.layout import BLOCK, LAYOUT
from tacenda_lm.ngram.rows import Rows
from tacenda_lm.ngram.spooling import Scratch, Spool
from tacenda_lm.sequences import Float64

__all__ = ["Float32", "TableWriter", "nearest"]

Float32 = npt.NDArray[np.float32]

_RECORDS = 1 << 17  # packed at once: a multiple of 64, so that they fill whole words
_MOST_CODES = 1 << 20  # distinct back-offs, with more they stay float32
_LIST_BITS = 64 * BLOCK  # of the places of a block
_FLAG = np.uint64(1 << 63)
_HALF = np.uint64(32)


class TableWriter:
    """Packs n-grams as they come; see `tacenda_lm.ngram.smoothing.Sink`.

    Parameters
    ----------
    order, n_types
        Of the model.
    scratch
        Where to keep what does not fit into memory.
    codes
        Of each order the values that stand for its log-probabilities, and those for its back-offs, float32 (codes,),
        ascending, where these are to be coarser; see ``quantization``.
    """

    def __init__(
        self,
        order: int,
        n_types: int,
        scratch: Scratch,
        codes: list[tuple[Float32, Float32]] | None = None,
    ) -> None:
        self._order, self._word_bits, self._codes = order, (n_types - 1).bit_length(), codes
        self._storage = Scratch(scratch.budget)  # the folder of the table, which outlives the other
        self._data = Spool(self._storage, 1)
        self._ngrams = [Spool(scratch, 1) for _ in range(order)]
        self._contexts = [Spool(scratch, 1) for _ in range(order)]
        self._layout = np.zeros((order, len(LAYOUT)), np.int64)

    def add_ngrams(self, order: int, words: npt.NDArray[Any], log_probs: Float64 | Float32) -> None:
        """Take the next n-grams of an order, as `Sink` says."""
        # the sign is not kept, which the rounding of a certain word's probability may have made positive
        magnitudes = np.maximum(-log_probs.astype(np.float32), np.float32(0))
        self._ngrams[order - 1].append(_paired(words, magnitudes))

    def add_contexts(self, order: int, n_after: Int64, log_backoffs: Float64 | Float32) -> None:
        """Take what is known of the next n-grams of an order as contexts, as `Sink` says."""
        self._contexts[order - 1].append(_paired(n_after, log_backoffs.astype(np.float32)))

    def end_order(self, order: int) -> None:
        """Pack the n-grams of an order, of which all is known."""
        ngrams, contexts = self._ngrams[order - 1], self._contexts[order - 1]
        codes = self._codes[order - 1] if self._codes else None
        word_bits = self._word_bits if order > 1 else 0
        packed = _Highest(word_bits, codes)
        if order < self._order:
            packed = _Contexts(contexts, word_bits, codes)
        n_bits = packed.pack(ngrams, contexts, self._data)
        self._layout[order - 1] = ngrams.n_rows, *n_bits
        ngrams.remove()
        contexts.remove()

    def finish(self) -> tuple[npt.NDArray[np.uint64], Int64, object]:
        """Return the arguments of `Table`."""
        return self._data.whole(), self._layout, self._storage


class _Highest:
    """The records of the highest order, which have a word and a log-probability."""

    def __init__(self, word_bits: int, codes: tuple[Float32, Float32] | None) -> None:
        self.word_bits, self.probs = word_bits, None if codes is None else codes[0]
        self.prob_bits = 31 if codes is None else (len(codes[0]) - 1).bit_length()

    def pack(self, ngrams: Spool, contexts: Spool, out: Spool) -> tuple[int, ...]:
        """Append the sections of the order, and return its layout but for the number of n-grams."""
        widths = np.array([self.word_bits, self.prob_bits])
        n_records = 0
        for rows in _even(ngrams()):
            n_records += len(rows)
            out.append(_records(self._fields(rows), widths, n_records == ngrams.n_rows))
        if not n_records:
            out.append(np.zeros((1, 1), np.uint64))
        self._append_probs(out)
        return self.prob_bits, 0, 0, 0, 0

    def _fields(self, rows: Rows) -> list[Rows]:
        """The words and the log-probabilities of n-grams, as they are packed."""
        words, magnitudes = rows[:, 0] >> _HALF, rows[:, 0].astype(np.uint32)
        if not self.word_bits:
            words = np.zeros_like(words)  # the word of a unigram is its place
        if self.probs is None:
            return [words, magnitudes.astype(np.uint64)]
        return [words, nearest(-magnitudes.view(np.float32), self.probs)]

    def _append_probs(self, out: Spool) -> None:
        if self.probs is not None:
            padded = np.resize(self.probs, 1 << self.prob_bits)
            out.append(_two_in_a_word(padded.view(np.uint32)))


class _Contexts(_Highest):
    """The records of a lower order: back-offs and places of what continues them, too."""

    def __init__(
        self, contexts: Spool, word_bits: int, codes: tuple[Float32, Float32] | None
    ) -> None:
        super().__init__(word_bits, codes)
        self._backoffs = _Codes() if codes is None else None
        self.values = np.empty(0, np.uint32) if codes is None else codes[1].view(np.uint32)
        spans = []
        for rows in _even(contexts()):
            first = _first(rows, 0)
            starts = np.arange(0, len(rows), BLOCK)
            ends = np.minimum(starts + BLOCK, len(rows)) - 1
            spans.append(first[ends] - first[starts])
            if self._backoffs is not None:
                self._backoffs.learn(rows[:, 0].astype(np.uint32))
        size = contexts.n_rows
        lengths = np.concatenate([np.zeros(1, np.int64), *spans])
        costs = [
            (near * size + _LIST_BITS * int((lengths >= 1 << near).sum()), near)
            for near in range(49)
        ]
        self.near_bits = min(costs)[1]
        if self._backoffs is not None:
            if not self._backoffs.pays(size):
                self._backoffs = None
            else:
                self.values = self._backoffs.values()
        self.backoff_bits = (len(self.values) - 1).bit_length() if len(self.values) else 32

    def pack(self, ngrams: Spool, contexts: Spool, out: Spool) -> tuple[int, ...]:
        widths = np.array([self.word_bits, self.prob_bits, self.backoff_bits, self.near_bits])
        heads: list[Rows] = []
        lists: list[Rows] = []
        n_lists, after, n_records = 0, 0, 0
        ending = [np.zeros((1, 1), np.uint64)]  # the record that ends the order
        pairs = zip(_even(chain(ngrams(), ending)), _even(chain(contexts(), ending)), strict=True)
        for rows, about in pairs:
            n_records += len(rows)
            first = _first(about, after)
            after = int(first[-1]) + int(about[-1, 0] >> _HALF)
            padded = np.append(first, np.full(-len(first) % BLOCK, first[-1])).reshape(-1, BLOCK)
            is_far = padded[:, -1] - padded[:, 0] >= 1 << self.near_bits
            near = np.where(is_far[:, None], 0, padded - padded[:, :1]).ravel()[: len(first)]
            number = n_lists + np.cumsum(is_far) - 1
            heads.append(
                np.where(is_far, number.astype(np.uint64) | _FLAG, padded[:, 0].astype(np.uint64))
            )
            lists.append(padded[is_far].astype(np.uint64).ravel())
            n_lists += int(is_far.sum())
            fields = [*self._fields(rows), self._coded(about), near.astype(np.uint64)]
            out.append(_records(fields, widths, n_records == ngrams.n_rows + 1))
        for words in (*heads, *lists):
            out.append(words[:, None])
        out.append(_two_in_a_word(self.values))
        self._append_probs(out)
        coded = len(self.values)
        return self.prob_bits, self.backoff_bits, self.near_bits, n_lists, coded

    def _coded(self, rows: Rows) -> Rows:
        """The back-offs of contexts as they are packed."""
        values = rows[:, 0].astype(np.uint32)
        if self._backoffs is not None:
            return self._backoffs.codes(values)
        if self.backoff_bits == 32:
            return values.astype(np.uint64)
        return nearest(values.view(np.float32), self.values.view(np.float32))


class _Codes:
    """Numbers for the distinct values (uint32) of a stream, in the order in which they come."""

    def __init__(self) -> None:
        self._values = np.zeros(1 << 10, np.uint32)
        self._slots = np.full(1 << 12, -1, np.int32)
        self._n = 0

    def learn(self, values: npt.NDArray[np.uint32]) -> None:
        """Number the values that have no number yet."""
        from tacenda_lm.ngram import row_kernels

        start = 0
        while start < len(values) and self._n <= _MOST_CODES:
            start, self._n = row_kernels.number_values(
                values, start, self._slots, self._values, self._n
            )
            if start < len(values):
                self._values = np.append(self._values, np.zeros_like(self._values))
                self._slots = np.full(4 * len(self._values), -1, np.int32)
                known = self._values[: self._n].copy()
                row_kernels.number_values(known, 0, self._slots, self._values, 0)

    def pays(self, n: int) -> bool:
        """Whether n values take fewer bits as codes."""
        bits = max(self._n - 1, 0).bit_length()
        return 0 < self._n <= _MOST_CODES and bits * n + 32 * self._n < 32 * n

    def values(self) -> npt.NDArray[np.uint32]:
        """Return what the numbers stand for."""
        return self._values[: self._n].copy()

    def codes(self, values: npt.NDArray[np.uint32]) -> Rows:
        """Return the numbers of values, 0 for those that have none."""
        from tacenda_lm.ngram import row_kernels

        found = np.empty(len(values), np.uint64)
        row_kernels.numbers_of(values, self._slots, self._values, found)
        return found


def nearest(values: Float32, codes: Float32) -> Rows:
    """Return the number of the nearest of ascending codes for each value."""
    middles = (codes[1:].astype(np.float64) + codes[:-1]) / 2
    return np.searchsorted(middles, values).astype(np.uint64)


def _paired(integers: npt.NDArray[Any], floats: Float32) -> Rows:
    """Integers below 2^32 and float32 as one column: (n-grams, 1)."""
    return (integers.astype(np.uint64) << _HALF | floats.view(np.uint32))[:, None]


def _first(rows: Rows, start: int) -> Int64:
    """Where what continues each context begins, if what continues the first begins at ``start``."""
    n_after = (rows[:, 0] >> _HALF).astype(np.int64)
    return start + np.cumsum(n_after) - n_after


def _even(blocks: Iterator[Rows]) -> Iterator[Rows]:
    """The same rows in blocks of `_RECORDS`; only the last may be smaller."""
    held: list[Rows] = []
    n_held = 0
    for rows in blocks:
        held.append(rows)
        n_held += len(rows)
        if n_held >= _RECORDS:
            joined = np.concatenate(held)
            whole = n_held - n_held % _RECORDS
            for start in range(0, whole, _RECORDS):
                yield joined[start : start + _RECORDS]
            held, n_held = [joined[whole:]], n_held - whole
    if n_held:
        yield np.concatenate(held)


def _records(fields: list[Rows], widths: Int64, is_last: bool) -> Rows:
    """Records as words (words, 1); after the last one comes a word more, as a field is read from two."""
    from tacenda_lm.ngram import row_kernels

    n_bits = len(fields[0]) * int(widths.sum())
    out = np.zeros(-(-n_bits // 64) + 1, np.uint64)
    row_kernels.pack(np.stack(fields), widths, out)
    return out[: len(out) if is_last else n_bits // 64, None]


def _two_in_a_word(values: npt.NDArray[np.uint32]) -> Rows:
    """Values (values,) as words (words, 1), the first in the lower half."""
    padded = np.append(values, np.zeros(len(values) % 2, np.uint32)).astype(np.uint64)
    return (padded[::2] | padded[1::2] << _HALF)[:, None]
