"""Ratings predicted by biases of users and items alone, without any interaction between them.

    r_ui ~ mean + b_u + c_i          (Mnih 2010, section 5.4.3 and Table 5.2, "bias-only models")

The biases are damped means of the residuals, computed in turn for items and users (Koren 2010, section 2.1):

    c_i = sum_u (r_ui - mean - b_u) / (lambda_i + n_i),   b_u = sum_i (r_ui - mean - c_i) / (lambda_u + n_u)

With normal priors on the biases these are their most probable values, and lambda_u = sigma^2 / tau_u^2 is the
variance of the noise over that of the biases. The variances are estimated from the ratings, by a step of expectation
maximization after each turn: with v_u = sigma^2 / (lambda_u + n_u), the variance of b_u,

    tau_u^2 = mean of (b_u^2 + v_u),   sigma^2 = mean over ratings of ((r_ui - mean - b_u - c_i)^2 + v_u + v_i).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np

from tacenda.arrays import Array, Arrays, Float32, Float64, at_least
from tacenda.fitting import FitRun, StepResult, Trainer
from tacenda.forks import cached_property
from tacenda.kernels.ratings import Tables
from tacenda.ratings import Ratings, split
from tacenda.settings import configured_by, option
from tacenda_surprise.algorithm import RatingAlgorithm
from tacenda_surprise.catalogue import Catalogue, Floats, Numbers
from tacenda_surprise.identities import Identities
from tacenda_surprise.options import RatingSettings
from tacenda_surprise.rows import Touched, lengthen, mean_row
from tacenda_surprise.users import FoldedFactors
from tacenda_surprise.variance import (
    PredictiveVariance,
    Sizes,
    Variances,
    fit_no_variances,
    fit_variances,
    update_spread,
)

SWEEPS = 10  # through items and users; few are needed
# Variances of noise, users and items before they are estimated, for ratings with a standard deviation of one.
_INITIAL_VARIANCES = 0.7, 0.15, 0.15
_PRIOR_COUNT = 4.0  # ratings, users and items that the initial variances count as
_MAX_HELD_OUT = 0.1  # share of the ratings whose errors the predictive variances are fitted to
_MAX_VARIANCE_ERRORS = 20_000
# Avoids 0 / 0: a row with neither ratings nor a penalty keeps a bias of zero.
_LEAST_DENOMINATOR = 1e-9


@dataclass(frozen=True, kw_only=True)
class BiasOnlySettings(RatingSettings):
    """Options of `BiasOnly`, which draws no random numbers. The thesis learns the biases by SGD, without penalties."""

    biases: Literal["both", "items", "users", "none"] = option(
        "both", "whose biases are learned; ``none`` predicts the mean of all ratings"
    )
    retired: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {"n_epochs": ..., "reg_u": ..., "reg_i": ...}
    )


class Biases(Arrays):
    """Biases b and c, the penalties lambda of both, and predictive variances."""

    user_biases: Float32[Array, "users"]
    item_biases: Float32[Array, "items"]
    penalties: Float64[Array, "2", at_least(0)]
    spread: PredictiveVariance
    variances: Variances | None = None  # parameters of the spread; older models have none

    @cached_property
    def tables(self) -> Tables:
        """The biases, and factors of width zero."""
        b, c = self.user_biases, self.item_biases
        x, q = (np.zeros((len(side), 0), np.float32) for side in (b, c))
        return Tables(x, q, b, c, np.zeros((0, 0), np.float32))


class BiasOnly(RatingAlgorithm):
    """The mean rating and the biases of user and item: a baseline that every other model should beat."""

    name = "bias"
    settings: BiasOnlySettings
    learned_class = Biases
    learned: Biases | None

    __init__ = configured_by(BiasOnlySettings)(RatingAlgorithm.__init__)

    def _fit(self, run: FitRun, ratings: Ratings, identities: Identities | None) -> None:
        self._catalogue = catalogue = Catalogue.of(ratings)
        alternation = Alternation(ratings, catalogue.mean, self._learn)
        self._train(run, alternation, ratings, SWEEPS, self._fit_variances(ratings, catalogue))

    def _resume_fit(
        self, run: FitRun, ratings: Ratings, known: Identities | None, epochs: int | None
    ) -> None:
        """Alternate again from the old biases; the mean and the parameters of the variances stay."""
        old = self._learned(self.learned)
        self._catalogue = catalogue = self.catalogue.grow(ratings)
        alternation = Alternation(ratings, catalogue.mean, self._learn)
        alternation.b[: len(old.user_biases)] = old.user_biases
        alternation.c[: len(old.item_biases)] = old.item_biases
        # Begin with the penalties of the old fit.
        penalties = np.maximum(old.penalties, _LEAST_DENOMINATOR)
        alternation.variances[1:] = alternation.variances[0] / penalties
        n = SWEEPS if epochs is None else epochs
        variances = old.variances or self._fit_variances(ratings, catalogue)
        self._train(run, alternation, ratings, n, variances)

    def _update_rows(
        self, run: FitRun, ratings: Ratings, known: Identities | None, touched: Touched
    ) -> None:
        """Solve for the users and then the items of the new ratings; all others stay."""
        old = self._learned(self.learned)
        if old.variances is None:
            self._resume_fit(run, ratings, known, None)
            return
        self._catalogue = self.catalogue.grow(ratings, (touched.values, touched.before))
        mean, (learn_users, learn_items) = self.catalogue.mean, self._learn
        user_penalty, item_penalty = old.penalties.tolist()
        b = lengthen(old.user_biases, ratings.n_users)
        c = lengthen(old.item_biases, ratings.n_items)
        if learn_users:
            for user, items, values in touched.by_user(ratings):
                b[user] = (values - mean - c[items]).sum() / (len(items) + user_penalty)
        if learn_items:
            for item, users, values in touched.by_item(ratings):
                c[item] = (values - mean - b[users]).sum() / (len(users) + item_penalty)
        found = replace(old, user_biases=b, item_biases=c)
        spread = update_spread(old.variances, old.spread, ratings, found.tables, mean, touched)
        self.learned = replace(found, spread=spread)

    def _train(
        self, run: FitRun, alternation: Alternation, ratings: Ratings, n: int, variances: Variances
    ) -> None:
        """Run ``n`` sweeps of ``alternation``, and set what they learned."""
        self._sweep(run, alternation, n, ratings)
        spread = variances.spread(*alternation.sizes)
        b, c = alternation.b.astype(np.float32), alternation.c.astype(np.float32)
        for side, counts in ((b, np.diff(ratings.user_offsets)), (c, ratings.item_counts)):
            side[counts == 0] = mean_row(side, counts > 0)
        self.learned = Biases(b, c, np.array(alternation.penalties), spread, variances)

    @property
    def tables(self) -> Tables:
        return self._learned(self.learned).tables

    def _fold(self, items: Numbers, values: Floats, known: Numbers) -> FoldedFactors:
        """See `RatingAlgorithm.fold`: the bias of the user is the damped mean of the residuals."""
        learned, mean, bias = self._learned(self.learned), self.catalogue.mean, 0.0
        c, average = learned.item_biases, self.average
        residuals = (values - np.float32(mean) - c[items]).astype(np.float64)
        if not len(residuals):
            bias = float(average.user_biases[0])
        elif self._learn[0]:
            bias = float(residuals.sum() / (learned.penalties[0] + len(residuals)))
        x, scores, scale = average.user_factors[0], self._table_scores, self.catalogue.scale
        return FoldedFactors(bias, x, scores, len(items), learned.spread, scale)

    def _fit_variances(self, ratings: Ratings, catalogue: Catalogue) -> Variances:
        """Fit the predictive variances to the errors of biases that are fitted without a part of the ratings."""
        if len(ratings) < 2:
            return fit_no_variances(ratings.std)
        share = min(_MAX_HELD_OUT, _MAX_VARIANCE_ERRORS / len(ratings))
        part, held_out = split(ratings, share, seed=0)
        fitted = alternate(part, catalogue.mean, learn=self._learn)
        u, i = held_out.user_ids, held_out.item_ids
        scores = catalogue.mean + fitted.b[u] + fitted.c[i]
        predictions = scores.astype(np.float32).clip(*catalogue.scale)
        errors = held_out.values - predictions
        return fit_variances(errors, predictions, (u, i), fitted.sizes, ratings.std)

    @property
    def _learn(self) -> tuple[bool, bool]:
        """Whether the biases of users and those of items are learned."""
        biases = self.settings.biases
        return biases in ("both", "users"), biases in ("both", "items")


class Alternation(Trainer):
    """Training of biases b (users,) and c (items,), float64: each sweep solves for one side, then for the other.

    ``variances`` are sigma^2, tau_u^2 and tau_i^2; ``learn`` says whether biases of users and of items are learned.
    """

    def __init__(
        self, ratings: Ratings, mean: float, learn: tuple[bool, bool] = (True, True)
    ) -> None:
        self.b, self.c = np.zeros(ratings.n_users), np.zeros(ratings.n_items)
        self._users, self._items = ratings.user_ids, ratings.item_ids
        self._values = ratings.values.astype(np.float64) - mean
        n_users = np.diff(ratings.user_offsets).astype(np.float64)
        n_items = ratings.item_counts.astype(np.float64)
        self._sides = (learn[0], self.b, n_users), (learn[1], self.c, n_items)
        self.unit = ratings.std
        self._initial_variances = np.array(_INITIAL_VARIANCES) * self.unit**2
        self.variances = self._initial_variances.copy()
        self.learned = {"user_biases": self.b, "item_biases": self.c, "variances": self.variances}

    @property
    def penalties(self) -> tuple[float, float]:
        """Lambda of users and of items."""
        noise, of_users, of_items = self.variances.tolist()
        return noise / of_users, noise / of_items

    @property
    def expected_error(self) -> float:
        """Mean square of the errors expected for new ratings: the noise, and the uncertainty of the biases."""
        noise = float(self.variances[0])
        uncertainty = sum(
            learned * float((k / (k + penalty + _LEAST_DENOMINATOR)).sum())
            for (learned, _, k), penalty in zip(self._sides, self.penalties, strict=True)
        )
        return noise * (1 + uncertainty / len(self._values))

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """Solve for the items, then for the users, then for the variances; the loss is the squared error afterwards."""
        user_penalty, item_penalty = penalties = self.penalties
        (learn_users, b, n_users), (learn_items, c, n_items) = self._sides
        if learn_items:
            sums = np.bincount(self._items, self._values - b[self._users], len(c))
            c[:] = sums / np.maximum(n_items + item_penalty, _LEAST_DENOMINATOR)
        if learn_users:
            sums = np.bincount(self._users, self._values - c[self._items], len(b))
            b[:] = sums / np.maximum(n_users + user_penalty, _LEAST_DENOMINATOR)
        residuals = self._values - b[self._users] - c[self._items]
        error, noise = float(np.sum(residuals**2)), self.variances[0]
        # Estimate the variances again; the initial ones count as `_PRIOR_COUNT` observations.
        totals, counts = [error], [len(self._values)]
        for (learned, bias, n_ratings), penalty in zip(self._sides, penalties, strict=True):
            # v; biases that are not learned are known to be zero
            uncertainty = learned * noise / (n_ratings + penalty + _LEAST_DENOMINATOR)
            totals[0] += n_ratings @ uncertainty
            rated = n_ratings > 0
            totals.append(bias[rated] @ bias[rated] + uncertainty[rated].sum())
            counts.append(int(np.count_nonzero(rated)))
        prior = _PRIOR_COUNT * self._initial_variances
        self.variances[:] = (np.array(totals) + prior) / (np.array(counts) + _PRIOR_COUNT)
        return StepResult(error, float(len(self._values)))

    @property
    def sizes(self) -> tuple[Sizes, Sizes]:
        """Numbers of ratings and squared errors of users and of items."""
        residuals = self._values - self.b[self._users] - self.c[self._items]
        of_users = Sizes.of(self._users, residuals, len(self.b))
        return of_users, Sizes.of(self._items, residuals, len(self.c))


def alternate(
    ratings: Ratings, mean: float, sweeps: int = SWEEPS, learn: tuple[bool, bool] = (True, True)
) -> Alternation:
    """Fit the biases of ``ratings`` about ``mean`` by this many ``sweeps``; see `Alternation`."""
    alternation = Alternation(ratings, mean, learn)
    for _ in range(sweeps):
        alternation.step(None, 1.0)
    return alternation
