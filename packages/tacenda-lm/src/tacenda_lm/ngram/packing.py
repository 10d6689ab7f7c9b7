"""`TableWriter` packs the n-grams of a model, which come order by order, into the words of a `Table`.

What is known of an order comes in two streams: its n-grams and, while the order above is smoothed, its n-grams as
contexts. When both are there, contexts are read once to choose the widths of the fields, and both to write the records.

`prune` and `quantize` make a table smaller: fewer n-grams (entropy pruning), and numbers of fewer bits.

Without the n-gram h w the model has p'(w | h) = alpha'(h) p(w | h'), and the distributions differ by

    D(p || p') = -p(h) { p(w | h) [log p(w | h') + log alpha'(h) - log p(w | h)]
                         + [log alpha'(h) - log alpha(h)] (1 - sum_{v listed after h} p(v | h)) }
    alpha'(h) = (1 - sum_{v listed, v != w} p(v | h)) / (1 - sum_{v listed, v != w} p(v | h'))

(Stolcke, "Entropy-based Pruning of Backoff Language Models", 1998, equations 2 to 6). The perplexity of what the model
itself expects rises by the share exp(D) - 1; n-grams for which this is below a threshold go. p(h) is the product of the
model's own probabilities, ``<s>`` being as probable as ``</s>``, as in SRILM.

Orders are judged from the highest down, each n-gram as if the others stayed. An n-gram stays if one that stays
continues it, and also if one that stays ends in it: look-ups go from shorter to longer n-grams. (SRILM drops the
latter; its files are completed when they are read.) The back-offs of contexts that lost n-grams are computed again.

A table of few bits has 2^bits values for the log-probabilities of each order, and as many for its back-offs. They
begin as the means of bins that hold equally many values (Federico and Bertoldi 2006, "How many bits are needed to
store probabilities for phrase-based translation?", as in KenLM) and are moved to the means of what is nearest to them
until this changes little (Lloyd's algorithm), which makes the squared error of the logarithms least. A back-off of
zero, which most n-grams that nothing continues have, stays exact. Distributions no longer sum to one exactly.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.kernels.machinery.compiled import njit
from tacenda_lm.ngram.columns import BLOCK, SIZE
from tacenda_lm.ngram.counting import Int64, Rows, Scratch, Spool, default_budget
from tacenda_lm.ngram.lookup import at_or_after, backoff, first_after, log_prob, word_of
from tacenda_lm.ngram.table import LAYOUT, Table
from tacenda_lm.sequences import Float64, rechunk

Float32 = npt.NDArray[np.float32]

_RECORDS = 1 << 17  # packed at once: a multiple of 64, so that they fill whole words
_MOST_CODES = 1 << 20  # distinct back-offs, with more they stay float32
_LIST_BITS = 64 * BLOCK  # of the places of a block
_ROUNDS = 20  # of Lloyd's algorithm
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
        ascending, where these are to be coarser; see `quantize`.
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
        """Pack the n-grams of an order, once all about them is known."""
        ngrams, contexts = self._ngrams[order - 1], self._contexts[order - 1]
        probs, backoffs = self._codes[order - 1] if self._codes else (None, None)
        prob_bits = 31 if probs is None else (len(probs) - 1).bit_length()
        is_inner = order < self._order
        widths = [self._word_bits if order > 1 else 0, prob_bits]
        if is_inner:
            backoffs, near_bits = _choose_widths(contexts, backoffs)
            widths += [32 if backoffs is None else (len(backoffs) - 1).bit_length(), near_bits]
        ending = [np.zeros((1, 1), np.uint64)] if is_inner else []  # the record that ends the order
        size = ngrams.n_rows + is_inner
        contexts_of = rechunk(chain(contexts(), ending), _RECORDS)
        blocks: list[Rows] = []
        lists: list[Rows] = []
        n_lists = after = done = 0
        for rows in rechunk(chain(ngrams(), ending), _RECORDS):
            # the word of a unigram is its place
            words = rows[:, 0] >> _HALF if order > 1 else np.zeros(len(rows), np.uint64)
            magnitudes = rows[:, 0].astype(np.uint32).view(np.float32)
            fields = [words, _encode(magnitudes if probs is None else -magnitudes, probs)]
            if is_inner:
                first, own = _split_contexts(next(contexts_of), after)
                after = int(first[-1])
                first = first[:-1]
                whole = np.append(first, np.full(-len(first) % BLOCK, first[-1]))
                places = whole.reshape(-1, BLOCK)
                is_far = places[:, -1] - places[:, 0] >= 1 << near_bits
                near = np.where(is_far[:, None], 0, places - places[:, :1]).ravel()[: len(first)]
                number = (n_lists + np.cumsum(is_far) - 1).astype(np.uint64) | _FLAG
                blocks.append(np.where(is_far, number, places[:, 0].astype(np.uint64)))
                lists.append(places[is_far].astype(np.uint64).ravel())
                n_lists += int(is_far.sum())
                fields += [_encode(own, backoffs), near.astype(np.uint64)]
            done += len(rows)
            # after the last record comes a word more, as a field is read from two
            n_bits = len(rows) * sum(widths)
            out = np.zeros(-(-n_bits // 64) + 1, np.uint64)
            _pack(np.stack(fields), np.array(widths), out)
            self._data.append(out[: len(out) if done == size else n_bits // 64, None])
        if not size:
            self._data.append(np.zeros((1, 1), np.uint64))
        for part in (*blocks, *lists):
            self._data.append(part[:, None])
        n_codes = 0
        if is_inner and backoffs is not None:
            n_codes = len(backoffs)
            self._data.append(_pack_halves(backoffs))
        if probs is not None:
            self._data.append(_pack_halves(np.resize(probs, 1 << prob_bits)))
        widths += [0] * (4 - len(widths))
        self._layout[order - 1] = ngrams.n_rows, *widths[1:], n_lists, n_codes
        ngrams.remove()
        contexts.remove()

    def finish(self) -> Table:
        """Return the table of all orders."""
        return Table(self._data.read_whole(), self._layout, self._storage)


def _choose_widths(contexts: Spool, codes: Float32 | None) -> tuple[Float32 | None, int]:
    """Return the codes of back-offs, None to keep them as they are, and the bits of near places that cost least."""
    is_open = codes is None
    found = np.empty(0, np.float32)
    spans = [np.zeros(1, np.int64)]  # from the first place of each block to its last
    for rows in rechunk(contexts(), _RECORDS):
        first, backoffs = _split_contexts(rows, 0)
        starts = np.arange(0, len(rows), BLOCK)
        spans.append(first[np.minimum(starts + BLOCK, len(rows)) - 1] - first[starts])
        if is_open and len(found) <= _MOST_CODES:
            found = np.union1d(found, backoffs)
    size, lengths = contexts.n_rows, np.concatenate(spans)
    bits = max(len(found) - 1, 0).bit_length()
    if 0 < len(found) <= _MOST_CODES and bits * size + 32 * len(found) < 32 * size:
        codes = found
    # every record has the bits of a near place; a block that needs more has a list of whole places besides
    costs = [near * size + _LIST_BITS * int((lengths >= 1 << near).sum()) for near in range(49)]
    return codes, int(np.argmin(costs))


def _split_contexts(rows: Rows, start: int) -> tuple[Int64, Float32]:
    """Return where what continues each context begins, from ``start`` on, and where the last ends; and back-offs."""
    n_after = (rows[:, 0] >> _HALF).astype(np.int64)
    places = start + np.concatenate([[0], np.cumsum(n_after)])
    return places, rows[:, 0].astype(np.uint32).view(np.float32)


def _encode(values: Float32, codes: Float32 | None) -> Rows:
    """Return the number of the nearest of ascending codes for each value, or without codes its bits."""
    if codes is None:
        return values.view(np.uint32).astype(np.uint64)
    # in float64 the middle of two neighbors is between them, so that a code stands for itself exactly
    middles = (codes[1:].astype(np.float64) + codes[:-1]) / 2
    return np.searchsorted(middles, values).astype(np.uint64)


def _pair(integers: npt.NDArray[Any], floats: Float32) -> Rows:
    """Return integers below 2^32 and float32 as one column: (n-grams, 1)."""
    return (integers.astype(np.uint64) << _HALF | floats.view(np.uint32))[:, None]


def _pack_halves(values: Float32) -> Rows:
    """Return values (values,) as words (words, 1), the first in the lower half."""
    padded = np.append(values, np.zeros(len(values) % 2, np.float32))
    halves = padded.view(np.uint32).astype(np.uint64)
    return (halves[::2] | halves[1::2] << _HALF)[:, None]


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


# -- smaller tables ----------------------------------------------------------------------------------


class _Contexts(NamedTuple):
    """Values that pruning needs about the n-grams of an order below the highest, arrays (n-grams,)."""

    suffix: Int64  # the place of each without its first word
    log_prob: Float64  # log p(w_1 ... w_n)
    kept: npt.NDArray[np.bool_]
    backoff: Float32  # with the n-grams that are kept


def prune(table: Table, threshold: float) -> Table:
    """Return the table without the n-grams whose absence raises the perplexity by a share below ``threshold``."""
    orders = [
        _Contexts(
            np.zeros(n, np.int64), np.empty(n), np.full(n, not i, bool), np.empty(n, np.float32)
        )
        for i, n in enumerate(table.sizes)
    ]
    orders[0].log_prob[:] = table.unpack(1).log_prob
    for n in range(table.order - 2):
        _descend(*table.arguments, n, orders[n], orders[n + 1])
    # an n-gram that is needed by a longer one is marked as kept before its order is judged
    for n in range(table.order - 2, -1, -1):
        _judge(*table.arguments, n, threshold, orders[n], orders[n + 1].kept)
    writer = TableWriter(table.order, table.n_types, Scratch(default_budget()))
    for n in range(1, table.order + 1):
        for begin, end in table.blocks(n):
            found, stays = table.unpack(n, begin, end), orders[n - 1].kept[begin:end]
            writer.add_ngrams(n, found.word[stays], found.log_prob[stays])
            if n < table.order:
                n_after = np.empty(end - begin, np.int64)
                _count_kept(*table.arguments, n - 1, begin, orders[n].kept, n_after)
                own = orders[n - 1].backoff[begin:end]
                writer.add_contexts(n, n_after[stays], own[stays])
        writer.end_order(n)
    return writer.finish()


def quantize(table: Table, bits: int) -> Table:
    """Return the same n-grams with log-probabilities and back-offs of ``bits`` bits."""
    codes = []  # the values of an order's log-probabilities and back-offs, ascending
    for n in range(1, table.order + 1):
        found = table.unpack(n)
        nonzero = _choose_means(found.backoff[found.backoff != 0], (1 << bits) - 1)
        of_probs = _choose_means(found.log_prob, 1 << bits)
        codes.append((of_probs, np.unique(np.append(nonzero, np.float32(0)))))
    writer = TableWriter(table.order, table.n_types, Scratch(default_budget()), codes)
    for n in range(1, table.order + 1):
        for block in table.blocks(n):
            found = table.unpack(n, *block)
            writer.add_ngrams(n, found.word, found.log_prob)
            if n < table.order:
                writer.add_contexts(n, found.n_after, found.backoff)
        writer.end_order(n)
    return writer.finish()


def _choose_means(values: Float32, n: int) -> Float32:
    """At most n values, ascending, and at least two, that represent all; -inf is kept."""
    ordered = np.sort(values[np.isfinite(values)]).astype(np.float64)
    if len(ordered) < len(values):
        return np.append(np.float32(-np.inf), _choose_means(ordered.astype(np.float32), n - 1))
    if len(ordered) < 2:
        return np.array([*ordered, 0.0] if len(ordered) else [-1.0, 0.0], np.float32)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    cuts = np.linspace(0, len(ordered), n + 1).astype(np.int64)
    for _ in range(_ROUNDS):
        cuts = np.unique(cuts)
        means = np.diff(sums[cuts]) / np.diff(cuts)
        inner = np.searchsorted(ordered, (means[1:] + means[:-1]) / 2)
        cuts = np.concatenate([[0], inner, [len(ordered)]])
    found = np.unique(means.astype(np.float32))
    return found if len(found) > 1 else np.append(found, found + np.float32(1e-3))


# -- compiled loops of pruning; order n has n-grams of n + 1 words here ----------------------------------


@njit
def _find_continuations(data, shape, n, node, suffix):
    """The range of n-grams of order n that continue a context of order n without its first word."""
    if n == 0:
        return np.int64(0), shape[0, SIZE]
    own = suffix[node]
    return first_after(data, shape, n - 1, own), first_after(data, shape, n - 1, own + 1)


@njit
def _descend(data, shape, n, own, above):
    """Write the suffixes and the log-probabilities of order n + 1 into ``above``; ``own`` has the suffixes of order n.

    What follows a context and what follows it without its first word are both sorted, and compared word by word.
    """
    for node in range(shape[n, SIZE]):
        begin, end = _find_continuations(data, shape, n, node, own.suffix)
        for place in range(
            first_after(data, shape, n, node), first_after(data, shape, n, node + 1)
        ):
            begin = at_or_after(data, shape, n, begin, end, word_of(data, shape, n + 1, place))
            above.suffix[place] = begin
            above.log_prob[place] = own.log_prob[node] + log_prob(data, shape, n + 1, place)


@njit
def _judge(data, shape, n, threshold, contexts, kept):
    """Say which n-grams of order n + 1 stay, and write the back-offs of their contexts.

    ``kept`` holds those that longer ones need, and becomes all that stay; those that they need are marked likewise in
    ``contexts``.
    """
    for node in range(shape[n, SIZE]):
        first, last = first_after(data, shape, n, node), first_after(data, shape, n, node + 1)
        own = np.float64(backoff(data, shape, n, node))
        contexts.backoff[node] = own
        if first == last:
            continue
        low, high = _find_continuations(data, shape, n, node, contexts.suffix)
        below = 0.0
        begin = low
        for place in range(first, last):
            begin = at_or_after(data, shape, n, begin, high, word_of(data, shape, n + 1, place))
            below += np.exp(np.float64(log_prob(data, shape, n, begin)))
        rest = 1 - below
        free = np.exp(own) * rest  # what is left for words that are not listed, as the model has it
        gone = gone_below = 0.0
        begin = low
        for place in range(first, last):
            begin = at_or_after(data, shape, n, begin, high, word_of(data, shape, n + 1, place))
            log_here = np.float64(log_prob(data, shape, n + 1, place))
            log_below = np.float64(log_prob(data, shape, n, begin))
            here, there = np.exp(log_here), np.exp(log_below)
            if not kept[place] and rest > 1e-9 and free > 0:
                changed = np.log(free + here) - np.log(rest + there)
                divergence = -np.exp(contexts.log_prob[node]) * (
                    here * (log_below + changed - log_here) + (changed - own) * free
                )
                if np.expm1(divergence) < threshold:
                    gone += here
                    gone_below += there
                    continue
            kept[place] = True
            contexts.kept[node] = True
            contexts.kept[begin] = True
        if gone > 0:
            contexts.backoff[node] = np.log(free + gone) - np.log(rest + gone_below)


@njit
def _count_kept(data, shape, n, begin, kept, n_after):
    """Write how many kept n-grams continue each of order n from place ``begin`` on."""
    for i in range(len(n_after)):
        n_after[i] = 0
        for place in range(
            first_after(data, shape, n, begin + i), first_after(data, shape, n, begin + i + 1)
        ):
            n_after[i] += kept[place]
