"""Users a machine was not fitted to.

Where users are cases, their hidden units are inferred and nothing is learned. Where they are visible units, the
biases and weights of one unit are learned: a small penalized regression on the hidden units of the rated items,
with the penalties that training has. It is convex and takes a few milliseconds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from tacenda_surprise.models.base import Floats, Numbers
from tacenda_surprise.models.boltzmann.machine import Cases, Machine, Scale, raised, softmax, squash

Doubles = npt.NDArray[np.float64]

_BIAS_PENALTY = 1.0


class FoldedUnit(NamedTuple):
    """Probabilities of the levels of every item, and of an unknown one in the last row."""

    chances: Floats  # (items + 1, levels)
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
        """Probabilities of the levels (items, levels)."""
        return np.asarray(self.chances[items])


def _expected(chances: Floats, of: Floats) -> Floats:
    """Weighted sum of each row; unlike that of BLAS it does not depend on how many rows there are."""
    return np.asarray(np.einsum("nk,k->n", chances, of))


def usual_slope(
    machine: Machine,
    scale: Scale,
    visible: Numbers,
    levels: npt.NDArray[np.int32],
    damping: float,
) -> float:
    """The slope o of a new case with these ratings: as in `Cases`, but from the visible biases alone."""
    if not len(visible):
        return 0.0
    logits, s = machine.visible_biases[visible].astype(np.float64), scale.scores.astype(np.float64)
    excess = scale.scores[levels] - softmax(logits) @ scale.scores
    by = np.array([excess.sum() / (len(visible) + damping)])
    n = len(visible)
    return float(raised(logits, s, np.array([0, n]), np.arange(n), by)[0])


def as_case(
    machine: Machine,
    scale: Scale,
    visible: Numbers,
    levels: npt.NDArray[np.int32],
    identities: Numbers,
    slope: float,
) -> FoldedUnit:
    """Infer a case with these ratings; the machine has its rows for the unknown."""
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
    """Learn a visible unit with these ratings of ``cases``; the machine has its rows for the unknown."""
    p, s = machine.activations(), scale.scores
    b, w = solve_visible(machine, scale, p, cases, levels, penalty)
    from_hidden = (p @ w)[:, None] * s if w.ndim == 1 else p @ w.T
    return FoldedUnit(softmax(b + s * machine.slopes[:, None] + from_hidden), scale)


def solve_visible(
    machine: Machine,
    scale: Scale,
    activations: Floats,
    cases: Numbers,
    levels: npt.NDArray[np.int32],
    penalty: float,
) -> tuple[Floats, Floats]:
    """Solve for biases (levels,) and weights, (hidden,) or (levels, hidden), of a visible unit.

    They maximize the probability of its ratings given ``activations`` (cases, hidden), eq 5.11, less half of
    ``penalty`` times the squared weights.
    """
    s, base = scale.scores.astype(np.float64), machine.base.astype(np.float64)
    X, o = activations[cases].astype(np.float64), machine.slopes[cases].astype(np.float64)
    shape, n_biases, n = machine.weights.shape[1:], len(base), len(cases)
    tied = len(shape) == 1
    fixed = base + s * o[:, None]

    def loss(theta: Doubles) -> tuple[float, Doubles]:
        b, w = theta[:n_biases], theta[n_biases:]
        along = (X @ w)[:, None] * s if tied else X @ w.reshape(shape).T
        chances = softmax(fixed + b + along).astype(np.float64)
        value = -np.log(np.maximum(chances[np.arange(n), levels], 1e-30)).sum()
        wrong = chances.copy()
        wrong[np.arange(n), levels] -= 1.0
        d_w = X.T @ (wrong @ s) if tied else (wrong.T @ X).ravel()
        value += 0.5 * (_BIAS_PENALTY * b @ b + penalty * w @ w)
        return value, np.concatenate([wrong.sum(axis=0) + _BIAS_PENALTY * b, d_w + penalty * w])

    theta = np.zeros(n_biases + int(np.prod(shape)))
    if n:
        theta = minimize(loss, theta, jac=True, method="L-BFGS-B").x
    b, w = base + theta[:n_biases], theta[n_biases:].reshape(shape)
    return b.astype(np.float32), w.astype(np.float32)


def penalty_of(penalty: float, n_cases: int) -> float:
    """The penalty of one visible unit beside the likelihood of all its ratings; fits count it a case."""
    return max(penalty * n_cases, 1e-3)


def extended(machine: Machine, scale: Scale, cases: Cases) -> Machine:
    """Add rows for visible units of ``cases`` that the machine does not have, solved for one by one.

    Steps of the size at which a fit ends would take long to bring new units to where the old ones are.
    """
    n_old, n_new = len(machine.weights), cases.ratings.n_items - len(machine.weights)
    nothing = np.zeros((n_new, *machine.weights.shape[1:]), np.float32)
    n_side = n_new if len(machine.side_weights) else 0
    wider = machine._replace(
        weights=np.concatenate([machine.weights, nothing]),
        visible_biases=np.concatenate([machine.visible_biases, cases.visible_biases[n_old:]]),
        side_weights=np.pad(machine.side_weights, ((0, n_side), (0, 0))),
        slopes=cases.slopes,
    )
    inputs = wider.hidden_inputs(cases.ratings, cases.levels, scale, cases.identities)
    by_visible = cases.ratings.by_item
    activations, penalty = squash(inputs), penalty_of(cases.penalty, len(inputs))
    for m in range(n_old, n_old + n_new):
        numbers, values = by_visible.of_user(m)
        solved = solve_visible(wider, scale, activations, numbers, scale.level_of(values), penalty)
        wider.visible_biases[m], wider.weights[m] = solved
    return wider._replace(inputs=inputs)
