"""Options and parameters of a restricted Boltzmann machine (RBM) for ratings, and visible units that come later.

A case is an item or a user, whose ratings are the visible units. In a complete RBM (`FittedRBM.complete`) the last rows
of the tables for predictions are the average visible unit and the average case, which stand for unknown ones, so that
number -1 finds them.

Later visible units are solved for one by one: each is a small regression on the hidden units of the cases that it has
ratings with, with the penalties of training. The regression is convex and takes a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import expit, softmax

from tacenda.array_ops import to_device, to_numpy
from tacenda.arrays import (
    Array,
    Arrays,
    Constraint,
    Float32,
    Float64,
    ascending,
    at_least,
    named,
    not_empty,
    positive,
)
from tacenda.forks import cached_property
from tacenda.kernels.boltzmann import Expected, boltzmann_expectations
from tacenda.kernels.shared import sparse_product
from tacenda.ratings import Ratings
from tacenda.settings import option
from tacenda_surprise.catalogue import Doubles, Floats, Numbers
from tacenda_surprise.identities import Identities
from tacenda_surprise.levels import Scale, narrow
from tacenda_surprise.options import RatedSettings, SeededSettings, StoppedSettings
from tacenda_surprise.rows import lengthen, mean_row

_BIAS_PENALTY = 1.0  # of a visible unit that is solved for, where the model does not say
_PENALTY = 0.02  # of the weights, for each case
# Penalties grow with this power of the sparsity (see `Ratings.sparsity`) where it exceeds the dense one.
_DENSE_SPARSITY, _SPARSITY_POWER = 0.3, 8
# Of the weights of identities: for each case, and for all cases.
_SIDE_PENALTY, _MIN_TOTAL_SIDE_PENALTY = 0.002, 3.0
_MAX_SHRINKAGE = 0.99  # share of the weights that a default penalty takes away at a plain step


@dataclass(frozen=True, kw_only=True)
class RBMSettings(SeededSettings, StoppedSettings):
    """Options of `RBM`; section 5.4.2 of the thesis has its values."""

    n_hidden: int = option(100, "hidden units; the thesis has 25 to 200", at_least=1)
    n_epochs: int = option(60, "passes over the cases; with validation, the maximum", at_least=0)
    orientation: Literal["item", "user"] = option(
        "item",
        """whether a case is an item, whose visible units are the users who rated it, or a user, as in the thesis;
        ``item`` predicts better if items have many ratings, and ``user`` folds in a user without any fitting,
        because cases are inferred and visible units are learned""",
    )
    ordinal: bool = option(
        True,
        """tie the weights of the levels, W_mk = s_k a_m; without ties, as in the thesis, every level of
        every visible unit has separate weights, which are far too many for small data""",
    )
    offset: bool = option(
        True,
        "give every case a fixed slope for how much higher than usual its ratings are; the thesis does not",
    )
    lr_all: float = option(
        0.005,
        "learning rate of Adam, for minibatches of cases; the thesis has plain steps of 0.001",
        at_least=0,
    )
    reg_all: float | None = option(
        None,
        """weight of the squared weights, for each case; None: 0.02, and more if users and items have
        few ratings, in which case the fit may end early because no weights are left, but with plain steps never
        so much that they diverge; the thesis has 0.01""",
        at_least=0,
    )
    lr_decay: float = option(
        0.95,
        "factor on the learning rate after every epoch; the thesis has 1",
        at_least=0,
        at_most=1,
    )
    optimizer: Literal["adam", "sgd"] = option(
        "adam",
        """Adam, on minibatches of cases, or plain gradient steps after every case, as in the thesis, on the CPU;
        with plain steps the visible biases start at the logarithms of plain frequencies, and only their penalty
        restrains them""",
    )
    patience: int = option(
        4, "epochs without improvement on the held-out ratings before the fit stops", at_least=1
    )
    retired: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {"gibbs_steps": ..., "batch_cases": ..., "persistent": ..., "damping": None}
        | {"prediction": "mean_field", "lr_bias": ..., "reg_bias": ..., "bins": ...}
    )

    @property
    def items_are_cases(self) -> bool:
        """Whether the visible units are users."""
        return self.orientation == "item"

    def penalty_for(self, ratings: Ratings) -> float:
        """Return the penalty of the weights for these ratings."""
        return self._adapt(_PENALTY, ratings) if self.reg_all is None else self.reg_all

    def side_penalty_for(self, ratings: Ratings) -> float:
        """Return the penalty of the weights of identities, for ratings whose users are the cases."""
        return 0.0

    def _adapt(self, penalty: float, ratings: Ratings) -> float:
        """Return a higher penalty if users and items have few ratings, but none that makes plain steps diverge."""
        penalty *= max(ratings.sparsity / _DENSE_SPARSITY, 1.0) ** _SPARSITY_POWER
        if self.optimizer == "sgd" and penalty * self.lr_all >= 1:
            penalty = _MAX_SHRINKAGE / self.lr_all
        return penalty

    def idle(self) -> Mapping[str, str]:
        return {} if self.validation else dict.fromkeys(("patience", "refit"), "without validation")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimizer == "sgd" and self.device not in ("auto", "cpu"):
            self.refuse("device", "'cpu' with optimizer='sgd', whose steps wait for one another")


@dataclass(frozen=True, kw_only=True)
class ConditionalRBMSettings(RBMSettings, RatedSettings):
    """Options of `ConditionalRBM`."""

    reg_side: float | None = option(
        None,
        """weight of the squared weights of identities, for each case, which want much less than the
        others; None: 0.002, and more where there are few cases, or users and items have few ratings, but with
        plain steps never so much that they diverge; the thesis has 0.01""",
        at_least=0,
    )

    def side_penalty_for(self, ratings: Ratings) -> float:
        if self.reg_side is not None:
            return self.reg_side
        n_cases = max(int(np.count_nonzero(np.diff(ratings.user_offsets))), 1)
        return self._adapt(max(_SIDE_PENALTY, _MIN_TOTAL_SIDE_PENALTY / n_cases), ratings)


class Usual(Arrays):
    """Prior of the biases of visible units and cases: see `tacenda_surprise.boltzmann.CaseData`."""

    case_biases: Float32[Array, "cases"]  # in scores
    # ratings at the average score that a case, and a visible unit, begins with
    of_cases: Float64[Array, "", at_least(0)]
    of_visible: Float64[Array, "", at_least(0)]
    # ratings of the usual shape that a visible unit begins with
    damping: Float64[Array, "", at_least(0)]
    variance: Float64[Array, "", positive]  # of scores about the sums of biases
    sharpness: Float64[Array, "", at_least(0)]  # k of `find_sharpness`

    def smooth(self, base: Doubles, s: Doubles, counts: Doubles, biases: Doubles) -> Doubles:
        """Add ``damping`` ratings of the usual shape to ``counts`` (visible, levels), and take logarithms."""
        usual = base + np.outer(biases / self.variance, s)
        return np.asarray(np.log(counts + self.damping * softmax(usual, axis=1)))

    def of_unit(self, base: Doubles, s: Doubles, cases: Numbers, levels: Numbers) -> Doubles:
        """Estimate the biases (levels,) of a new visible unit with ratings ``levels`` (n,) of ``cases`` (n,)."""
        residuals = s[levels] - self.case_biases[cases]
        bias = np.array([residuals.sum() / max(len(residuals) + float(self.of_visible), 1e-9)])
        counts = np.bincount(levels, minlength=len(s)).astype(np.float64)[None]
        biases = narrow(self.smooth(base, s, counts, bias), s, bias, float(self.sharpness))
        return np.asarray(biases[0])


#: Require weights (visible, hidden) or (visible, levels, hidden).
of_hidden_units = Constraint(
    lambda W, sizes: (
        None
        if W.shape[1:] in ((sizes["hidden"],), (sizes["levels"], sizes["hidden"]))
        else f"has rows of the shape {W.shape[1:]}, which is not that of hidden units"
    )
)


class Learned(Arrays):
    """Parameters that training changes in place (notation of ``tacenda.kernels.boltzmann``)."""

    #: a (visible, hidden) or W (visible, levels, hidden)
    weights: Float32[Array, "visible *weights", of_hidden_units]
    visible_biases: Float32[Array, "visible levels"]  # b
    hidden_biases: Float32[Array, "hidden"]  # d
    side_weights: Float32[Array, "sides hidden"]  # U, a row for each visible unit, or no rows


class FittedRBM(Learned):
    """A trained RBM: its parameters, and what was estimated from the ratings."""

    slopes: Float32[Array, "cases"]  # o
    base: Float32[Array, "levels"]  # logarithms of how often each level is given
    inputs: Float32[Array, "cases hidden"]  # what goes into the hidden units of every case
    rating_values: Float32[Array, "levels", ascending, not_empty, named("machine_levels")]
    penalty: Float64[Array, "", at_least(0)]  # of the weights, for each case
    #: None after plain steps, which hold biases nowhere, and in models saved by older versions
    usual: Usual | None = None

    def prior(self, s: Doubles, cases: Numbers, levels: Numbers) -> tuple[Doubles, float]:
        """Return where biases (levels,) of a visible unit with these ratings are held, and how strongly."""
        base = self.base.astype(np.float64)
        if self.usual is None:
            return base, _BIAS_PENALTY
        return self.usual.of_unit(base, s, cases, levels), float(self.usual.damping)

    def hidden_inputs(
        self,
        rated: Identities,
        levels: npt.NDArray[np.int32],
        scale: Scale,
        identities: Identities | None,
        device: str = "cpu",
    ) -> Floats:
        """Compute d + U f + W r, the argument of the logistic function in eq 5.14, for some cases (cases, hidden).

        They have ratings of the visible units ``rated``, with these ``levels`` (ratings,).
        """
        offsets, ids = rated.offsets, rated.item_ids
        if self.weights.ndim == 2:
            table, data = self.weights, scale.scores[levels]
        else:
            n_levels = self.weights.shape[1]
            table = self.weights.reshape(-1, self.weights.shape[2])
            # Within a case these numbers ascend, as those of the visible units do.
            ids = ids * np.int32(n_levels) + levels
            data = np.ones(len(ids), np.float32)
        found = sparse_product(offsets, ids, to_device(data, device), to_device(table, device))
        if identities is not None and len(self.side_weights):
            ones = to_device(np.ones(len(identities.item_ids), np.float32), device)
            found += sparse_product(
                identities.offsets, identities.item_ids, ones, to_device(self.side_weights, device)
            )
        return np.asarray(to_numpy(found) + self.hidden_biases)

    def grow(self, n_visible: int, n_cases: int) -> FittedRBM:
        """Copy the RBM with rows for more visible units and cases; new units have the usual biases only."""
        biases = lengthen(self.visible_biases, n_visible)
        biases[len(self.visible_biases) :] = self.base
        usual = self.usual
        if usual is not None:
            usual = replace(usual, case_biases=lengthen(usual.case_biases, n_cases))
        return replace(
            self,
            weights=lengthen(self.weights, n_visible),
            visible_biases=biases,
            side_weights=lengthen(self.side_weights, n_visible if len(self.side_weights) else 0),
            slopes=lengthen(self.slopes, n_cases),
            inputs=lengthen(self.inputs, n_cases),
            usual=usual,
        )

    def complete(self, of_visible: Numbers, of_cases: Numbers) -> FittedRBM:
        """Append a row for an unknown visible unit or case, the mean of the rows of those with ratings.

        ``of_visible`` (visible,) and ``of_cases`` (cases,) are 1 for rows with ratings, else 0. Tables that only
        fitting and folding in read, such as ``side_weights``, get no such row.
        """
        weights, biases = (mean_row(t, of_visible) for t in (self.weights, self.visible_biases))
        slope, inputs = (mean_row(t, of_cases) for t in (self.slopes, self.inputs))
        return replace(
            self,
            weights=np.concatenate([self.weights, weights[None]]),
            visible_biases=np.concatenate([self.visible_biases, biases[None]]),
            slopes=np.append(self.slopes, slope),
            inputs=np.concatenate([self.inputs, inputs[None]]),
        )

    @cached_property
    def activations(self) -> Floats:
        """P(h = 1 | r, f) of every case (cases, hidden), eq 5.14."""
        return np.asarray(expit(self.inputs))

    def expect(self, visible: Numbers, cases: Numbers, scores: Floats) -> Expected:
        """Compute probabilities (pairs, levels) and mean scores (pairs,) by mean field, eq 5.11."""
        return boltzmann_expectations(
            visible, cases, self.weights, self.visible_biases, self.activations, scores, self.slopes
        )

    def mean_scores(
        self, visible: slice | Numbers, cases: slice | Numbers, scores: Floats
    ) -> Floats:
        """Compute the expected scores (visible, cases) of all pairs by mean field."""
        of_visible = self.weights[visible], self.visible_biases[visible]
        odds = compute_odds(*of_visible, self.activations[cases], self.slopes[cases], scores)
        return np.asarray(np.tensordot(scores, odds, 1) / odds.sum(axis=0))


def compute_odds(W: Floats, b: Floats, p: Floats, o: Floats, s: Floats) -> Floats:
    """Compute probabilities (levels, visible, cases) of all pairs by mean field, eq 5.11, times a factor for each pair.

    Visible units have weights W and biases b; cases have activations p and slopes o; s are the scores of the levels.
    """
    odds = np.empty((len(s), len(W), len(p)), np.float32)
    along = W @ p.T + o if W.ndim == 2 else None
    for k, score in enumerate(s):
        rest = score * along if along is not None else W[:, k] @ p.T + score * o
        odds[k] = b[:, k, None] + rest
    odds -= odds.max(axis=0)
    return np.exp(odds, out=odds)


def solve_visible(
    machine: FittedRBM,
    scale: Scale,
    activations: Floats,
    cases: Numbers,
    levels: npt.NDArray[np.int32],
    penalty: float,
) -> tuple[Floats, Floats]:
    """Solve for biases (levels,) and weights, (hidden,) or (levels, hidden), of a visible unit.

    They maximize the probability of its ratings given ``activations`` (cases, hidden), eq 5.11, less half of
    ``penalty`` times the squared weights, and biases are held to where a fit holds them.
    """
    s = scale.scores.astype(np.float64)
    base, of_biases = machine.prior(s, cases, levels)
    # Biases are searched about the base, w about zero, in float64: L-BFGS stalls on the noise of float32.
    X, o = activations[cases].astype(np.float64), machine.slopes[cases].astype(np.float64)
    shape, n_biases, n = machine.weights.shape[1:], len(base), len(cases)
    tied = len(shape) == 1
    fixed = base + s * o[:, None]

    def loss(theta: Doubles) -> tuple[float, Doubles]:
        b, w = theta[:n_biases], theta[n_biases:]
        along = (X @ w)[:, None] * s if tied else X @ w.reshape(shape).T
        chances = softmax(fixed + b + along, axis=1)
        value = -np.log(np.maximum(chances[np.arange(n), levels], 1e-30)).sum()
        wrong = chances.copy()
        wrong[np.arange(n), levels] -= 1.0
        d_w = X.T @ (wrong @ s) if tied else (wrong.T @ X).ravel()
        value += 0.5 * (of_biases * b @ b + penalty * w @ w)
        return value, np.concatenate([wrong.sum(axis=0) + of_biases * b, d_w + penalty * w])

    theta = np.zeros(n_biases + int(np.prod(shape)))
    if n:
        theta = minimize(loss, theta, jac=True, method="L-BFGS-B").x
    b, w = base + theta[:n_biases], theta[n_biases:].reshape(shape)
    return b.astype(np.float32), w.astype(np.float32)


def penalty_of(penalty: float, n_cases: int) -> float:
    """Return the penalty of one visible unit next to the likelihood of all its ratings; fits count it for each case."""
    # without a penalty, weights could grow without bound, as where a unit has all its ratings at one level
    return max(penalty * n_cases, 1e-3)


def solve_units(
    machine: FittedRBM, scale: Scale, ratings: Ratings, units: Iterable[int], penalty: float
) -> None:
    """Solve in place for some visible units, the users of ``ratings``; ``penalty`` holds for each case."""
    activations, penalty = expit(machine.inputs), penalty_of(penalty, len(machine.inputs))
    for unit in units:
        cases, values = ratings.of_user(unit)
        machine.visible_biases[unit], machine.weights[unit] = solve_visible(
            machine, scale, activations, cases, scale.level_of(values), penalty
        )
