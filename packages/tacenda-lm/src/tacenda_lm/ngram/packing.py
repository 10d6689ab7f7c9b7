"""`TableWriter`: takes the n-grams of a model order by order and packs them into the words of a `Table`.

What is known of an order comes in two streams: its n-grams and, while the order above is smoothed, its n-grams as
contexts. When both are there, contexts are read once to choose the widths of the fields, and both to write the records.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.kernels.machinery.compiled import njit
from tacenda_lm.ngram.counting import Int64, Scratch, Spool
from tacenda_lm.ngram.rows import Rows
from tacenda_lm.ngram.table import BLOCK, LAYOUT, Table
from tacenda_lm.sequences import Float64

Float32 = npt.NDArray[np.float32]

_RECORDS = 1 << 17  # packed at once: a multiple of 64, so that they fill whole words
_MOST_CODES = 1 << 20  # distinct back-offs, with more they stay float32
_LIST_BITS = 64 * BLOCK  # of the places of a block
_FLAG = np.uint64(1 << 63)
_HALF = np.uint64(32)


class TableWriter:
    """Packs the n-grams of a model as they come, all arrays (n-grams,).

    Parameters
    ----------
    order, n_types
        Of the model.
    scratch
        Where to keep what does not fit into memory.
    codes
        Of each order the values that stand for its log-probabilities, and those for its back-offs, float32 (codes,),
        ascending, where these are to be coarser; see ``compacting``.
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
        """Take the next n-grams of an order: their last words and log p(w_n | w_1 ... w_{n-1}), natural.

        They are sorted by their words, the first word first.
        """
        # the sign is not kept, which the rounding of a certain word's probability may have made positive
        magnitudes = np.maximum(-log_probs.astype(np.float32), np.float32(0))
        self._ngrams[order - 1].append(_pair(words, magnitudes))

    def add_contexts(self, order: int, n_after: Int64, log_backoffs: Float64 | Float32) -> None:
        """Take how many n-grams continue the next n-grams of an order, and their back-offs, natural logarithms."""
        self._contexts[order - 1].append(_pair(n_after, log_backoffs.astype(np.float32)))

    def end_order(self, order: int) -> None:
        """Pack the n-grams of an order, of which all is known."""
        ngrams, contexts = self._ngrams[order - 1], self._contexts[order - 1]
        probs, backoffs = self._codes[order - 1] if self._codes else (None, None)
        word_bits = self._word_bits if order > 1 else 0
        prob_bits = 31 if probs is None else (len(probs) - 1).bit_length()

        def fields_of(rows: Rows) -> list[Rows]:
            """The words and the log-probabilities of n-grams, as they are packed."""
            # the word of a unigram is its place
            words = rows[:, 0] >> _HALF if word_bits else np.zeros(len(rows), np.uint64)
            magnitudes = rows[:, 0].astype(np.uint32)
            if probs is None:
                return [words, magnitudes.astype(np.uint64)]
            return [words, _nearest(-magnitudes.view(np.float32), probs)]

        if order == self._order:
            further = (0, 0, 0, 0)
            widths = np.array([word_bits, prob_bits])
            n_records = 0
            for rows in _even(ngrams()):
                n_records += len(rows)
                self._data.append(_records(fields_of(rows), widths, n_records == ngrams.n_rows))
            if not n_records:
                self._data.append(np.zeros((1, 1), np.uint64))
        else:
            codes, near_bits = _choose_widths(contexts, backoffs)
            widths = np.array([word_bits, prob_bits, codes.bits, near_bits])
            heads: list[Rows] = []
            lists: list[Rows] = []
            n_lists, after, n_records = 0, 0, 0
            ending = [np.zeros((1, 1), np.uint64)]  # the record that ends the order
            pairs = _even(chain(ngrams(), ending)), _even(chain(contexts(), ending))
            for rows, about in zip(*pairs, strict=True):
                n_records += len(rows)
                first = _first_places(about, after)
                after = int(first[-1]) + int(about[-1, 0] >> _HALF)
                filled = np.append(first, np.full(-len(first) % BLOCK, first[-1]))
                places = filled.reshape(-1, BLOCK)
                is_far = places[:, -1] - places[:, 0] >= 1 << near_bits
                near = np.where(is_far[:, None], 0, places - places[:, :1]).ravel()[: len(first)]
                number = (n_lists + np.cumsum(is_far) - 1).astype(np.uint64) | _FLAG
                heads.append(np.where(is_far, number, places[:, 0].astype(np.uint64)))
                lists.append(places[is_far].astype(np.uint64).ravel())
                n_lists += int(is_far.sum())
                coded = codes.encode(about[:, 0].astype(np.uint32))
                fields = [*fields_of(rows), coded, near.astype(np.uint64)]
                self._data.append(_records(fields, widths, n_records == ngrams.n_rows + 1))
            for words in (*heads, *lists):
                self._data.append(words[:, None])
            self._data.append(_two_in_a_word(codes.values))
            further = (codes.bits, near_bits, n_lists, len(codes.values))
        if probs is not None:
            self._data.append(_two_in_a_word(np.resize(probs, 1 << prob_bits).view(np.uint32)))
        self._layout[order - 1] = ngrams.n_rows, prob_bits, *further
        ngrams.remove()
        contexts.remove()

    def finish(self) -> Table:
        """Return the table of all orders."""
        return Table(self._data.whole(), self._layout, self._storage)


def _choose_widths(contexts: Spool, backoffs: Float32 | None) -> tuple[_Codes, int]:
    """Choose how back-offs are coded, as ``backoffs`` if given, and the bits of near places that cost least."""
    codes = _Codes(None if backoffs is None else backoffs.view(np.uint32))
    spans = [np.zeros(1, np.int64)]  # from the first place of each block to its last
    for rows in _even(contexts()):
        first = _first_places(rows, 0)
        starts = np.arange(0, len(rows), BLOCK)
        ends = np.minimum(starts + BLOCK, len(rows)) - 1
        spans.append(first[ends] - first[starts])
        codes.learn(rows[:, 0].astype(np.uint32))
    size, lengths = contexts.n_rows, np.concatenate(spans)
    codes.finish(size)
    costs = [near * size + _LIST_BITS * int((lengths >= 1 << near).sum()) for near in range(49)]
    return codes, int(np.argmin(costs))


class _Codes:
    """What stands for back-offs, float32 given as uint32: numbers of their distinct values, or of values given."""

    def __init__(self, given: npt.NDArray[np.uint32] | None) -> None:
        self._given = given is not None
        self._learned = np.zeros(1 << 10, np.uint32)
        self._slots = np.full(1 << 12, -1, np.int32)
        self._n = 0
        self.values = np.empty(0, np.uint32) if given is None else given

    @property
    def bits(self) -> int:
        return (len(self.values) - 1).bit_length() if len(self.values) else 32

    def learn(self, values: npt.NDArray[np.uint32]) -> None:
        """Number the values that have no number yet, in the order in which they come."""
        start = len(values) if self._given else 0
        while start < len(values) and self._n <= _MOST_CODES:
            start, self._n = _number_values(values, start, self._slots, self._learned, self._n)
            if start < len(values):
                self._learned = np.append(self._learned, np.zeros_like(self._learned))
                self._slots = np.full(4 * len(self._learned), -1, np.int32)
                known = self._learned[: self._n].copy()
                _number_values(known, 0, self._slots, self._learned, 0)

    def finish(self, n: int) -> None:
        """Take the numbers if n values take fewer bits so than as they are."""
        bits = max(self._n - 1, 0).bit_length()
        if 0 < self._n <= _MOST_CODES and bits * n + 32 * self._n < 32 * n:
            self.values = self._learned[: self._n].copy()

    def encode(self, values: npt.NDArray[np.uint32]) -> Rows:
        """Return values as they are packed."""
        if self._given:
            return _nearest(values.view(np.float32), self.values.view(np.float32))
        if not len(self.values):
            return values.astype(np.uint64)
        found = np.empty(len(values), np.uint64)
        _numbers_of(values, self._slots, self._learned, found)
        return found


def _nearest(values: Float32, codes: Float32) -> Rows:
    """Return the number of the nearest of ascending codes for each value."""
    middles = (codes[1:].astype(np.float64) + codes[:-1]) / 2
    return np.searchsorted(middles, values).astype(np.uint64)


def _pair(integers: npt.NDArray[Any], floats: Float32) -> Rows:
    """Integers below 2^32 and float32 as one column: (n-grams, 1)."""
    return (integers.astype(np.uint64) << _HALF | floats.view(np.uint32))[:, None]


def _first_places(rows: Rows, start: int) -> Int64:
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
    n_bits = len(fields[0]) * int(widths.sum())
    out = np.zeros(-(-n_bits // 64) + 1, np.uint64)
    _pack(np.stack(fields), widths, out)
    return out[: len(out) if is_last else n_bits // 64, None]


def _two_in_a_word(values: npt.NDArray[np.uint32]) -> Rows:
    """Values (values,) as words (words, 1), the first in the lower half."""
    padded = np.append(values, np.zeros(len(values) % 2, np.uint32)).astype(np.uint64)
    return (padded[::2] | padded[1::2] << _HALF)[:, None]


@njit
def _pack(fields, widths, out):
    """Write records, each the bits of its fields from the lowest up, one after another into zeros ``out`` (words,).

    ``fields`` are (fields, records), ``widths`` (fields,) their bits.
    """
    at = np.int64(0)
    for i in range(fields.shape[1]):
        for f in range(fields.shape[0]):
            word, shift = at >> 6, at & 63
            out[word] |= fields[f, i] << np.uint64(shift)
            if shift + widths[f] > 64:
                out[word + 1] |= fields[f, i] >> np.uint64(64 - shift)
            at += widths[f]


@njit
def _slot(value, slots, values):
    """The slot that holds the number of a value, or the empty one where it would be."""
    mask = np.uint64(len(slots) - 1)
    at = (np.uint64(value) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)) & mask
    while slots[at] >= 0 and values[slots[at]] != value:
        at = (at + np.uint64(1)) & mask
    return at


@njit
def _number_values(given, start, slots, values, n):
    """Number the values from place ``start`` on that have none of the ``n`` numbers; stop where there is no room.

    ``values`` (numbers,) are what the numbers stand for, and ``slots`` a table of four times as many that finds them.
    Return the place where it stopped, and how many numbers there are.
    """
    for i in range(start, len(given)):
        at = _slot(given[i], slots, values)
        if slots[at] < 0:
            if n == len(values):
                return i, n
            values[n] = given[i]
            slots[at] = n
            n += 1
    return len(given), n


@njit
def _numbers_of(given, slots, values, out):
    """Write the numbers of values, 0 for those that have none."""
    for i in range(len(given)):
        out[i] = max(slots[_slot(given[i], slots, values)], 0)
