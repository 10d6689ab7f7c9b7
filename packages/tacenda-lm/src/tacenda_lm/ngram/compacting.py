"""Smaller forms of a table: fewer n-grams (entropy pruning), and numbers of fewer bits (quantization).

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

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.kernels.machinery.compiled import njit
from tacenda_lm.ngram.counting import Int64, Scratch, default_budget
from tacenda_lm.ngram.lookup import SIZE, at_or_after, backoff, first_after, log_prob, word_of
from tacenda_lm.ngram.packing import Float32, TableWriter
from tacenda_lm.ngram.table import Table
from tacenda_lm.sequences import Float64

_ROUNDS = 20  # of Lloyd's algorithm


class _Contexts(NamedTuple):
    """What pruning knows of the n-grams of an order below the highest, arrays (n-grams,)."""

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
    orders[0].log_prob[:] = table.unpacked(1).log_prob
    for n in range(table.order - 2):
        _descend(*table.arguments, n, orders[n], orders[n + 1])
    # an n-gram that is needed by a longer one is marked as kept before its order is judged
    for n in range(table.order - 2, -1, -1):
        _judge(*table.arguments, n, threshold, orders[n], orders[n + 1].kept)
    with Scratch(default_budget()) as scratch:
        writer = TableWriter(table.order, table.n_types, scratch)
        for n in range(1, table.order + 1):
            for begin, end in table.blocks(n):
                found, stays = table.unpacked(n, begin, end), orders[n - 1].kept[begin:end]
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
    codes = [_choose_codes(table, n, bits) for n in range(1, table.order + 1)]
    with Scratch(default_budget()) as scratch:
        writer = TableWriter(table.order, table.n_types, scratch, codes)
        for n in range(1, table.order + 1):
            for block in table.blocks(n):
                found = table.unpacked(n, *block)
                writer.add_ngrams(n, found.word, found.log_prob)
                if n < table.order:
                    writer.add_contexts(n, found.n_after, found.backoff)
            writer.end_order(n)
        return writer.finish()


def _choose_codes(table: Table, order: int, bits: int) -> tuple[Float32, Float32]:
    """The values of an order's log-probabilities and back-offs, ascending."""
    found = table.unpacked(order)
    nonzero = _means(found.backoff[found.backoff != 0], (1 << bits) - 1)
    return _means(found.log_prob, 1 << bits), np.unique(np.append(nonzero, np.float32(0)))


def _means(values: Float32, n: int) -> Float32:
    """At most n values, ascending, and at least two, that stand for all."""
    ordered = np.sort(values).astype(np.float64)
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
def _below(data, shape, n, node, suffix):
    """The range of n-grams of order n that continue a context of order n without its first word."""
    if n == 0:
        return np.int64(0), shape[0, SIZE]
    own = suffix[node]
    return first_after(data, shape, n - 1, own), first_after(data, shape, n - 1, own + 1)


@njit
def _descend(data, shape, n, own, above):
    """Write the suffixes and the log-probabilities of order n + 1 into ``above``; those of order n are ``own``.

    What follows a context and what follows it without its first word are both sorted, and compared word by word.
    """
    for node in range(shape[n, SIZE]):
        begin, end = _below(data, shape, n, node, own.suffix)
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
        low, high = _below(data, shape, n, node, contexts.suffix)
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
