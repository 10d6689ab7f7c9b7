"""Compiled look-ups in an n-gram table: the longest n-gram that is listed, and the back-offs on the way to it.

    log p(w | h) = log_prob[h w]                     if h w is listed
                 = backoff[h] + log p(w | h')        otherwise, with backoff 0 for an h that is not listed

A context is represented by the places of its listed endings, shortest first; the place of an n-gram is its number in
its order. One word costs a binary search among the words listed after each ending, and the places found are the next
context. An n-gram of n + 1 words has order n here, as orders are rows of ``shape``.

``data`` and ``shape`` belong to a ``Table``, which describes the records. The table may be a file that nobody has
checked: every place that is read from it is clipped to the bounds of what it points into before it is used.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

import numpy as np

from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.vectors import prefetch
from tacenda_lm.ngram import (
    BACKOFF,
    BLOCKS,
    EXACT_BACKOFF,
    EXACT_PROB,
    FAR,
    LISTS,
    N_VALUES,
    NEAR,
    PROB,
    PROBS,
    RECORDS,
    SIZE,
    VALUES,
    WIDTH,
    WORD,
)

_ONE, _SIX, _LAST = np.uint64(1), np.uint64(6), np.uint64(63)
_LOW = np.uint64(0xFFFFFFFF)
_SIGN = np.uint64(0x80000000)
_FLAG = np.uint64(1 << 63)
_WORDS_AT_ONCE = 512  # looked up together


@njit(inline=True)
def bits(data, at, width):
    """Return ``width`` bits, fewer than 64, from the bit ``at`` on; they may be in two words."""
    word, shift = np.uint64(at) >> _SIX, np.uint64(at) & _LAST
    # two shifts to the left: one by 64, where the field begins with a word, would not be defined
    both = data[word] >> shift | data[word + _ONE] << _ONE << (_LAST - shift)
    return both & ((_ONE << np.uint64(width)) - _ONE)


@njit(inline=True)
def value(data, at, code):
    """Return the float32 with the number ``code`` among those that begin at the word ``at``."""
    word = data[np.uint64(at) + (code >> _ONE)] >> (code & _ONE) * np.uint64(32)
    return np.uint32(word & _LOW).view(np.float32)


@njit(inline=True)
def log_prob(data, shape, n, place):
    """Return the log-probability of an n-gram of n + 1 words."""
    at = shape[n, RECORDS] + place * shape[n, WIDTH] + shape[n, WORD]
    code = bits(data, at, shape[n, PROB])
    if shape[n, PROB] == EXACT_PROB:
        return np.uint32(code | _SIGN).view(np.float32)
    return value(data, shape[n, PROBS], code)


@njit(inline=True)
def backoff(data, shape, n, place):
    """Return the back-off of an n-gram of n + 1 words, which must not be of the highest order."""
    at = shape[n, RECORDS] + place * shape[n, WIDTH] + shape[n, WORD] + shape[n, PROB]
    code = bits(data, at, shape[n, BACKOFF])
    if shape[n, BACKOFF] == EXACT_BACKOFF:
        return np.uint32(code).view(np.float32)
    if code >= np.uint64(shape[n, N_VALUES]):
        return np.float32(np.nan)
    return value(data, shape[n, VALUES], code)


@njit
def word_of(data, shape, n, place):
    """Return the last word of an n-gram of n + 1 words; in a damaged table it may be no type."""
    if n == 0:
        return np.int64(place)
    return np.int64(bits(data, shape[n, RECORDS] + place * shape[n, WIDTH], shape[n, WORD]))


@njit(inline=True)
def first_after(data, shape, n, place):
    """Return the place where the n-grams begin that continue one of n + 1 words, not of the highest order."""
    head = data[np.uint64(shape[n, BLOCKS] + (place >> 6))]
    limit = shape[n + 1, SIZE]
    if head & _FLAG:
        number = head ^ _FLAG
        if number >= np.uint64(shape[n, LISTS]):
            return limit
        first = data[np.uint64(shape[n, FAR]) + (number << _SIX) + (np.uint64(place) & _LAST)]
    else:
        # the near place is the last field of a record, so it ends where the next record begins
        width = shape[n, WIDTH]
        first = head + bits(
            data, shape[n, RECORDS] + (place + 1) * width - shape[n, NEAR], shape[n, NEAR]
        )
    return np.int64(min(first, np.uint64(limit)))


@njit(inline=True)
def range_after(data, shape, n, place, w):
    """Return where the word w can be among those after an n-gram of n + 1 words: the first place, and how many."""
    low = first_after(data, shape, n, place)
    # they are sorted and distinct, so at most w are below w; that helps, as frequent words have low ids
    return low, min(first_after(data, shape, n, place + 1) - low, w + 1)


@njit(inline=True)
def child(data, shape, n, place, w):
    """Return the place of the n-gram of n + 1 words at ``place`` followed by the word w; -1 if it is not listed."""
    low, left = range_after(data, shape, n, place, w)
    if left <= 0:
        return np.int64(-1)
    records, width, word_bits = shape[n + 1, RECORDS], shape[n + 1, WIDTH], shape[n + 1, WORD]
    # a binary search without branches, which the processor could not predict
    while left > 1:
        half = left >> 1
        low += half * np.int64(np.int64(bits(data, records + (low + half) * width, word_bits)) <= w)
        left -= half
    return low if np.int64(bits(data, records + low * width, word_bits)) == w else np.int64(-1)


@njit
def narrow(data, shape, n, words, low, left, many, n_many):
    """Search as `child` does, each word in its own range of the n-grams of n + 2 words, until one place is left.

    ``many`` lists the ranges of more than one place. Each step prefetches the memory that the next one reads, which
    arrives while the other ranges are searched.
    """
    records, width, word_bits = shape[n + 1, RECORDS], shape[n + 1, WIDTH], shape[n + 1, WORD]
    while n_many:
        n_left = 0
        for j in range(n_many):
            i = many[j]
            half = left[i] >> 1
            word = np.int64(bits(data, records + (low[i] + half) * width, word_bits))
            low[i] += half * np.int64(word <= words[i])
            left[i] -= half
            prefetch(data, (records + (low[i] + (left[i] >> 1)) * width) >> 6, 1)
            many[n_left] = i
            n_left += left[i] > 1
        n_many = n_left


@njit
def next_word(data, shape, before, n_before, w, found):
    """Score the word w after a context, and write the next context; return the score and the length of the n-gram.

    ``before`` are the places of the listed endings of the context, shortest first. found[k] becomes the place of the
    n-gram of k + 1 words that ends in w.
    """
    found[0] = w
    n = 1
    while n <= n_before:
        place = child(data, shape, n - 1, before[n - 1], w)
        if place < 0:
            break  # no longer one is listed either
        found[n] = place
        n += 1
    # the longest one gives the probability, and every longer ending of the context its back-off
    score = np.float64(log_prob(data, shape, n - 1, found[n - 1]))
    for k in range(n - 1, n_before):
        score += backoff(data, shape, k, before[k])
    return score, n


@njit
def sequence_scores(data, shape, ids, offsets, context, out, matched):
    """Write the scores of all ids into ``out`` (float64) and the n-gram lengths into ``matched`` (int64), (tokens,).

    ``context`` has the words before every sequence, at most order - 1. Return -1, or the place of the first id that is
    no word; then only the blocks of words before that of this id are written. Scores are those of `next_word`, but many
    words, a block, are looked up in one order before the next: they do not depend on each other, so the processor
    fetches memory for several at the same time.
    """
    order, n_types = len(shape), shape[0, SIZE]
    at_once = max(min(_WORDS_AT_ONCE, len(out)), 1)
    # the places of the n-grams that end in the word before a block (column 0), in each word of the block, and in the
    # context of a sequence (the last column); -1 where none is listed
    places = np.full((order, at_once + 2), -1, np.int64)
    before = np.empty(order + 1, np.int64)
    for k in range(resolve(data, shape, context, before)):
        places[k, at_once + 1] = before[k]
    words, previous, low, left, asked, many = np.empty((6, at_once), np.int64)
    s = 0
    for begin in range(offsets[0], offsets[-1], at_once):
        size = min(offsets[-1] - begin, at_once)
        for i in range(size):
            w = np.int64(ids[begin + i])
            if w < 0 or w >= n_types:
                return begin + i
            places[0, i + 1] = words[i] = w
            previous[i] = i  # the column of the word before
        while offsets[s] < begin + size:
            previous[offsets[s] - begin] = at_once + 1
            s += 1
        for k in range(1, order):
            records, width, word_bits = shape[k, RECORDS], shape[k, WIDTH], shape[k, WORD]
            n_asked = n_many = 0
            for i in range(size):
                place = places[k - 1, previous[i]]
                if place >= 0 and places[k - 1, i + 1] >= 0:
                    low[i], left[i] = range_after(data, shape, k - 1, place, words[i])
                    prefetch(data, (records + (low[i] + (left[i] >> 1)) * width) >> 6, 1)
                    asked[n_asked] = many[n_many] = i
                    n_asked += left[i] > 0
                    n_many += left[i] > 1
            narrow(data, shape, k - 1, words, low, left, many, n_many)
            places[k, 1 : size + 1] = -1
            for i in asked[:n_asked]:
                if np.int64(bits(data, records + low[i] * width, word_bits)) == words[i]:
                    places[k, i + 1] = low[i]
        for i in range(size):
            n = 1
            while n < order and places[n, i + 1] >= 0:
                n += 1
            # the longest listed n-gram, and the back-off of every longer ending of the context
            score = np.float64(log_prob(data, shape, n - 1, places[n - 1, i + 1]))
            for k in range(n - 1, order - 1):
                if places[k, previous[i]] < 0:
                    break
                score += backoff(data, shape, k, places[k, previous[i]])
            out[begin + i], matched[begin + i] = score, n
        places[:, 0] = places[:, size]  # the next block continues from the last word of this one
    return -1


@njit
def resolve(data, shape, context, before):
    """Write the places of the listed endings of a context, shortest first, into ``before``; return how many."""
    n_words = min(len(context), len(shape) - 1)
    n = 0
    while n < n_words:
        place = np.int64(context[len(context) - n - 1])
        if place < 0 or place >= shape[0, SIZE]:
            return n  # no word of this model: the state comes from another one
        for k in range(n):
            place = child(data, shape, k, place, context[len(context) - n + k])
            if place < 0:
                return n
        before[n] = place
        n += 1
    return n


@njit
def n_that_matter(data, shape, before, n):
    """Return how many of n listed endings of a context can change later scores: as many of its words are kept."""
    while n > 0:
        # an ending matters if an n-gram continues it, or if its back-off is not zero
        place = before[n - 1]
        if first_after(data, shape, n - 1, place + 1) > first_after(data, shape, n - 1, place):
            break
        if backoff(data, shape, n - 1, place) != 0:
            break
        n -= 1
    return n


@njit
def step(data, shape, before, w, found):
    """Score the word w after a context whose listed endings are ``before``, and write the next endings into ``found``.

    Both are (order + 1,): the places of the endings, shortest first, and in the last element their number. Return the
    score, the length of the n-gram, and how many of the last words can change later scores.
    """
    order = len(shape)
    score, n = next_word(data, shape, before, before[order], w, found)
    kept = n_that_matter(data, shape, found, min(n, order - 1))
    found[order] = kept
    return score, n, kept


@njit
def pair_scores(data, shape, contexts, lengths, words, out):
    """Write the scores of words (pairs,), each after its own context, into ``out``, float64 (pairs,).

    A context is the last ``lengths`` words of its row of ``contexts`` (pairs, order - 1).
    """
    before = np.empty(len(shape) + 1, np.int64)
    found = np.empty(len(shape) + 1, np.int64)
    width = contexts.shape[1]
    for i in range(len(words)):
        n_before = resolve(data, shape, contexts[i, width - lengths[i] :], before)
        out[i], _ = next_word(data, shape, before, n_before, np.int64(words[i]), found)


@njit
def conditionals(data, shape, contexts, lengths, out):
    """Write the log-probabilities of all words after each context into ``out``, float64 (contexts, types)."""
    before = np.empty(len(shape) + 1, np.int64)
    width = contexts.shape[1]
    n_types = out.shape[1]
    for i in range(len(lengths)):
        n_before = resolve(data, shape, contexts[i, width - lengths[i] :], before)
        row = out[i]
        for w in range(n_types):
            row[w] = log_prob(data, shape, 0, w)
        # for every longer ending of the context, back off all words, then set those that are listed after it
        for k in range(n_before):
            place = before[k]
            penalty = backoff(data, shape, k, place)
            if penalty != 0:
                for w in range(n_types):
                    row[w] += penalty
            begin = first_after(data, shape, k, place)
            for after in range(begin, first_after(data, shape, k, place + 1)):
                w = word_of(data, shape, k + 1, after)
                if w < n_types:
                    row[w] = log_prob(data, shape, k + 1, after)
