"""Compiled look-ups in an n-gram table: the longest n-gram that is listed, and the back-offs on the way to it.

    log p(w | h) = log_prob[h w]                     if h w is listed
                 = backoff[h] + log p(w | h')        otherwise, with backoff 0 for an h that is not

The context is kept as the places of those of its endings that are listed, shortest first. One word costs a binary
search among the words listed after each ending, and the places found are the next context. The table comes as
records of 16 bytes, so that all that is known of an n-gram lies in one cache line: see ``Table.records``. ``nodes``
and ``values`` are the same memory, as int32 and as float32 (n-grams + 1, 4).
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

import numpy as np

from tacenda.kernels.machinery.compiled import njit

#: Columns of a record.
WORD, LOG_PROB, BACKOFF, FIRST = 0, 1, 2, 3

ABOVE_ONE = 1e-3
"""The log-probability that is above one by more than rounding."""

__all__ = [
    "check_distributions",
    "conditionals",
    "endings",
    "pair_scores",
    "penalty",
    "sequence_scores",
]


@njit
def _child(nodes, node, w):
    """Place of the n-gram ``node`` followed by the word w; -1 if it is not listed."""
    # the words after ``node`` are sorted: search them by halves
    low, high = nodes[node, FIRST], nodes[node + 1, FIRST]
    while low < high:
        middle = (low + high) >> 1
        if nodes[middle, WORD] < w:
            low = middle + 1
        else:
            high = middle
    return low if low < nodes[node + 1, FIRST] and nodes[low, WORD] == w else -1


@njit
def sequence_scores(nodes, values, order, ids, offsets, context, out, matched):
    """Write the scores of all ids into ``out`` (float64) and the n-gram lengths into ``matched`` (int64), (tokens,).

    ``context`` holds the words before every sequence, at most order - 1. Return -1, or the place of the first id
    that is no word, where scoring stops.
    """
    n_types = nodes[0, FIRST]
    before = np.empty(order + 1, np.int64)
    found = np.empty(order + 1, np.int64)
    for s in range(len(offsets) - 1):
        n_before = _resolve(nodes, order, context, before)
        for t in range(offsets[s], offsets[s + 1]):
            w = ids[t]
            if w < 0 or w >= n_types:
                return t
            # append w to the endings of the context, shortest first: found[k] is the place of the n-gram of
            # k + 1 words that ends in w; where one is not listed, no longer one is
            found[0] = w
            n = 1
            while n <= n_before:
                child = _child(nodes, before[n - 1], w)
                if child < 0:
                    break
                found[n] = child
                n += 1
            # the longest one gives the probability, and every longer ending of the context its back-off
            score = np.float64(values[found[n - 1], LOG_PROB])
            for k in range(n - 1, n_before):
                score += values[before[k], BACKOFF]
            out[t] = score
            matched[t] = n
            # what was found is the context of the next word
            n_before = min(n, order - 1)
            before, found = found, before
    return -1


@njit
def _resolve(nodes, order, context, before):
    """Write the places of the listed endings of a context, shortest first, into ``before``; return how many."""
    n_words = min(len(context), order - 1)
    n = 0
    while n < n_words:
        node = np.int64(context[len(context) - n - 1])
        if node < 0 or node >= nodes[0, FIRST]:
            return n  # a state of another model: its word is none here
        for k in range(n):
            node = _child(nodes, node, context[len(context) - n + k])
            if node < 0:
                return n
        before[n] = node
        n += 1
    return n


@njit
def endings(nodes, values, order, context):
    """Return how many of the last words of a context can change what follows."""
    before = np.empty(order + 1, np.int64)
    n = _resolve(nodes, order, context, before)
    while n > 0:
        # an ending matters if an n-gram continues it, or if its back-off is not zero
        node = before[n - 1]
        if nodes[node + 1, FIRST] > nodes[node, FIRST] or values[node, BACKOFF] != 0:
            break
        n -= 1
    return n


@njit
def penalty(nodes, values, order, context):
    """Return the sum of the back-offs of all listed endings of a context."""
    before = np.empty(order + 1, np.int64)
    total = 0.0
    for k in range(_resolve(nodes, order, context, before)):
        total += values[before[k], BACKOFF]
    return total


@njit
def pair_scores(nodes, values, order, contexts, lengths, words, out, matched):
    """Write the scores and n-gram lengths of words (pairs,), each after a context of its own.

    Of the words of a row of ``contexts`` (pairs, order - 1) the last ``lengths`` count.
    """
    before = np.empty(order + 1, np.int64)
    width = contexts.shape[1]
    for i in range(len(words)):
        n_before = _resolve(nodes, order, contexts[i, width - lengths[i] :], before)
        node = np.int64(words[i])
        n = 1
        while n <= n_before:
            child = _child(nodes, before[n - 1], words[i])
            if child < 0:
                break
            node = child
            n += 1
        score = np.float64(values[node, LOG_PROB])
        for k in range(n - 1, n_before):
            score += values[before[k], BACKOFF]
        out[i] = score
        matched[i] = n


@njit
def conditionals(nodes, values, order, contexts, lengths, out):
    """Write the log-probabilities of all words after each context into ``out``, float64 (contexts, types)."""
    before = np.empty(order + 1, np.int64)
    width = contexts.shape[1]
    n_types = out.shape[1]
    for i in range(len(lengths)):
        n_before = _resolve(nodes, order, contexts[i, width - lengths[i] :], before)
        row = out[i]
        for w in range(n_types):
            row[w] = values[w, LOG_PROB]  # of the unigrams
        # every longer ending of the context: back off all words, then set those that are listed after it
        for k in range(n_before):
            node = before[k]
            penalty = values[node, BACKOFF]
            if penalty != 0:
                for w in range(n_types):
                    row[w] += penalty
            for child in range(nodes[node, FIRST], nodes[node + 1, FIRST]):
                row[nodes[child, WORD]] = values[child, LOG_PROB]


@njit
def check_distributions(nodes, values, starts, sums):
    """Write the lowest and the highest sum of the unigrams' probabilities and those after a context into ``sums`` (2,).

    Return a context and a word after it whose probability is above one, as the place of an n-gram and an id; (-1, -1)
    if there is none; (place, -1) of an n-gram that is listed without its last words. What follows a context without its
    first word is compared word by word: both are sorted.
    """
    n_types, n_contexts = starts[1], starts[-2]
    suffix = np.empty(n_contexts, np.int64)  # where each context without its first word is listed
    suffix[:n_types] = -1
    total, best = 0.0, values[0, LOG_PROB]
    for w in range(n_types):
        total += np.exp(np.float64(values[w, LOG_PROB]))
        best = max(best, values[w, LOG_PROB])
    sums[:] = total
    for node in range(n_contexts):
        begin, end = _after(nodes, suffix[node], n_types)
        listed = below = 0.0
        for child in range(nodes[node, FIRST], nodes[node + 1, FIRST]):
            w = nodes[child, WORD]
            begin = _at_or_after(nodes, begin, end, w) if suffix[node] >= 0 else np.int64(w)
            if begin == end or nodes[begin, WORD] != w:
                return np.int64(child), np.int64(-1)
            if child < n_contexts:
                suffix[child] = begin
            listed += np.exp(np.float64(values[child, LOG_PROB]))
            below += np.exp(np.float64(values[begin, LOG_PROB]))
        # what is listed keeps its probability; the back-off scales what the shorter context gives the others
        total = listed + np.exp(np.float64(values[node, BACKOFF])) * max(1 - below, 0.0)
        if total < sums[0] or total != total:
            sums[0] = total
        if total > sums[1] or total != total:
            sums[1] = total
        penalty, longer = 0.0, np.int64(node)
        while longer >= 0:
            penalty += values[longer, BACKOFF]
            if penalty <= 0:
                break  # what is above one after a shorter context is found there
            begin, end = _after(nodes, suffix[longer], n_types)
            if suffix[longer] < 0 and penalty + best <= ABOVE_ONE:
                break
            for place in range(begin, end):
                w = nodes[place, WORD]
                if penalty + values[place, LOG_PROB] > ABOVE_ONE and _child(nodes, longer, w) < 0:
                    return np.int64(node), np.int64(w)
            longer = suffix[longer]
    return np.int64(-1), np.int64(-1)


@njit
def _at_or_after(nodes, begin, end, w):
    """Return the first place from ``begin`` whose word is not below w, or ``end``; quick where it is near."""
    step = 1
    while begin + step < end and nodes[begin + step, WORD] < w:
        begin += step
        step *= 2
    high = min(begin + step, end)
    while begin < high:
        middle = (begin + high) >> 1
        if nodes[middle, WORD] < w:
            begin = middle + 1
        else:
            high = middle
    return begin


@njit
def _after(nodes, node, n_types):
    """Places of the n-grams that continue one; of the unigrams for -1."""
    if node < 0:
        return np.int64(0), np.int64(n_types)
    return np.int64(nodes[node, FIRST]), np.int64(nodes[node + 1, FIRST])
