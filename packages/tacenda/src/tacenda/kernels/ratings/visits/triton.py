"""The visits on a GPU: a program visits one row, some ratings at a time.

The factors that some ratings multiply are read together, so that memory is waited for once in so many steps. Their
errors follow from each other, as every step moves y: with K = keep = 1 - alpha lambda,

    y_k = keep^k y_0 + alpha sum_{j < k} keep^{k-1-j} v_j e_j z_j,

for ratings that weigh v_j, so that e = r_0 - L e, with the errors r_0 of y_0 alone and
L_kj = alpha keep^{k-1-j} v_j z_k . z_j below the diagonal, and likewise of the bias. That is a triangular system; its
solution is that of one step after another up to rounding.

Tensors are torch's; ids and offsets may be arrays on the host. float32. Works under Triton's interpreter.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.machinery.gpu import tile
from tacenda.kernels.machinery.tensors import to_device
from tacenda.kernels.ratings.streams import advanced, seed_on, seeded
from tacenda.kernels.ratings.visits import Side, Visited

_AT_ONCE = 16  # ratings
_MOST_WIDTH = 512  # of factors that one program holds beside those of its ratings


@triton.jit
def _visit(  # type: ignore[no-untyped-def]
    offsets, ids, values, rows, y, b, lambdas, etas, v, z, c, w, seed, prior, errors, sums, mean, alpha, beta, width,
    RATINGS: tl.constexpr, WIDTH: tl.constexpr, KNOWN: tl.constexpr,
):  # fmt: skip
    """Visit one row."""
    k = tl.program_id(0).to(tl.int64)
    u = tl.load(rows + k).to(tl.int64)
    start = tl.load(offsets + k)
    n = tl.load(offsets + k + 1) - start
    drawn = advanced(seeded(tl.load(seed), u)) >> 33
    first = drawn.to(tl.int64) % tl.maximum(n, 1)
    d, t = tl.arange(0, WIDTH), tl.arange(0, RATINGS)
    inside = d < width
    own = tl.load(y + u * width + d, inside, 0.0)
    bias = tl.load(b + u)
    weight = tl.load(v + u)
    keep = 1 - alpha * tl.load(lambdas + u)
    keep_bias = 1 - beta * tl.load(etas + u)
    s = tl.zeros((WIDTH,), tl.float32)
    if KNOWN:
        s = tl.load(prior + k * width + d, inside, 0.0)
    # Powers of both: those of the steps before each rating, and between each two of them.
    before, before_bias = tl.full((RATINGS,), 1.0, tl.float32), tl.full((RATINGS,), 1.0, tl.float32)
    apart = t[:, None] - t[None, :] - 1
    between = tl.where(apart >= 0, alpha, 0.0)
    between_bias = tl.where(apart >= 0, beta, 0.0)
    for m in range(RATINGS):
        before = tl.where(t > m, before * keep, before)
        before_bias = tl.where(t > m, before_bias * keep_bias, before_bias)
        between = tl.where(apart > m, between * keep, between)
        between_bias = tl.where(apart > m, between_bias * keep_bias, between_bias)
    total = 0.0
    summed = tl.zeros((WIDTH,), tl.float32)
    for at in range(0, n, RATINGS):
        here = at + t < n
        place = start + (first + at + t) % n
        i = tl.load(ids + place, here, 0).to(tl.int64)
        weights = weight * tl.load(w + i, here, 0.0)
        left = tl.load(values + place, here, 0.0) - mean - tl.load(c + i, here, 0.0)
        Z = tl.load(z + i[:, None] * width + d[None, :], here[:, None] & inside[None, :], 0.0)
        left -= before * tl.sum(Z * own[None, :], 1) + before_bias * bias
        if KNOWN:
            left -= tl.sum(Z * s[None, :], 1)
        # The triangular system, one error after another.
        L = between * tl.dot(Z, tl.trans(Z), input_precision="ieee") + between_bias
        L *= weights[None, :]
        for m in range(RATINGS):
            e = tl.sum(tl.where(t == m, left, 0.0), 0)
            left -= tl.sum(tl.where(t[None, :] == m, L, 0.0), 1) * e
        e = tl.where(here, left, 0.0)
        total += tl.sum(e * e, 0)
        e *= weights
        # The last of these steps comes on top of what the others have left.
        last = t == tl.minimum(n - at, RATINGS) - 1
        after = keep * tl.sum(tl.where(last[:, None], between, 0.0), 0)
        after = tl.where(last, alpha, after)
        after_bias = keep_bias * tl.sum(tl.where(last[:, None], between_bias, 0.0), 0)
        after_bias = tl.where(last, beta, after_bias)
        own *= keep * tl.sum(tl.where(last, before, 0.0), 0)
        own += tl.sum((after * e)[:, None] * Z, 0)
        bias *= keep_bias * tl.sum(tl.where(last, before_bias, 0.0), 0)
        bias += tl.sum(after_bias * e, 0)
        if KNOWN:
            summed += tl.sum(e[:, None] * Z, 0)
    tl.store(y + u * width + d, own, inside)
    tl.store(b + u, bias)
    tl.store(errors + k, total)
    if KNOWN:
        tl.store(sums + k * width + d, summed, inside)


def visit(
    offsets: Any,
    ids: Any,
    values: torch.Tensor,
    rows: Any,
    side: Side,
    others: torch.Tensor,
    other_biases: torch.Tensor,
    other_weights: torch.Tensor,
    mean: float,
    rates: tuple[float, float],
    seed: int,
    prior: torch.Tensor | None,
) -> Visited:
    """See `tacenda.kernels.ratings.visits.visit`."""
    width = others.shape[1]
    if width > _MOST_WIDTH:
        raise UnsupportedShape(f"factors of width {width}: at most {_MOST_WIDTH} are served")
    found = others.new_zeros(len(rows))
    sums = torch.zeros_like(others[:0] if prior is None else prior)
    if len(rows):
        places = to_device((offsets, ids, rows), others.device)
        size = tile(width, _MOST_WIDTH)
        with torch.cuda.device_of(others):
            _visit[(len(rows),)](
                places[0], places[1], values, places[2], *side, others, other_biases, other_weights,
                seed_on(others.device, seed), prior if prior is not None else others, found, sums, mean, *rates, width,
                RATINGS=_AT_ONCE, WIDTH=size, KNOWN=prior is not None, num_warps=max(1, size // 128),
            )  # fmt: skip
    return Visited(side.factors, side.biases, found, sums)
