"""The tree softmax on a GPU: a program for each token, then one for each node that was visited.

The nodes of a word's codes lie one after another, so that a token's activations are one tile, and its codes are runs of
that tile. A node near the root is visited by every token: the gradients of a node are summed in pieces of `PIECE`
tokens side by side, then over the pieces, in a fixed order. Logarithms are float64, as in the specification.

Tensors are torch's, but for the codes, which are kept on the device from call to call; words may be an array on the
host. Memory beside the results: a number for each visit, and a row for each piece. Works under Triton's interpreter.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.log_bilinear.tree_softmax import Codes, Gradients, Step
from tacenda.kernels.machinery.gpu import tile
from tacenda.kernels.machinery.tensors import to_device
from tacenda.kernels.shared.row_steps import EPSILON

PIECE = 256
"""Visits of a node that are added up by one program."""

_MOST_STEPS = 4096  # of the codes of a word: more do not fit into the registers of a program
_MOST_WIDTH = 4096
_WIDTH, _VISITS = 32, 16


@triton.jit
def _tokens(  # type: ignore[no-untyped-def]
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
def _pieces(  # type: ignore[no-untyped-def]
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
def _nodes(  # type: ignore[no-untyped-def]
    partial, of_bias, firsts, visited, q, b, sums, bias_sums, rate, epsilon, width,
    WIDTH: tl.constexpr, MOVING: tl.constexpr,
):  # fmt: skip
    """Sum the pieces of one node, and take a step of AdaGrad on its vector and its bias.

    Unless MOVING, ``q`` and ``b`` have a row for each visited node, which takes the sums.
    """
    k = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, WIDTH)
    inside = d < width
    g, g_bias = tl.zeros((WIDTH,), tl.float32), tl.zeros((), tl.float32)
    for piece in range(tl.load(firsts + k), tl.load(firsts + k + 1)):
        g += tl.load(partial + piece * width + d, inside, 0.0)
        g_bias += tl.load(of_bias + piece)
    if MOVING:
        node = tl.load(visited + k).to(tl.int64)
        so_far = tl.load(sums + node) + tl.sum(g * g, 0) / width
        tl.store(sums + node, so_far)
        row = tl.load(q + node * width + d, inside, 0.0)
        tl.store(q + node * width + d, row - rate / (tl.sqrt(so_far) + epsilon) * g, inside)
        so_far = tl.load(bias_sums + node) + g_bias * g_bias
        tl.store(bias_sums + node, so_far)
        tl.store(b + node, tl.load(b + node) - rate / (tl.sqrt(so_far) + epsilon) * g_bias)
    else:
        tl.store(q + k * width + d, g, inside)
        tl.store(b + k, g_bias)


def _on_device(codes: Codes, device: torch.device) -> list[torch.Tensor]:
    """The arrays of the codes there: copied when they are first used there, and kept as long as the codes are."""
    if device not in codes.copies:
        codes.copies[device] = to_device(codes, device)
    found: list[torch.Tensor] = codes.copies[device]
    return found


def _check(vectors: torch.Tensor, codes: Codes) -> None:
    """Decline what a program cannot hold."""
    if vectors.dtype != torch.float32 or vectors.shape[1] > _MOST_WIDTH:
        raise UnsupportedShape(f"{vectors.dtype} vectors of width {vectors.shape[1]}")
    if codes.most[1] > _MOST_STEPS:
        raise UnsupportedShape(f"codes of {codes.most[1]} steps a word")


def forward(
    vectors: torch.Tensor,
    words: Any,
    codes: Codes,
    node_vectors: torch.Tensor,
    node_biases: torch.Tensor,
) -> torch.Tensor:
    """See `tacenda.kernels.log_bilinear.tree_softmax.forward`."""
    _check(vectors, codes)
    return _scored(vectors, words, codes, node_vectors, node_biases, None)[0]


def _scored(
    vectors: torch.Tensor,
    words: Any,
    codes: Codes,
    q: torch.Tensor,
    b: torch.Tensor,
    learning: tuple[torch.Tensor, torch.Tensor, int] | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Log-probabilities, and with ``learning`` (grad, places, visits) the slopes of all visits and the gradients."""
    log_probs = vectors.new_empty(len(vectors), dtype=torch.float64)
    grad, places, n_visits = learning or (log_probs, log_probs, 0)
    slopes = vectors.new_empty(n_visits)
    gradient = torch.zeros_like(vectors) if learning else vectors
    if len(vectors):
        (own,) = to_device((words,), vectors.device)
        with torch.cuda.device_of(vectors):
            _tokens[(len(vectors),)](
                vectors, own, *_on_device(codes, vectors.device), q, b, grad, places, log_probs, slopes, gradient,
                vectors.shape[1], STEPS=tile(codes.most[1], _MOST_STEPS), WIDTH=_WIDTH, LEARNING=learning is not None,
                num_warps=4,
            )  # fmt: skip
    return log_probs, slopes, gradient


def step(
    vectors: torch.Tensor,
    words: Any,
    codes: Codes,
    node_vectors: torch.Tensor,
    node_biases: torch.Tensor,
    grad: torch.Tensor,
    sums: torch.Tensor,
    bias_sums: torch.Tensor,
    rate: float,
    threads: int = 1,
) -> Step:
    """See `tacenda.kernels.log_bilinear.tree_softmax.step`; ``threads`` is without effect."""
    found, visits = _by_token(vectors, words, codes, node_vectors, node_biases, grad)
    _by_node(vectors, visits, node_vectors, node_biases, (sums, bias_sums, rate))
    return found


def backward(
    vectors: torch.Tensor,
    words: Any,
    codes: Codes,
    node_vectors: torch.Tensor,
    node_biases: torch.Tensor,
    grad: torch.Tensor,
    threads: int = 1,
) -> Gradients:
    """See `tacenda.kernels.log_bilinear.tree_softmax.backward`; ``threads`` is without effect."""
    found, visits = _by_token(vectors, words, codes, node_vectors, node_biases, grad)
    d_q = vectors.new_empty((len(visits.nodes), vectors.shape[1]))
    d_b = vectors.new_empty(len(d_q))
    _by_node(vectors, visits, d_q, d_b, None)
    return Gradients(*found, visits.nodes, d_q, d_b)


class _Visits(NamedTuple):
    """The visits of all tokens, one token after another; the nodes that were visited, ascending."""

    slopes: torch.Tensor  # (visits,), gradients of the activations
    owners: torch.Tensor  # (visits,), tokens
    order: torch.Tensor  # (visits,), by node
    nodes: torch.Tensor  # (visited,)
    times: torch.Tensor  # (visited,), how often each was


def _by_token(
    vectors: torch.Tensor,
    words: Any,
    codes: Codes,
    q: torch.Tensor,
    b: torch.Tensor,
    grad: torch.Tensor,
) -> tuple[Step, _Visits]:
    """Work on all tokens; return what they have found, and the nodes that they visited."""
    _check(vectors, codes)
    device = vectors.device
    heads, steps, nodes, _ = _on_device(codes, device)
    own = to_device((words,), device)[0].long()
    begins, counts = steps[heads[own]], steps[heads[own + 1]] - steps[heads[own]]
    places = counts.cumsum(0) - counts
    owners = torch.repeat_interleave(counts)
    visits = nodes[begins[owners] + torch.arange(len(owners), device=device) - places[owners]]
    log_probs, slopes, gradient = _scored(vectors, own, codes, q, b, (grad, places, len(owners)))
    of_nodes, order = torch.sort(visits, stable=True)
    visited, times = torch.unique_consecutive(of_nodes, return_counts=True)
    return Step(log_probs, gradient), _Visits(slopes, owners, order, visited, times)


def _by_node(
    vectors: torch.Tensor,
    visits: _Visits,
    q: torch.Tensor,
    b: torch.Tensor,
    moving: tuple[torch.Tensor, torch.Tensor, float] | None,
) -> None:
    """Take a step on every visited node with the sums and the rate of ``moving``, or without put gradients in q, b."""
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
            partial, of_bias, firsts, visited, q, b, *(moving or (q, b, 0.0)), EPSILON, width,
            WIDTH=tile(width, _MOST_WIDTH), MOVING=moving is not None, num_warps=4,
        )  # fmt: skip
