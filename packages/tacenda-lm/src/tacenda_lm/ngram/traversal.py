"""Compiled loops over a whole n-gram table: unpacking it, spelling its n-grams, and checking it.

Orders, places and ``data`` and ``shape`` of a table are those of `lookup`: an n-gram of n + 1 words has order n.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

import numpy as np

from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.vectors import prefetch
from tacenda_lm.ngram import BLOCKS, RECORDS, SIZE, WIDTH
from tacenda_lm.ngram.lookup import backoff, child, first_after, log_prob, word_of

# what is found; the n-gram is the one at the place that is returned with it
GOOD = 0
NOT_SORTED = 1  # the n-grams are not sorted there
NO_SUFFIX = 2  # the n-gram is listed without its last words
ABOVE_ONE = 3  # a word after the n-gram has a probability above one

_CONTEXTS_AHEAD = 8  # whose memory is prefetched


@njit
def unpack(data, shape, order, begin, word, probs, backoffs, n_after):
    """Write the fields of n-grams of an order from place ``begin`` on, as many as the arrays hold."""
    n = order - 1
    for i in range(len(word)):
        word[i] = word_of(data, shape, n, begin + i)
        probs[i] = log_prob(data, shape, n, begin + i)
    for i in range(len(backoffs)):
        place = begin + i
        backoffs[i] = backoff(data, shape, n, place)
        n_after[i] = first_after(data, shape, n, place + 1) - first_after(data, shape, n, place)


@njit
def spell(data, shape, order, begin, words):
    """Write the words of n-grams of an order from place ``begin`` on into ``words`` (n-grams, order)."""
    contexts, ends = np.empty((2, order - 1), np.int64)
    find_contexts(data, shape, begin, contexts, ends)
    for i in range(len(words)):
        first = next_contexts(data, shape, begin + i, contexts, ends) if i else 0
        for n in range(order - 1):
            words[i, n] = word_of(data, shape, n, contexts[n]) if n >= first else words[i - 1, n]
        words[i, order - 1] = word_of(data, shape, order - 1, begin + i)


@njit
def find_contexts(data, shape, place, contexts, ends):
    """Write the places of the beginnings of an n-gram, shortest first, and where the n-grams that continue each end."""
    for n in range(len(contexts) - 1, -1, -1):
        place = contexts[n] = _context_of(data, shape, n, place)
        ends[n] = first_after(data, shape, n, place + 1)


@njit
def next_contexts(data, shape, place, contexts, ends):
    """Update what `find_contexts` wrote for the n-gram before this one; return how many contexts stayed the same."""
    for n in range(len(contexts) - 1, -1, -1):
        if place < ends[n]:
            return n + 1
        while place >= ends[n] and contexts[n] < shape[n, SIZE] - 1:
            contexts[n] += 1
            ends[n] = first_after(data, shape, n, contexts[n] + 1)
        place = contexts[n]
    return 0


@njit
def _context_of(data, shape, n, place):
    """Return the place of an n-gram of n + 2 words without its last word."""
    low, high = np.int64(0), shape[n, SIZE]
    while low < high:
        middle = (low + high) >> 1
        if first_after(data, shape, n, middle) <= place:
            low = middle + 1
        else:
            high = middle
    return max(low - 1, 0)


@njit
def at_or_after(data, shape, n, begin, end, w):
    """Return the first place from ``begin`` on whose word is not below w, or ``end``; fast where that is near."""
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


@njit
def check_table(data, shape, starts, tolerance, sums):
    """Write the lowest and the highest sum of the unigrams' probabilities and those after a context into ``sums`` (2,).

    ``starts`` (order,) are the places where the contexts of each order begin if all are numbered consecutively. Return
    what is found first, or `GOOD`; the order and the place of the n-gram; and for `ABOVE_ONE` the word, whose
    log-probability is above ``tolerance``. The words after a context and those after it without its first word are
    compared in one pass: both are sorted.
    """
    order, n_types = len(shape), shape[0, SIZE]
    suffix = np.empty(starts[-1], np.int64)  # the place of each context without its first word
    total, best = 0.0, log_prob(data, shape, 0, 0)
    for w in range(n_types):
        total += np.exp(np.float64(log_prob(data, shape, 0, w)))
        best = max(best, log_prob(data, shape, 0, w))
    sums[:] = total
    # one function: with another for each order or context, numba makes code that takes a fifth longer
    for n in range(order - 1):
        if first_after(data, shape, n, 0) != 0 or (
            first_after(data, shape, n, shape[n, SIZE]) != shape[n + 1, SIZE]
        ):
            return NOT_SORTED, n + 1, np.int64(0), np.int64(-1)
        for node in range(shape[n, SIZE]):
            begin, end = np.int64(0), n_types
            if n:
                own = suffix[starts[n] : starts[n] + shape[n, SIZE]]
                _prefetch_below(data, shape, n, own, node)
                shorter = suffix[starts[n] + node]
                begin = first_after(data, shape, n - 1, shorter)
                end = first_after(data, shape, n - 1, shorter + 1)
            first, last = first_after(data, shape, n, node), first_after(data, shape, n, node + 1)
            if last < first:
                return NOT_SORTED, n + 1, first, np.int64(-1)
            listed = below = 0.0
            before = np.int64(-1)
            for place in range(first, last):
                w = word_of(data, shape, n + 1, place)
                if w <= before or w >= n_types:
                    return NOT_SORTED, n + 1, place, np.int64(-1)
                before = w
                begin = at_or_after(data, shape, n, begin, end, w) if n else w
                if begin == end or word_of(data, shape, n, begin) != w:
                    return NO_SUFFIX, n + 1, place, np.int64(-1)
                if n + 1 < order - 1:
                    suffix[starts[n + 1] + place] = begin
                listed += np.exp(np.float64(log_prob(data, shape, n + 1, place)))
                below += np.exp(np.float64(log_prob(data, shape, n, begin)))
            # listed words have their own probability; the back-off scales what the shorter context gives the others
            penalty = np.float64(backoff(data, shape, n, node))
            total = listed + np.exp(penalty) * max(1 - below, 0.0)
            if total < sums[0] or total != total:
                sums[0] = total
            if total > sums[1] or total != total:
                sums[1] = total
            w = _word_above_one(data, shape, n, node, suffix, starts, tolerance, best)
            if w >= 0:
                return ABOVE_ONE, n, node, w
    return GOOD, 0, np.int64(0), np.int64(-1)


@njit(inline=True)
def _prefetch_below(data, shape, n, suffix, node):
    """Prefetch the memory that the next contexts read: the places without their first words are far apart."""
    if node + 2 * _CONTEXTS_AHEAD < len(suffix):
        shorter = suffix[node + 2 * _CONTEXTS_AHEAD]
        prefetch(data, shape[n - 1, BLOCKS] + (shorter >> 6), 1)
        prefetch(data, (shape[n - 1, RECORDS] + shorter * shape[n - 1, WIDTH]) >> 6, 2)
        begin = first_after(data, shape, n - 1, suffix[node + _CONTEXTS_AHEAD])
        prefetch(data, (shape[n, RECORDS] + begin * shape[n, WIDTH]) >> 6, 2)


@njit
def _word_above_one(data, shape, n, node, suffix, starts, tolerance, best):
    """Return a word whose probability after the context of n + 1 words at ``node`` is above one, or -1."""
    penalty, longer, level = 0.0, np.int64(node), n
    while True:
        penalty += backoff(data, shape, level, longer)
        if penalty <= 0:
            # a word above one after a shorter context is found with that context
            return np.int64(-1)
        begin, end = np.int64(0), shape[0, SIZE]
        if level:
            shorter = suffix[starts[level] + longer]
            begin = first_after(data, shape, level - 1, shorter)
            end = first_after(data, shape, level - 1, shorter + 1)
        elif penalty + best <= tolerance:
            return np.int64(-1)
        for place in range(begin, end):
            if penalty + log_prob(data, shape, level, place) > tolerance:
                w = word_of(data, shape, level, place)
                if child(data, shape, level, longer, w) < 0:
                    return w
        if not level:
            return np.int64(-1)
        level, longer = level - 1, shorter
