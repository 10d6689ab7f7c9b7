"""A restricted Boltzmann machine for ratings (Mnih 2010, section 5.2): options, data, parameters, predictions.

A case is an item or a user, whose ratings are the visible units; `Scale` and `Cases` bring ratings into that form.
In a complete machine (`Machine.with_unknown`) the last rows stand for what is unknown, a visible unit of average
biases without weights and a case without ratings, so that number -1 finds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from tacenda import devices
from tacenda.arrays import Array, Arrays, Float32, to_device, to_numpy
from tacenda.errors import ConfigurationError
from tacenda.kernels.ratings import boltzmann as rating_boltzmann
from tacenda.kernels.shared import sparse_product
from tacenda.ratings import Ratings
from tacenda.settings import option
from tacenda_surprise.algorithm import RatedSettings, SeededSettings
from tacenda_surprise.bias import BiasOnlySettings, alternate
from tacenda_surprise.catalogue import Catalogue, Identities, sparsity

Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.integer[Any]]

_PENALTY = 0.02
_USUAL_NOISE, _STEEP = 0.3, 8  # up to which sparsity it holds, and how steeply it grows beyond
_SIDE_PENALTY, _SIDE_TOTAL = 0.002, 3.0  # of weights of identities: for each case, and in all
_BATCH, _BATCHES = 32, 40  # cases of a minibatch at least, and minibatches of an epoch at most
_LEAST_VARIANCE = 0.05  # of scores
_NEWTON_STEPS = 12
_SLOPE_STEPS = 4  # the first of them is nearly right
_SHAPE = 300.0  # ratings of the usual shape that are added to those of a visible unit
_SAMPLE = 5000  # ratings that tell how sharp distributions are
_SHARPEST, _HALVINGS = 2.0, 10
_SPAN = 4.0  # of the scores, whatever the scale: that of five stars
_BLOCK = 1 << 22  # numbers in memory at a time: exact predictions need one a pair, level and unit


@dataclass(frozen=True, kw_only=True)
class RBMSettings(SeededSettings):
    """Options of `RBM`; what the thesis has is in section 5.4.2."""

    n_hidden: int = option(100, "hidden units; the thesis has 25 to 200", at_least=1)
    n_epochs: int = option(
        60, "passes over the cases; at most so many, with validation", at_least=0
    )
    orientation: Literal["item", "user"] = option(
        "item",
        """what a case is: an item, whose visible units are the users who rated it, or a user, as in
        the thesis; cases are inferred and visible units learned, so that ``item`` predicts better where
        items have many ratings, and ``user`` folds in a user without any fitting""",
    )
    ordinal: bool = option(
        True,
        """tie the weights of the levels, W_mk = s_k a_m; without ties, as in the thesis, every level of
        every visible unit has weights of its own, far too many for small data""",
    )
    offset: bool = option(
        True,
        "give every case a fixed slope, how much higher than usual its ratings are; the thesis does not",
    )
    gibbs_steps: int = option(
        1, "T, the steps of contrastive divergence; the thesis has 1, later more", at_least=1
    )
    prediction: Literal["mean_field", "exact"] = option(
        "mean_field",
        "how ratings are predicted: eq 5.11, or eq 5.9, which is slower and hardly differs",
    )
    lr_all: float = option(
        0.005,
        "learning rate of Adam, for minibatches of cases; the thesis has plain steps of 0.001",
        at_least=0,
    )
    reg_all: float | None = option(
        None,
        """weight of the squared weights, for each case; None: 0.02, and more where users and items have
        few ratings, and where that leaves nothing of the weights the fit ends early; the thesis has 0.01""",
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
        """how parameters follow the gradients: Adam, by minibatches of cases, or plain steps after every
        case, as in the thesis, on the CPU and in one process; with plain steps the visible biases start
        at the logarithms of plain frequencies, and nothing but their penalty holds them""",
    )
    lr_bias: float = option(
        0.0001, "learning rate of the biases with plain steps; that of the thesis", at_least=0
    )
    reg_bias: float = option(
        0.001,
        "weight of the squared biases with plain steps, for each case; that of the thesis",
        at_least=0,
    )
    batch_cases: int | None = option(
        None,
        """cases in a minibatch; None: 32, or a fortieth of all where these are more, as every minibatch
        visits the parameters of all visible units; the thesis has 1""",
        at_least=1,
    )
    persistent: bool = option(
        False,
        """go on with the Gibbs chain of a case where its last update left it (Tieleman 2008); the first
        epochs predict badly, so do not stop early""",
    )
    damping: float | None = option(
        None,
        """ratings at the expected value that are added to those of every case and visible unit for the
        slopes and the first visible biases; None: estimated from the ratings, as in `BiasOnly`""",
        at_least=0,
    )
    bins: int = option(
        20, "levels that continuous ratings, or more than 50 levels, are brought to", at_least=2
    )
    validation: float = option(
        0.0, "part of the ratings held out to stop early; 0: none", at_least=0, below=1
    )
    patience: int = option(
        4, "epochs without improvement on the ratings held out before the fit stops", at_least=1
    )
    refit: bool = option(
        True,
        "fit anew to all ratings, for as many epochs as were best on the ratings held out",
    )
    device: str = devices.option(default="cpu")

    @property
    def items_are_cases(self) -> bool:
        """Whether the visible units are users."""
        return self.orientation == "item"

    def penalty_for(self, ratings: Ratings) -> float:
        """The penalty of a machine for these ratings."""
        return _PENALTY * _excess(ratings) if self.reg_all is None else self.reg_all

    def side_penalty_for(self, ratings: Ratings) -> float:
        """The penalty of the weights of identities, for ratings whose users are the cases."""
        given: float | None = getattr(self, "reg_side", None)
        if given is not None:
            return given
        n_cases = max(int(np.count_nonzero(np.diff(ratings.user_offsets))), 1)
        return max(_SIDE_PENALTY, _SIDE_TOTAL / n_cases) * _excess(ratings)

    def batch_size(self, n_cases: int) -> int:
        """How many cases a minibatch has, of ``n_cases`` that have ratings."""
        return self.batch_cases or max(_BATCH, -(-n_cases // _BATCHES))

    def idle(self) -> Mapping[str, str]:
        """Options that early stopping and the optimizer leave without effect."""
        found = (
            {} if self.validation else dict.fromkeys(("patience", "refit"), "without validation")
        )
        if self.optimizer == "adam":
            return {**found, **dict.fromkeys(("lr_bias", "reg_bias"), "with optimizer='adam'")}
        found["batch_cases"] = "with optimizer='sgd', which steps after every case"
        if not self.offset:
            found["damping"] = "with optimizer='sgd' and offset=False"
        return found

    def check(self) -> None:
        """Refuse what is no device, plain steps on one that is not the CPU, and early stopping of persistent chains."""
        devices.check(self)
        if self.optimizer == "sgd" and self.device not in ("auto", "cpu"):
            self.refuse("device", "'cpu' with optimizer='sgd', whose steps wait for one another")
        if self.persistent and self.validation:
            raise ConfigurationError(
                "persistent chains predict badly at first and early stopping would take that for the end; "
                "set validation to 0 or persistent to False"
            )


@dataclass(frozen=True, kw_only=True)
class ConditionalRBMSettings(RBMSettings, RatedSettings):
    """Options of `ConditionalRBM`."""

    reg_side: float | None = option(
        None,
        """weight of the squared weights of identities, for each case, which want much less than the
        others; None: 0.002, and more where there are few cases, or users and items have few ratings; the
        thesis has 0.01""",
        at_least=0,
    )


def _excess(ratings: Ratings) -> float:
    """How many times as large penalties are where users and items have few ratings."""
    return max(sparsity(ratings) / _USUAL_NOISE, 1.0) ** _STEEP


@dataclass(frozen=True)
class Scale:
    """The scores s of the levels, and their way back to ratings."""

    levels: Floats  # (levels,) ratings, ascending
    scores: Floats  # (levels,), about zero at the mean rating
    mean: float  # the rating whose score is zero
    unit: float  # rating units in one unit of score

    @classmethod
    def of(cls, catalogue: Catalogue, ratings: Ratings, bins: int) -> Scale:
        """The scale of a catalogue.

        Where it is continuous, the levels are the means of ``bins`` equal parts of the sorted ratings.
        """
        levels = catalogue.levels
        if not len(levels):
            parts = np.array_split(np.sort(ratings.values.astype(np.float64)), bins)
            means = [part.mean() for part in parts if len(part)]
            levels = np.unique(np.array(means, np.float32))
        return cls.about(levels, catalogue)

    @classmethod
    def about(cls, levels: Floats, catalogue: Catalogue) -> Scale:
        """The scale with these levels."""
        unit = float(levels[-1] - levels[0]) / _SPAN or 1.0
        scores = ((levels - np.float32(catalogue.mean)) / np.float32(unit)).astype(np.float32)
        return cls(levels, scores, catalogue.mean, unit)

    def level_of(self, values: Floats) -> npt.NDArray[np.int32]:
        """The number of the level nearest to each rating."""
        borders = (self.levels[1:] + self.levels[:-1]) / 2
        return np.searchsorted(borders, values).astype(np.int32)

    def ratings(self, scores: Floats) -> Floats:
        """Turn scores into ratings."""
        return np.asarray(np.float32(self.mean) + np.float32(self.unit) * scores, np.float32)


@dataclass(frozen=True)
class Cases:
    """The training data by case, and what is estimated from it beforehand.

    Scores have biases of cases and visible units, found as `BiasOnly` does. The visible biases are logarithms of
    frequencies and a slope with which their mean is the bias. Frequencies say much less of the shape of a
    distribution than of its mean, so that many ratings of the usual shape are added. The slope of a case is the one
    with which the mean of its visible units is higher than usual by its bias. So the machine without weights
    predicts nearly as `BiasOnly` does, but never beyond the ends of the scale. For plain steps, where the visible
    biases are learned like the weights, they are logarithms of plain frequencies instead.
    """

    ratings: Ratings  # their users are the cases, their items the visible units
    levels: npt.NDArray[np.int32]  # (ratings,)
    slopes: Floats  # o (cases,); zeros without an offset
    visible_biases: Floats  # (visible, levels), logarithms of frequencies: those of the start
    damping: float  # of visible units, in ratings
    penalty: float  # of the weights, for each case
    base: Floats  # (levels,), the same of all ratings together
    identities: Identities | None  # what each case is known to have ratings with

    @classmethod
    def of(
        cls,
        settings: RBMSettings,
        scale: Scale,
        ratings: Ratings,
        known: Identities | None,
    ) -> Cases:
        """Bring ratings and identities, given by user, into the orientation of the settings."""
        if settings.items_are_cases:
            if known is not None:
                known = Identities.from_pairs(
                    known.item_ids, known.user_ids, ratings.n_items, ratings.n_users
                )
            ratings = ratings.by_item
        levels, n_levels = scale.level_of(ratings.values), len(scale.levels)
        values = scale.scores[levels]
        scored = Ratings.from_csr(
            ratings.user_offsets, ratings.item_ids, values, ratings.users, ratings.items,
            scale=(float(scale.scores[0]), float(scale.scores[-1])),
        )  # fmt: skip
        given = settings.damping
        biases = BiasOnlySettings(reg_u=given, reg_i=given)
        alternation = alternate(scored, 0.0, biases)
        of_case, of_visible = alternation.b, alternation.c
        left = values - of_case[ratings.user_ids] - of_visible[ratings.item_ids]
        variance = max(float(np.var(left)), _LEAST_VARIANCE) if len(levels) else 1.0
        sample = np.random.default_rng(0).permutation(len(values))[:_SAMPLE]
        counts = np.zeros((ratings.n_items, n_levels))
        np.add.at(counts, (ratings.item_ids, levels), 1.0)
        share = (counts.sum(axis=0) + 0.1) / (counts.sum() + 0.1 * n_levels)
        damped, s = alternation.penalties[1] + _SHAPE, scale.scores.astype(np.float64)
        usual = np.log(share) + np.outer(of_visible / variance, s)
        smooth = counts + damped * np.exp(usual - logsumexp(usual, axis=1, keepdims=True))
        usual = np.log(smooth)
        expected = (of_case[ratings.user_ids] + of_visible[ratings.item_ids])[sample]
        usual -= (
            find_sharpness(usual[ratings.item_ids[sample]], s, expected, alternation.expected_error)
            * s**2
        )
        logits = tilt(usual, s, of_visible)
        logarithms = logits - logsumexp(logits, axis=1, keepdims=True)
        if settings.optimizer == "sgd":
            # one rating of the usual shape is added, as zero has no logarithm
            logarithms = np.log((counts + share) / (counts.sum(axis=1, keepdims=True) + 1))
        slopes = np.zeros(ratings.n_users)
        if settings.offset:
            slopes = raise_means(logarithms, s, ratings.user_offsets, ratings.item_ids, of_case)
        return cls(
            ratings,
            levels,
            slopes.astype(np.float32),
            logarithms.astype(np.float32),
            damped,
            settings.penalty_for(ratings),
            np.log(share).astype(np.float32),
            known,
        )


def tilt(
    logits: npt.NDArray[np.float64], s: npt.NDArray[np.float64], means: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Add to each row of ``logits`` (rows, levels) a slope times the scores ``s``, with which its mean is that wanted.

    ``means`` (rows,) are kept away from the ends of the scores; Newton's method with bounded steps.
    """
    wanted = np.clip(means, s[0] + 0.02 * (s[-1] - s[0]), s[-1] - 0.02 * (s[-1] - s[0]))
    found = logits.copy()
    for _ in range(_NEWTON_STEPS):
        mean, variance = _moments(found, s)
        found += np.clip((wanted - mean) / variance, -1.0, 1.0)[:, None] * s
    return found


def find_sharpness(
    logits: npt.NDArray[np.float64],
    s: npt.NDArray[np.float64],
    means: npt.NDArray[np.float64],
    variance: float,
) -> float:
    """The k with which the rows of ``logits`` (rows, levels), less k s^2, have this ``variance`` on average.

    They are `tilt` to their ``means``. At least 0: frequencies of many cases together are no narrower than those
    of one. By bisection.
    """
    low, high = 0.0, _SHARPEST
    for _ in range(_HALVINGS if len(logits) else 0):
        middle = (low + high) / 2
        found = _moments(tilt(logits - middle * s**2, s, means), s)[1].mean()
        low, high = (middle, high) if found > variance else (low, middle)
    return low


def raise_means(
    logits: npt.NDArray[np.float64],
    s: npt.NDArray[np.float64],
    offsets: Numbers,
    ids: Numbers,
    by: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """The slopes (cases,) that raise the mean score of the ratings of every case ``by`` so much.

    The ratings of case c are those of the visible units ``ids[offsets[c]:offsets[c + 1]]``, which have the ``logits``
    (visible, levels) without a slope. Newton's method with bounded steps.
    """
    sizes = np.diff(offsets)
    usual = _moments(logits, s)[0]
    found = np.zeros(len(sizes))
    block = max(_BLOCK // len(s), 1)
    for _ in range(_SLOPE_STEPS):
        means, variances = np.zeros(len(sizes)), np.zeros(len(sizes))
        for start in range(0, len(ids), block):
            part = ids[start : start + block]
            places = np.arange(start, start + len(part))
            cases = np.searchsorted(offsets, places, side="right") - 1
            mean, variance = _moments(logits[part] + found[cases, None] * s, s)
            means += np.bincount(cases, mean - usual[part], len(sizes))
            variances += np.bincount(cases, variance, len(sizes))
        missing = sizes * by - means
        found += np.clip(missing / np.maximum(variances, _LEAST_VARIANCE), -1.0, 1.0)
    return found


def _moments(
    logits: npt.NDArray[np.float64], s: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Mean and variance (rows,) of the scores under ``logits`` (rows, levels)."""
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    means = chances @ s
    return means, np.maximum(chances @ s**2 - means**2, _LEAST_VARIANCE)


class Machine(Arrays):
    """Parameters (notation of ``tacenda.kernels.ratings.boltzmann``)."""

    weights: Float32[
        Array, "visible *weights"
    ]  # a (visible, hidden) or W (visible, levels, hidden)
    visible_biases: Float32[Array, "visible levels"]  # b
    hidden_biases: Float32[Array, "hidden"]  # d
    side_weights: Float32[Array, "sides hidden"]  # U, a row for each visible unit, or no rows
    slopes: Float32[Array, "cases"]  # o
    base: Float32[Array, "levels"]  # biases of an unknown visible unit
    inputs: Float32[Array, "cases hidden"]  # what goes into the hidden units of every case

    def hidden_inputs(
        self,
        ratings: Ratings,
        levels: npt.NDArray[np.int32],
        scale: Scale,
        identities: Identities | None,
        device: str = "cpu",
    ) -> Floats:
        """The argument d + U f + W r of the logistic function in eq 5.14, of every case (cases, hidden)."""
        offsets, ids = ratings.user_offsets, ratings.item_ids
        if self.weights.ndim == 2:
            table, data = self.weights, scale.scores[levels]
        else:
            n_levels = self.weights.shape[1]
            table = self.weights.reshape(-1, self.weights.shape[2])
            # within a case the numbers still ascend, as those of the visible units do
            ids = ids * np.int32(n_levels) + levels
            data = np.ones(len(ids), np.float32)
        found = sparse_product.multiply(
            offsets, ids, to_device(data, device), to_device(table, device)
        )
        if identities is not None and len(self.side_weights):
            ones = to_device(np.ones(len(identities.item_ids), np.float32), device)
            found += sparse_product.multiply(
                identities.offsets, identities.item_ids, ones, to_device(self.side_weights, device)
            )
        return np.asarray(to_numpy(found) + self.hidden_biases)

    def with_unknown(self) -> Machine:
        """Add a last row to every table for what is unknown."""
        nothing = np.zeros((1, *self.weights.shape[1:]), np.float32)
        return replace(
            self,
            weights=np.concatenate([self.weights, nothing]),
            visible_biases=np.concatenate([self.visible_biases, self.base[None]]),
            slopes=np.append(self.slopes, np.float32(0)),
            inputs=np.concatenate([self.inputs, self.hidden_biases[None]]),
        )

    def activations(self) -> Floats:
        """P(h = 1 | r, f) of every case (cases, hidden), eq 5.14."""
        return squash(self.inputs)

    def exact(self, visible: Numbers, cases: Numbers, scores: Floats) -> Floats:
        """Probabilities of the levels of each pair (pairs, levels), eq 5.9."""
        found = np.empty((len(visible), len(scores)), np.float32)
        block = max(_BLOCK // (len(scores) * max(self.inputs.shape[1], 1)), 1)
        for start in range(0, len(visible), block):
            part = slice(start, start + block)
            m, c = visible[part], cases[part]
            W = self.weights[m]
            if W.ndim == 2:
                W = W[:, None, :] * scores[None, :, None]
            logits = self.visible_biases[m] + scores * self.slopes[c][:, None]
            logits += np.logaddexp(0, self.inputs[c][:, None, :] + W).sum(axis=-1)
            found[part] = softmax(logits)
        return found

    def expect(
        self, visible: Numbers, cases: Numbers, scores: Floats, activations: Floats
    ) -> rating_boltzmann.Expected:
        """Probabilities and mean scores of each pair by mean field, eq 5.11."""
        return rating_boltzmann.expect(
            visible, cases, self.weights, self.visible_biases, activations, scores, self.slopes
        )

    def rmse(self, visible: Numbers, cases: Numbers, scale: Scale, values: Floats) -> float:
        """Root mean squared error of mean-field predictions of pairs; ``values`` (pairs,) are ratings."""
        found = self.expect(visible, cases, scale.scores, self.activations())
        errors = scale.ratings(found.means) - values
        return float(np.sqrt(np.mean(errors**2, dtype=np.float64)))

    def mean_scores(
        self,
        visible: slice | Numbers,
        cases: slice | Numbers,
        scores: Floats,
        activations: Floats,
    ) -> Floats:
        """Expected scores (visible, cases) of all pairs of the two, by mean field."""
        p, W = activations[cases], self.weights[visible]
        b, o = self.visible_biases[visible], self.slopes[cases]
        total = np.zeros((len(W), len(p)), np.float32)
        mean = np.zeros_like(total)
        along = W @ p.T + o if W.ndim == 2 else None
        logits = []
        for k, s in enumerate(scores):
            rest = s * along if along is not None else W[:, k] @ p.T + s * o
            logits.append(b[:, k, None] + rest)
        highest = np.maximum.reduce(logits)
        for s, logit in zip(scores, logits, strict=True):
            chance = np.exp(logit - highest)
            total += chance
            mean += s * chance
        return np.asarray(mean / total)


def squash(x: Floats) -> Floats:
    """The logistic function."""
    with np.errstate(over="ignore"):  # far below zero it is 0, by way of an infinity
        return np.asarray(1.0 / (1.0 + np.exp(-x)), np.float32)


def softmax(logits: npt.NDArray[np.floating]) -> Floats:
    """The softmax along the last axis."""
    chances = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(chances / chances.sum(axis=-1, keepdims=True), np.float32)


def sides(settings: RBMSettings, users: Numbers, items: Numbers) -> tuple[Numbers, Numbers]:
    """Return (visible units, cases)."""
    return (users, items) if settings.items_are_cases else (items, users)
