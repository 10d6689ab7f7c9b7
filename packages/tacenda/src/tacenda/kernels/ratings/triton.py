"""Operations of the rating models on a GPU, in Triton."""

import torch
import triton
import triton.language as tl

from tacenda.array_ops import to_tensors
from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.machinery.gpu import advance, load_seed, seed_state, tile
from tacenda.kernels.ratings import Visited

# -- rating visits ----------------------------------------------------------------------------------
#
# The visits on a GPU: a program visits one row, some ratings at a time.
#
# The factors of these ratings are read together, so that a program waits for memory once in so many steps. Every step
# changes y, and so the errors of later ratings: with keep = 1 - alpha lambda,
#
#     y_k = keep^k y_0 + alpha sum_{j < k} keep^{k-1-j} v_j e_j z_j,
#
# with the weights v_j of ratings. So e = r_0 - L e, with the errors r_0 for y_0 alone and
# L_kj = alpha keep^{k-1-j} v_j z_k . z_j below the diagonal, and in the same way for the bias. The solution of this
# triangular system is that of one step after another up to rounding.
#
# Tensors are torch's; ids and offsets may be arrays on the host. float32. Works under Triton's interpreter.


_RATINGS_AT_ONCE = 16
_MAX_WIDTH = 512  # of factors, which a program holds with those of its ratings


@triton.jit
def _visit_rows(
    offsets, ids, values, rows, y, b, lambdas, etas, v, z, c, w, seed, prior, errors, sums, mean, alpha, beta, width,
    RATINGS: tl.constexpr, WIDTH: tl.constexpr, KNOWN: tl.constexpr,
):  # fmt: skip
    """Visit row ``rows[k]``, one program each."""
    k = tl.program_id(0).to(tl.int64)
    u = tl.load(rows + k).to(tl.int64)
    start = tl.load(offsets + k)
    n = tl.load(offsets + k + 1) - start
    drawn = advance(seed_state(tl.load(seed), u)) >> 33
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
    # Powers of keep and keep_bias, over the steps before each rating and between each two ratings.
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
        residuals = tl.load(values + place, here, 0.0) - mean - tl.load(c + i, here, 0.0)
        Z = tl.load(z + i[:, None] * width + d[None, :], here[:, None] & inside[None, :], 0.0)
        residuals -= before * tl.sum(Z * own[None, :], 1) + before_bias * bias
        if KNOWN:
            residuals -= tl.sum(Z * s[None, :], 1)
        # Solve the triangular system, one error after another.
        L = between * tl.dot(Z, tl.trans(Z), input_precision="ieee") + between_bias
        L *= weights[None, :]
        for m in range(RATINGS):
            e = tl.sum(tl.where(t == m, residuals, 0.0), 0)
            residuals -= tl.sum(tl.where(t[None, :] == m, L, 0.0), 1) * e
        e = tl.where(here, residuals, 0.0)
        total += tl.sum(e * e, 0)
        e *= weights
        # Apply the steps: the last one, and the earlier ones after it has shrunk them.
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
    tl.debug_barrier()  # all threads have read the bias that one of them changes
    tl.store(y + u * width + d, own, inside)
    tl.store(b + u, bias)
    tl.store(errors + k, total)
    if KNOWN:
        tl.store(sums + k * width + d, summed, inside)


def rating_visits(visits, side, others, mean, rates, seed, prior):
    offsets, ids, values, rows = visits
    z = others.factors
    width = z.shape[1]
    if width > _MAX_WIDTH:
        raise UnsupportedShape(f"factors of width {width}: at most {_MAX_WIDTH} are served")
    errors = z.new_zeros(len(rows))
    sums = torch.zeros_like(z[:0] if prior is None else prior)
    if len(rows):
        places = to_tensors((offsets, ids, rows), z.device)
        size = tile(width, _MAX_WIDTH)
        with torch.cuda.device_of(z):
            _visit_rows[(len(rows),)](
                places[0], places[1], values, places[2], *side, *others,
                load_seed(z.device, seed), prior if prior is not None else z, errors, sums,
                float(mean), *map(float, rates), width,
                RATINGS=_RATINGS_AT_ONCE, WIDTH=size, KNOWN=prior is not None,
                num_warps=2 if size <= 32 else 4,  # with fewer the registers do not hold a tile
            )  # fmt: skip
    return Visited(side.factors, side.biases, errors, sums)


# -- rating scores ----------------------------------------------------------------------------------
#
# Scores on a GPU: a program for some pairs, which reads the two rows of each and writes one number.
#
# Plain torch would write both rows of every pair before it multiplies them. Works under Triton's interpreter.


_PAIRS, _WIDTH = 32, 128  # of the tile of a program


@triton.jit
def _score_pairs(
    users, items, x, q, b, c, out, n, mean, width, PAIRS: tl.constexpr, WIDTH: tl.constexpr
):
    """Score one tile of pairs; -1 stands for an unknown user or item."""
    pair = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)
    d = tl.arange(0, WIDTH)
    u = tl.load(users + pair, pair < n, -1).to(tl.int64)
    i = tl.load(items + pair, pair < n, -1).to(tl.int64)
    score = mean + tl.load(b + u, u >= 0, 0.0) + tl.load(c + i, i >= 0, 0.0)
    both = ((u >= 0) & (i >= 0))[:, None]
    for at in range(0, width, WIDTH):
        inside = both & (at + d < width)[None, :]
        x_u = tl.load(x + u[:, None] * width + (at + d)[None, :], inside, 0.0)
        q_i = tl.load(q + i[:, None] * width + (at + d)[None, :], inside, 0.0)
        score += tl.sum(x_u * q_i, 1)
    tl.store(out + pair, score, pair < n)


def rating_scores(users, items, x, q, b, c, mean):
    out = x.new_empty(len(users))
    if len(out):
        pairs = to_tensors((users, items), x.device)
        with torch.cuda.device_of(x):
            _score_pairs[(triton.cdiv(len(out), _PAIRS),)](
                *pairs, x, q, b, c, out, len(out), float(mean), x.shape[1], PAIRS=_PAIRS,
                WIDTH=tile(x.shape[1], _WIDTH),
            )  # fmt: skip
    return out
