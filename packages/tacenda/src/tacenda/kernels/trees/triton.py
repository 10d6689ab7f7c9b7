"""The tree softmax on a GPU: a program for each token, then one for each node that was visited.

The nodes of a word's codes are stored one after another, so that a token's activations are one tile, and its codes are
runs of that tile. A node near the root is visited by every token: the gradients of a node are summed in pieces of
`PIECE` tokens side by side, then over the pieces, in a fixed order. Logarithms are float64, as in the specification.

Tensors are torch's, except for the codes, which are copied to the device once; words may be an array on the host.
Memory besides the results: a number for each visit, and a row for each piece. Works under Triton's interpreter.
"""

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
import triton
import triton.language as tl

from tacenda.array_ops import to_tensors
from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.machinery.gpu import tile
from tacenda.kernels.shared import EPSILON
from tacenda.kernels.trees import Codes, Nodes, NodeSums, Step

PIECE = 256
"""Visits of a node that are added up by one program."""
#: The largest number of steps of the codes of a word: more do not fit into the registers of a program.
_MAX_STEPS = 4096
_MAX_WIDTH = 4096
#: Numbers in the tile of node vectors of `_score_tokens`: as many as eight warps hold in registers.
_TILE_SIZE = 1 << 12
_WIDTH = 32  # columns of that tile, at most
_VISITS = 16  # visits that a program of `_sum_pieces` adds at a time


@triton.jit
def _score_tokens(
    vectors, words, heads, steps, nodes, signs, q, b, grad, places, log_probs, slopes, gradient, width,
    STEPS: tl.constexpr, WIDTH: tl.constexpr, LEARNING: tl.constexpr,
):  # fmt: skip
    """Compute log P of one token and, with LEARNING, the gradients of its activations and of its vector."""
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
        # the probability of the other turn, sigma(-s x)
        other_turn = 1.0 / (1.0 + tl.exp(y))
        slope = (tl.load(grad + t) * share * sign * other_turn).to(tl.float32)
        tl.store(slopes + tl.load(places + t) + tl.arange(0, STEPS), slope, there)
        for at in range(0, width, WIDTH):
            inside = at + d < width
            some = there[:, None] & inside[None, :]
            rows = tl.load(q + node[:, None] * width + (at + d)[None, :], some, 0.0)
            down = tl.sum(tl.where(there, slope, 0.0)[:, None] * rows, 0)
            tl.store(gradient + t * width + at + d, down, inside)


@triton.jit
def _sum_pieces(
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
def _step_nodes(
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


#: The arrays of codes on devices, as long as the codes exist.
_copies: WeakKeyDictionary[Codes, dict[torch.device, list[torch.Tensor]]] = WeakKeyDictionary()


def _copy_codes(codes: Codes, device: torch.device) -> list[torch.Tensor]:
    """Return the arrays of the codes on a device, copied there at the first call."""
    copies = _copies.setdefault(codes, {})
    if device not in copies:
        copies[device] = to_tensors(codes.arrays, device)
    return copies[device]


def _check(vectors: torch.Tensor, codes: Codes) -> None:
    """Raise UnsupportedShape for vectors or codes that a program cannot hold."""
    if vectors.dtype != torch.float32 or vectors.shape[1] > _MAX_WIDTH:
        raise UnsupportedShape(f"{vectors.dtype} vectors of width {vectors.shape[1]}")
    if codes.most[1] > _MAX_STEPS:
        raise UnsupportedShape(f"codes of {codes.most[1]} steps a word")


def tree_softmax(vectors, words, codes, nodes):
    _check(vectors, codes)
    return _launch_tokens(vectors, words, codes, nodes, None).log_probs


class _Learning(NamedTuple):
    """The additional arguments of a training step."""

    grad: torch.Tensor  # (tokens,)
    places: torch.Tensor  # (tokens,), the first visit of each token
    n_visits: int


class _Scores(NamedTuple):
    """The results of all tokens; without learning, the latter two are not filled."""

    log_probs: torch.Tensor  # float64 (tokens,)
    slopes: torch.Tensor  # (visits,), gradients of the activations
    gradient: torch.Tensor  # (tokens, width), of the vectors


def _launch_tokens(
    vectors: torch.Tensor, words: Any, codes: Codes, nodes: Nodes, learning: _Learning | None
) -> _Scores:
    """Compute log-probabilities and, for learning, gradients of all tokens."""
    log_probs = vectors.new_empty(len(vectors), dtype=torch.float64)
    # a kernel needs a tensor for every argument: without learning it reads and writes none of these
    grad, places, n_visits = learning or (log_probs, log_probs, 0)
    slopes = vectors.new_empty(n_visits)
    gradient = torch.zeros_like(vectors) if learning else vectors
    if len(vectors):
        (own,) = to_tensors((words,), vectors.device)
        steps = tile(codes.most[1], _MAX_STEPS)
        columns = min(_WIDTH, _TILE_SIZE // steps)
        with torch.cuda.device_of(vectors):
            _score_tokens[(len(vectors),)](
                vectors, own, *_copy_codes(codes, vectors.device), *nodes, grad, places, log_probs, slopes, gradient,
                vectors.shape[1], STEPS=steps, WIDTH=columns, LEARNING=learning is not None,
                num_warps=4 if steps * columns <= _TILE_SIZE // 2 else 8,
            )  # fmt: skip
    return _Scores(log_probs, slopes, gradient)


def tree_softmax_step(vectors, words, codes, nodes, grad, sums, rate, threads):
    step, visits = _visit_nodes(vectors, words, codes, nodes, grad)
    _step_visited(vectors, visits, nodes, sums, rate)
    return step


class _Visits(NamedTuple):
    """The visits of all tokens, one token after another, and the visited nodes, ascending."""

    slopes: torch.Tensor  # (visits,), gradients of the activations
    owners: torch.Tensor  # (visits,), tokens
    order: torch.Tensor  # (visits,), the visits sorted by node
    nodes: torch.Tensor  # (visited,)
    times: torch.Tensor  # (visited,), the number of visits of each node


def _visit_nodes(
    vectors: torch.Tensor, words: Any, codes: Codes, tables: Nodes, grad: torch.Tensor
) -> tuple[Step, _Visits]:
    """Compute the results of all tokens, and their visits of nodes."""
    _check(vectors, codes)
    device = vectors.device
    heads, steps, nodes, _ = _copy_codes(codes, device)
    own = to_tensors((words,), device)[0].long()
    begins, counts = steps[heads[own]], steps[heads[own + 1]] - steps[heads[own]]
    places = counts.cumsum(0) - counts
    owners = torch.repeat_interleave(counts)
    visits = nodes[begins[owners] + torch.arange(len(owners), device=device) - places[owners]]
    learning = _Learning(grad, places, len(owners))
    log_probs, slopes, gradient = _launch_tokens(vectors, own, codes, tables, learning)
    of_nodes, order = torch.sort(visits, stable=True)
    visited, times = torch.unique_consecutive(of_nodes, return_counts=True)
    return Step(log_probs, gradient), _Visits(slopes, owners, order, visited, times)


def _step_visited(
    vectors: torch.Tensor, visits: _Visits, nodes: Nodes, sums: NodeSums, rate: float
) -> None:
    """Take a step of AdaGrad on every visited node."""
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
        _sum_pieces[(len(owner), max(1, triton.cdiv(width, columns)))](
            slopes, order, owners, vectors, begins, ends, partial, of_bias, width,
            VISITS=_VISITS, WIDTH=columns, num_warps=4,
        )  # fmt: skip
        _step_nodes[(len(visited),)](
            partial, of_bias, firsts, visited, *nodes, *sums, float(rate), EPSILON, width,
            WIDTH=tile(width, _MAX_WIDTH), num_warps=4,
        )  # fmt: skip
