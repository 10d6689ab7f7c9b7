"""A user the machine was not fitted on.

Where users are cases, their hidden units are inferred: nothing is learned. Where they are visible units, the
biases and weights of one unit are: a small penalized regression on the hidden units of the rated items, with
the penalties that training has; it is convex and takes a few milliseconds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from tacit_surprise.models.base import Floats, Numbers
from tacit_surprise.models.boltzmann.cases import Scale
from tacit_surprise.models.boltzmann.machine import Machine, softmax, squash

Doubles = npt.NDArray[np.float64]

_BIAS_PENALTY = 1.0


class FoldedUnit(NamedTuple):
    """Probabilities of the levels of every item, and of an unknown one in the last row.

    Attributes:
        chances: (items + 1, levels).
        scale: of the ratings.
    """

    chances: Floats
    scale: Scale

    def score(self, items: Numbers | None = None) -> Floats:
        """Expected ratings (items,); of all items if None; -1 is an unknown item."""
        chosen = self.chances[:-1] if items is None else self.chances[items]
        return self.scale.ratings(_expected(chosen, self.scale.scores))

    def deviations(self, items: Numbers) -> Floats:
        """Standard deviations of the ratings (items,)."""
        chosen, s = self.chances[items], self.scale.scores
        variance = np.maximum(_expected(chosen, s**2) - _expected(chosen, s) ** 2, 1e-6)
        return np.asarray(np.sqrt(variance) * np.float32(self.scale.unit), np.float32)

    def probabilities(self, items: Numbers) -> Floats:
        """Of the levels (items, levels)."""
        return np.asarray(self.chances[items])


def _expected(chances: Floats, of: Floats) -> Floats:
    """A sum for each row that does not depend on how many rows there are, as that of BLAS does."""
    return np.asarray(np.einsum("nk,k->n", chances, of))


def usual_slope(
    machine: Machine,
    scale: Scale,
    visible: Numbers,
    levels: npt.NDArray[np.int32],
    damping: float,
) -> float:
    """O of a new case with these ratings: as `Cases.slopes`, from the visible biases alone."""
    if not len(visible):
        return 0.0
    usual = FoldedUnit(softmax(machine.visible_biases[visible]), scale)
    excess = scale.scores[levels] - usual.chances @ scale.scores
    variance = np.mean(usual.deviations(np.arange(len(visible))) ** 2) / scale.unit**2
    return float(excess.sum() / (len(visible) + damping) / max(variance, 0.05))


def as_case(
    machine: Machine,
    scale: Scale,
    visible: Numbers,
    levels: npt.NDArray[np.int32],
    identities: Numbers,
    slope: float,
) -> FoldedUnit:
    """A case with these ratings; ``machine`` with its rows for the unknown."""
    s, W = scale.scores, machine.weights
    x = machine.hidden_biases + machine.side_weights[identities].sum(axis=0)
    rows = W[visible] * s[levels][:, None] if W.ndim == 2 else W[visible, levels]
    p = squash(x + rows.sum(axis=0))
    logits = machine.visible_biases + s * np.float32(slope)
    logits += (W @ p)[:, None] * s if W.ndim == 2 else W @ p
    return FoldedUnit(softmax(logits), scale)


def as_visible(
    machine: Machine,
    scale: Scale,
    cases: Numbers,
    levels: npt.NDArray[np.int32],
    penalty: float,
) -> FoldedUnit:
    """A visible unit with these ratings of ``cases``; ``machine`` with its rows for the unknown."""
    s = scale.scores.astype(np.float64)
    features = squash(machine.inputs).astype(np.float64)
    slopes, base = machine.slopes.astype(np.float64), machine.base.astype(np.float64)
    shape = machine.weights.shape[1:]
    n_biases, tied = len(base), len(shape) == 1
    X, o, n = features[cases], slopes[cases], len(cases)

    def logits(theta: Doubles, P: Doubles, slope: Doubles) -> Doubles:
        b, w = theta[:n_biases], theta[n_biases:].reshape(shape)
        along = (P @ w)[:, None] * s if tied else P @ w.T
        return np.asarray(base + b + s * slope[:, None] + along)

    def loss(theta: Doubles) -> tuple[float, Doubles]:
        chances = softmax(logits(theta, X, o)).astype(np.float64)
        value = -np.log(np.maximum(chances[np.arange(n), levels], 1e-30)).sum()
        wrong = chances.copy()
        wrong[np.arange(n), levels] -= 1.0
        b, w = theta[:n_biases], theta[n_biases:]
        d_w = X.T @ (wrong @ s) if tied else (wrong.T @ X).ravel()
        value += 0.5 * (_BIAS_PENALTY * b @ b + penalty * w @ w)
        return value, np.concatenate([wrong.sum(axis=0) + _BIAS_PENALTY * b, d_w + penalty * w])

    theta = np.zeros(n_biases + int(np.prod(shape)))
    if n:
        theta = minimize(loss, theta, jac=True, method="L-BFGS-B").x
    return FoldedUnit(softmax(logits(theta, features, slopes)), scale)
