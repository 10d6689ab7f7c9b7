"""Contrastive divergence on a GPU: sums over the ratings of all cases at once.

    random       `_draw_numbers`: the random numbers of every case, the same as on the CPU
    hidden       inputs of the hidden units: the ratings, as a sparse matrix, times the weights
    visible      `_expect`: weights of each rating times hidden states, and the softmax over the levels; `_draw_levels`
    gradients    the ratings, transposed, times probabilities of the hidden units

The sparse products are those of `tacenda.kernels.shared.triton`, whose sums have a fixed order; counts are sums of
integers. A step of a case depends on its own random numbers alone, so a fit is that of the CPU until a number falls
between two roundings of a probability.

Tensors are torch's; ids, levels and offsets may be arrays on the host. Memory besides the gradients, at most:
144 + 4 K bytes for each rating of the cases, and 24 for each of their hidden units. Works under Triton's interpreter.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray

from tacenda.array_ops import to_tensors
from tacenda.kernels.boltzmann import Divergence, Expected
from tacenda.kernels.machinery.gpu import advance, load_seed, seed_state, tile
from tacenda.kernels.shared.triton import multiply

_PAIRS, _HIDDEN = 16, 128  # of a program of `_expect`
_CASES = 32  # of a program of `_draw_numbers`
_DRAWS = 128  # of a program of `_draw_levels`


@triton.jit
def _draw_numbers(
    cases, offsets, seed, of_hidden, of_visible, n_cases, hidden, CASES: tl.constexpr,
):  # fmt: skip
    """Draw the random numbers of some cases: first those of the hidden units, then those of the ratings."""
    k = tl.program_id(0) * CASES + tl.arange(0, CASES)
    here = k < n_cases
    start = tl.load(offsets + k, here, 0)
    n = tl.load(offsets + k + 1, here, 0) - start
    state = seed_state(tl.load(seed), tl.load(cases + k, here, 0).to(tl.int64))
    unit = 2.0**-24  # a factor, because division of float32 is not exact on a GPU
    for j in range(hidden):
        state = advance(state)
        value = (state >> 40).to(tl.float32) * unit
        tl.store(of_hidden + k.to(tl.int64) * hidden + j, value, here)
    for i in range(tl.max(n, 0)):
        state = advance(state)
        value = (state >> 40).to(tl.float32) * unit
        tl.store(of_visible + start + i, value, here & (i < n))


@triton.jit
def _expect(
    visible, cases, W, b, p, s, o, chances, means, n, n_visible, n_cases, K, hidden,
    TIED: tl.constexpr, PAIRS: tl.constexpr, LEVELS: tl.constexpr, HIDDEN: tl.constexpr,
):  # fmt: skip
    """Compute the chances of the levels and the mean scores of one tile of pairs; -1 is the last row of a table."""
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
    p_levels = tl.exp(logits - tl.max(logits, 1)[:, None])
    p_levels /= tl.sum(p_levels, 1)[:, None]
    tl.store(chances + pair[:, None] * K + k[None, :], p_levels, inside)
    tl.store(means + pair, tl.sum(p_levels * score[None, :], 1), pair < n)


@triton.jit
def _draw_levels(chances, numbers, levels, n, K, PAIRS: tl.constexpr):
    """Draw a level for each of one tile of pairs: the one whose part of [0, 1) contains its random number."""
    pair = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)
    number = tl.load(numbers + pair, pair < n, 0.0)
    reached, level = tl.zeros((PAIRS,), tl.float32), tl.zeros((PAIRS,), tl.int64)
    for k in range(K - 1):
        reached += tl.load(chances + pair * K + k, pair < n, 0.0)
        level += (number > reached).to(tl.int64)
    tl.store(levels + pair, level, pair < n)


def draw_levels(chances: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Draw the level of each pair, int64 (pairs,), given its chances (pairs, K) and a random number (pairs,)."""
    n, K = chances.shape
    levels = torch.zeros(n, dtype=torch.int64, device=chances.device)
    if n:
        with torch.cuda.device_of(chances):
            _draw_levels[(triton.cdiv(n, _DRAWS),)](chances, numbers, levels, n, K, PAIRS=_DRAWS)
    return levels


def boltzmann_expectations(visible, cases, W, b, p, s, o):
    n, K, hidden = len(visible), len(s), p.shape[1]
    expected = Expected(b.new_empty((n, K)), b.new_empty(n))
    if n:
        pairs = to_tensors((visible, cases), b.device)
        with torch.cuda.device_of(b):
            _expect[(triton.cdiv(n, _PAIRS),)](
                *pairs, W, b, p, s, o, *expected, n, len(b), len(p), K, hidden,
                TIED=W.ndim == 2, PAIRS=_PAIRS, LEVELS=triton.next_power_of_2(K), HIDDEN=tile(hidden, _HIDDEN),
            )  # fmt: skip
    return expected


def boltzmann_divergence(cases, chosen, machine, seed):
    offsets, ids, levels, o = cases[:4]
    sides: Any = cases[4:]
    weights, b, d, U, s = machine
    device, hidden, (visible, K), tied = b.device, len(d), b.shape, weights.ndim == 2
    W = weights.flatten(0, -2)  # a row for each visible unit, or each of its levels
    place, owner, borders = _list_elements(offsets, chosen, device)
    ids, levels, case = to_tensors((ids, levels, chosen), device)
    m, r = ids[place].long(), levels[place].long()
    of_hidden, of_visible = draw_numbers(case, borders, seed, len(m), hidden)

    def entries(k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the rows of W for the levels ``k`` of the ratings, and the factors of these rows."""
        return (m, s[k]) if tied else (m * K + k, torch.ones_like(k, dtype=torch.float32))

    def activate(k: torch.Tensor) -> torch.Tensor:
        """Return the probabilities of the hidden units given levels ``k`` of the ratings."""
        return torch.sigmoid(bias + multiply(borders, *entries(k), W))

    bias = d.expand(len(chosen), -1)
    if len(U):
        at, of_identity, cuts = _list_elements(sides[0], chosen, device)
        (known,) = to_tensors((sides[1],), device)
        known = known[at].long()
        bias = bias + multiply(cuts, known, U.new_ones(len(known)), U)
    data = activate(r)
    h = (of_hidden < data).float()
    expected = boltzmann_expectations(m, owner, weights, b, h, s, o[case])
    error = (expected.means - s[r]).double().square().sum()
    k = draw_levels(expected.chances, of_visible)
    p = activate(k)
    rows, scales = (torch.cat(both) for both in zip(entries(r), entries(k), strict=True))
    scales[len(m) :] *= -1
    columns = torch.cat([owner, owner + len(chosen)])
    d_W = _multiply_entries(rows, columns, scales, torch.cat([data, p]), len(W))
    d_b = b.new_zeros(visible * K)
    # sums of integers, which are the same in any order
    for level, sign in ((r, 1.0), (k, -1.0)):
        d_b.index_add_(0, m * K + level, torch.full_like(scales[: len(m)], sign))
    d_d = data - p
    d_U = U.clone()
    if len(U):
        d_U = _multiply_entries(known, of_identity, U.new_ones(len(known)), d_d, visible)
    return Divergence(error, d_W.view(weights.shape), d_b.view(visible, K), d_d.sum(0), d_U)


def draw_numbers(
    cases: torch.Tensor, borders: torch.Tensor, seed: int, n_ratings: int, hidden: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw the random numbers of the hidden units (cases, hidden) and of the ratings (ratings,), those of the CPU."""
    like = {"dtype": torch.float32, "device": cases.device}
    of_hidden = torch.empty((len(cases), hidden), **like)
    of_visible = torch.empty(n_ratings, **like)
    if len(cases):
        with torch.cuda.device_of(cases):
            _draw_numbers[(triton.cdiv(len(cases), _CASES),)](
                cases, borders, load_seed(cases.device, seed), of_hidden, of_visible, len(cases), hidden,
                CASES=_CASES, num_warps=1,
            )  # fmt: skip
    return of_hidden, of_visible


class _Elements(NamedTuple):
    """The elements of some cases, such as their ratings, case after case."""

    places: torch.Tensor  # (elements,), among those of all cases
    owners: torch.Tensor  # (elements,), the number of each element's case among the chosen
    borders: torch.Tensor  # (cases + 1,), the first element of each case


def _list_elements(
    offsets: NDArray[np.int64], cases: NDArray[np.int64], device: torch.device
) -> _Elements:
    """List the elements of some cases; ``offsets`` cut the elements of all cases."""
    sizes = np.diff(offsets)[cases]
    borders = np.concatenate([[0], np.cumsum(sizes)])
    first, many, cuts = to_tensors((offsets[cases] - borders[:-1], sizes, borders), device)
    owner = torch.repeat_interleave(many, output_size=int(borders[-1]))
    return _Elements(first[owner] + torch.arange(len(owner), device=device), owner, cuts)


def _multiply_entries(
    rows: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, dense: torch.Tensor, n: int
) -> torch.Tensor:
    """Return the product (n, width) of a sparse matrix, given by its entries in any order, with ``dense``."""
    rows, order = torch.sort(rows, stable=True)
    borders = torch.searchsorted(rows, torch.arange(n + 1, device=rows.device))
    return multiply(borders, columns[order], values[order], dense)
