"""Operations of log-bilinear models on a GPU, in Triton."""

from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl

from tacenda.array_ops import to_tensors
from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.machinery.gpu import sum_rows, tile
from tacenda.kernels.shared import EPSILON
from tacenda.kernels.trees import (
    Codes,
    Context,
    ContextGradients,
    Nodes,
    Predicted,
    Spans,
    Step,
)

# -- context sum ------------------------------------------------------------------------------------
#
# The context sum on a GPU: a program walks one span for one tile of columns.
#
# A program holds the tails of its columns and the weights of all positions, and gathers the rows of the words before
# each position at once. Spans run side by side: there should be many of them, as there are in training. In the backward
# pass every position of a span gets a row of its own, written by one program; rows of a word are then added in the
# order of the text. There are no atomics, and a span's numbers depend on the span alone.
#
# Table and weights are torch's tensors; the text is on the host. Memory beside the results: a row for each
# position of a span and its context. NaN propagates. Works under Triton's interpreter.


_COLUMNS = 64
_MOST = 64  # positions, or tails, of a program: more do not fit into its registers


@triton.jit
def _predict(
    table, ids, begins, starts, ends, places, c, b, rates, a, vectors, before, after,
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
        walked = tl.where(n_tails > 0, start - n, begin)  # without tails nothing is gathered
        for p in range(begin, walked):
            word = tl.load(ids + p).to(tl.int64)
            u = fading * u + tl.load(table + word * width + d, inside, 0.0)[None, :]
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
            u = fading * u + tl.load(table + word * width + d, inside, 0.0)[None, :]
    tl.store(after + kept, u, tails)


@triton.jit
def _of_context(
    table, ids, begins, starts, ends, places, rates, before, grad, by_position, by_tail,
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
            u = fading * u + tl.load(table + word * width + d, inside, 0.0)[None, :]
    tl.store(by_position + (span * n + i)[:, None] * width + d[None, :], total, near)
    tl.store(by_tail + kept, of_tails, tails)


@triton.jit
def _of_words(
    begins, starts, ends, places, lows, firsts, c, rates, a, grad, rows,
    n, n_tails, width,
    NEAR: tl.constexpr, TAILS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Fill the gradient of every position from ``lows`` on that a span sees, from the last one to the first.

    Its part from near positions is a sum over those behind it. Its part from tails is v, what the rest of the span asks
    of a word that has just come into them: v_k(t) = a_k o g_t + lambda_k v_k(t+1). Both are added in registers: what a
    program has written to memory, another of its threads could read only behind a barrier.
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
        asked = tl.sum(weights * g, 0)
        # the word comes into the tails at this position, n after the next
        arrival = p + n + 1
        if arrival < end:
            begin = tl.load(begins + arrival)
            g_arrival = tl.load(grad + (row + arrival - start) * width + d, inside, 0.0)
            v = of_tails * g_arrival[None, :] + tl.where(begin == later, fading * v, 0.0)
            later = begin.to(tl.int64)
            asked += tl.where(p >= begin, tl.sum(v, 0), 0.0)
        tl.store(rows + (first + p - low) * width + d, asked, inside)


class _Spans(NamedTuple):
    """The text on the device: int32 or int64, see `_predict`."""

    ids: torch.Tensor
    begins: torch.Tensor
    starts: torch.Tensor
    ends: torch.Tensor
    places: torch.Tensor


def _spans(text: Spans, device: torch.device) -> _Spans:
    """Where the sequence of each position begins; that behind the last word goes on from it."""
    lengths = np.diff(text.offsets)
    begins = np.repeat(text.offsets[:-1], lengths)
    begins = np.append(begins, begins[-1] if len(begins) else 0)
    return _Spans(*to_tensors((text.ids, begins, text.starts, text.ends, text.places), device))


def _sizes(context: Context, table: torch.Tensor) -> dict[str, int]:
    """The tiles of a program, and its warps. Raises UnsupportedShape for more positions or tails than it holds."""
    n, n_tails = len(context.weights), len(context.rates)
    if max(n, n_tails) > _MOST:
        raise UnsupportedShape(f"{n} positions and {n_tails} tails")
    near, tails = (int(triton.next_power_of_2(max(size, 1))) for size in (n, n_tails))
    columns = int(triton.next_power_of_2(max(min(table.shape[1], _COLUMNS), 1)))
    warps = max(2, min(8, (near + tails) // 16))
    return {"NEAR": near, "TAILS": tails, "COLUMNS": columns, "num_warps": warps}


def context_sum(table, text, context, tails, threads):
    ids, starts = text.ids, text.starts
    sizes = _sizes(context, table)
    c, b, rates, a = context
    spans, width = _spans(text, table.device), table.shape[1]
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
    sizes = _sizes(context, table)
    c, _, rates, a = context
    n, n_tails, width = len(c), len(rates), table.shape[1]
    spans = _spans(text, table.device)
    # a row for every position that a span sees: from n before it to its last but one
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
            _of_context[grid](
                table, *spans, rates, before, grad, by_position, by_tail,
                n, n_tails, len(ids), width, **sizes,
            )  # fmt: skip
            _of_words[grid](*spans[1:], *at, c, rates, a, grad, rows, n, n_tails, width, **sizes)
    (words,) = to_tensors((ids[positions],), table.device)
    ordered, order = torch.sort(words, stable=True)
    touched, times = torch.unique_consecutive(ordered, return_counts=True)
    borders = torch.cat([times.new_zeros(1), times.cumsum(0)])
    return ContextGradients(
        touched,
        sum_rows(rows, order, borders),
        by_position.sum(0),
        grad.sum(0),
        by_tail.sum(0),
    )


# -- tree softmax -----------------------------------------------------------------------------------
#
# The tree softmax on a GPU: a program for each token, then one for each node that was visited.
#
# The nodes of a word's codes lie one after another, so that a token's activations are one tile, and its codes are runs
# of that tile. A node near the root is visited by every token: the gradients of a node are summed in pieces of `PIECE`
# tokens side by side, then over the pieces, in a fixed order. Logarithms are float64, as in the specification.
#
# Tensors are torch's, but for the codes, which are kept on the device from call to call; words may be an array on the
# host. Memory beside the results: a number for each visit, and a row for each piece. Works under Triton's interpreter.


PIECE = 256
"""Visits of a node that are added up by one program."""
_MOST_STEPS = 4096  # of the codes of a word: more do not fit into the registers of a program
_MOST_WIDTH = 4096
_NUMBERS = (
    1 << 12
)  # in the tile of node vectors of `_tokens`: as many as eight warps hold in registers
_WIDTH, _VISITS = 32, 16


@triton.jit
def _tokens(
    vectors, words, heads, steps, nodes, signs, q, b, grad, places, log_probs, slopes, gradient, width,
    STEPS: tl.constexpr, WIDTH: tl.constexpr, LEARNING: tl.constexpr,
):  # fmt: skip
    """Find log P of one token; with LEARNING, the gradients of its activations and of its vector too."""
    t = tl.program_id(0).to(tl.int64)
    word = tl.load(words + t).to(tl.int64)
    c0, c1 = tl.load(heads + word), tl.load(heads + word + 1)
    begin = tl.load(steps + c0)
    j = begin + tl.arange(0, STEPS)
    there = j < tl.load(steps + c1)
    node = tl.load(nodes + j, there, 0).to(tl.int64)
    sign = tl.load(signs + j, there, 0).to(tl.float32)
    d = tl.arange(0, WIDTH)
    x = tl.load(b + node, there, 0.0)
    for at in range(0, width, WIDTH):
        inside = at + d < width
        r = tl.load(vectors + t * width + at + d, inside, 0.0)
        rows = tl.load(
            q + node[:, None] * width + (at + d)[None, :], there[:, None] & inside[None, :], 0.0
        )
        x += tl.sum(rows * r[None, :], 1)
    # log sigma(s x), eq 4.3, of every turn; the logarithm of a code is their sum, that of a word the sum of its codes
    y = (sign * x).to(tl.float64)
    turn = tl.minimum(y, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(y)))
    turn = tl.where(there, turn, 0.0)
    largest = tl.full((), float("-inf"), tl.float64)
    total = tl.zeros((), tl.float64)
    for c in range(c0, c1):
        own = (j >= tl.load(steps + c)) & (j < tl.load(steps + c + 1))
        code = tl.sum(tl.where(own, turn, 0.0), 0)
        # NaN must not be lost in a maximum: where the code is NaN the total is
        raised = tl.where(code > largest, code, largest)
        shift = tl.where(raised == float("-inf"), 0.0, raised)
        total = total * tl.exp(largest - shift) + tl.exp(code - shift)
        largest = raised
    found = tl.where(largest == float("-inf"), 0.0, largest) + tl.log(total)
    tl.store(log_probs + t, found)
    if LEARNING:
        share = tl.zeros((STEPS,), tl.float64)
        for c in range(c0, c1):
            own = (j >= tl.load(steps + c)) & (j < tl.load(steps + c + 1))
            code = tl.sum(tl.where(own, turn, 0.0), 0)
            share = tl.where(own, tl.exp(code - found), share)
        # the other way, sigma(-s x)
        wrong = 1.0 / (1.0 + tl.exp(y))
        slope = (tl.load(grad + t) * share * sign * wrong).to(tl.float32)
        tl.store(slopes + tl.load(places + t) + tl.arange(0, STEPS), slope, there)
        for at in range(0, width, WIDTH):
            inside = at + d < width
            some = there[:, None] & inside[None, :]
            rows = tl.load(q + node[:, None] * width + (at + d)[None, :], some, 0.0)
            down = tl.sum(tl.where(there, slope, 0.0)[:, None] * rows, 0)
            tl.store(gradient + t * width + at + d, down, inside)


@triton.jit
def _pieces(
    slopes, order, owners, vectors, begins, ends, partial, of_bias, width,
    VISITS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Sum the gradients of one piece of a node's visits, for one tile of columns."""
    piece = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = d < width
    total, bias = tl.zeros((WIDTH,), tl.float32), tl.zeros((VISITS,), tl.float32)
    end = tl.load(ends + piece)
    for at in range(tl.load(begins + piece), end, VISITS):
        i = at + tl.arange(0, VISITS)
        place = tl.load(order + i, i < end, 0)
        slope = tl.load(slopes + place, i < end, 0.0)
        token = tl.load(owners + place, i < end, 0)
        some = (i < end)[:, None] & inside[None, :]
        rows = tl.load(vectors + token[:, None] * width + d[None, :], some, 0.0)
        total += tl.sum(slope[:, None] * rows, 0)
        bias += slope
    tl.store(partial + piece * width + d, total, inside)
    tl.store(of_bias + piece, tl.sum(bias, 0), mask=tl.program_id(1) == 0)


@triton.jit
def _nodes(
    partial, of_bias, firsts, visited, q, b, sums, bias_sums, rate, epsilon, width,
    WIDTH: tl.constexpr,
):  # fmt: skip
    """Sum the pieces of one node, and take a step of AdaGrad on its vector and its bias."""
    k = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, WIDTH)
    inside = d < width
    g, g_bias = tl.zeros((WIDTH,), tl.float32), tl.zeros((), tl.float32)
    for piece in range(tl.load(firsts + k), tl.load(firsts + k + 1)):
        g += tl.load(partial + piece * width + d, inside, 0.0)
        g_bias += tl.load(of_bias + piece)
    node = tl.load(visited + k).to(tl.int64)
    so_far = tl.load(sums + node) + tl.sum(g * g, 0) / width
    bias_so_far = tl.load(bias_sums + node) + g_bias * g_bias
    row, bias = tl.load(q + node * width + d, inside, 0.0), tl.load(b + node)
    tl.debug_barrier()  # all threads have read the sums that one of them changes
    tl.store(sums + node, so_far)
    tl.store(q + node * width + d, row - rate / (tl.sqrt(so_far) + epsilon) * g, inside)
    tl.store(bias_sums + node, bias_so_far)
    tl.store(b + node, bias - rate / (tl.sqrt(bias_so_far) + epsilon) * g_bias)


def _on_device(codes: Codes, device: torch.device) -> list[torch.Tensor]:
    """The arrays of the codes there: copied when they are first used there, and kept as long as the codes are."""
    if device not in codes.copies:
        codes.copies[device] = to_tensors(codes, device)
    found: list[torch.Tensor] = codes.copies[device]
    return found


def _check(vectors: torch.Tensor, codes: Codes) -> None:
    """Decline what a program cannot hold."""
    if vectors.dtype != torch.float32 or vectors.shape[1] > _MOST_WIDTH:
        raise UnsupportedShape(f"{vectors.dtype} vectors of width {vectors.shape[1]}")
    if codes.most[1] > _MOST_STEPS:
        raise UnsupportedShape(f"codes of {codes.most[1]} steps a word")


def tree_softmax(vectors, words, codes, nodes):
    _check(vectors, codes)
    return _scored(vectors, words, codes, nodes, None)[0]


def _scored(
    vectors: torch.Tensor,
    words: Any,
    codes: Codes,
    nodes: Nodes,
    learning: tuple[torch.Tensor, torch.Tensor, int] | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Log-probabilities, and with ``learning`` (grad, places, visits) the slopes of all visits and the gradients."""
    log_probs = vectors.new_empty(len(vectors), dtype=torch.float64)
    grad, places, n_visits = learning or (log_probs, log_probs, 0)
    slopes = vectors.new_empty(n_visits)
    gradient = torch.zeros_like(vectors) if learning else vectors
    if len(vectors):
        (own,) = to_tensors((words,), vectors.device)
        steps = tile(codes.most[1], _MOST_STEPS)
        columns = min(_WIDTH, _NUMBERS // steps)
        with torch.cuda.device_of(vectors):
            _tokens[(len(vectors),)](
                vectors, own, *_on_device(codes, vectors.device), *nodes, grad, places, log_probs, slopes, gradient,
                vectors.shape[1], STEPS=steps, WIDTH=columns, LEARNING=learning is not None,
                num_warps=4 if steps * columns <= _NUMBERS // 2 else 8,
            )  # fmt: skip
    return log_probs, slopes, gradient


def tree_softmax_step(vectors, words, codes, nodes, grad, sums, rate, threads):
    found, visits = _by_token(vectors, words, codes, nodes, grad)
    _by_node(vectors, visits, nodes, (*sums, float(rate)))
    return found


class _Visits(NamedTuple):
    """The visits of all tokens, one token after another; the nodes that were visited, ascending."""

    slopes: torch.Tensor  # (visits,), gradients of the activations
    owners: torch.Tensor  # (visits,), tokens
    order: torch.Tensor  # (visits,), by node
    nodes: torch.Tensor  # (visited,)
    times: torch.Tensor  # (visited,), how often each was


def _by_token(
    vectors: torch.Tensor, words: Any, codes: Codes, tables: Nodes, grad: torch.Tensor
) -> tuple[Step, _Visits]:
    """Work on all tokens; return what they have found, and the nodes that they visited."""
    _check(vectors, codes)
    device = vectors.device
    heads, steps, nodes, _ = _on_device(codes, device)
    own = to_tensors((words,), device)[0].long()
    begins, counts = steps[heads[own]], steps[heads[own + 1]] - steps[heads[own]]
    places = counts.cumsum(0) - counts
    owners = torch.repeat_interleave(counts)
    visits = nodes[begins[owners] + torch.arange(len(owners), device=device) - places[owners]]
    log_probs, slopes, gradient = _scored(vectors, own, codes, tables, (grad, places, len(owners)))
    of_nodes, order = torch.sort(visits, stable=True)
    visited, times = torch.unique_consecutive(of_nodes, return_counts=True)
    return Step(log_probs, gradient), _Visits(slopes, owners, order, visited, times)


def _by_node(
    vectors: torch.Tensor,
    visits: _Visits,
    nodes: Nodes,
    moving: tuple[torch.Tensor, torch.Tensor, float],
) -> None:
    """Take a step on every visited node with the sums and the rate of ``moving``."""
    slopes, owners, order, visited, times = visits
    if not len(visited):
        return
    width = vectors.shape[1]
    pieces = (times + PIECE - 1) // PIECE
    firsts = torch.cat([pieces.new_zeros(1), pieces.cumsum(0)])
    owner = torch.repeat_interleave(pieces)
    number = torch.arange(len(owner), device=times.device) - firsts[owner]
    node_begins = times.cumsum(0) - times
    begins = node_begins[owner] + number * PIECE
    ends = torch.minimum(begins + PIECE, (node_begins + times)[owner])
    partial, of_bias = slopes.new_empty((len(owner), width)), slopes.new_empty(len(owner))
    columns = tile(width, 128)
    with torch.cuda.device_of(vectors):
        _pieces[(len(owner), max(1, triton.cdiv(width, columns)))](
            slopes, order, owners, vectors, begins, ends, partial, of_bias, width,
            VISITS=_VISITS, WIDTH=columns, num_warps=4,
        )  # fmt: skip
        _nodes[(len(visited),)](
            partial, of_bias, firsts, visited, *nodes, *moving, EPSILON, width,
            WIDTH=tile(width, _MOST_WIDTH), num_warps=4,
        )  # fmt: skip
