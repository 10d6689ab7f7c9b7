"""The context sum on a GPU: a program walks one span for one tile of columns.

A program holds the tails of its columns and the weights of all positions, and gathers the rows of the words before each
position at once. Spans run side by side: there should be many of them, as there are in training. In the backward pass
every position of a span gets a row of its own, written by one program; rows of a word are then added in the order of
the text. There are no atomics, and a span's numbers depend on the span alone.

Table and weights are tensors of torch; the text is on the host. Memory besides the results: a row for each position of
a span and its context. NaN propagates. Works under Triton's interpreter.
"""

from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl

from tacenda.array_ops import to_tensors
from tacenda.kernels.contexts import Context, ContextGradients, Predicted, Spans
from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.machinery.gpu import sum_rows

_COLUMNS = 64  # of the tile of a program
#: The largest number of positions, or of tails: more do not fit into the registers of a program.
_MAX_POSITIONS = 64


@triton.jit
def _predict(
    table, ids, begins, starts, ends, places, c, b, rates, a, vectors, before, after,
    n, n_tails, tokens, width,
    NEAR: tl.constexpr, TAILS: tl.constexpr, COLUMNS: tl.constexpr, GIVEN: tl.constexpr,
):  # fmt: skip
    """Fill the predicted vectors of one span; ``begins`` has the first position of each position's sequence."""
    span = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = d < width
    i, k = tl.arange(0, NEAR), tl.arange(0, TAILS)
    near = (i < n)[:, None] & inside[None, :]
    tails = (k < n_tails)[:, None] & inside[None, :]
    weights = tl.load(c + i[:, None] * width + d[None, :], near, 0.0)
    of_tails = tl.load(a + k[:, None] * width + d[None, :], tails, 0.0)
    fading = tl.load(rates + k, k < n_tails, 0.0)[:, None]
    bias = tl.load(b + d, inside, 0.0)
    start, end, row = tl.load(starts + span), tl.load(ends + span), tl.load(places + span)
    begin = tl.load(begins + start)
    places_of_tails = (span * n_tails + k)[:, None] * width + d[None, :]
    u = tl.zeros((TAILS, COLUMNS), bias.dtype)
    if GIVEN:
        u = tl.load(before + places_of_tails, tails, 0.0)
    else:
        walked = tl.where(n_tails > 0, start - n, begin)  # without tails nothing is gathered
        for p in range(begin, walked):
            word = tl.load(ids + p).to(tl.int64)
            u = fading * u + tl.load(table + word * width + d, inside, 0.0)[None, :]
        tl.store(before + places_of_tails, u, tails)
    for t in range(start, end):
        of_t = tl.load(begins + t)
        u = tl.where(of_t == begin, u, 0.0)
        begin = of_t
        exists = (i < n) & (t - 1 - i >= begin)
        words = tl.load(ids + t - 1 - i, exists, 0).to(tl.int64)
        rows = tl.load(
            table + words[:, None] * width + d[None, :], exists[:, None] & inside[None, :], 0.0
        )
        r = bias + tl.sum(weights * rows, 0) + tl.sum(of_tails * u, 0)
        tl.store(vectors + (row + t - start) * width + d, r, inside)
        leaves = (t - n >= begin) & (t < tokens)
        if leaves:
            word = tl.load(ids + t - n).to(tl.int64)
            u = fading * u + tl.load(table + word * width + d, inside, 0.0)[None, :]
    tl.store(after + places_of_tails, u, tails)


@triton.jit
def _sum_weight_gradients(
    table, ids, begins, starts, ends, places, rates, before, grad, by_position, by_tail,
    n, n_tails, tokens, width,
    NEAR: tl.constexpr, TAILS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sum the gradients of the weights over one span, in the order of the forward pass."""
    span = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = d < width
    i, k = tl.arange(0, NEAR), tl.arange(0, TAILS)
    near = (i < n)[:, None] & inside[None, :]
    tails = (k < n_tails)[:, None] & inside[None, :]
    fading = tl.load(rates + k, k < n_tails, 0.0)[:, None]
    start, end, row = tl.load(starts + span), tl.load(ends + span), tl.load(places + span)
    begin = tl.load(begins + start)
    places_of_tails = (span * n_tails + k)[:, None] * width + d[None, :]
    u = tl.load(before + places_of_tails, tails, 0.0)
    total = tl.zeros((NEAR, COLUMNS), u.dtype)
    of_tails = tl.zeros((TAILS, COLUMNS), u.dtype)
    for t in range(start, end):
        of_t = tl.load(begins + t)
        u = tl.where(of_t == begin, u, 0.0)
        begin = of_t
        g = tl.load(grad + (row + t - start) * width + d, inside, 0.0)[None, :]
        exists = (i < n) & (t - 1 - i >= begin)
        words = tl.load(ids + t - 1 - i, exists, 0).to(tl.int64)
        total += g * tl.load(
            table + words[:, None] * width + d[None, :], exists[:, None] & inside[None, :], 0.0
        )
        of_tails += g * u
        leaves = (t - n >= begin) & (t < tokens)
        if leaves:
            word = tl.load(ids + t - n).to(tl.int64)
            u = fading * u + tl.load(table + word * width + d, inside, 0.0)[None, :]
    tl.store(by_position + (span * n + i)[:, None] * width + d[None, :], total, near)
    tl.store(by_tail + places_of_tails, of_tails, tails)


@triton.jit
def _fill_word_gradients(
    begins, starts, ends, places, lows, firsts, c, rates, a, grad, rows,
    n, n_tails, width,
    NEAR: tl.constexpr, TAILS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Fill the gradients of the words that a span reads, from the last word to the one at ``lows``.

    The gradient of a word is a sum over the n positions after it and, for the tails, v: the gradient with respect to a
    word that joins them at t, v_k(t) = a_k o g_t + lambda_k v_k(t+1). Both parts are added in registers, because a
    thread can read what another thread of its program wrote to memory only after a barrier.
    """
    span = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = d < width
    i, k = tl.arange(0, NEAR), tl.arange(0, TAILS)
    weights = tl.load(c + i[:, None] * width + d[None, :], (i < n)[:, None] & inside[None, :], 0.0)
    tails = (k < n_tails)[:, None] & inside[None, :]
    of_tails = tl.load(a + k[:, None] * width + d[None, :], tails, 0.0)
    fading = tl.load(rates + k, k < n_tails, 0.0)[:, None]
    start, end, row = tl.load(starts + span), tl.load(ends + span), tl.load(places + span)
    low, first = tl.load(lows + span), tl.load(firsts + span)
    v = tl.zeros((TAILS, COLUMNS), of_tails.dtype)
    later = tl.full((), -1, tl.int64)  # the beginning of the sequence at the arrival before
    for back in range(end - 1 - low):
        p = end - 2 - back
        t = p + 1 + i
        seen = (i < n) & (t >= start) & (t < end)
        seen = seen & (tl.load(begins + t, seen, 0) <= p)
        g = tl.load(
            grad + (row + t - start)[:, None] * width + d[None, :],
            seen[:, None] & inside[None, :],
            0.0,
        )
        total = tl.sum(weights * g, 0)
        # the position at which the word joins the tails
        arrival = p + n + 1
        if arrival < end:
            begin = tl.load(begins + arrival)
            g_arrival = tl.load(grad + (row + arrival - start) * width + d, inside, 0.0)
            v = of_tails * g_arrival[None, :] + tl.where(begin == later, fading * v, 0.0)
            later = begin.to(tl.int64)
            total += tl.where(p >= begin, tl.sum(v, 0), 0.0)
        tl.store(rows + (first + p - low) * width + d, total, inside)


class _Spans(NamedTuple):
    """A text and its spans on the device, int32 or int64, as `_predict` takes them."""

    ids: torch.Tensor
    begins: torch.Tensor
    starts: torch.Tensor
    ends: torch.Tensor
    places: torch.Tensor


def _copy_spans(text: Spans, device: torch.device) -> _Spans:
    """Copy a text to the device, with the first position of each position's sequence."""
    lengths = np.diff(text.offsets)
    begins = np.repeat(text.offsets[:-1], lengths)
    begins = np.append(begins, begins[-1] if len(begins) else 0)
    return _Spans(*to_tensors((text.ids, begins, text.starts, text.ends, text.places), device))


def _choose_tiles(context: Context, table: torch.Tensor) -> dict[str, int]:
    """Choose the tiles and warps of a program. Raises UnsupportedShape for more positions or tails than it holds."""
    n, n_tails = len(context.weights), len(context.rates)
    if max(n, n_tails) > _MAX_POSITIONS:
        raise UnsupportedShape(
            f"{n} positions and {n_tails} tails: a GPU serves at most {_MAX_POSITIONS} of each"
        )
    near, tails = (int(triton.next_power_of_2(max(size, 1))) for size in (n, n_tails))
    columns = int(triton.next_power_of_2(max(min(table.shape[1], _COLUMNS), 1)))
    warps = max(2, min(8, (near + tails) // 16))
    return {"NEAR": near, "TAILS": tails, "COLUMNS": columns, "num_warps": warps}


def context_sum(table, text, context, tails, threads):
    ids, starts = text.ids, text.starts
    sizes = _choose_tiles(context, table)
    c, b, rates, a = context
    spans, width = _copy_spans(text, table.device), table.shape[1]
    vectors = table.new_empty((int(text.places[-1]), width))
    shape = (len(starts), *a.shape)
    before = table.new_empty(shape) if tails is None else tails
    after = table.new_empty(shape)
    grid = len(starts), triton.cdiv(width, sizes["COLUMNS"])
    if all(grid):
        with torch.cuda.device_of(table):
            _predict[grid](
                table, *spans, c, b, rates, a, vectors, before, after,
                len(c), len(rates), len(ids), width, **sizes, GIVEN=tails is not None,
            )  # fmt: skip
    return Predicted(vectors, before if tails is None else tails.clone(), after)


def context_sum_backward(table, text, context, before, grad, threads):
    ids, starts, ends = text.ids, text.starts, text.ends
    sizes = _choose_tiles(context, table)
    c, _, rates, a = context
    n, n_tails, width = len(c), len(rates), table.shape[1]
    spans = _copy_spans(text, table.device)
    # a row for every word that a span reads: from n positions before it to its last but one
    lows = np.maximum(starts - n, 0)
    lengths = np.maximum(ends - 1 - lows, 0)
    firsts = np.concatenate([[0], np.cumsum(lengths)])
    owner = np.repeat(np.arange(len(lows)), lengths)
    positions = lows[owner] + np.arange(firsts[-1]) - firsts[owner]
    at = to_tensors((lows, firsts), table.device)
    rows = table.new_zeros((len(positions), width))
    by_position = table.new_zeros((len(starts), *c.shape))
    by_tail = table.new_zeros((len(starts), *a.shape))
    grid = len(starts), triton.cdiv(width, sizes["COLUMNS"])
    if all(grid):
        with torch.cuda.device_of(table):
            _sum_weight_gradients[grid](
                table, *spans, rates, before, grad, by_position, by_tail,
                n, n_tails, len(ids), width, **sizes,
            )  # fmt: skip
            _fill_word_gradients[grid](
                *spans[1:], *at, c, rates, a, grad, rows, n, n_tails, width, **sizes
            )
    (words,) = to_tensors((ids[positions],), table.device)
    ordered, order = torch.sort(words, stable=True)
    touched, times = torch.unique_consecutive(ordered, return_counts=True)
    borders = torch.cat([times.new_zeros(1), times.cumsum(0)])
    return ContextGradients(
        touched, sum_rows(rows, order, borders), by_position.sum(0), grad.sum(0), by_tail.sum(0)
    )
