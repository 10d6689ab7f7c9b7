"""Operations of log-bilinear models on the CPU."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.rows import add_rows, multiply_rows
from tacenda.kernels.machinery.threads import in_parts
from tacenda.kernels.machinery.vectors import (
    LANES,
    add,
    load,
    multiply_add,
    prefetch,
    spread,
    store,
)
from tacenda.kernels.shared import EPSILON
from tacenda.kernels.trees import ContextGradients, Predicted, Step

# -- context sum ------------------------------------------------------------------------------------
#
# The context sum on the CPU: four positions of a text at a time, sixteen columns at a time.
#
# Four positions share what they read: the weights of positions and tails, and nearly all of their words, as each word
# is one position further back for the next token. Their sums stay in registers until all words have been added
# (`predict`). Backward, the gradient by every word is first that of every position of the text, which is a sum of the
# same form over the text of gradients read backwards, and then added up by word.


_Array = NDArray[Any]
_TOGETHER = 4  # positions that are computed together
_SHARED = 1 << 20  # elements to be added up that are worth another thread
_SINGLE = "only float32 is compiled"


@njit
def sequence_of(offsets, t):
    """The sequence of position t; that of the last word for the position behind it."""
    s = np.searchsorted(offsets, t, side="right") - 1
    if s == len(offsets) - 1:
        s -= 1
        while s > 0 and offsets[s] == offsets[-1]:
            s -= 1
    return s


@njit
def _row_of(ids, p, there, width):
    """Where the row of word p begins in a table, and how many columns of it to read: none if it is not ``there``."""
    return (np.int64(ids[p]) * width, width) if there else (0, 0)


@njit
def _look_back(ids, t, t1, begin, n, fades, width):
    """Find the rows that up to four tokens from t on read: of n words before each, and of words that join the tails."""
    m = min(t1 - t, _TOGETHER)
    # the words that leave the window for the tails before each of the four tokens
    first = t - 1 - n
    leaving = (
        _row_of(ids, first, fades and first >= begin, width),
        _row_of(ids, first + 1, m > 1 and first + 1 >= begin, width),
        _row_of(ids, first + 2, m > 2 and first + 2 >= begin, width),
        _row_of(ids, first + 3, m > 3 and first + 3 >= begin, width),
    )
    # the last words before the second, third and fourth token: tokens of this round themselves
    near = (
        _row_of(ids, t, m > 1, width),
        _row_of(ids, t + 1, m > 2, width),
        _row_of(ids, t + 2, m > 3, width),
    )
    # positions at which even the first token has a word, and at which the last one has
    return m, leaving, near, min(n, t - begin), min(n, t + m - 1 - begin)


@njit
def predict(table, context, ids, stretch, u, out, place):
    """Write r_t of a stretch of a text to the rows of ``out`` from ``place`` on.

    A stretch is t0, t1, begin, current: the positions t0 .. t1 of the sequence from ``begin`` on. The tails u are those
    at t0 where they are ``current``, otherwise those at t0 - 1; they become those at t1 - 1.
    """
    c, b, rates, a = context
    t0, t1, begin, current = stretch
    n, tails, width = len(c), len(rates), table.shape[1]
    one = np.float32(1)
    for t in range(t0, t1, _TOGETHER):
        fades = not (current and t == t0)
        m, leaving, near, all_four, some = _look_back(ids, t, t1, begin, n, fades, width)
        (far0, left0), (far1, left1), (far2, left2), (far3, left3) = leaving
        (near1, there1), (near2, there2), (near3, there3) = near
        row = (place + t - t0) * width
        for d in range(0, width, LANES):
            w = width - d
            r0 = r1 = r2 = r3 = load(b, d, w)
            # Tails: four steps of u = rate u + word in a register. A token that is not there leaves u as it is.
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
            # Positions: one new word each, and those of the tokens before, which it has in registers.
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
    """Add to d_c, d_b and d_a the gradients of a loss, of which ``grad`` holds those by r_t from t0 on.

    The same walk over the text as in `predict`, with the same arguments otherwise.
    """
    d_c, d_b, d_a = gradients
    t0, t1, begin, current = stretch
    n, tails, width = len(d_c), len(rates), table.shape[1]
    one = np.float32(1)
    for t in range(t0, t1, _TOGETHER):
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
def fade(table, rates, ids, first, last, u):
    """Let the words first .. last go into the tails, one after another."""
    for p in range(first, last):
        word = table[ids[p]]
        for k in range(len(rates)):
            tail, rate = u[k], rates[k]
            for d in range(len(word)):
                tail[d] = rate * tail[d] + word[d]


@njit
def _predict_spans(table, text, context, tails, out, first, last):
    """The predicted vectors of the spans first .. last, and the tails at both of their ends, given or not."""
    (c, b, rates, _), (given, before, after) = context, tails
    ids, offsets, starts, ends, places = text
    n, tokens = len(c), len(ids)
    for s in range(first, last):
        start, end, place = starts[s], ends[s], places[s]
        if not len(offsets) - 1:  # no text at all: nothing but the position behind it
            out[place : place + end - start] = b
            continue
        at = sequence_of(offsets, start)
        u = after[s]
        u[:] = before[s]
        if not given:
            fade(table, rates, ids, offsets[at], start - n, u)
            before[s] = u
        t = start
        while t < end:
            while t < tokens and t >= offsets[at + 1]:
                at += 1
                u[:] = 0
            limit = min(end, offsets[at + 1] if offsets[at + 1] < tokens else tokens + 1)
            current = t == start or t == offsets[at]
            stretch = t, limit, offsets[at], current
            predict(table, context, ids, stretch, u, out, place + t - start)
            t = limit
        # The word that leaves the window behind the last position, unless that is behind the last word.
        p = end - 1 - n
        if start < end <= tokens and p >= offsets[at]:
            fade(table, rates, ids, p, p + 1, u)


@njit
def _by_position(context, grad, stretch, window, of_words):
    """The gradients of the words in a window before a stretch of one sequence: into the rows high - 1 - p.

    That of word p is a predicted vector in a text of gradients, read backwards from the last one:
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
    predict(text, (c, zeros, rates, a), order, (1, count + 1, 0, False), v, of_words, place)


@njit
def _move_spans(table, text, windows, context, given, gradients, first, last):
    """The gradients of the spans first .. last: each of its own weights, and by position those of its words."""
    ids, offsets, starts, ends, places = text
    lows, highs, firsts = windows
    before, grad = given
    rows, d_c, d_b, d_a = gradients
    tokens = len(ids)
    for s in range(first, last):
        start, end, place = starts[s], ends[s], places[s]
        if not len(offsets) - 1:
            for r in range(place, places[s + 1]):
                for d in range(grad.shape[1]):
                    d_b[s, d] += grad[r, d]
            continue
        at, t, u = sequence_of(offsets, start), start, before[s].copy()
        of_words = rows[firsts[s] : firsts[s + 1]]
        while t < end:
            while t < tokens and t >= offsets[at + 1]:
                at += 1
                u[:] = 0
            begin = offsets[at]
            limit = min(end, offsets[at + 1] if offsets[at + 1] < tokens else tokens + 1)
            here = grad[place + t - start : place + limit - start]
            stretch, own = (t, limit, begin, t in (start, begin)), (d_c[s], d_b[s], d_a[s])
            _add_gradients(table, context[2], own, ids, stretch, u, here)
            _by_position(context, here, stretch, (lows[s], highs[s]), of_words)
            t = limit


@njit
def _by_word(rows, order, borders, out, first, last):
    """out[k] = the sum of the rows of the k-th word, in the order of the text."""
    for k in range(first, last):
        out[k] = rows[order[borders[k]]]
        for i in range(borders[k] + 1, borders[k + 1]):
            p = order[i]
            for d in range(rows.shape[1]):
                out[k, d] += rows[p, d]


def context_sum(table, text, context, tails, threads):
    if table.dtype != np.float32:
        raise UnsupportedShape(_SINGLE)
    spans, places = len(text.starts), text.places
    before = np.zeros((spans, *context.tail_weights.shape), np.float32)
    if tails is not None:
        before[:] = tails
    out, after = np.empty((places[-1], table.shape[1]), np.float32), before.copy()
    made = (*text, places), tuple(context), (tails is not None, before, after), out
    in_parts(_predict_spans, spans, threads, table, *made)
    return Predicted(out, before, after)


def context_sum_backward(table, text, context, before, grad, threads):
    if table.dtype != np.float32:
        raise UnsupportedShape(_SINGLE)
    ids, _, starts, ends = text
    spans, (n, width), places = len(starts), context.weights.shape, text.places
    # each span has rows for its words, from n before its start to the last but one, the last word first
    lows = np.maximum(starts - n, 0)
    highs = np.maximum(np.minimum(ends - 1, len(ids)), lows)
    firsts = np.concatenate([[0], np.cumsum(highs - lows)]).astype(np.int64)
    rows = np.zeros((firsts[-1], width), np.float32)
    shapes = (spans, n, width), (spans, width), before.shape
    gradients = tuple(np.zeros(shape, np.float32) for shape in shapes)
    made = table, (*text, places), (lows, highs, firsts), tuple(context), (before, grad)
    in_parts(_move_spans, spans, threads, *made, (rows, *gradients))
    words = ids[np.repeat(firsts[1:] + lows, highs - lows) - 1 - np.arange(len(rows))]
    order = np.argsort(words, kind="stable")
    ordered = words[order]
    new = np.flatnonzero(np.diff(ordered, prepend=-1))
    borders = np.append(new, len(words)).astype(np.int64)
    d_rows = np.empty((len(new), width), np.float32)
    shared = threads if rows.size >= _SHARED else 1
    in_parts(_by_word, len(new), shared, rows, order, borders, d_rows)
    return ContextGradients(ordered[new], d_rows, *(part.sum(axis=0) for part in gradients))


# -- tree softmax -----------------------------------------------------------------------------------
#
# The tree softmax on the CPU: token after token, and in a step then node after node.
#
#     -log prod_i sigma(x_i) = sum_i max(-x_i, 0) + log prod_i (1 + exp(-|x_i|))
#
# The factors on the right lie between 1 and 2, so that their product in float64 overflows for no depth below a
# thousand. The exponentials of all nodes of a word are one polynomial, computed in vectors (`decay`).


_NEAR = 1 << 17  # elements of rows, from the root down, that are taken to be in the cache
_HEAD = 64  # elements of a row that are asked for; the processor sees where it is going and fetches the rest
_AHEAD = 4  # nodes
_FAINT = 1e-30  # of probabilities: less is computed in logarithms, as products of float32 may have become zero
_OWN = 16  # visits that the work on a node itself is worth
_CELLS = 1 << 21  # activations of a block of whole distributions: 8 MB


@njit
def _ask_for_nodes(word, codes, q):
    """Prefetch the nodes of the next token while this one is worked on, but for those near the root."""
    heads, steps, nodes, _ = codes
    width = q.shape[1]
    for j in range(steps[heads[word]], steps[heads[word + 1]]):
        if np.int64(nodes[j]) * width >= _NEAR:
            prefetch(q, np.int64(nodes[j]) * width, min(width, _HEAD))


@njit
def _activate(vectors, t, tree, nodes, first, n, scratch):
    """Fill x[j] = r_t . q_i + b_i for the nodes i of n steps from ``first`` on, and e with their `decay`."""
    (q, b), (x, e, powers) = tree, scratch
    multiply_rows(vectors, t, q, nodes, first, n, x, 0)
    for j in range(n):
        x[j] += b[nodes[first + j]]
    decay(x[:n], powers[:n], e[:n])


@njit(fastmath={"contract"})
def decay(x, powers, out):
    """Fill out = exp(-|x|), NaN for NaN, as 2^n 2^f with a whole number n and |f| <= 1/2.

    A float32 near 1.5 * 2^23 holds whole numbers, in its last bits: adding that constant rounds to n, and leaves n to
    be shifted to where an exponent is. Every loop names one view of ``powers``, int32 like the bits of a float32, so
    that LLVM can do it in vectors.
    """
    scale = powers.view(np.float32)
    for j in range(len(x)):
        t = np.float32(-1.44269504) * abs(x[j])  # to the base 2
        # the least exponent of a normal float32
        t = t if t > np.float32(-126) else np.float32(-126)
        scale[j] = t + np.float32(12582912)
        f = t - (scale[j] - np.float32(12582912))
        p = np.float32(1.535336188319500e-4)  # the expansion of 2^f
        p = p * f + np.float32(1.339887440266574e-3)
        p = p * f + np.float32(9.618437357674640e-3)
        p = p * f + np.float32(5.550332471162809e-2)
        p = p * f + np.float32(2.402264791363012e-1)
        p = p * f + np.float32(6.931472028550421e-1)
        out[j] = p * f + np.float32(1) + np.float32(0) * x[j]  # the last term keeps NaN
    for j in range(len(x)):
        powers[j] = (powers[j] << np.int32(23)) + np.int32(1065353216)  # the bits of 2^n
    for j in range(len(x)):
        out[j] *= scale[j]


@njit
def _log_prob_of(c0, c1, codes, x, e, parts):
    """Log P of the codes c0 .. c1 together; leaves the two parts of each code's logarithm.

    ``x`` are the activations of the codes' nodes and ``e`` what `decay` makes of them.
    """
    (_, steps, _, signs), (negatives, products) = codes, parts
    first, least = steps[c0], np.inf
    for c in range(c0, c1):
        s, p = np.float32(0), 1.0
        for j in range(steps[c], steps[c + 1]):
            v = np.float32(signs[j]) * x[j - first]
            s += abs(v) - v  # twice max(-v, 0)
            p *= np.float64(np.float32(1) + e[j - first])
        negatives[c - c0], products[c - c0] = 0.5 * s, p
        least = min(least, negatives[c - c0])
    if c1 - c0 == 1:
        return -least - math.log(products[0])
    # The likeliest code's part is taken out of the sum, so that no exponential overflows.
    total = 0.0
    for c in range(c1 - c0):
        total += math.exp(least - negatives[c]) / products[c]
    return math.log(total) - least


@njit
def _slopes_of(c0, c1, codes, x, e, parts, log_prob, grad):
    """Turn the activations x into the gradients of ``grad`` log P with respect to them.

    The other arguments are as `_log_prob_of` left them.
    """
    (_, steps, _, signs), (negatives, products) = codes, parts
    j = 0
    for c in range(c1 - c0):
        share = grad  # of this code in the probability of the word
        if c1 - c0 > 1:
            share *= np.float32(math.exp(-negatives[c] - log_prob) / products[c])
        for i in range(steps[c0 + c], steps[c0 + c + 1]):
            s = np.float32(signs[i])
            above = np.float32(1) if s * x[j] < 0 else e[j]
            x[j] = share * s * above / (np.float32(1) + e[j])
            j += 1


@njit
def _turns(signs, first, n, x, e, right, wrong):
    """Fill the probabilities of the turns of a word, and those of the other way with the sign of the turn."""
    for j in range(n):
        s = np.float32(signs[first + j])
        likely = np.float32(1) / (np.float32(1) + e[j])
        unlikely = e[j] * likely
        right[j] = likely if s * x[j] > 0 else unlikely
        wrong[j] = s * (unlikely if s * x[j] > 0 else likely)


@njit
def _multiply_turns(c0, c1, steps, right, products):
    """Fill the probability of each of the codes c0 .. c1; return their sum."""
    total = 0.0
    for c in range(c0, c1):
        product = 1.0
        for j in range(steps[c] - steps[c0], steps[c + 1] - steps[c0]):
            product *= np.float64(right[j])
        products[c - c0] = product
        total += product
    return total


@njit
def _log_probs(vectors, words, codes, tree, most, longest, log_probs):
    """Fill the log-probabilities, one token after another."""
    heads, steps, nodes, _ = codes
    x, e = np.empty(longest, np.float32), np.empty(longest, np.float32)
    powers, parts = np.empty(longest, np.int32), (np.empty(most), np.empty(most))
    for t in range(len(words)):
        if t + 1 < len(words):
            _ask_for_nodes(words[t + 1], codes, tree[0])
        c0, c1 = heads[words[t]], heads[words[t] + 1]
        _activate(vectors, t, tree, nodes, steps[c0], steps[c1] - steps[c0], (x, e, powers))
        log_probs[t] = _log_prob_of(c0, c1, codes, x, e, parts)


@njit
def _visits_of(words, heads, steps, nodes, n_nodes, n_visits):
    """Visited nodes in the order of first visit; of each the tokens and places of d_x, in order."""
    slot = np.full(n_nodes, -1, np.int32)
    visited, counts = np.empty(n_nodes, np.int32), np.zeros(n_nodes + 1, np.int64)
    n = 0
    for t in range(len(words)):
        for i in range(steps[heads[words[t]]], steps[heads[words[t] + 1]]):
            node = nodes[i]
            if slot[node] < 0:
                slot[node] = n
                visited[n] = node
                n += 1
            counts[slot[node] + 1] += 1
    begins = np.cumsum(counts[: n + 1])
    following = begins[:n].copy()
    tokens, places = np.empty(n_visits, np.int32), np.empty(n_visits, np.int32)
    place = 0
    for t in range(len(words)):
        for i in range(steps[heads[words[t]]], steps[heads[words[t] + 1]]):
            k = slot[nodes[i]]
            tokens[following[k]], places[following[k]] = t, place
            following[k] += 1
            place += 1
    return visited[:n].copy(), begins, tokens, places


@njit
def _token_steps(tokens, codes, tree, most, longest, found, first, last):
    """Forward and backward pass over the tokens first .. last; ``slopes`` are gradients of the activations."""
    vectors, words, starts, grad = tokens
    heads, steps, nodes, signs = codes
    slopes, log_probs, d_r = found
    x, e = np.empty(longest, np.float32), np.empty(longest, np.float32)
    powers = np.empty(longest, np.int32)
    right, wrong = np.empty_like(e), np.empty_like(e)
    parts = np.empty(most), np.empty(most)
    products = parts[1]
    for t in range(first, last):
        if t + 1 < last:
            _ask_for_nodes(words[t + 1], codes, tree[0])
        c0, c1, place = heads[words[t]], heads[words[t] + 1], starts[t]
        begin, n = steps[c0], starts[t + 1] - place
        _activate(vectors, t, tree, nodes, begin, n, (x, e, powers))
        # P(word) is a sum of products of probabilities, unless these are so small that float32 has lost them.
        _turns(signs, begin, n, x, e, right, wrong)
        total = _multiply_turns(c0, c1, steps, right, products)
        if total < _FAINT:
            log_probs[t] = _log_prob_of(c0, c1, codes, x, e, parts)
            _slopes_of(c0, c1, codes, x, e, parts, log_probs[t], grad[t])
            slopes[place : place + n] = x[:n]
        else:
            log_probs[t] = math.log(total)
            for c in range(c0, c1):
                share = grad[t] * np.float32(products[c - c0] / total)
                for j in range(steps[c] - begin, steps[c + 1] - begin):
                    slopes[place + j] = share * wrong[j]
        # The gradient of the vector, while its nodes are still in the cache.
        d_r[t] = 0
        add_rows(tree[0], nodes, begin, slopes, place, n, d_r, t)


@njit
def _sum_of_node(k, visits, weights, gradient):
    """Fill the gradient of the k-th visited node's vector; return that of its bias."""
    slopes, vectors, _, begins, tokens, places, _, _ = visits
    total, n = np.float32(0), begins[k + 1] - begins[k]
    for i in range(n):
        weights[i] = slopes[places[begins[k] + i]]
        total += weights[i]
    gradient[:] = 0
    add_rows(vectors, tokens, begins[k], weights, 0, n, gradient, 0)
    return total


@njit(fastmath={"contract", "reassoc"})
def _node_steps(tree, both_sums, rate, epsilon, visits, first, last):
    """AdaGrad on the visited nodes of a share of the work, each as soon as its gradient is known."""
    (q, b), (sums, bias_sums) = tree, both_sums
    visited, longest, done = visits[2], visits[6], visits[7]
    first, last = np.searchsorted(done, first), np.searchsorted(done, last)
    width = q.shape[1]
    weights, gradient = np.empty(longest, np.float32), np.empty((1, width), np.float32)
    for k in range(first, last):
        if k + _AHEAD < last:
            prefetch(q, np.int64(visited[k + _AHEAD]) * width, width)
        node = visited[k]
        total = _sum_of_node(k, visits, weights, gradient)
        square = np.float32(0)
        for d in range(width):
            square += gradient[0, d] * gradient[0, d]
        sums[node] += square / np.float32(width)
        step = rate / (math.sqrt(sums[node]) + epsilon)
        for d in range(width):
            q[node, d] -= step * gradient[0, d]
        bias_sums[node] += total * total
        b[node] -= rate / (math.sqrt(bias_sums[node]) + epsilon) * total


@njit
def _descend(x, root, children, leaves, found):
    """found[t, word] = log of the summed probabilities of the word's leaves, from the root down."""
    stack, down = np.empty(len(children) + 1, np.int64), np.empty(len(children))
    for t in range(len(x)):
        total = found[t]
        total[:] = -np.inf
        top, stack[0], down[root] = 1, root, 0.0
        while top:
            top -= 1
            node = stack[top]
            v = np.float64(x[t, node])
            small = math.log1p(math.exp(-abs(v)))
            for side in range(2):
                turned = v if side == 0 else -v
                log_prob = down[node] - small + min(turned, 0.0)
                child = children[node, side]
                if child >= 0:
                    down[child] = log_prob
                    stack[top] = child
                    top += 1
                else:
                    word = leaves[-1 - child]
                    before = total[word]
                    if before == -np.inf:
                        total[word] = log_prob
                    else:
                        high, low = max(before, log_prob), min(before, log_prob)
                        total[word] = high + math.log1p(math.exp(low - high))


def tree_softmax(vectors, words, codes, nodes):
    if vectors.dtype != np.float32:
        raise UnsupportedShape(_SINGLE)
    log_probs = np.empty(len(words))
    _log_probs(vectors, words, tuple(codes), tuple(nodes), *codes.most, log_probs)
    return log_probs


def tree_softmax_step(vectors, words, codes, nodes, grad, sums, rate, threads):
    if vectors.dtype != np.float32:
        raise UnsupportedShape(_SINGLE)
    # where the steps of each token begin among those of all tokens
    bounds = codes.code_steps[codes.word_codes]
    starts = np.concatenate([[0], np.cumsum(np.diff(bounds)[words])]).astype(np.int64)
    slopes, log_probs = np.empty(starts[-1], np.float32), np.empty(len(words))
    d_r = np.empty_like(vectors)
    tokens, found = (vectors, words, starts, grad), (slopes, log_probs, d_r)
    made = tokens, tuple(codes), tuple(nodes), *codes.most, found
    in_parts(_token_steps, len(words), threads, *made)
    visited, *visits = _visits_of(words, *codes[:3], len(nodes.vectors), len(slopes))
    longest = int(np.diff(visits[0]).max(initial=0))
    done = visits[0] + _OWN * np.arange(len(visits[0]))  # the work on all nodes before each
    moved = tuple(nodes), tuple(sums), np.float32(rate), np.float32(EPSILON)
    in_parts(
        _node_steps, done[-1], threads, *moved, (slopes, vectors, visited, *visits, longest, done)
    )
    return Step(log_probs, d_r)


def tree_softmax_distribution(vectors, codes, nodes):
    node_vectors, node_biases = nodes
    if vectors.dtype != np.float32:
        raise UnsupportedShape(_SINGLE)
    found = np.empty((len(vectors), codes.n_words), np.float32)
    if not len(codes.nodes):
        found[:] = 0
        return found
    leaves = np.repeat(np.arange(codes.n_words), np.diff(codes.word_codes))
    size = max(1, _CELLS // max(len(node_vectors), 1))
    for i in range(0, len(vectors), size):
        rows = vectors[i : i + size]
        block = np.empty((len(rows), codes.n_words))
        _descend(rows @ node_vectors.T + node_biases, codes.root, codes.children, leaves, block)
        found[i : i + size] = block
    return found
