"""The context sum on the CPU: four positions of a text at a time, sixteen columns at a time.

`tacenda.kernels.contexts` specifies the operations. Four positions share what they read: the weights of positions and
tails, and nearly all of their words, as each word is one position further back for the next token. Their sums stay in
registers until all words have been added (`_predict`). The backward pass first finds the gradient of every position of
the text, which is a sum of the same form over the text of gradients read backwards, and then adds these up by word.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.contexts import ContextGradients, Predicted
from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.threads import in_parts
from tacenda.kernels.machinery.vectors import LANES, add, load, multiply_add, spread, store

_Array = NDArray[Any]
_POSITIONS_AT_ONCE = 4
_WORTH_THREADS = 1 << 20  # numbers: fewer are added up by one thread
_DECLINED = "only float32 is compiled"


@njit
def _find_sequence(offsets, t):
    """Return the sequence of position t; for the position after the last word, the sequence of that word."""
    s = np.searchsorted(offsets, t, side="right") - 1
    if s == len(offsets) - 1:
        s -= 1
        while s > 0 and offsets[s] == offsets[-1]:
            s -= 1
    return s


@njit
def _find_stretch(offsets, at, t, end, tokens):
    """Return the sequence of position t, which is ``at`` or a later one, and where it or the span ends, ``end``."""
    while t < tokens and t >= offsets[at + 1]:
        at += 1
    return at, min(end, offsets[at + 1] if offsets[at + 1] < tokens else tokens + 1)


@njit
def _find_row(ids, p, exists, width):
    """Return the first number of the row of word p in a table, and how many columns to read: 0 without the word."""
    return (np.int64(ids[p]) * width, width) if exists else (0, 0)


@njit
def _look_back(ids, t, t1, begin, n, fades, width):
    """Find the rows that up to four tokens from t on read: of n words before each, and of words that join the tails.

    Returns the number of tokens, the rows of the words that join the tails before each token, the rows of the words
    just before the second to fourth token, and the number of words before the first and before the last token, at most
    n.
    """
    m = min(t1 - t, _POSITIONS_AT_ONCE)
    # the words that leave the window for the tails before each of the four tokens
    first = t - 1 - n
    leaving = (
        _find_row(ids, first, fades and first >= begin, width),
        _find_row(ids, first + 1, m > 1 and first + 1 >= begin, width),
        _find_row(ids, first + 2, m > 2 and first + 2 >= begin, width),
        _find_row(ids, first + 3, m > 3 and first + 3 >= begin, width),
    )
    # the words just before the second, third and fourth token are tokens of this round
    near = (
        _find_row(ids, t, m > 1, width),
        _find_row(ids, t + 1, m > 2, width),
        _find_row(ids, t + 2, m > 3, width),
    )
    return m, leaving, near, min(n, t - begin), min(n, t + m - 1 - begin)


@njit
def _predict(table, context, ids, stretch, u, out, place):
    """Write r_t of a stretch of a text to the rows of ``out`` from ``place`` on.

    A stretch is t0, t1, begin, current: the positions t0 to t1 - 1 of a sequence that begins at ``begin``. The tails u
    are those at t0 if ``current``, otherwise those at t0 - 1; at the end they are those at t1 - 1.
    """
    c, b, rates, a = context
    t0, t1, begin, current = stretch
    n, tails, width = len(c), len(rates), table.shape[1]
    one = np.float32(1)
    for t in range(t0, t1, _POSITIONS_AT_ONCE):
        fades = not (current and t == t0)
        m, leaving, near, all_four, some = _look_back(ids, t, t1, begin, n, fades, width)
        (far0, left0), (far1, left1), (far2, left2), (far3, left3) = leaving
        (near1, there1), (near2, there2), (near3, there3) = near
        row = (place + t - t0) * width
        for d in range(0, width, LANES):
            w = width - d
            r0 = r1 = r2 = r3 = load(b, d, w)
            # Tails: four steps of u = rate u + word in a register. Tokens past the last one do not change u.
            x0, x1 = load(table, far0 + d, left0 - d), load(table, far1 + d, left1 - d)
            x2, x3 = load(table, far2 + d, left2 - d), load(table, far3 + d, left3 - d)
            for k in range(tails):
                rate, weight, tail = rates[k], load(a, k * width + d, w), load(u, k * width + d, w)
                tail = multiply_add(spread(rate if fades else one), tail, x0)
                r0 = multiply_add(weight, tail, r0)
                tail = multiply_add(spread(rate if m > 1 else one), tail, x1)
                r1 = multiply_add(weight, tail, r1)
                tail = multiply_add(spread(rate if m > 2 else one), tail, x2)
                r2 = multiply_add(weight, tail, r2)
                tail = multiply_add(spread(rate if m > 3 else one), tail, x3)
                r3 = multiply_add(weight, tail, r3)
                store(tail, u, k * width + d, w)
            # Positions: one new word each; the words of the tokens before are in registers.
            w1, w2 = load(table, near1 + d, there1 - d), load(table, near2 + d, there2 - d)
            w3 = load(table, near3 + d, there3 - d)
            for i in range(all_four):
                weight = load(c, i * width + d, w)
                w0 = load(table, np.int64(ids[t - 1 - i]) * width + d, w)
                r0, r1 = multiply_add(weight, w0, r0), multiply_add(weight, w1, r1)
                r2, r3 = multiply_add(weight, w2, r2), multiply_add(weight, w3, r3)
                w1, w2, w3 = w0, w1, w2
            for i in range(all_four, some):  # at the beginning of a sequence: the words run out
                weight = load(c, i * width + d, w)
                r1, r2 = multiply_add(weight, w1, r1), multiply_add(weight, w2, r2)
                r3 = multiply_add(weight, w3, r3)
                w1, w2, w3 = spread(0), w1, w2
            store(r0, out, row + d, w)
            store(r1, out, row + width + d, w if m > 1 else 0)
            store(r2, out, row + 2 * width + d, w if m > 2 else 0)
            store(r3, out, row + 3 * width + d, w if m > 3 else 0)


@njit
def _add_gradients(table, rates, gradients, ids, stretch, u, grad):
    """Add to d_c, d_b and d_a the gradients of a loss; ``grad`` has its gradients with respect to r_t, from t0 on.

    The other arguments, and the order of the text, are those of `_predict`.
    """
    d_c, d_b, d_a = gradients
    t0, t1, begin, current = stretch
    n, tails, width = len(d_c), len(rates), table.shape[1]
    one = np.float32(1)
    for t in range(t0, t1, _POSITIONS_AT_ONCE):
        fades = not (current and t == t0)
        m, leaving, near, all_four, some = _look_back(ids, t, t1, begin, n, fades, width)
        (far0, left0), (far1, left1), (far2, left2), (far3, left3) = leaving
        (near1, there1), (near2, there2), (near3, there3) = near
        row = (t - t0) * width
        for d in range(0, width, LANES):
            w = width - d
            g0, g1 = load(grad, row + d, w), load(grad, row + width + d, w if m > 1 else 0)
            g2 = load(grad, row + 2 * width + d, w if m > 2 else 0)
            g3 = load(grad, row + 3 * width + d, w if m > 3 else 0)
            store(add(add(add(add(load(d_b, d, w), g0), g1), g2), g3), d_b, d, w)
            x0, x1 = load(table, far0 + d, left0 - d), load(table, far1 + d, left1 - d)
            x2, x3 = load(table, far2 + d, left2 - d), load(table, far3 + d, left3 - d)
            for k in range(tails):
                rate, total, tail = rates[k], load(d_a, k * width + d, w), load(u, k * width + d, w)
                tail = multiply_add(spread(rate if fades else one), tail, x0)
                total = multiply_add(g0, tail, total)
                tail = multiply_add(spread(rate if m > 1 else one), tail, x1)
                total = multiply_add(g1, tail, total)
                tail = multiply_add(spread(rate if m > 2 else one), tail, x2)
                total = multiply_add(g2, tail, total)
                tail = multiply_add(spread(rate if m > 3 else one), tail, x3)
                total = multiply_add(g3, tail, total)
                store(tail, u, k * width + d, w)
                store(total, d_a, k * width + d, w)
            w1, w2 = load(table, near1 + d, there1 - d), load(table, near2 + d, there2 - d)
            w3 = load(table, near3 + d, there3 - d)
            for i in range(all_four):
                w0 = load(table, np.int64(ids[t - 1 - i]) * width + d, w)
                total = multiply_add(g0, w0, load(d_c, i * width + d, w))
                total = multiply_add(g3, w3, multiply_add(g2, w2, multiply_add(g1, w1, total)))
                store(total, d_c, i * width + d, w)
                w1, w2, w3 = w0, w1, w2
            for i in range(all_four, some):
                total = multiply_add(g1, w1, load(d_c, i * width + d, w))
                total = multiply_add(g3, w3, multiply_add(g2, w2, total))
                store(total, d_c, i * width + d, w)
                w1, w2, w3 = spread(0), w1, w2


@njit(fastmath={"contract"})
def _fade(table, rates, ids, first, last, u):
    """Advance the tails by the words first .. last, one after another."""
    for p in range(first, last):
        word = table[ids[p]]
        for k in range(len(rates)):
            tail, rate = u[k], rates[k]
            for d in range(len(word)):
                tail[d] = rate * tail[d] + word[d]


@njit
def _predict_spans(table, text, context, tails, out, first, last):
    """Fill the predicted vectors of the spans first .. last, and the tails at both ends, unless they are given."""
    (c, b, rates, _), (given, before, after) = context, tails
    ids, offsets, starts, ends, places = text
    n, tokens = len(c), len(ids)
    for s in range(first, last):
        start, end, place = starts[s], ends[s], places[s]
        if len(offsets) == 1:  # no text: the only position is the one after it
            out[place : place + end - start] = b
            continue
        at = _find_sequence(offsets, start)
        u = after[s]
        u[:] = before[s]
        if not given:
            _fade(table, rates, ids, offsets[at], start - n, u)
            before[s] = u
        t = start
        while t < end:
            earlier = at
            at, limit = _find_stretch(offsets, at, t, end, tokens)
            if at > earlier:
                u[:] = 0
            current = t == start or t == offsets[at]
            stretch = t, limit, offsets[at], current
            _predict(table, context, ids, stretch, u, out, place + t - start)
            t = limit
        # The word that leaves the window after the last position, unless that is after the last word.
        p = end - 1 - n
        if start < end <= tokens and p >= offsets[at]:
            _fade(table, rates, ids, p, p + 1, u)


@njit
def _fill_word_gradients(context, grad, stretch, window, of_words):
    """Fill the rows high - 1 - p with the gradients of the words p in a window before a stretch of one sequence.

    The gradient of word p is a predicted vector in a text of gradients, read backwards from the last one:
    sum_i c_i g_(p + i) + sum_k a_k v_k(p), v_k(p) = lambda_k v_k(p + 1) + g_(p + n + 1).
    """
    c, _, rates, a = context
    (start, end, begin, _), (low, high) = stretch, window
    m, width = end - start, grad.shape[1]
    count = end - 1 - max(begin, low)
    if count <= 0:
        return
    text = np.zeros((m + 1, width), np.float32)  # the last row for positions before the start
    text[:m] = grad
    order = np.full(count + 1, m, np.int32)
    for i in range(min(m, count + 1)):
        order[i] = m - 1 - i
    v, zeros, place = np.zeros_like(a), np.zeros(width, np.float32), high + 1 - end
    _predict(text, (c, zeros, rates, a), order, (1, count + 1, 0, False), v, of_words, place)


@njit
def _fill_gradients(table, text, windows, context, given, gradients, first, last):
    """Fill the gradients of the spans first .. last: of the weights by span, and of the words by position."""
    ids, offsets, starts, ends, places = text
    lows, highs, firsts = windows
    before, grad = given
    rows, d_c, d_b, d_a = gradients
    tokens = len(ids)
    for s in range(first, last):
        start, end, place = starts[s], ends[s], places[s]
        if len(offsets) == 1:
            for r in range(place, places[s + 1]):
                for d in range(grad.shape[1]):
                    d_b[s, d] += grad[r, d]
            continue
        at, t, u = _find_sequence(offsets, start), start, before[s].copy()
        of_words = rows[firsts[s] : firsts[s + 1]]
        while t < end:
            earlier = at
            at, limit = _find_stretch(offsets, at, t, end, tokens)
            if at > earlier:
                u[:] = 0
            begin = offsets[at]
            here = grad[place + t - start : place + limit - start]
            stretch, of_span = (t, limit, begin, t in (start, begin)), (d_c[s], d_b[s], d_a[s])
            _add_gradients(table, context[2], of_span, ids, stretch, u, here)
            _fill_word_gradients(context, here, stretch, (lows[s], highs[s]), of_words)
            t = limit


@njit
def _sum_by_word(rows, order, borders, out, first, last):
    """Fill out[k] with the sum of the rows of the k-th word, in the order of the text."""
    for k in range(first, last):
        out[k] = rows[order[borders[k]]]
        for i in range(borders[k] + 1, borders[k + 1]):
            p = order[i]
            for d in range(rows.shape[1]):
                out[k, d] += rows[p, d]


def context_sum(table, text, context, tails, threads):
    if table.dtype != np.float32:
        raise UnsupportedShape(_DECLINED)
    spans, places = len(text.starts), text.places
    before = np.zeros((spans, *context.tail_weights.shape), np.float32)
    if tails is not None:
        before[:] = tails
    out, after = np.empty((places[-1], table.shape[1]), np.float32), before.copy()
    arguments = (*text, places), tuple(context), (tails is not None, before, after), out
    in_parts(_predict_spans, spans, threads, table, *arguments)
    return Predicted(out, before, after)


def context_sum_backward(table, text, context, before, grad, threads):
    if table.dtype != np.float32:
        raise UnsupportedShape(_DECLINED)
    ids, _, starts, ends = text
    spans, (n, width), places = len(starts), context.weights.shape, text.places
    # each span has rows for its words, from its last word but one back to n before its start
    lows = np.maximum(starts - n, 0)
    highs = np.maximum(np.minimum(ends - 1, len(ids)), lows)
    firsts = np.concatenate([[0], np.cumsum(highs - lows)]).astype(np.int64)
    rows = np.zeros((firsts[-1], width), np.float32)
    shapes = (spans, n, width), (spans, width), before.shape
    gradients = tuple(np.zeros(shape, np.float32) for shape in shapes)
    arguments = table, (*text, places), (lows, highs, firsts), tuple(context), (before, grad)
    in_parts(_fill_gradients, spans, threads, *arguments, (rows, *gradients))
    words = ids[np.repeat(firsts[1:] + lows, highs - lows) - 1 - np.arange(len(rows))]
    order = np.argsort(words, kind="stable")
    ordered = words[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))  # ids are at least 0
    borders = np.append(begins, len(words)).astype(np.int64)
    d_rows = np.empty((len(begins), width), np.float32)
    threads = threads if rows.size >= _WORTH_THREADS else 1
    in_parts(_sum_by_word, len(begins), threads, rows, order, borders, d_rows)
    return ContextGradients(ordered[begins], d_rows, *(part.sum(axis=0) for part in gradients))
