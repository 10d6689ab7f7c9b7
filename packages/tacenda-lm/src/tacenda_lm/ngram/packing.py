"""`TableWriter` packs the n-grams of a model, which come order by order, into the words of a `Table`.

The numbers of an order come in two streams: its n-grams and, while the next order is smoothed, its n-grams as contexts.
When both are complete, contexts are read once to choose the widths of the fields, and both to write the records.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.kernels.machinery.compiled import njit
from tacenda.offsets import rechunk
from tacenda_lm.ngram import BLOCK, EXACT_BACKOFF, EXACT_PROB
from tacenda_lm.ngram.rows import Int64, Rows
from tacenda_lm.ngram.spooling import Scratch, Spool
from tacenda_lm.ngram.table import LAYOUT, Table
from tacenda_lm.sequences import Float64

Float32 = npt.NDArray[np.float32]

_RECORDS_AT_ONCE = 1 << 17  # a multiple of 64, so that they fill whole words
_MAX_CODES = 1 << 20  # with more distinct back-offs they stay float32
_MAX_PLACE_BITS = 48  # of a near place: no order has more n-grams than it can count
_LIST_BITS = 64 * BLOCK  # of the places of a block
_FLAG = np.uint64(1 << 63)
_HALF = np.uint64(32)


class TableWriter:
    """Packs the n-grams of a model as they come, all arrays (n-grams,).

    Parameters
    ----------
    order, n_types
        Order of the model, and size of its vocabulary.
    scratch
        The memory budget, and the folder for what exceeds it.
    codes
        For a quantized table: of each order the values of its log-probabilities and of its back-offs, both float32
        (codes,), ascending. Numbers become the nearest value. See `quantize`.
    """

    def __init__(
        self,
        order: int,
        n_types: int,
        scratch: Scratch,
        codes: list[tuple[Float32, Float32]] | None = None,
    ) -> None:
        self._order, self._word_bits, self._codes = order, (n_types - 1).bit_length(), codes
        # the folder of the table, which outlives that of ``scratch``
        self._storage = Scratch(scratch.budget)
        self._data = Spool(self._storage, 1)
        self._ngrams = [Spool(scratch, 1) for _ in range(order)]
        self._contexts = [Spool(scratch, 1) for _ in range(order)]
        self._layout = np.zeros((order, len(LAYOUT)), np.int64)

    def add_ngrams(self, order: int, words: npt.NDArray[Any], log_probs: Float64 | Float32) -> None:
        """Add the next n-grams of an order: their last words, and log p(w_n | w_1 ... w_{n-1}), natural.

        They must be sorted by their words, the first word first.
        """
        # tables store no sign: the logarithm of a probability of one may have been rounded to above zero
        magnitudes = np.maximum(-log_probs.astype(np.float32), np.float32(0))
        self._ngrams[order - 1].append(_pair(words, magnitudes))

    def add_contexts(self, order: int, n_after: Int64, log_backoffs: Float64 | Float32) -> None:
        """Add, for the next n-grams of an order, how many n-grams continue them, and their natural log back-offs."""
        self._contexts[order - 1].append(_pair(n_after, log_backoffs.astype(np.float32)))

    def end_order(self, order: int) -> None:
        """Pack the n-grams of an order, all of which were added as n-grams and as contexts."""
        ngrams, contexts = self._ngrams[order - 1], self._contexts[order - 1]
        probs, backoffs = self._codes[order - 1] if self._codes else (None, None)
        # the word of a unigram is its place
        widths = [self._word_bits if order > 1 else 0, _count_bits(probs, EXACT_PROB), 0, 0]
        if order < self._order:
            backoffs, widths[3] = _choose_widths(contexts, backoffs)
            widths[2] = _count_bits(backoffs, EXACT_BACKOFF)
        else:
            backoffs = None
        places = _PlaceIndex(widths[3])
        self._write_records(self._encode_fields(order, probs, backoffs, places), widths)
        for part in (*places.blocks, *places.lists):
            self._data.append(part[:, None])
        if backoffs is not None:
            self._data.append(_pack_halves(backoffs))
        if probs is not None:
            # readers find the end of these values from the bits of a code alone: repeat some, up to a power of two
            self._data.append(_pack_halves(np.resize(probs, 1 << widths[1])))
        n_codes = 0 if backoffs is None else len(backoffs)
        self._layout[order - 1] = ngrams.n_rows, *widths[1:], places.n_lists, n_codes
        ngrams.remove()
        contexts.remove()

    def _encode_fields(
        self, order: int, probs: Float32 | None, backoffs: Float32 | None, places: _PlaceIndex
    ) -> Iterator[Rows]:
        """Yield the fields (fields, records) of the records of an order, a multiple of 64 records but for the last."""
        is_inner = order < self._order
        ending = [np.zeros((1, 1), np.uint64)] if is_inner else []  # the record that ends the order
        contexts = rechunk(chain(self._contexts[order - 1](), ending), _RECORDS_AT_ONCE)
        after = 0
        for rows in rechunk(chain(self._ngrams[order - 1](), ending), _RECORDS_AT_ONCE):
            words = rows[:, 0] >> _HALF if order > 1 else np.zeros(len(rows), np.uint64)
            magnitudes = rows[:, 0].astype(np.uint32).view(np.float32)
            fields = [words, _encode(magnitudes if probs is None else -magnitudes, probs)]
            if is_inner:
                first, log_backoffs = _split_contexts(next(contexts), after)
                after = int(first[-1])
                fields += [_encode(log_backoffs, backoffs), places.add(first[:-1])]
            yield np.stack(fields)

    def _write_records(self, blocks: Iterable[Rows], widths: list[int]) -> None:
        """Write records as fields of these ``widths`` in bits, without gaps."""
        rest = np.zeros(1, np.uint64)  # one more word follows, as fields are read from two words
        for fields in blocks:
            n_bits = fields.shape[1] * sum(widths)
            out = np.zeros(-(-n_bits // 64) + 1, np.uint64)
            _pack(fields, np.array(widths), out)
            self._data.append(out[: n_bits // 64, None])
            rest = out[n_bits // 64 :]
        self._data.append(rest[:, None])

    def finish(self) -> Table:
        """Return the table of all orders."""
        return Table(self._data.read_whole(), self._layout, self._storage)


class _PlaceIndex:
    """The places where the n-grams that continue each context begin: numbers of blocks, and lists (see `Table`)."""

    def __init__(self, near_bits: int) -> None:
        self._near_bits = near_bits
        self.blocks: list[Rows] = []
        self.lists: list[Rows] = []
        self.n_lists = 0

    def add(self, first: Int64) -> Rows:
        """Add the places ``first`` (contexts,) of whole blocks; return their distances to that of their block."""
        padded = np.append(first, np.full(-len(first) % BLOCK, first[-1]))
        places = padded.reshape(-1, BLOCK)
        is_far = places[:, -1] - places[:, 0] >= 1 << self._near_bits
        number = (self.n_lists + np.cumsum(is_far) - 1).astype(np.uint64) | _FLAG
        self.blocks.append(np.where(is_far, number, places[:, 0].astype(np.uint64)))
        self.lists.append(places[is_far].astype(np.uint64).ravel())
        self.n_lists += int(is_far.sum())
        near = np.where(is_far[:, None], 0, places - places[:, :1]).ravel()[: len(first)]
        return near.astype(np.uint64)


def _choose_widths(contexts: Spool, codes: Float32 | None) -> tuple[Float32 | None, int]:
    """Return the codes of back-offs, None to store float32, and the bits of near places that take the least memory.

    Given ``codes`` stay as they are.
    """
    is_open = codes is None
    distinct = np.empty(0, np.float32)
    spans = [np.zeros(1, np.int64)]  # from the first place of each block to its last
    for rows in rechunk(contexts(), _RECORDS_AT_ONCE):
        first, backoffs = _split_contexts(rows, 0)
        starts = np.arange(0, len(rows), BLOCK)
        spans.append(first[np.minimum(starts + BLOCK, len(rows)) - 1] - first[starts])
        if is_open and len(distinct) <= _MAX_CODES:
            distinct = np.union1d(distinct, backoffs)
    size, lengths = contexts.n_rows, np.concatenate(spans)
    bits = max(len(distinct) - 1, 0).bit_length()
    coded, exact = bits * size + EXACT_BACKOFF * len(distinct), EXACT_BACKOFF * size  # in bits
    if 0 < len(distinct) <= _MAX_CODES and coded < exact:
        codes = distinct
    # every record has the bits of a near place, and a block that needs more has also a list of whole places
    costs = [
        near * size + _LIST_BITS * int((lengths >= 1 << near).sum())
        for near in range(_MAX_PLACE_BITS + 1)
    ]
    return codes, int(np.argmin(costs))


def _count_bits(codes: Float32 | None, uncoded: int) -> int:
    """Return the bits of the number of a code; ``uncoded`` where numbers are stored themselves."""
    return uncoded if codes is None else (len(codes) - 1).bit_length()


def _split_contexts(rows: Rows, start: int) -> tuple[Int64, Float32]:
    """Return the places where the n-grams that continue each context begin, (contexts + 1,), and the back-offs.

    The first place is ``start``, and the last is the end.
    """
    n_after = (rows[:, 0] >> _HALF).astype(np.int64)
    places = start + np.concatenate([[0], np.cumsum(n_after)])
    return places, rows[:, 0].astype(np.uint32).view(np.float32)


def _encode(values: Float32, codes: Float32 | None) -> Rows:
    """Return the number of the nearest of ascending codes for each value, or the value's bits if there are no codes."""
    if codes is None:
        return values.view(np.uint32).astype(np.uint64)
    # in float64 the middle of two neighbors is strictly between them, so that a code is its own nearest
    middles = (codes[1:].astype(np.float64) + codes[:-1]) / 2
    # most back-offs are that of the n-gram before: equal neighbors are searched once
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    numbers = np.searchsorted(middles, values[starts]).astype(np.uint64)
    return np.repeat(numbers, np.diff(starts, append=len(values)))


def _pair(integers: npt.NDArray[Any], floats: Float32) -> Rows:
    """Join integers below 2^32, as upper halves, and float32 to one column: (n-grams, 1)."""
    return (integers.astype(np.uint64) << _HALF | floats.view(np.uint32))[:, None]


def _pack_halves(values: Float32) -> Rows:
    """Join pairs of values to words (words, 1), the first in the lower half."""
    padded = np.append(values, np.zeros(len(values) % 2, np.float32))
    halves = padded.view(np.uint32).astype(np.uint64)
    return (halves[::2] | halves[1::2] << _HALF)[:, None]


@njit
def _pack(fields, widths, out):
    """Write records one after another into zeros ``out`` (words,); a record is its fields from the lowest bit up.

    ``fields`` is (fields, records), and ``widths`` (fields,) are their bits.
    """
    at = np.int64(0)
    for i in range(fields.shape[1]):
        for f in range(fields.shape[0]):
            word, shift = at >> 6, at & 63
            out[word] |= fields[f, i] << np.uint64(shift)
            if shift + widths[f] > 64:
                out[word + 1] |= fields[f, i] >> np.uint64(64 - shift)
            at += widths[f]
