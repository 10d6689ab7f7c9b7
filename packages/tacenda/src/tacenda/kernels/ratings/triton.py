"""Operations of the rating models on a GPU, in Triton."""

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray

from tacenda.array_ops import to_tensors
from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.machinery.gpu import tile
from tacenda.kernels.ratings import Divergence, Expected, Visited
from tacenda.kernels.shared.triton import multiply

# -- random numbers ---------------------------------------------------------------------------------
#
# The random numbers of `tacenda.kernels.machinery.xorshift` in Triton kernels, bit for bit; imports torch and triton.


def seed_on(device: torch.device, seed: int) -> torch.Tensor:
    """The seed, modulo 2^64, where a kernel loads it: int64 (1,), of the same bits."""
    seed %= 1 << 64
    signed = seed - (1 << 64) if seed >= 1 << 63 else seed
    return torch.tensor([signed], dtype=torch.int64, device=device)


@triton.jit
def seeded(seed, row):
    """The states, uint64, from which the numbers of ``row`` start; seed and row are int64."""
    state = seed.to(tl.uint64) * 0x9E3779B97F4A7C15
    state += (row + 1).to(tl.uint64) * 0xBF58476D1CE4E5B9
    return ((state ^ (state >> 30)) * 0x94D049BB133111EB) | 1


@triton.jit
def advanced(state):
    """The next state of each."""
    state ^= state << 13
    state ^= state >> 7
    state ^= state << 17
    return state


# -- rating visits ----------------------------------------------------------------------------------
#
# The visits on a GPU: a program visits one row, some ratings at a time.
#
# The factors that some ratings multiply are read together, so that memory is waited for once in so many steps. Their
# errors follow from each other, as every step moves y: with K = keep = 1 - alpha lambda,
#
#     y_k = keep^k y_0 + alpha sum_{j < k} keep^{k-1-j} v_j e_j z_j,
#
# for ratings that weigh v_j, so that e = r_0 - L e, with the errors r_0 of y_0 alone and
# L_kj = alpha keep^{k-1-j} v_j z_k . z_j below the diagonal, and likewise of the bias. That is a triangular system; its
# solution is that of one step after another up to rounding.
#
# Tensors are torch's; ids and offsets may be arrays on the host. float32. Works under Triton's interpreter.


_AT_ONCE = 16  # ratings
_MOST_WIDTH = 512  # of factors that one program holds beside those of its ratings


@triton.jit
def _visit_rows(
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
    if width > _MOST_WIDTH:
        raise UnsupportedShape(f"factors of width {width}: at most {_MOST_WIDTH} are served")
    found = z.new_zeros(len(rows))
    sums = torch.zeros_like(z[:0] if prior is None else prior)
    if len(rows):
        places = to_tensors((offsets, ids, rows), z.device)
        size = tile(width, _MOST_WIDTH)
        with torch.cuda.device_of(z):
            _visit_rows[(len(rows),)](
                places[0], places[1], values, places[2], *side, *others,
                seed_on(z.device, seed), prior if prior is not None else z, found, sums,
                float(mean), *map(float, rates), width,
                RATINGS=_AT_ONCE, WIDTH=size, KNOWN=prior is not None,
                num_warps=2 if size <= 32 else 4,  # with fewer the registers do not hold a tile
            )  # fmt: skip
    return Visited(side.factors, side.biases, found, sums)


# -- rating scores ----------------------------------------------------------------------------------
#
# Scores on a GPU: a program for some pairs, which reads the two rows of each and writes one number.
#
# Plain torch would write both rows of every pair before it multiplied them. Works under Triton's interpreter.


_PAIRS, _WIDTH = 32, 128


@triton.jit
def _scores(
    users, items, x, q, b, c, out, n, mean, width, PAIRS: tl.constexpr, WIDTH: tl.constexpr
):
    """Score one tile of pairs; -1 stands for what is unknown."""
    pair = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)
    d = tl.arange(0, WIDTH)
    u, i = (
        tl.load(users + pair, pair < n, -1).to(tl.int64),
        tl.load(items + pair, pair < n, -1).to(tl.int64),
    )
    found = mean + tl.load(b + u, u >= 0, 0.0) + tl.load(c + i, i >= 0, 0.0)
    both = ((u >= 0) & (i >= 0))[:, None]
    for at in range(0, width, WIDTH):
        inside = both & (at + d < width)[None, :]
        own = tl.load(x + u[:, None] * width + (at + d)[None, :], inside, 0.0)
        found += tl.sum(own * tl.load(q + i[:, None] * width + (at + d)[None, :], inside, 0.0), 1)
    tl.store(out + pair, found, pair < n)


def rating_scores(users, items, x, q, b, c, mean):
    out = x.new_empty(len(users))
    if len(out):
        pairs = to_tensors((users, items), x.device)
        with torch.cuda.device_of(x):
            _scores[(triton.cdiv(len(out), _PAIRS),)](
                *pairs, x, q, b, c, out, len(out), float(mean), x.shape[1], PAIRS=_PAIRS,
                WIDTH=tile(x.shape[1], _WIDTH),
            )  # fmt: skip
    return out


# -- boltzmann --------------------------------------------------------------------------------------
#
# Contrastive divergence on a GPU: sums over the ratings of all cases at once, in kernels that write no more than that.
#
#     numbers      `_numbers`: the random numbers of every case, those that the CPU draws
#     hidden       what goes into the hidden units: ratings, as a sparse matrix, times the weights
#     visible      `_expect`: weights of each rating times hidden states, and the softmax over the levels; `_draw`
#     gradients    ratings, the other way round, times probabilities of the hidden units
#
# The sparse products are those of `tacenda.kernels.shared.triton`, whose sums have a fixed order; counts are of
# integers. What happens to a case at a step depends on its own numbers alone, so a fit follows that on the CPU until a
# number falls between two roundings of a probability.
#
# Tensors are torch's; ids, levels and offsets may be arrays on the host. Memory beside the gradients: 60 bytes and
# 4 K for each rating of the cases, and 16 for each of their hidden units. Works under Triton's interpreter.


_CELLS, _HIDDEN = 16, 128
_CASES, _DRAWN = 32, 128


@triton.jit
def _numbers(
    cases, offsets, seed, of_hidden, of_visible, n_cases, hidden, CASES: tl.constexpr,
):  # fmt: skip
    """Draw the numbers of some cases: those of the hidden units, then those of the ratings."""
    k = tl.program_id(0) * CASES + tl.arange(0, CASES)
    here = k < n_cases
    start = tl.load(offsets + k, here, 0)
    n = tl.load(offsets + k + 1, here, 0) - start
    state = seeded(tl.load(seed), tl.load(cases + k, here, 0).to(tl.int64))
    unit = 2.0**-24  # multiplied, which is exact: the card's division of float32 is not
    for j in range(hidden):
        state = advanced(state)
        value = (state >> 40).to(tl.float32) * unit
        tl.store(of_hidden + k.to(tl.int64) * hidden + j, value, here)
    for i in range(tl.max(n, 0)):
        state = advanced(state)
        value = (state >> 40).to(tl.float32) * unit
        tl.store(of_visible + start + i, value, here & (i < n))


@triton.jit
def _expect(
    visible, cases, W, b, p, s, o, chances, means, n, n_visible, n_cases, K, hidden,
    TIED: tl.constexpr, PAIRS: tl.constexpr, LEVELS: tl.constexpr, HIDDEN: tl.constexpr,
):  # fmt: skip
    """Find the chances of the levels, and their mean score, of one tile of pairs; -1 is the last row of a table."""
    pair = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)
    j, k = tl.arange(0, HIDDEN), tl.arange(0, LEVELS)
    m = tl.load(visible + pair, pair < n, 0).to(tl.int64)
    case = tl.load(cases + pair, pair < n, 0).to(tl.int64)
    m, case = tl.where(m < 0, n_visible - 1, m), tl.where(case < 0, n_cases - 1, case)
    inside = (pair < n)[:, None] & (k < K)[None, :]
    score = tl.load(s + k, k < K, 0.0)
    logits = tl.load(b + m[:, None] * K + k[None, :], inside, float("-inf"))
    logits = tl.where((pair < n)[:, None], logits, 0.0)
    logits += score[None, :] * tl.load(o + case, pair < n, 0.0)[:, None]
    rows = 1 if TIED else K
    for row in range(rows):
        along = tl.zeros((PAIRS,), tl.float32)
        for at in range(0, hidden, HIDDEN):
            some = (pair < n)[:, None] & (at + j < hidden)[None, :]
            w = tl.load(W + (m * rows + row)[:, None] * hidden + (at + j)[None, :], some, 0.0)
            h = tl.load(p + case[:, None] * hidden + (at + j)[None, :], some, 0.0)
            along += tl.sum(w * h, 1)
        if TIED:
            logits += score[None, :] * along[:, None]
        else:
            logits += tl.where((k == row)[None, :], along[:, None], 0.0)
    found = tl.exp(logits - tl.max(logits, 1)[:, None])
    found /= tl.sum(found, 1)[:, None]
    tl.store(chances + pair[:, None] * K + k[None, :], found, inside)
    tl.store(means + pair, tl.sum(found * score[None, :], 1), pair < n)


@triton.jit
def _draw(chances, numbers, levels, n, K, PAIRS: tl.constexpr):
    """Draw a level for each of one tile of pairs: that on which its number in [0, 1) falls."""
    pair = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)
    number = tl.load(numbers + pair, pair < n, 0.0)
    reached, level = tl.zeros((PAIRS,), tl.float32), tl.zeros((PAIRS,), tl.int64)
    for k in range(K - 1):
        reached += tl.load(chances + pair * K + k, pair < n, 0.0)
        level += (number > reached).to(tl.int64)
    tl.store(levels + pair, level, pair < n)


def draw(chances: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """The level of each pair (pairs,) that its number falls on, given the chances (pairs, K)."""
    n, K = chances.shape
    levels = torch.zeros(n, dtype=torch.int64, device=chances.device)
    if n:
        with torch.cuda.device_of(chances):
            _draw[(triton.cdiv(n, _DRAWN),)](chances, numbers, levels, n, K, PAIRS=_DRAWN)
    return levels


def boltzmann_expectations(visible, cases, W, b, p, s, o):
    n, K, hidden = len(visible), len(s), p.shape[1]
    found = Expected(b.new_empty((n, K)), b.new_empty(n))
    if n:
        pairs = to_tensors((visible, cases), b.device)
        with torch.cuda.device_of(b):
            _expect[(triton.cdiv(n, _CELLS),)](
                *pairs, W, b, p, s, o, *found, n, len(b), len(p), K, hidden,
                TIED=W.ndim == 2, PAIRS=_CELLS, LEVELS=triton.next_power_of_2(K), HIDDEN=tile(hidden, _HIDDEN),
            )  # fmt: skip
    return found


def boltzmann_divergence(cases, own_cases, machine, seed):
    offsets, ids, levels, o = cases[:4]
    sides: Any = cases[4:]
    weights, b, d, U, s = machine
    device, hidden, (visible, K), tied = b.device, len(d), b.shape, weights.ndim == 2
    W = weights.reshape(-1, hidden)  # a row for each visible unit, or each of its levels
    place, owner, borders = chosen(offsets, own_cases, device)
    ids, levels, own = to_tensors((ids, levels, own_cases), device)
    m, r = ids[place].long(), levels[place].long()
    of_hidden, of_visible = numbers(own, borders, seed, len(m), hidden)

    def entries(k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Which rows of W the levels ``k`` of the ratings multiply, and by what."""
        return (m, s[k]) if tied else (m * K + k, torch.ones_like(k, dtype=torch.float32))

    def activations(k: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(bias + multiply(borders, *entries(k), W))

    bias = d.expand(len(own_cases), -1)
    if len(U):
        at, of_identity, cuts = chosen(sides[0], own_cases, device)
        (known,) = to_tensors((sides[1],), device)
        known = known[at].long()
        bias = bias + multiply(cuts, known, U.new_ones(len(known)), U)
    data = activations(r)
    h = (of_hidden < data).float()
    found = boltzmann_expectations(m, owner, weights, b, h, s, o[own])
    error = (found.means - s[r]).double().square().sum()
    k = draw(found.chances, of_visible)
    p = activations(k)
    rows, scales = (torch.cat(both) for both in zip(entries(r), entries(k), strict=True))
    scales[len(m) :] *= -1
    columns = torch.cat([owner, owner + len(own_cases)])
    d_W = by_row(rows, columns, scales, torch.cat([data, p]), len(W))
    d_b = b.new_zeros(visible * K)
    for each, sign in ((r, 1.0), (k, -1.0)):  # of whole numbers, whose sums no order changes
        d_b.index_add_(0, m * K + each, torch.full_like(scales[: len(m)], sign))
    moved = data - p
    d_U = by_row(known, of_identity, U.new_ones(len(known)), moved, visible) if len(U) else U
    return Divergence(
        error, d_W.view(weights.shape), d_b.view(visible, K), moved.sum(0), d_U.clone()
    )


def numbers(
    cases: torch.Tensor, borders: torch.Tensor, seed: int, n_ratings: int, hidden: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw the numbers of the hidden units (cases, hidden) and of the ratings (ratings,), as on the CPU."""
    like = {"dtype": torch.float32, "device": cases.device}
    of_hidden = torch.empty((len(cases), hidden), **like)
    of_visible = torch.empty(n_ratings, **like)
    if len(cases):
        with torch.cuda.device_of(cases):
            _numbers[(triton.cdiv(len(cases), _CASES),)](
                cases, borders, seed_on(cases.device, seed), of_hidden, of_visible, len(cases), hidden,
                CASES=_CASES, num_warps=1,
            )  # fmt: skip
    return of_hidden, of_visible


def chosen(
    offsets: NDArray[np.int64], cases: NDArray[np.int64], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Where what belongs to the cases lies, which of them it belongs to, and where that of each begins among it."""
    sizes = np.diff(offsets)[cases]
    borders = np.concatenate([[0], np.cumsum(sizes)])
    first, many, cuts = to_tensors((offsets[cases] - borders[:-1], sizes, borders), device)
    owner = torch.repeat_interleave(many, output_size=int(borders[-1]))
    return first[owner] + torch.arange(len(owner), device=device), owner, cuts


def by_row(
    rows: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, dense: torch.Tensor, n: int
) -> torch.Tensor:
    """The product (n, width) of a sparse matrix, given by its entries in any order, with ``dense``."""
    rows, order = torch.sort(rows, stable=True)
    borders = torch.searchsorted(rows, torch.arange(n + 1, device=rows.device))
    return multiply(borders, columns[order], values[order], dense)
