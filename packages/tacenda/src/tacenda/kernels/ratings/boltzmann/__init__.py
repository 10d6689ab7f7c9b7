"""Contrastive divergence for a restricted Boltzmann machine of ratings, on packed cases.

A case c (a user, or an item) has one visible unit for everything it has a rating with, of K levels; only
these take part. With hidden units h and the levels' scores s

    P(r_m = k | h) ~ exp(b_mk + s_k o_c + W_mk . h),     P(h_j = 1 | r) = sigma(d_j + sum_f U_fj + sum_m W_{m r_m j})

(Mnih 2010, eqs 5.7, 5.8 and 5.12), o_c being a fixed slope of the case: how much higher than usual its
ratings are. Tied weights W_mk = s_k a_m make the levels ordered and their number of weights K times smaller.
The gradient is that of T steps of Gibbs sampling from the data (eqs 5.4 to 5.6, 5.15), with probabilities in
the place of hidden states wherever these are not fed back. Cost: ratings x H x (2 + T (K + 1)) multiply-adds;
nothing of the size of all visible units by cases appears.

`divergence` adds the gradients of some cases up. `descend` changes the parameters after every case, by plain steps with
penalties on all parameters, at the cost of the case's ratings and identities.

Persistent chains (Tieleman 2008) start every call where the call before left off rather than at the data.

On a CUDA device parameters, scores, slopes, activations and chains are torch tensors there; all numbers of cases and
units, and offsets, may be arrays or tensors. Random numbers are those of the CPU.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve
from tacenda.kernels.machinery.arrays import (
    as_offsets,
    as_type,
    check_array,
    check_range,
    common_device,
    given,
    in_c_order,
    on_host,
)

__all__ = ["Descent", "Divergence", "Expected", "descend", "divergence", "expect"]

_Floats = NDArray[np.float32]
_Ints = NDArray[np.integer[Any]]


class Divergence(NamedTuple):
    """Sums over the cases: an error, and the directions that raise the likelihood."""

    error: float
    """The squared error of the mean scores that the first hidden states give."""
    weights: _Floats
    visible_biases: _Floats
    hidden_biases: _Floats
    side_weights: _Floats


class Descent(NamedTuple):
    """Learning rates, and the weights of the squared parameters: theta += rate (gradient - penalty theta)."""

    rate: float
    """Of the weights, those of identities too."""
    bias_rate: float
    """Of the biases of visible and hidden units."""
    penalty: float = 0.0
    bias_penalty: float = 0.0
    side_penalty: float = 0.0
    """Of the weights of identities."""

    @property
    def shrinks(self) -> bool:
        """Whether penalties make parameters smaller without turning their signs."""
        weights, sides = self.rate * self.penalty, self.rate * self.side_penalty
        products = weights, sides, self.bias_rate * self.bias_penalty
        return min(self.rate, self.bias_rate) >= 0 and all(0 <= each < 1 for each in products)


class Expected(NamedTuple):
    """What is expected of each pair."""

    chances: _Floats
    """Probabilities of the levels (pairs, K), float32."""
    means: _Floats
    """Mean scores (pairs,), float32."""


def divergence(
    offsets: _Ints,
    ids: _Ints,
    levels: _Ints,
    cases: _Ints,
    weights: _Floats,
    visible_biases: _Floats,
    hidden_biases: _Floats,
    side_weights: _Floats,
    scores: _Floats,
    slopes: _Floats,
    steps: int,
    seed: int,
    side_offsets: _Ints | None = None,
    side_ids: _Ints | None = None,
    chains: _Floats | None = None,
) -> Divergence:
    """Find the contrastive-divergence gradients of some cases.

    Parameters
    ----------
    offsets, ids, levels
        All ratings, case after case: (cases + 1,), (ratings,) numbers of visible units and (ratings,) levels.
    cases
        Which cases to take.
    weights
        a (visible, hidden) for tied weights, or W (visible, K, hidden); float32.
    visible_biases, hidden_biases
        b (visible, K) and d (hidden,), float32.
    side_weights
        U (visible, hidden), or no rows where there is no conditioning.
    scores
        s (K,), ascending, about zero.
    slopes
        o (cases,).
    steps
        T, at least 1.
    seed
        A case's random numbers are a function of seed and case alone.
    side_offsets, side_ids
        Identities by case, as in `tacenda.kernels.ratings.sgd`.
    chains
        (cases, hidden) float32 in C order, written into: where the Gibbs chain of every case starts, as
        probabilities of its hidden units, and where it ends. If None, chains start at the data.

    Returns
    -------
    New float32 arrays in the shapes of weights, visible_biases, hidden_biases and side_weights. Re-entrant as long as
    no chain is shared; releases the GIL.

    Raises
    ------
    KernelError
        Shapes or dtypes do not fit, or a number is out of range.
    """
    packed = _packed(
        offsets, ids, levels, cases, weights, visible_biases, hidden_biases, side_weights, scores, slopes,
        steps, side_offsets, side_ids, chains,
    )  # fmt: skip
    result: Divergence = resolve("boltzmann_divergence", packed.device)(
        *packed.data, *packed.parameters, int(steps), seed % (1 << 64), *packed.side, chains
    )
    return result


def descend(
    offsets: _Ints,
    ids: _Ints,
    levels: _Ints,
    cases: _Ints,
    weights: _Floats,
    visible_biases: _Floats,
    hidden_biases: _Floats,
    side_weights: _Floats,
    scores: _Floats,
    slopes: _Floats,
    steps: int,
    seed: int,
    descent: Descent,
    side_offsets: _Ints | None = None,
    side_ids: _Ints | None = None,
    chains: _Floats | None = None,
) -> tuple[float, tuple[_Floats, _Floats, _Floats, _Floats]]:
    """Step along the contrastive-divergence gradient of one case after another, in place (Mnih 2010, section 5.4.2).

    Parameters
    ----------
    offsets, ids, levels, scores, slopes, steps, seed, side_offsets, side_ids, chains
        As in `divergence`.
    cases
        Which cases to take, in which order; a case without ratings and identities makes the parameters smaller, as
        every step does.
    weights, visible_biases, hidden_biases, side_weights
        As in `divergence`; changed in place, so float32 in C order.
    descent
        See `Descent`; a rate times a penalty is below 1.

    Returns
    -------
    The squared error of the mean scores that the first hidden states give, each case before its step, in float64; and
    the four tables.

    Raises
    ------
    KernelError
        Shapes or dtypes do not fit, a number is out of range, or a rate times its penalty is not in [0, 1).

    Notes
    -----
    A visible unit that a case does not have is left alone: it is made smaller by (1 - rate penalty)^n when a case
    that has it comes n steps later, or at the end. A run of cases costs as much as their ratings, and one visit of all
    tables. Re-entrant on different tables; releases the GIL. Rates that are too large diverge to NaN, which the error
    then shows.
    """
    tables = weights, visible_biases, hidden_biases, side_weights
    for name, table in zip(
        ("weights", "visible_biases", "hidden_biases", "side_weights"), tables, strict=True
    ):
        check_array(table, tuple(table.shape), np.empty(0, np.float32), name)
    if not descent.shrinks:
        raise KernelError(f"rates must be at least 0, and times their penalties below 1: {descent}")
    packed = _packed(
        offsets, ids, levels, cases, *tables, scores, slopes, steps, side_offsets, side_ids, chains
    )
    error: float = resolve("boltzmann_descent", packed.device)(
        *packed.data,
        *packed.parameters,
        int(steps),
        seed % (1 << 64),
        descent,
        *packed.side,
        chains,
    )
    return error, tables


def expect(
    visible: _Ints,
    cases: _Ints,
    weights: _Floats,
    visible_biases: _Floats,
    activations: _Floats,
    scores: _Floats,
    slopes: _Floats,
) -> Expected:
    """Find the distribution over the levels of pairs of a visible unit and a case, by mean field (eq 5.11).

    Parameters
    ----------
    visible, cases
        (pairs,); -1 is the last row of the tables, which is there for what is unknown.
    weights, visible_biases, scores, slopes
        As in `divergence`.
    activations
        p (cases, hidden): probabilities of the hidden units of every case, float32.

    Returns
    -------
    Probabilities and mean scores. Sums are in float32; a pair does not depend on the others. Re-entrant; releases the
    GIL.

    Raises
    ------
    KernelError
        Shapes or dtypes do not fit, or a number is out of range.
    """
    visible, cases = as_type(given(visible), np.int64), as_type(given(cases), np.int64)
    if visible.shape != cases.shape:
        raise KernelError(
            f"visible and cases must be as many, not {tuple(visible.shape)} and {tuple(cases.shape)}"
        )
    tables = map(given, (weights, visible_biases, activations, scores, slopes))
    W, b, p, s, o = (in_c_order(table) for table in tables)
    device = common_device(weights=W, visible_biases=b, activations=p, scores=s, slopes=o)
    if str(b.dtype).removeprefix("torch.") != "float32":
        raise KernelError(f"visible_biases must be float32, not {b.dtype}")
    check_array(b, tuple(b.shape[:2]), b, "visible_biases")
    check_array(p, tuple(p.shape[:2]), b, "activations")
    check_array(W, tuple(W.shape), b, "weights")
    _check_weights(W, len(b), b.shape[1], p.shape[1])
    check_array(s, tuple(b.shape[1:]), b, "scores")
    check_array(o, tuple(p.shape[:1]), b, "slopes")
    check_range(visible, len(b), "visible", lowest=-1)
    check_range(cases, len(p), "cases", lowest=-1)
    result: Expected = resolve("boltzmann_expectations", device)(visible, cases, W, b, p, s, o)
    return result


class _Packed(NamedTuple):
    """Arguments that have been checked."""

    device: str
    data: tuple[Any, ...]  # offsets, ids, levels, cases
    parameters: tuple[Any, ...]  # W, b, d, U, s, o
    side: tuple[Any, ...]  # offsets and ids


def _packed(
    offsets: _Ints,
    ids: _Ints,
    levels: _Ints,
    cases: _Ints,
    weights: _Floats,
    visible_biases: _Floats,
    hidden_biases: _Floats,
    side_weights: _Floats,
    scores: _Floats,
    slopes: _Floats,
    steps: int,
    side_offsets: _Ints | None,
    side_ids: _Ints | None,
    chains: _Floats | None,
) -> _Packed:
    """The arguments of `divergence` in the types that backends expect. Raises KernelError."""
    tables = {
        "weights": weights,
        "visible_biases": visible_biases,
        "hidden_biases": hidden_biases,
        "side_weights": side_weights,
        "scores": scores,
        "slopes": slopes,
    }
    device = common_device(**tables, chains=chains)
    weights, b, d, U, s, o = (as_type(array, np.float32) for array in tables.values())
    ids, levels, cases = given(ids), given(levels), on_host(cases)
    offsets = as_offsets(offsets, len(ids))
    n_cases, (visible, K), hidden = len(offsets) - 1, b.shape, len(d)
    _check_weights(weights, visible, K, hidden)
    check_array(d, (hidden,), b, "hidden_biases")
    check_array(U, (visible if len(U) else 0, hidden), b, "side_weights")
    check_array(s, (K,), b, "scores")
    check_array(o, (n_cases,), b, "slopes")
    check_range(ids, visible, "ids")
    check_range(levels, K, "levels")
    check_range(cases, n_cases, "cases")
    if len(levels) != len(ids):
        raise KernelError(f"there must be as many levels as ids, not {len(levels)} and {len(ids)}")
    if steps < 1:
        raise KernelError(f"steps must be at least 1, not {steps}")
    if chains is not None:
        check_array(chains, (n_cases, hidden), b, "chains")
    if side_offsets is None or side_ids is None or not len(U):
        side_offsets, side_ids = np.zeros(n_cases + 1, np.int64), np.empty(0, np.int32)
    side_ids = given(side_ids)
    side_offsets = as_offsets(side_offsets, len(side_ids), "side_offsets", n_cases)
    check_range(side_ids, visible, "side_ids")
    data = (
        offsets,
        as_type(ids, np.int32),
        as_type(levels, np.int32),
        cases.astype(np.int64, copy=False),
    )
    side = side_offsets, as_type(side_ids, np.int32)
    return _Packed(device, data, (weights, b, d, U, s, o), side)


def _check_weights(weights: _Floats, visible: int, K: int, hidden: int) -> None:
    """Raise `KernelError` unless the weights are tied or untied ones of so many units."""
    if tuple(weights.shape) not in ((visible, hidden), (visible, K, hidden)):
        raise KernelError(
            f"weights must be {(visible, hidden)} or {(visible, K, hidden)}, not {tuple(weights.shape)}"
        )
