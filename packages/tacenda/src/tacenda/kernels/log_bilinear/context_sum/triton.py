"""The context sum on a GPU: a program walks one span for one tile of columns.

A program holds the tails of its columns and the weights of all positions, and gathers the rows of the words before each
position at once. Spans run side by side: there should be many of them, as there are in training. In the backward
pass every position of a span gets a row of its own, written by one program; rows of a word are then added in the order
of the text. There are no atomics, and a span's numbers depend on the span alone.

Table and weights are torch's tensors; the text is on the host. Memory beside the results: a row, or two with vectors
of far words, for each position of a span and its context. NaN propagates. Works under Triton's interpreter.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl

from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.log_bilinear.context_sum import Context, Forward, Gradients, places_of
from tacenda.kernels.machinery.gpu import sum_rows
from tacenda.kernels.machinery.tensors import to_device

_COLUMNS = 64
_MOST = 64  # positions, or tails, of a program: more do not fit into its registers


@triton.jit
def _forward(  # type: ignore[no-untyped-def]
    table, far, ids, begins, starts, ends, places, c, b, rates, a, vectors, before, after,
    n, n_tails, tokens, width,
    NEAR: tl.constexpr, TAILS: tl.constexpr, COLUMNS: tl.constexpr, GIVEN: tl.constexpr,
):  # fmt: skip
    """Fill the predicted vectors of one span; ``begins`` says where the sequence of each position begins."""
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
    kept = (span * n_tails + k)[:, None] * width + d[None, :]
    u = tl.zeros((TAILS, COLUMNS), bias.dtype)
    if GIVEN:
        u = tl.load(before + kept, tails, 0.0)
    else:
        for p in range(begin, start - n):
            word = tl.load(ids + p).to(tl.int64)
            u = fading * u + tl.load(far + word * width + d, inside, 0.0)[None, :]
        tl.store(before + kept, u, tails)
    for t in range(start, end):
        of_t = tl.load(begins + t)
        u = tl.where(of_t == begin, u, 0.0)
        begin = of_t
        there = (i < n) & (t - 1 - i >= begin)
        words = tl.load(ids + t - 1 - i, there, 0).to(tl.int64)
        rows = tl.load(
            table + words[:, None] * width + d[None, :], there[:, None] & inside[None, :], 0.0
        )
        r = bias + tl.sum(weights * rows, 0) + tl.sum(of_tails * u, 0)
        tl.store(vectors + (row + t - start) * width + d, r, inside)
        leaves = (t - n >= begin) & (t < tokens)
        if leaves:
            word = tl.load(ids + t - n).to(tl.int64)
            u = fading * u + tl.load(far + word * width + d, inside, 0.0)[None, :]
    tl.store(after + kept, u, tails)


@triton.jit
def _of_context(  # type: ignore[no-untyped-def]
    table, far, ids, begins, starts, ends, places, rates, before, grad, by_position, by_tail,
    n, n_tails, tokens, width,
    NEAR: tl.constexpr, TAILS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sum the gradients of the weights over one span, which is walked as in the forward pass."""
    span = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = d < width
    i, k = tl.arange(0, NEAR), tl.arange(0, TAILS)
    near = (i < n)[:, None] & inside[None, :]
    tails = (k < n_tails)[:, None] & inside[None, :]
    fading = tl.load(rates + k, k < n_tails, 0.0)[:, None]
    start, end, row = tl.load(starts + span), tl.load(ends + span), tl.load(places + span)
    begin = tl.load(begins + start)
    kept = (span * n_tails + k)[:, None] * width + d[None, :]
    u = tl.load(before + kept, tails, 0.0)
    total = tl.zeros((NEAR, COLUMNS), u.dtype)
    of_tails = tl.zeros((TAILS, COLUMNS), u.dtype)
    for t in range(start, end):
        of_t = tl.load(begins + t)
        u = tl.where(of_t == begin, u, 0.0)
        begin = of_t
        g = tl.load(grad + (row + t - start) * width + d, inside, 0.0)[None, :]
        there = (i < n) & (t - 1 - i >= begin)
        words = tl.load(ids + t - 1 - i, there, 0).to(tl.int64)
        total += g * tl.load(
            table + words[:, None] * width + d[None, :], there[:, None] & inside[None, :], 0.0
        )
        of_tails += g * u
        leaves = (t - n >= begin) & (t < tokens)
        if leaves:
            word = tl.load(ids + t - n).to(tl.int64)
            u = fading * u + tl.load(far + word * width + d, inside, 0.0)[None, :]
    tl.store(by_position + (span * n + i)[:, None] * width + d[None, :], total, near)
    tl.store(by_tail + kept, of_tails, tails)


@triton.jit
def _of_words(  # type: ignore[no-untyped-def]
    begins, starts, ends, places, lows, firsts, c, rates, a, grad, rows, far_rows,
    n, n_tails, width,
    NEAR: tl.constexpr, TAILS: tl.constexpr, COLUMNS: tl.constexpr, APART: tl.constexpr,
):  # fmt: skip
    """Fill the gradient of every position from ``lows`` on that a span sees, from the last one to the first.

    Its part from near positions is a sum over those behind it. Its part from tails is v, what the rest of the span asks
    of a word that has just come into them: v_k(t) = a_k o g_t + lambda_k v_k(t+1).
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
    later = tl.full((), -1, tl.int64)  # where the sequence of the position behind begins
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
        tl.store(rows + (first + p - low) * width + d, tl.sum(weights * g, 0), inside)
    for back in range(end - 1 - start):
        t = end - 1 - back
        begin = tl.load(begins + t)
        g = tl.load(grad + (row + t - start) * width + d, inside, 0.0)[None, :]
        v = of_tails * g + tl.where(begin == later, fading * v, 0.0)
        later = begin.to(tl.int64)
        p = t - n - 1
        if p >= begin:
            at = (first + p - low) * width + d
            asked = tl.sum(v, 0)
            if APART:
                tl.store(far_rows + at, asked, inside)
            else:
                tl.store(rows + at, tl.load(rows + at, inside, 0.0) + asked, inside)


class _Spans(NamedTuple):
    """The text on the device: int32 or int64, see `_forward`."""

    ids: torch.Tensor
    begins: torch.Tensor
    starts: torch.Tensor
    ends: torch.Tensor
    places: torch.Tensor


def _spans(ids: Any, offsets: Any, starts: Any, ends: Any, device: torch.device) -> _Spans:
    """Where the sequence of each position begins; that behind the last word goes on from it."""
    lengths = np.diff(offsets)
    begins = np.repeat(offsets[:-1], lengths)
    begins = np.append(begins, begins[-1] if len(begins) else 0)
    return _Spans(*to_device((ids, begins, starts, ends, places_of(starts, ends)), device))


def _sizes(context: Context, table: torch.Tensor) -> dict[str, int]:
    """The tiles of a program. Raises UnsupportedShape for more positions or tails than it holds."""
    n, n_tails = len(context.weights), len(context.rates)
    if max(n, n_tails) > _MOST:
        raise UnsupportedShape(f"{n} positions and {n_tails} tails")
    near, tails = (int(triton.next_power_of_2(max(size, 1))) for size in (n, n_tails))
    columns = int(triton.next_power_of_2(max(min(table.shape[1], _COLUMNS), 1)))
    return {"NEAR": near, "TAILS": tails, "COLUMNS": columns}


def forward(
    table: torch.Tensor,
    ids: Any,
    offsets: Any,
    starts: Any,
    ends: Any,
    context: Context,
    tails: torch.Tensor | None = None,
    far: torch.Tensor | None = None,
    threads: int = 1,
) -> Forward:
    """See `tacenda.kernels.log_bilinear.context_sum.forward`; ``threads`` is without effect."""
    sizes = _sizes(context, table)
    c, b, rates, a = context
    spans, width = _spans(ids, offsets, starts, ends, table.device), table.shape[1]
    vectors = table.new_empty((int(places_of(starts, ends)[-1]), width))
    shape = (len(starts), *a.shape)
    before = table.new_empty(shape) if tails is None else tails
    after = table.new_empty(shape)
    grid = len(starts), triton.cdiv(width, sizes["COLUMNS"])
    if all(grid):
        with torch.cuda.device_of(table):
            _forward[grid](
                table, table if far is None else far, *spans, c, b, rates, a, vectors, before, after,
                len(c), len(rates), len(ids), width, **sizes, GIVEN=tails is not None, num_warps=2,
            )  # fmt: skip
    return Forward(vectors, before if tails is None else tails.clone(), after)


def backward(
    table: torch.Tensor,
    ids: Any,
    offsets: Any,
    starts: Any,
    ends: Any,
    context: Context,
    before: torch.Tensor,
    grad: torch.Tensor,
    far: torch.Tensor | None = None,
    threads: int = 1,
) -> Gradients:
    """See `tacenda.kernels.log_bilinear.context_sum.backward`; ``threads`` is without effect."""
    sizes = _sizes(context, table)
    c, _, rates, a = context
    n, n_tails, width = len(c), len(rates), table.shape[1]
    spans = _spans(ids, offsets, starts, ends, table.device)
    # a row for every position that a span sees: from n before it to its last but one
    lows = np.maximum(starts - n, 0)
    lengths = np.maximum(ends - 1 - lows, 0)
    firsts = np.concatenate([[0], np.cumsum(lengths)])
    owner = np.repeat(np.arange(len(lows)), lengths)
    positions = lows[owner] + np.arange(firsts[-1]) - firsts[owner]
    at = to_device((lows, firsts), table.device)
    rows = table.new_zeros((len(positions), width))
    far_rows = rows if far is None else torch.zeros_like(rows)
    by_position = table.new_zeros((len(starts), *c.shape))
    by_tail = table.new_zeros((len(starts), *a.shape))
    grid = len(starts), triton.cdiv(width, sizes["COLUMNS"])
    if all(grid):
        with torch.cuda.device_of(table):
            _of_context[grid](
                table, table if far is None else far, *spans, rates, before, grad, by_position, by_tail,
                n, n_tails, len(ids), width, **sizes, num_warps=2,
            )  # fmt: skip
            _of_words[grid](
                *spans[1:], *at, c, rates, a, grad, rows, far_rows, n, n_tails, width,
                **sizes, APART=far is not None, num_warps=2,
            )  # fmt: skip
    (words,) = to_device((ids[positions],), table.device)
    ordered, order = torch.sort(words, stable=True)
    touched, times = torch.unique_consecutive(ordered, return_counts=True)
    borders = torch.cat([times.new_zeros(1), times.cumsum(0)])
    of_far = rows[:0] if far is None else sum_rows(far_rows, order, borders)
    return Gradients(
        touched,
        sum_rows(rows, order, borders),
        of_far,
        by_position.sum(0),
        grad.sum(0),
        by_tail.sum(0),
    )
