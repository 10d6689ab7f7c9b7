"""Contrastive divergence for a restricted Boltzmann machine of ratings, on packed cases.

A case c (a user, or an item) has one visible unit for everything it has a rating with, of K levels; only
these take part. With hidden units h and the levels' scores s

    P(r_m = k | h) ~ exp(b_mk + s_k o_c + W_mk . h),     P(h_j = 1 | r) = sigma(d_j + sum_f U_fj + sum_m W_{m r_m j})

(Mnih 2010, eqs 5.7, 5.8 and 5.12), o_c being a fixed slope of the case: how much higher than usual its
ratings are. Tied weights W_mk = s_k a_m make the levels ordered and their number of weights K times smaller.
The gradient is that of T steps of Gibbs sampling from the data (eqs 5.4 to 5.6, 5.15), with probabilities in
the place of hidden states wherever these are not fed back. Cost: ratings x H x (2 + T (K + 1)) multiply-adds;
nothing of the size of all visible units by cases appears.

Persistent chains (Tieleman 2008) start every call where the call before left off rather than at the data.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.dispatch import resolve

__all__ = ["Divergence", "Expected", "divergence", "expect"]

_Floats = NDArray[np.float32]
_Ints = NDArray[np.integer[Any]]


class Divergence(NamedTuple):
    """Sums over the cases: squared error of the mean score that the first hidden states give, and the directions
    that raise the likelihood, in the shapes of weights, visible_biases, hidden_biases and side_weights.
    """

    error: float
    weights: _Floats
    visible_biases: _Floats
    hidden_biases: _Floats
    side_weights: _Floats


class Expected(NamedTuple):
    """Of the levels of each pair: probabilities (pairs, K) and mean score (pairs,), float32."""

    chances: _Floats
    means: _Floats


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
    """Contrastive-divergence gradients of some cases.

    Parameters
    ----------
    offsets, ids, levels
        All ratings by case: (cases + 1,), (ratings,) numbers of visible units and (ratings,) levels.
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
        probabilities of its hidden units, and where it ends. None: it starts at the data.

    Returns
    -------
    See `Divergence`; new float32 arrays. Re-entrant as long as no chain is shared; releases the GIL.

    Raises
    ------
    KernelError
        Where shapes or dtypes do not fit or a number is out of range.
    """
    result: Divergence = resolve("rating_boltzmann")(
        offsets, ids, levels, cases, weights, visible_biases, hidden_biases, side_weights, scores,
        slopes, steps, seed, side_offsets, side_ids, chains,
    )  # fmt: skip
    return result


def expect(
    visible: _Ints,
    cases: _Ints,
    weights: _Floats,
    visible_biases: _Floats,
    activations: _Floats,
    scores: _Floats,
    slopes: _Floats,
) -> Expected:
    """The distribution over the levels of pairs of a visible unit and a case, by mean field (eq 5.11).

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
    See `Expected`. Sums are in float32; a pair does not depend on the others. Re-entrant; releases the GIL.

    Raises
    ------
    KernelError
        Where shapes or dtypes do not fit or a number is out of range.
    """
    result: Expected = resolve("rating_expectations")(
        visible, cases, weights, visible_biases, activations, scores, slopes
    )
    return result
