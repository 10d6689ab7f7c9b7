"""Compiled checks of a whole n-gram table: sorted, complete, and probabilities that sum to one."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

import numpy as np

from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.vectors import prefetch
from tacenda_lm.ngram.layout import ABOVE_ONE
from tacenda_lm.ngram.lookup import (
    BLOCKS,
    RECORDS,
    SIZE,
    WIDTH,
    backoff,
    child,
    first_after,
    log_prob,
    word_of,
)

__all__ = ["NOT_SORTED", "at_or_after", "check_distributions"]

NOT_SORTED = -2
_AHEAD = 8  # contexts whose memory is asked for beforehand


@njit
def check_distributions(data, shape, starts, sums):
    """Write the lowest and the highest sum of the unigrams' probabilities and those after a context into ``sums`` (2,).

    ``starts`` (order,) say where the contexts of each order begin if all are numbered through. Return an order and the
    place of a context in it, and a word after it whose probability is above one; order -1 if there is none; -1 for the
    word where the n-gram at this place is listed without its last words, `NOT_SORTED` where n-grams of the order are
    not. What follows a context without its first word is compared word by word: both are sorted.
    """
    order, n_types = len(shape), shape[0, SIZE]
    suffix = np.empty(starts[-1], np.int64)  # the place of each context without its first word
    total, best = 0.0, log_prob(data, shape, 0, 0)
    for w in range(n_types):
        total += np.exp(np.float64(log_prob(data, shape, 0, w)))
        best = max(best, log_prob(data, shape, 0, w))
    sums[:] = total
    for n in range(order - 1):
        if first_after(data, shape, n, 0) != 0 or (
            first_after(data, shape, n, shape[n, SIZE]) != shape[n + 1, SIZE]
        ):
            return n + 2, np.int64(0), np.int64(NOT_SORTED)
        for node in range(shape[n, SIZE]):
            begin, end = np.int64(0), n_types
            if n:
                _ask(data, shape, n, suffix[starts[n] : starts[n] + shape[n, SIZE]], node)
                own = suffix[starts[n] + node]
                begin = first_after(data, shape, n - 1, own)
                end = first_after(data, shape, n - 1, own + 1)
            first, last = first_after(data, shape, n, node), first_after(data, shape, n, node + 1)
            if last < first:
                return n + 2, node, np.int64(NOT_SORTED)
            listed = below = 0.0
            before = np.int64(-1)
            for place in range(first, last):
                w = word_of(data, shape, n + 1, place)
                if w <= before or w >= n_types:
                    return n + 2, place, np.int64(NOT_SORTED)
                before = w
                begin = at_or_after(data, shape, n, begin, end, w) if n else w
                if begin == end or word_of(data, shape, n, begin) != w:
                    return n + 2, place, np.int64(-1)
                if n + 1 < order - 1:
                    suffix[starts[n + 1] + place] = begin
                listed += np.exp(np.float64(log_prob(data, shape, n + 1, place)))
                below += np.exp(np.float64(log_prob(data, shape, n, begin)))
            # what is listed keeps its probability; the back-off scales what the shorter context gives the others
            penalty = np.float64(backoff(data, shape, n, node))
            total = listed + np.exp(penalty) * max(1 - below, 0.0)
            if total < sums[0] or total != total:
                sums[0] = total
            if total > sums[1] or total != total:
                sums[1] = total
            w = _word_above_one(data, shape, n, node, suffix, starts, best)
            if w >= 0:
                return n + 1, node, w
    return np.int64(-1), np.int64(0), np.int64(0)


@njit(inline=True)
def _ask(data, shape, n, suffix, node):
    """Ask for the memory that contexts after this one read: the places without their first words are far apart."""
    if node + 2 * _AHEAD < len(suffix):
        own = suffix[node + 2 * _AHEAD]
        prefetch(data, shape[n - 1, BLOCKS] + (own >> 6), 1)
        prefetch(data, (shape[n - 1, RECORDS] + own * shape[n - 1, WIDTH]) >> 6, 2)
        begin = first_after(data, shape, n - 1, suffix[node + _AHEAD])
        prefetch(data, (shape[n, RECORDS] + begin * shape[n, WIDTH]) >> 6, 2)


@njit
def _word_above_one(data, shape, n, node, suffix, starts, best):
    """A word whose probability after the context of n + 1 words at ``node`` is above one; -1 if there is none."""
    penalty, longer, level = 0.0, np.int64(node), n
    while True:
        penalty += backoff(data, shape, level, longer)
        if penalty <= 0:
            return np.int64(-1)  # what is above one after a shorter context is found there
        begin, end = np.int64(0), shape[0, SIZE]
        if level:
            own = suffix[starts[level] + longer]
            begin = first_after(data, shape, level - 1, own)
            end = first_after(data, shape, level - 1, own + 1)
        elif penalty + best <= ABOVE_ONE:
            return np.int64(-1)
        for place in range(begin, end):
            if penalty + log_prob(data, shape, level, place) > ABOVE_ONE:
                w = word_of(data, shape, level, place)
                if child(data, shape, level, longer, w) < 0:
                    return w
        if not level:
            return np.int64(-1)
        level, longer = level - 1, own


@njit
def at_or_after(data, shape, n, begin, end, w):
    """Return the first place from ``begin`` whose word is not below w, or ``end``; quick where it is near."""
    step = 1
    while begin + step < end and word_of(data, shape, n, begin + step) < w:
        begin += step
        step *= 2
    high = min(begin + step, end)
    while begin < high:
        middle = (begin + high) >> 1
        if word_of(data, shape, n, middle) < w:
            begin = middle + 1
        else:
            high = middle
    return begin
