"""The context sum on the CPU: four positions of a text at a time, sixteen columns at a time.

Four positions share what they read: the weights of positions and tails, and nearly all of their words, as each word is
one position further back for the next token. Their sums stay in registers until all words have been added
(`predict`). Backward, the gradient by every word is first that of every position of the text, which is a sum of the
same form over the text of gradients read backwards, and then added up by word.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.log_bilinear.context_sum import Context, Forward, Gradients, places_of
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.threads import in_parts
from tacenda.kernels.machinery.vectors import LANES, add, load, multiply_add, spread, store

_Array = NDArray[Any]
_TOGETHER = 4  # positions that are computed together
_SHARED = 1 << 20  # elements to be added up that are worth another thread


@njit
def sequence_of(offsets, t):  # type: ignore[no-untyped-def]
    """The sequence of position t; that of the last word for the position behind it."""
    s = np.searchsorted(offsets, t, side="right") - 1
    if s == len(offsets) - 1:
        s -= 1
        while s > 0 and offsets[s] == offsets[-1]:
            s -= 1
    return s


@njit
def _row_of(ids, p, there, width):  # type: ignore[no-untyped-def]
    """Where the row of word p begins in a table, and how many columns of it to read: none if it is not ``there``."""
    return (np.int64(ids[p]) * width, width) if there else (0, 0)


@njit
def predict(table, far, c, b, rates, a, ids, t0, t1, begin, current, u, out, place):  # type: ignore[no-untyped-def]
    """Write r_t of the positions t0 .. t1 of the sequence from ``begin`` on to the rows of ``out`` from ``place`` on.

    The tails u are those at t0 where they are ``current``, otherwise those at t0 - 1; they become those at t1 - 1.
    """
    n, tails, width = len(c), len(rates), table.shape[1]
    one = np.float32(1)
    for t in range(t0, t1, _TOGETHER):
        m = min(t1 - t, _TOGETHER)
        # the words that leave the window for the tails before each of the four tokens
        first = t - 1 - n
        fades = not (current and t == t0)
        far0, left0 = _row_of(ids, first, fades and first >= begin, width)
        far1, left1 = _row_of(ids, first + 1, m > 1 and first + 1 >= begin, width)
        far2, left2 = _row_of(ids, first + 2, m > 2 and first + 2 >= begin, width)
        far3, left3 = _row_of(ids, first + 3, m > 3 and first + 3 >= begin, width)
        # the last words before the second, third and fourth token: tokens of this round themselves
        near1, there1 = _row_of(ids, t, m > 1, width)
        near2, there2 = _row_of(ids, t + 1, m > 2, width)
        near3, there3 = _row_of(ids, t + 2, m > 3, width)
        all_four = min(n, t - begin)  # positions at which even the first token has a word
        some = min(n, t + m - 1 - begin)
        row = (place + t - t0) * width
        for d in range(0, width, LANES):
            w = width - d
            r0 = r1 = r2 = r3 = load(b, d, w)
            # Tails: four steps of u = rate u + word in a register. A token that is not there leaves u as it is.
            x0, x1 = load(far, far0 + d, left0 - d), load(far, far1 + d, left1 - d)
            x2, x3 = load(far, far2 + d, left2 - d), load(far, far3 + d, left3 - d)
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
def _add_gradients(table, far, d_c, d_b, rates, d_a, ids, t0, t1, begin, current, u, grad, place):  # type: ignore[no-untyped-def]
    """Add to d_c, d_b and d_a the gradients of a loss, of which ``grad`` holds those by r_t, where `predict` has r_t.

    The same walk over the text as in `predict`, with the same arguments otherwise.
    """
    n, tails, width = len(d_c), len(rates), table.shape[1]
    one = np.float32(1)
    for t in range(t0, t1, _TOGETHER):
        m = min(t1 - t, _TOGETHER)
        first = t - 1 - n
        fades = not (current and t == t0)
        far0, left0 = _row_of(ids, first, fades and first >= begin, width)
        far1, left1 = _row_of(ids, first + 1, m > 1 and first + 1 >= begin, width)
        far2, left2 = _row_of(ids, first + 2, m > 2 and first + 2 >= begin, width)
        far3, left3 = _row_of(ids, first + 3, m > 3 and first + 3 >= begin, width)
        near1, there1 = _row_of(ids, t, m > 1, width)
        near2, there2 = _row_of(ids, t + 1, m > 2, width)
        near3, there3 = _row_of(ids, t + 2, m > 3, width)
        all_four, some = min(n, t - begin), min(n, t + m - 1 - begin)
        row = (place + t - t0) * width
        for d in range(0, width, LANES):
            w = width - d
            g0, g1 = load(grad, row + d, w), load(grad, row + width + d, w if m > 1 else 0)
            g2 = load(grad, row + 2 * width + d, w if m > 2 else 0)
            g3 = load(grad, row + 3 * width + d, w if m > 3 else 0)
            store(add(add(add(add(load(d_b, d, w), g0), g1), g2), g3), d_b, d, w)
            x0, x1 = load(far, far0 + d, left0 - d), load(far, far1 + d, left1 - d)
            x2, x3 = load(far, far2 + d, left2 - d), load(far, far3 + d, left3 - d)
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
def fade(far, rates, ids, first, last, u):  # type: ignore[no-untyped-def]
    """Let the words first .. last go into the tails, one after another."""
    for p in range(first, last):
        for k in range(len(rates)):
            for d in range(far.shape[1]):
                u[k, d] = rates[k] * u[k, d] + far[ids[p], d]


@njit
def _forward(  # type: ignore[no-untyped-def]
    table, far, ids, offsets, starts, ends, places, c, b, rates, a, given, before, after, out, first, last
):  # fmt: skip
    """The predicted vectors of the spans first .. last, and the tails at both of their ends."""
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
            fade(far, rates, ids, offsets[at], start - n, u)
            before[s] = u
        t = start
        while t < end:
            while t < tokens and t >= offsets[at + 1]:
                at += 1
                u[:] = 0
            limit = min(end, offsets[at + 1] if offsets[at + 1] < tokens else tokens + 1)
            current = t == start or t == offsets[at]
            row = place + t - start
            predict(table, far, c, b, rates, a, ids, t, limit, offsets[at], current, u, out, row)
            t = limit
        # The word that leaves the window behind the last position, unless that is behind the last word.
        p = end - 1 - n
        if start < end <= tokens and p >= offsets[at]:
            fade(far, rates, ids, p, p + 1, u)


@njit
def _by_position(of_rows, of_far, c, rates, a, grad, begin, start, end, low, high, apart):  # type: ignore[no-untyped-def]
    """The gradients of the words of one sequence before the positions start .. end: into the rows high - 1 - p.

    That of word p is a predicted vector in a text of gradients, read backwards from the last one:
    sum_i c_i g_(p + i) + sum_k a_k v_k(p), v_k(p) = lambda_k v_k(p + 1) + g_(p + n + 1).
    """
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
    if not apart:
        predict(text, text, c, zeros, rates, a, order, 1, count + 1, 0, False, v, of_rows, place)
        return
    predict(text, text, c, zeros, rates[:0], a, order, 1, count + 1, 0, False, v, of_rows, place)
    none = np.zeros_like(c)
    predict(text, text, none, zeros, rates, a, order, 1, count + 1, 0, False, v, of_far, place)


@njit
def _backward(  # type: ignore[no-untyped-def]
    table, far, ids, offsets, starts, ends, places, lows, highs, firsts, c, rates, a, before, grad, rows, far_rows,
    apart, d_c, d_b, d_a, first, last,
):  # fmt: skip
    """The gradients of the spans first .. last: each of its own weights, and by position those of its words."""
    tokens = len(ids)
    for s in range(first, last):
        start, end, place = starts[s], ends[s], places[s]
        if not len(offsets) - 1:
            for r in range(place, places[s + 1]):
                for d in range(grad.shape[1]):
                    d_b[s, d] += grad[r, d]
            continue
        at, t, u = sequence_of(offsets, start), start, before[s].copy()
        of_rows, of_far = rows[firsts[s] : firsts[s + 1]], far_rows[firsts[s] : firsts[s + 1]]
        while t < end:
            while t < tokens and t >= offsets[at + 1]:
                at += 1
                u[:] = 0
            begin = offsets[at]
            limit = min(end, offsets[at + 1] if offsets[at + 1] < tokens else tokens + 1)
            here = grad[place + t - start : place + limit - start]
            current = t in (start, begin)
            _add_gradients(
                table, far, d_c[s], d_b[s], rates, d_a[s], ids, t, limit, begin, current, u, here, 0
            )
            _by_position(
                of_rows, of_far, c, rates, a, here, begin, t, limit, lows[s], highs[s], apart
            )
            t = limit


@njit
def _by_word(rows, order, borders, out, first, last):  # type: ignore[no-untyped-def]
    """out[k] = the sum of the rows of the k-th word, in the order of the text."""
    for k in range(first, last):
        out[k] = rows[order[borders[k]]]
        for i in range(borders[k] + 1, borders[k + 1]):
            p = order[i]
            for d in range(rows.shape[1]):
                out[k, d] += rows[p, d]


def _summed(rows: _Array, order: _Array, borders: _Array, threads: int) -> _Array:
    """The rows of every word added up, (words, width) float32."""
    out = np.empty((len(borders) - 1, rows.shape[1]), np.float32)

    def work(first: int, last: int) -> None:
        _by_word(rows, order, borders, out, first, last)

    in_parts(work, len(out), threads if rows.size >= _SHARED else 1)
    return out


def _require_single(table: _Array) -> None:
    """Leave other dtypes to the reference."""
    if table.dtype != np.float32:
        raise UnsupportedShape(f"a {table.dtype} table; float32 is what is compiled")


def forward(
    table: _Array,
    ids: _Array,
    offsets: _Array,
    starts: _Array,
    ends: _Array,
    context: Context,
    tails: _Array | None = None,
    far: _Array | None = None,
    threads: int = 1,
) -> Forward:
    """See `tacenda.kernels.log_bilinear.context_sum.forward`."""
    _require_single(table)
    spans, places = len(starts), places_of(starts, ends)
    before = np.zeros((spans, *context.tail_weights.shape), np.float32)
    if tails is not None:
        before[:] = tails
    out, after = np.empty((places[-1], table.shape[1]), np.float32), before.copy()

    def work(first: int, last: int) -> None:
        _forward(
            table, table if far is None else far, ids, offsets, starts, ends, places, *context, tails is not None,
            before, after, out, first, last,
        )  # fmt: skip

    in_parts(work, spans, threads)
    return Forward(out, before, after)


def backward(
    table: _Array,
    ids: _Array,
    offsets: _Array,
    starts: _Array,
    ends: _Array,
    context: Context,
    before: _Array,
    grad: _Array,
    far: _Array | None = None,
    threads: int = 1,
) -> Gradients:
    """See `tacenda.kernels.log_bilinear.context_sum.backward`."""
    _require_single(table)
    spans, (n, width), places = len(starts), context.weights.shape, places_of(starts, ends)
    # each span has rows for its words, from n before its start to the last but one, the last word first
    lows = np.maximum(starts - n, 0)
    highs = np.maximum(np.minimum(ends - 1, len(ids)), lows)
    firsts = np.concatenate([[0], np.cumsum(highs - lows)]).astype(np.int64)
    rows = np.zeros((firsts[-1], width), np.float32)
    far_rows = rows if far is None else np.zeros_like(rows)
    d_c, d_b = np.zeros((spans, n, width), np.float32), np.zeros((spans, width), np.float32)
    d_a = np.zeros(before.shape, np.float32)

    def work(first: int, last: int) -> None:
        _backward(
            table, table if far is None else far, ids, offsets, starts, ends, places, lows, highs, firsts,
            context.weights, context.rates, context.tail_weights, before, grad, rows, far_rows, far is not None,
            d_c, d_b, d_a, first, last,
        )  # fmt: skip

    in_parts(work, spans, threads)
    words = ids[np.repeat(firsts[1:] + lows, highs - lows) - 1 - np.arange(len(rows))]
    order = np.argsort(words, kind="stable")
    ordered = words[order]
    new = np.flatnonzero(np.diff(ordered, prepend=-1))
    borders = np.append(new, len(words)).astype(np.int64)
    d_rows = _summed(rows, order, borders, threads)
    d_far = d_rows[:0] if far is None else _summed(far_rows, order, borders, threads)
    return Gradients(ordered[new], d_rows, d_far, *(part.sum(axis=0) for part in (d_c, d_b, d_a)))
