"""Contrastive divergence on a GPU: sums over the ratings of all cases at once, in kernels that write no more than that.

    numbers      `_numbers`: the random numbers of every case, those that the CPU draws
    hidden       what goes into the hidden units: ratings, as a sparse matrix, times the weights
    visible      `_expect`: weights of each rating times hidden states, and the softmax over the levels; `_draw`
    gradients    ratings, the other way round, times probabilities of the hidden units

The sparse products are those of `tacenda.kernels.shared.sparse_product`, whose sums have a fixed order; counts are of
integers. What happens to a case at a step depends on its own numbers alone, so a fit follows that on the CPU until a
number falls between two roundings of a probability.

Tensors are torch's; ids, levels and offsets may be arrays on the host. Memory beside the gradients: 60 bytes and
4 K for each rating of the cases, and 16 for each of their hidden units. Works under Triton's interpreter.
"""

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray

from tacenda.kernels.machinery.gpu import tile
from tacenda.kernels.machinery.tensors import to_device
from tacenda.kernels.ratings.boltzmann import Divergence, Expected
from tacenda.kernels.ratings.streams import advanced, seed_on, seeded
from tacenda.kernels.shared import sparse_product

_PAIRS, _HIDDEN = 16, 128
_CASES, _DRAWN = 32, 128


@triton.jit
def _numbers(  # type: ignore[no-untyped-def]
    cases,
    offsets,
    seed,
    of_hidden,
    of_visible,
    n_cases,
    n_ratings,
    hidden,
    steps,
    CASES: tl.constexpr,
):
    """Draw the numbers of some cases: for every step those of the hidden units, then those of the ratings."""
    k = tl.program_id(0) * CASES + tl.arange(0, CASES)
    here = k < n_cases
    start = tl.load(offsets + k, here, 0)
    n = tl.load(offsets + k + 1, here, 0) - start
    state = seeded(tl.load(seed), tl.load(cases + k, here, 0).to(tl.int64))
    longest = tl.max(n, 0)
    for t in range(steps):
        for j in range(hidden):
            state = advanced(state)
            value = (state >> 40).to(tl.float32) / 16777216.0
            tl.store(of_hidden + (t * n_cases + k).to(tl.int64) * hidden + j, value, here)
        for i in range(longest):
            drawn = advanced(state)
            some = here & (i < n)
            state = tl.where(some, drawn, state)
            value = (state >> 40).to(tl.float32) / 16777216.0
            tl.store(of_visible + t * n_ratings + start + i, value, some)


@triton.jit
def _expect(  # type: ignore[no-untyped-def]
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
def _draw(chances, numbers, levels, n, K, PAIRS: tl.constexpr):  # type: ignore[no-untyped-def]
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


def expect(
    visible: Any,
    cases: Any,
    W: torch.Tensor,
    b: torch.Tensor,
    p: torch.Tensor,
    s: torch.Tensor,
    o: torch.Tensor,
) -> Expected:
    """See `tacenda.kernels.ratings.boltzmann.expect`."""
    n, K, hidden = len(visible), len(s), p.shape[1]
    found = Expected(b.new_empty((n, K)), b.new_empty(n))
    if n:
        pairs = to_device((visible, cases), b.device)
        with torch.cuda.device_of(b):
            _expect[(triton.cdiv(n, _PAIRS),)](
                *pairs, W, b, p, s, o, *found, n, len(b), len(p), K, hidden,
                TIED=W.ndim == 2, PAIRS=_PAIRS, LEVELS=triton.next_power_of_2(K), HIDDEN=tile(hidden, _HIDDEN),
            )  # fmt: skip
    return found


def divergence(
    offsets: NDArray[np.int64],
    ids: Any,
    levels: Any,
    cases: NDArray[np.int64],
    weights: torch.Tensor,
    b: torch.Tensor,
    d: torch.Tensor,
    U: torch.Tensor,
    s: torch.Tensor,
    o: torch.Tensor,
    steps: int,
    seed: int,
    side_offsets: NDArray[np.int64],
    side_ids: Any,
    chains: torch.Tensor | None,
) -> Divergence:
    """See `tacenda.kernels.ratings.boltzmann.divergence`."""
    device, hidden, (visible, K), tied = b.device, len(d), b.shape, weights.ndim == 2
    W = weights.reshape(-1, hidden)  # a row for each visible unit, or each of its levels
    place, owner, borders = chosen(offsets, cases, device)
    ids, levels, own = to_device((ids, levels, cases), device)
    m, r = ids[place].long(), levels[place].long()
    of_hidden, of_visible = numbers(own, borders, seed, steps, len(m), hidden)

    def entries(k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Which rows of W the levels ``k`` of the ratings multiply, and by what."""
        return (m, s[k]) if tied else (m * K + k, torch.ones_like(k, dtype=torch.float32))

    def activations(k: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(bias + sparse_product.multiply(borders, *entries(k), W))

    bias = d.expand(len(cases), -1)
    if len(U):
        at, of_identity, cuts = chosen(side_offsets, cases, device)
        (known,) = to_device((side_ids,), device)
        known = known[at].long()
        bias = bias + sparse_product.multiply(cuts, known, U.new_ones(len(known)), U)
    p = data = activations(r)
    if chains is not None:
        p = chains[own]
    error, k = 0.0, r
    for t in range(steps):
        h = (of_hidden[t] < p).float()
        found = expect(m, owner, weights, b, h, s, o[own])
        if not t:
            error = float((found.means - s[r]).double().square().sum())
        k = draw(found.chances, of_visible[t])
        p = activations(k)
    if chains is not None:
        chains[own] = p
    rows, scales = (torch.cat(both) for both in zip(entries(r), entries(k), strict=True))
    scales[len(m) :] *= -1
    columns = torch.cat([owner, owner + len(cases)])
    d_W = by_row(rows, columns, scales, torch.cat([data, p]), len(W))
    counted = [
        torch.bincount(m * K + each, minlength=visible * K).view(visible, K) for each in (r, k)
    ]
    moved = data - p
    d_U = by_row(known, of_identity, U.new_ones(len(known)), moved, visible) if len(U) else U
    return Divergence(
        error, d_W.view(weights.shape), (counted[0] - counted[1]).float(), moved.sum(0), d_U.clone()
    )


def numbers(
    cases: torch.Tensor, borders: torch.Tensor, seed: int, steps: int, n_ratings: int, hidden: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Those of the hidden units (steps, cases, hidden) and of the ratings (steps, ratings), as on the CPU."""
    like = {"dtype": torch.float32, "device": cases.device}
    of_hidden = torch.empty((steps, len(cases), hidden), **like)
    of_visible = torch.empty((steps, n_ratings), **like)
    if len(cases):
        with torch.cuda.device_of(cases):
            _numbers[(triton.cdiv(len(cases), _CASES),)](
                cases, borders, seed_on(cases.device, seed), of_hidden, of_visible, len(cases), n_ratings, hidden,
                steps, CASES=_CASES, num_warps=1,
            )  # fmt: skip
    return of_hidden, of_visible


def chosen(
    offsets: NDArray[np.int64], cases: NDArray[np.int64], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Where what belongs to the cases lies, which of them it belongs to, and where that of each begins among it."""
    sizes = np.diff(offsets)[cases]
    borders = np.concatenate([[0], np.cumsum(sizes)])
    first, many, cuts = to_device((offsets[cases] - borders[:-1], sizes, borders), device)
    owner = torch.repeat_interleave(many, output_size=int(borders[-1]))
    return first[owner] + torch.arange(len(owner), device=device), owner, cuts


def by_row(
    rows: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, dense: torch.Tensor, n: int
) -> torch.Tensor:
    """The product (n, width) of a sparse matrix, given by its entries in any order, with ``dense``."""
    rows, order = torch.sort(rows, stable=True)
    borders = torch.searchsorted(rows, torch.arange(n + 1, device=rows.device))
    return sparse_product.multiply(borders, columns[order], values[order], dense)
