"""Compiled loops of entropy pruning; the equations stand in ``pruning``.

Orders are numbered from 0 here: order n has n-grams of n + 1 words. What follows a context and what follows it without
its first word are both sorted, and are compared word by word.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

import numpy as np

from tacenda.kernels.machinery.compiled import njit
from tacenda_lm.ngram.checks import at_or_after
from tacenda_lm.ngram.lookup import SIZE, backoff, first_after, log_prob, word_of

__all__ = ["count_kept", "descend", "judge"]


@njit
def _below(data, shape, n, node, suffix):
    """The range of n-grams of order n that continue a context of order n without its first word."""
    if n == 0:
        return np.int64(0), shape[0, SIZE]
    own = suffix[node]
    return first_after(data, shape, n - 1, own), first_after(data, shape, n - 1, own + 1)


@njit
def descend(data, shape, n, suffix, log_p, suffix_above, log_p_above):
    """For n-grams of order n + 1 write the place of each without its first word, and the logarithm of p(w_1 ... w_n+2).

    ``suffix`` and ``log_p`` are the same of order n.
    """
    for node in range(shape[n, SIZE]):
        begin, end = _below(data, shape, n, node, suffix)
        for place in range(
            first_after(data, shape, n, node), first_after(data, shape, n, node + 1)
        ):
            begin = at_or_after(data, shape, n, begin, end, word_of(data, shape, n + 1, place))
            suffix_above[place] = begin
            log_p_above[place] = log_p[node] + log_prob(data, shape, n + 1, place)


@njit
def judge(data, shape, n, suffix, log_p, threshold, needed, kept, backoffs):
    """Say which n-grams of order n + 1 stay, and write the back-offs of their contexts.

    ``kept`` holds those that longer ones need, and becomes all that stay; ``needed`` of order n is marked likewise.
    """
    for node in range(shape[n, SIZE]):
        first, last = first_after(data, shape, n, node), first_after(data, shape, n, node + 1)
        own = np.float64(backoff(data, shape, n, node))
        backoffs[node] = own
        if first == last:
            continue
        low, high = _below(data, shape, n, node, suffix)
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
                divergence = -np.exp(log_p[node]) * (
                    here * (log_below + changed - log_here) + (changed - own) * free
                )
                if np.expm1(divergence) < threshold:
                    gone += here
                    gone_below += there
                    continue
            kept[place] = True
            needed[node] = True
            needed[begin] = True
        if gone > 0:
            backoffs[node] = np.log(free + gone) - np.log(rest + gone_below)


@njit
def count_kept(data, shape, n, begin, kept, n_after):
    """Write how many kept n-grams continue each of order n from place ``begin`` on."""
    for i in range(len(n_after)):
        n_after[i] = 0
        for place in range(
            first_after(data, shape, n, begin + i), first_after(data, shape, n, begin + i + 1)
        ):
            n_after[i] += kept[place]
