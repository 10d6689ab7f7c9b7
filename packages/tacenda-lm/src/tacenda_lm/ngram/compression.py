"""`prune` and `quantize` make a table smaller: fewer n-grams (entropy pruning), and numbers of fewer bits.

Without the n-gram h w the model has p'(w | h) = alpha'(h) p(w | h'), and the distributions differ by

    D(p || p') = -p(h) { p(w | h) [log p(w | h') + log alpha'(h) - log p(w | h)]
                         + [log alpha'(h) - log alpha(h)] (1 - sum_{v listed after h} p(v | h)) }
    alpha'(h) = (1 - sum_{v listed, v != w} p(v | h)) / (1 - sum_{v listed, v != w} p(v | h'))

(Stolcke, "Entropy-based Pruning of Backoff Language Models", 1998, equations 2 to 6). The perplexity that the model
itself expects rises by the share exp(D) - 1; n-grams for which this is below a threshold are removed. p(h) is the
product of the model's own probabilities, ``<s>`` being as probable as ``</s>``, as in SRILM.

Orders are pruned from the highest down, and each n-gram is judged as if the others stayed. Look-ups go from shorter to
longer n-grams, so an n-gram also stays if one that stays continues it or ends in it. (SRILM drops the latter; its files
are completed when they are read.) The back-offs of contexts that lost n-grams are computed again.

A quantized table has 2^bits values for the log-probabilities of each order, and as many for its back-offs. They begin
as the means of bins that hold equally many numbers (Federico and Bertoldi 2006, "How many bits are needed to store
probabilities for phrase-based translation?", as in KenLM). Twenty rounds of Lloyd's algorithm then move each to the
mean of the numbers nearest to it. Back-offs of zero, which most n-grams that nothing continues have, stay exact. The
distributions no longer sum to one exactly.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.kernels.machinery.compiled import njit
from tacenda_lm.ngram import SIZE
from tacenda_lm.ngram.lookup import backoff, first_after, log_prob, word_of
from tacenda_lm.ngram.packing import Float32, TableWriter
from tacenda_lm.ngram.rows import Int64
from tacenda_lm.ngram.spooling import Scratch, default_budget
from tacenda_lm.ngram.table import Table
from tacenda_lm.ngram.traversal import at_or_after
from tacenda_lm.sequences import Float64

_LLOYD_ROUNDS = 20


class _Contexts(NamedTuple):
    """Arrays (n-grams,) about the n-grams of an order that pruning needs."""

    suffix: Int64  # the place of each n-gram without its first word
    log_prob: Float64  # log p(w_1 ... w_n), natural
    kept: npt.NDArray[np.bool_]  # whether it stays
    backoff: Float32  # after pruning


def make_smaller(table: Table, threshold: float, bits: int | None) -> Table:
    """Prune the table, unless ``threshold`` is 0, and round its numbers to ``bits``, unless these are None."""
    if threshold:
        table = prune(table, threshold)
    return table if bits is None else quantize(table, bits)


def prune(table: Table, threshold: float) -> Table:
    """Return the table without the n-grams whose removal raises the perplexity by a share below ``threshold``."""
    orders = [
        _Contexts(
            np.zeros(n, np.int64), np.empty(n), np.full(n, not i, bool), np.empty(n, np.float32)
        )
        for i, n in enumerate(table.sizes)
    ]
    orders[0].log_prob[:] = table.unpack(1).log_prob
    for n in range(table.order - 2):
        _find_suffixes(*table.arguments, n, orders[n], orders[n + 1])
    # n-grams that a longer one needs are marked as kept before their own order is pruned
    for n in range(table.order - 2, -1, -1):
        _prune_order(*table.arguments, n, threshold, orders[n], orders[n + 1].kept)
    writer = TableWriter(table.order, table.n_types, Scratch(default_budget()))
    for n in range(1, table.order + 1):
        for begin, end in table.blocks(n):
            block, kept = table.unpack(n, begin, end), orders[n - 1].kept[begin:end]
            writer.add_ngrams(n, block.word[kept], block.log_prob[kept])
            if n < table.order:
                n_after = np.empty(end - begin, np.int64)
                _count_kept(*table.arguments, n - 1, begin, orders[n].kept, n_after)
                writer.add_contexts(n, n_after[kept], orders[n - 1].backoff[begin:end][kept])
        writer.end_order(n)
    return writer.finish()


def quantize(table: Table, bits: int) -> Table:
    """Return a table of the same n-grams with log-probabilities and back-offs of ``bits`` bits."""
    codes = []  # of each order the values of log-probabilities and of back-offs, ascending
    for n in range(1, table.order + 1):
        whole = table.unpack(n)
        nonzero = _choose_values(whole.backoff[whole.backoff != 0], (1 << bits) - 1)
        backoffs = np.unique(np.append(nonzero, np.float32(0)))
        codes.append((_choose_values(whole.log_prob, 1 << bits), backoffs))
    writer = TableWriter(table.order, table.n_types, Scratch(default_budget()), codes)
    for n in range(1, table.order + 1):
        for begin, end in table.blocks(n):
            block = table.unpack(n, begin, end)
            writer.add_ngrams(n, block.word, block.log_prob)
            if n < table.order:
                writer.add_contexts(n, block.n_after, block.backoff)
        writer.end_order(n)
    return writer.finish()


def _choose_values(numbers: Float32, n: int) -> Float32:
    """Choose 2 to ``n`` values, ascending, that represent numbers with little squared error; -inf is exact.

    ``n`` is at least 3, or at least 2 if all numbers are finite.
    """
    ordered = np.sort(numbers[np.isfinite(numbers)]).astype(np.float64)
    if len(ordered) < len(numbers):
        return np.append(np.float32(-np.inf), _choose_values(ordered.astype(np.float32), n - 1))
    if not len(ordered):
        return np.array([-1.0, 0.0], np.float32)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    cuts = np.linspace(0, len(ordered), n + 1).astype(np.int64)
    for _ in range(_LLOYD_ROUNDS):
        cuts = np.unique(cuts)
        means = np.diff(sums[cuts]) / np.diff(cuts)
        inner = np.searchsorted(ordered, (means[1:] + means[:-1]) / 2)
        cuts = np.concatenate([[0], inner, [len(ordered)]])
    values = np.unique(means.astype(np.float32))
    return values if len(values) > 1 else np.append(values, values + np.float32(1e-3))


# -- compiled loops of pruning; order n has n-grams of n + 1 words here --------------------------------


@njit
def _find_continuations(data, shape, n, node, suffix):
    """Return the range of n-grams of order n that continue the context ``node`` of order n without its first word."""
    if n == 0:
        return np.int64(0), shape[0, SIZE]
    shorter = suffix[node]
    return first_after(data, shape, n - 1, shorter), first_after(data, shape, n - 1, shorter + 1)


@njit
def _find_suffixes(data, shape, n, contexts, longer):
    """Write the suffixes and the log-probabilities of order n + 1 into ``longer``, from those of order n.

    The words after a context and those after it without its first word are both sorted, and compared in one pass.
    """
    for node in range(shape[n, SIZE]):
        begin, end = _find_continuations(data, shape, n, node, contexts.suffix)
        for place in range(
            first_after(data, shape, n, node), first_after(data, shape, n, node + 1)
        ):
            begin = at_or_after(data, shape, n, begin, end, word_of(data, shape, n + 1, place))
            longer.suffix[place] = begin
            longer.log_prob[place] = contexts.log_prob[node] + log_prob(data, shape, n + 1, place)


@njit
def _prune_order(data, shape, n, threshold, contexts, kept):
    """Decide which n-grams of order n + 1 stay, and write the back-offs of their contexts.

    ``kept`` has the n-grams that longer ones need; those that stay are added, and the n-grams of order n that they need
    are added to ``contexts.kept``.
    """
    for node in range(shape[n, SIZE]):
        first, last = first_after(data, shape, n, node), first_after(data, shape, n, node + 1)
        log_alpha = np.float64(backoff(data, shape, n, node))
        contexts.backoff[node] = log_alpha
        if first == last:
            continue
        low, high = _find_continuations(data, shape, n, node, contexts.suffix)
        below = 0.0
        begin = low
        for place in range(first, last):
            begin = at_or_after(data, shape, n, begin, high, word_of(data, shape, n + 1, place))
            below += np.exp(np.float64(log_prob(data, shape, n, begin)))
        rest = 1 - below
        free = np.exp(log_alpha) * rest  # the probability of all words that are not listed
        removed = removed_below = 0.0
        begin = low
        for place in range(first, last):
            begin = at_or_after(data, shape, n, begin, high, word_of(data, shape, n + 1, place))
            log_here = np.float64(log_prob(data, shape, n + 1, place))
            log_below = np.float64(log_prob(data, shape, n, begin))
            p_here, p_below = np.exp(log_here), np.exp(log_below)
            if not kept[place] and rest > 1e-9 and free > 0:
                new_alpha = np.log(free + p_here) - np.log(rest + p_below)
                divergence = -np.exp(contexts.log_prob[node]) * (
                    p_here * (log_below + new_alpha - log_here) + (new_alpha - log_alpha) * free
                )
                if np.expm1(divergence) < threshold:
                    removed += p_here
                    removed_below += p_below
                    continue
            kept[place] = True
            contexts.kept[node] = True
            contexts.kept[begin] = True
        if removed > 0:
            contexts.backoff[node] = np.log(free + removed) - np.log(rest + removed_below)


@njit
def _count_kept(data, shape, n, begin, kept, n_after):
    """Write how many kept n-grams continue each n-gram of order n from place ``begin`` on."""
    for i in range(len(n_after)):
        n_after[i] = 0
        for place in range(
            first_after(data, shape, n, begin + i), first_after(data, shape, n, begin + i + 1)
        ):
            n_after[i] += kept[place]
