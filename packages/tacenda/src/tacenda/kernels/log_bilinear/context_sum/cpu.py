"""The context sum on the CPU: a row is summed up while it is in the first-level cache.

Backward, the gradient is first that of every position of the text, a sum of products like the forward pass, and
then added up by word.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.log_bilinear.context_sum import Forward, Gradients
from tacenda.kernels.log_bilinear.context_sum.arguments import (
    Checked,
    check,
    check_far,
    check_grad,
    check_tails,
)
from tacenda.kernels.log_bilinear.context_sum.cpu_positions import (
    fade,
    predictions,
    sequence_of,
    spare_rows,
)
from tacenda.kernels.log_bilinear.context_sum.cpu_words import grouped, summed
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.threads import in_parts

if TYPE_CHECKING:
    from tacenda.kernels.log_bilinear.context_sum import Context

_Array = NDArray[Any]


@njit
def _forward(  # type: ignore[no-untyped-def]
    table, far, ids, offsets, starts, ends, places, c, b, rates, a, given, before, after, out, spare, first, last
):  # fmt: skip
    n, tokens, size = len(c), len(ids), 4 * table.shape[1]
    most = np.empty(out.shape[0], np.int32)
    for s in range(first, last):
        start, end = starts[s], ends[s]
        if not len(offsets) - 1:
            for t in range(start, end):
                out[places[s] + t - start] = b
            continue
        at = sequence_of(offsets, start)
        u = after[s]
        u[:] = before[s]
        if not given:
            fade(far, b, rates, a, ids, offsets[at], start - n, u, spare)
            before[s] = u
        t, still = start, True
        while t < end:
            while t < tokens and t >= offsets[at + 1]:
                at += 1
                u[:] = 0
            limit = min(end, offsets[at + 1] if offsets[at + 1] < tokens else tokens + 1)
            place = places[s] + t - start
            predictions(
                table, far, c, b, rates, a, ids, t, limit, offsets[at], still or t == offsets[at], u, spare,
                out.ctypes.data + place * size, most[place:],
            )  # fmt: skip
            t, still = limit, False
        p = (
            end - 1 - n
        )  # goes into the tails behind the last position, which must not be behind the last word
        if start < end <= tokens and p >= offsets[at]:
            fade(far, b, rates, a, ids, p, p + 1, u, spare)


@njit
def _rows(of_rows, of_far, c, rates, a, grad, begin, start, end, low, high, apart, spare):  # type: ignore[no-untyped-def]
    """The gradients of the words of one sequence before the positions start .. end: into the rows high - 1 - p.

    That of word p is a predicted vector in a text of gradients, read backwards from the last one:
    sum_i c_i g_(p + i) + sum_k a_k v_k(p), v_k(p) = lambda_k v_k(p + 1) + g_(p + n + 1).
    """
    m = end - start
    first = max(begin, low)
    count = end - 1 - first
    if count <= 0:
        return
    text = np.zeros(
        (m + 1, grad.shape[1]), np.float32
    )  # the last row for positions before the start
    text[:m] = grad
    order = np.full(count + 1, m, np.int32)
    for i in range(min(m, count + 1)):
        order[i] = m - 1 - i
    v, nothing, most = (
        np.zeros_like(a),
        np.zeros(grad.shape[1], np.float32),
        np.empty(count, np.int32),
    )
    place = 4 * grad.shape[1] * (high + 1 - end)
    near = of_rows.ctypes.data + place
    if not apart:
        predictions(
            text, text, c, nothing, rates, a, order, 1, count + 1, 0, False, v, spare, near, most
        )
        return
    predictions(
        text, text, c, nothing, rates[:0], a, order, 1, count + 1, 0, False, v, spare, near, most
    )
    away, none = of_far.ctypes.data + place, np.zeros_like(c)
    predictions(
        text, text, none, nothing, rates, a, order, 1, count + 1, 0, False, v, spare, away, most
    )


@njit
def _backward(  # type: ignore[no-untyped-def]
    table, far, ids, offsets, starts, ends, places, lows, highs, firsts, c, rates, a, before, grad, rows, far_rows,
    apart, d_c, d_b, d_a, spare, first, last,
):  # fmt: skip
    tokens, most = len(ids), np.empty(1, np.int32)
    for s in range(first, last):
        start, end = starts[s], ends[s]
        if not len(offsets) - 1:
            for r in range(places[s], places[s + 1]):
                for d in range(grad.shape[1]):
                    d_b[s, d] += grad[r, d]
            continue
        at, t, u = sequence_of(offsets, start), start, before[s].copy()
        of_rows, of_far = rows[firsts[s] : firsts[s + 1]], far_rows[firsts[s] : firsts[s + 1]]
        while t < end:
            while t < tokens and t >= offsets[at + 1]:
                at += 1
                u[:] = 0
            limit = min(end, offsets[at + 1] if offsets[at + 1] < tokens else tokens + 1)
            here = grad[places[s] + t - start : places[s] + limit - start]
            predictions(
                table, far, d_c[s], d_b[s], rates, d_a[s], ids, t, limit, offsets[at],
                t == start or t == offsets[at], u, spare, here.ctypes.data, most, True,
            )  # fmt: skip
            _rows(
                of_rows,
                of_far,
                c,
                rates,
                a,
                here,
                offsets[at],
                t,
                limit,
                lows[s],
                highs[s],
                apart,
                spare,
            )
            t = limit


def forward(
    table: _Array,
    ids: _Array,
    offsets: _Array,
    starts: _Array,
    ends: _Array,
    context: "Context",
    tails: _Array | None = None,
    far: _Array | None = None,
    threads: int = 1,
) -> Forward:
    """See `tacenda.kernels.log_bilinear.context_sum.forward`."""
    checked = _single(check(table, ids, offsets, starts, ends, context))
    spans, places, of = len(checked.starts), checked.places, checked.context
    before = np.zeros((spans, *of.tail_weights.shape), np.float32)
    if tails is not None:
        before[:] = check_tails(tails, spans, of, "tails")
    out, after = np.empty((places[-1], len(of.bias)), np.float32), before.copy()

    f = checked.table if far is None else check_far(far, checked.table)

    spare = spare_rows(checked.table.shape[1], len(of.rates))

    def work(first: int, last: int) -> None:
        _forward(
            checked.table,
            f,
            *checked[1:6],
            *of,
            tails is not None,
            before,
            after,
            out,
            spare,
            first,
            last,
        )

    in_parts(work, spans, threads)
    return Forward(out, before, after)


def backward(
    table: _Array,
    ids: _Array,
    offsets: _Array,
    starts: _Array,
    ends: _Array,
    context: "Context",
    before: _Array,
    grad: _Array,
    far: _Array | None = None,
    threads: int = 1,
) -> Gradients:
    """See `tacenda.kernels.log_bilinear.context_sum.backward`."""
    checked = _single(check(table, ids, offsets, starts, ends, context))
    table, ids, offsets, starts, ends, places, context = checked
    spans, (n, width) = len(starts), context.weights.shape
    before = check_tails(before, spans, context, "before")
    grad = check_grad(grad, int(places[-1]), context)
    lows = np.maximum(starts - n, 0)
    highs = np.maximum(np.minimum(ends - 1, len(ids)), lows)
    firsts = np.concatenate([[0], np.cumsum(highs - lows)]).astype(np.int64)
    rows = np.zeros((firsts[-1], width), np.float32)
    f, far_rows = (table, rows) if far is None else (check_far(far, table), np.zeros_like(rows))
    spare = spare_rows(width, len(context.rates))
    d_c, d_b = np.zeros((spans, n, width), np.float32), np.zeros((spans, width), np.float32)
    d_a = np.zeros(before.shape, np.float32)

    def work(first: int, last: int) -> None:
        _backward(
            table, f, ids, offsets, starts, ends, places, lows, highs, firsts, context.weights, context.rates,
            context.tail_weights, before, grad, rows, far_rows, far is not None, d_c, d_b, d_a, spare, first, last,
        )  # fmt: skip

    in_parts(work, spans, threads)
    positions = np.repeat(firsts[1:] + lows, highs - lows) - 1 - np.arange(len(rows))
    words, order, borders = grouped(ids[positions])
    d_rows = summed(rows, order, borders, threads)
    d_far = d_rows[:0] if far is None else summed(far_rows, order, borders, threads)
    return Gradients(words, d_rows, d_far, *(part.sum(axis=0) for part in (d_c, d_b, d_a)))


def _single(checked: Checked) -> Checked:
    if checked.table.dtype != np.float32:
        raise UnsupportedShape(f"a {checked.table.dtype} table; float32 is what is compiled")
    return checked
