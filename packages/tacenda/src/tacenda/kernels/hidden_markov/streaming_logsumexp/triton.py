"""The streaming log-sum-exp on a GPU: one program for each tile of rows, which goes through the columns tile by tile.

Scores live in registers only. The backward pass makes them twice, once for the gradient with respect to the rows and
once for that with respect to the columns, so that one program makes every sum, without atomics, and results repeat.

Tensors are torch's, float32 or float64, of any layout; another than C order is copied. float32 is not rounded to TF32
unless torch allows it. NaN propagates. Works under Triton's interpreter.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.hidden_markov.streaming_logsumexp import Gradients
from tacenda.kernels.machinery.gpu import precision, product, tile

_ROWS, _COLUMNS, _WIDTH = 64, 64, 32
_OUT = 128  # columns of a gradient in one program


@triton.jit
def _forward(  # type: ignore[no-untyped-def]
    x, y, b, found, n_rows, n_columns, width,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Find the log-sum-exp of one tile of rows: the largest score and the total below it, tile after tile."""
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    own = i < n_rows
    largest = tl.full((ROWS,), float("-inf"), x.dtype.element_ty)
    total = tl.zeros((ROWS,), x.dtype.element_ty)
    for at in range(0, n_columns, COLUMNS):
        j = at + tl.arange(0, COLUMNS).to(tl.int64)
        there = j < n_columns
        scores = product(x + i * width, y + j * width, width, own, there, WIDTH, PRECISION)
        scores += tl.load(b + j, there, float("-inf"))[None, :]
        raised = tl.maximum(largest, tl.max(scores, 1))
        # Where the largest score rises, the total so far is scaled down. Where all scores so far are -inf there is
        # nothing to scale, and -inf - -inf is no number.
        shift = tl.where(raised == float("-inf"), 0.0, raised)
        total = total * tl.exp(largest - shift) + tl.sum(tl.exp(scores - shift[:, None]), 1)
        largest = raised
    # log 0 is avoided rather than computed and overwritten: the result there is -inf.
    some = total != 0
    logarithm = tl.where(some, tl.log(tl.where(some, total, 1.0)), float("-inf"))
    shift = tl.where(largest == float("-inf"), 0.0, largest)
    tl.store(found + i, shift + logarithm, own)


@triton.jit
def _backward(  # type: ignore[no-untyped-def]
    own_vectors, vectors, b, found, g, gradient, bias_gradient, n_own, n, width,
    OF_ROWS: tl.constexpr, OWN: tl.constexpr, OTHER: tl.constexpr, WIDTH: tl.constexpr, OUT: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Sum the gradient of one tile of rows, or of columns without OF_ROWS, over all of the other side.

    Made again are the scores of a tile of both sides, and from them g_i p_ij; its product with the other side's vectors
    is what the tile adds. ``own`` and ``there`` keep what lies beyond the ends out: their p is exp(-inf).
    """
    i = tl.program_id(0).to(tl.int64) * OWN + tl.arange(0, OWN)
    d = tl.program_id(1) * OUT + tl.arange(0, OUT)
    own = i < n_own
    total = tl.zeros((OWN, OUT), own_vectors.dtype.element_ty)
    weights = tl.zeros((OWN,), own_vectors.dtype.element_ty)
    for at in range(0, n, OTHER):
        j = at + tl.arange(0, OTHER).to(tl.int64)
        there = j < n
        scores = product(
            own_vectors + i * width, vectors + j * width, width, own, there, WIDTH, PRECISION
        )
        if OF_ROWS:
            scores += tl.load(b + j, there, 0.0)[None, :]
            scores -= tl.load(found + i, own, 0.0)[:, None]
            weight = tl.load(g + i, own, 0.0)[:, None]
        else:
            scores += tl.load(b + i, own, 0.0)[:, None]
            scores -= tl.load(found + j, there, 0.0)[None, :]
            weight = tl.load(g + j, there, 0.0)[None, :]
        # p, times g: the part of the gradient's weights that this tile has.
        scores = tl.where(own[:, None] & there[None, :], scores, float("-inf"))
        weighted = tl.exp(scores) * weight
        inside = there[:, None] & (d < width)[None, :]
        values = tl.load(vectors + j[:, None] * width + d[None, :], inside, 0.0)
        total += tl.dot(weighted, values, input_precision=PRECISION)
        weights += tl.sum(weighted, 1)
    inside = own[:, None] & (d < width)[None, :]
    tl.store(gradient + i[:, None] * width + d[None, :], total, inside)
    if not OF_ROWS:
        tl.store(bias_gradient + i, weights, own & (tl.program_id(1) == 0))


def forward(rows: torch.Tensor, columns: torch.Tensor, bias: torch.Tensor, kept: Any) -> Any:
    """See `tacenda.kernels.hidden_markov.streaming_logsumexp.forward`."""
    if kept is not None:
        raise UnsupportedShape("on a GPU nothing is kept for the backward pass")
    x, y, b = rows.contiguous(), columns.contiguous(), bias.contiguous()
    found = x.new_empty(len(x))
    if len(x):
        with torch.cuda.device_of(x):
            _forward[(triton.cdiv(len(x), _ROWS),)](
                x, y, b, found, len(x), len(y), x.shape[1],
                ROWS=_ROWS, COLUMNS=_COLUMNS, WIDTH=tile(x.shape[1], _WIDTH),
                PRECISION=precision(x), num_warps=8, num_stages=2,
            )  # fmt: skip
    return found


def backward(
    rows: torch.Tensor,
    columns: torch.Tensor,
    bias: torch.Tensor,
    found: torch.Tensor,
    gradient: torch.Tensor,
    kept: Any,
) -> Gradients:
    """See `tacenda.kernels.hidden_markov.streaming_logsumexp.backward`."""
    if kept is not None:
        raise UnsupportedShape("on a GPU nothing is kept for the backward pass")
    given = (rows, columns, bias, found, gradient)
    x, y, b, norms, g = (tensor.contiguous() for tensor in given)
    grads = [torch.zeros_like(part) for part in (x, y, b)]
    width = x.shape[1]
    sizes = {"WIDTH": tile(width, _WIDTH), "OUT": tile(width, _OUT), "PRECISION": precision(x)}
    if not len(x):
        return Gradients(*grads)
    for of_rows, own, other, slope in ((True, x, y, grads[0]), (False, y, x, grads[1])):
        grid = triton.cdiv(len(own), _ROWS), max(1, triton.cdiv(width, sizes["OUT"]))
        with torch.cuda.device_of(x):
            _backward[grid](
                own, other, b, norms, g, slope, grads[2], len(own), len(other), width,
                OF_ROWS=of_rows, OWN=_ROWS, OTHER=_COLUMNS, **sizes, num_warps=8, num_stages=2,
            )  # fmt: skip
    return Gradients(*grads)
