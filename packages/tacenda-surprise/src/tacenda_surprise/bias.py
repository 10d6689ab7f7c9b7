"""Biases of users and items, and nothing else: what a rating is expected to be without any interaction.

    r_ui ~ mean + b_u + c_i          (Mnih 2010, section 5.4.3 and Table 5.2, "bias-only models")

The biases are damped means of what the others leave, found in turn (Koren 2010, section 2.1):

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
import numpy.typing as npt

from tacenda.arrays import Array, Arrays, Float32, Float64, at_least
from tacenda.fitting import FitRun, FitSettings, StepResult, Sweeps, Trainer, fit
from tacenda.kernels.ratings import Tables
from tacenda.ratings import Ratings, split
from tacenda.settings import configured_by, option
from tacenda_surprise.algorithm import RatingAlgorithm, RatingSettings
from tacenda_surprise.catalogue import (
    Catalogue,
    Identities,
    Numbers,
    deviation,
    lengthen,
    mean_row,
)
from tacenda_surprise.trainsets import Touched, places_of_items, users_at
from tacenda_surprise.users import FoldedFactors, check_rated
from tacenda_surprise.variance import (
    PredictiveVariance,
    Sizes,
    Variances,
    fit_no_variances,
    touch_spread,
)
from tacenda_surprise.variance import fit as fit_variances

SWEEPS = 10  # through items and users; few are needed
# Variances of noise, users and items, of unit ratings, before they are estimated.
_START = 0.7, 0.15, 0.15
_WEIGHT = 4.0  # ratings, users and items that the start counts as
_ERRORS = 20_000  # that the variances are fitted to, a tenth of the ratings at most


@dataclass(frozen=True, kw_only=True)
class BiasOnlySettings(RatingSettings):
    """Options of `BiasOnly`; nothing is random. The thesis learns the same biases by SGD without regularization."""

    biases: Literal["both", "items", "users", "none"] = option(
        "both", "whose biases are learned; ``none`` predicts the mean of all ratings"
    )
    retired: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {"n_epochs": ..., "reg_u": ..., "reg_i": ...}
    )


class Biases(Arrays):
    """b and c, the lambda of both, and variances."""

    user_biases: Float32[Array, "users"]
    item_biases: Float32[Array, "items"]
    penalties: Float64[Array, "2", at_least(0)]
    spread: PredictiveVariance
    variances: Variances | None = None  # of which the spread is made; older models have none


class BiasOnly(RatingAlgorithm):
    """The mean rating and the biases of user and item: a baseline that every other model should beat."""

    name = "bias"
    settings: BiasOnlySettings
    learned_class = Biases
    learned: Biases | None

    @configured_by(BiasOnlySettings)
    def __init__(self, settings: BiasOnlySettings) -> None:
        super().__init__(settings)

    def _fit(self, run: FitRun, ratings: Ratings, identities: Identities | None) -> None:
        catalogue = Catalogue.of(ratings)
        alternation = self._alternate(ratings, catalogue.mean)
        variances = self._fit_variances(ratings, catalogue)
        self._train(run, alternation, ratings, catalogue, SWEEPS, variances)

    def _go_on(
        self, run: FitRun, ratings: Ratings, identities: Identities | None, epochs: int | None
    ) -> None:
        """Alternate on; it ends where a new fit would, except for the mean. The parameters of the variances stay."""
        old, catalogue = self._learned(self.learned), self.catalogue.extend(ratings)
        alternation = self._alternate(ratings, catalogue.mean)
        for start, known in ((alternation.b, old.user_biases), (alternation.c, old.item_biases)):
            start[: len(known)] = known
        # The penalties of the fit that goes on.
        alternation.variances[1:] = alternation.variances[0] / np.maximum(old.penalties, 1e-9)
        n = SWEEPS if epochs is None else epochs
        variances = old.variances or self._fit_variances(ratings, catalogue)
        self._train(run, alternation, ratings, catalogue, n, variances)

    def _touch(
        self, run: FitRun, ratings: Ratings, identities: Identities | None, touched: Touched
    ) -> None:
        """Solve for the users and then the items of the new ratings; all others stay."""
        old = self._learned(self.learned)
        if old.variances is None:
            self._go_on(run, ratings, identities, None)
            return
        self._catalogue = self.catalogue.grow(ratings, touched.values)
        mean, which, penalties = self.catalogue.mean, self.settings.biases, old.penalties.tolist()
        b = lengthen(old.user_biases, ratings.n_users)
        c = lengthen(old.item_biases, ratings.n_items)
        for user in np.unique(touched.users).tolist() if which in ("both", "users") else ():
            ids, values = ratings.of_user(user)
            b[user] = (values - mean - c[ids]).sum() / (len(ids) + penalties[0])
        for item in np.unique(touched.items).tolist() if which in ("both", "items") else ():
            places = places_of_items(ratings, np.array([item]))
            left = ratings.values[places] - mean - b[users_at(ratings, places)]
            c[item] = left.sum() / (len(places) + penalties[1])
        self.learned = replace(old, user_biases=b, item_biases=c)
        spread = touch_spread(old.variances, old.spread, ratings, self.tables, mean, touched)
        self.learned = replace(self.learned, spread=spread)

    def _train(
        self,
        run: FitRun,
        alternation: Alternation,
        ratings: Ratings,
        catalogue: Catalogue,
        n: int,
        variances: Variances,
    ) -> None:
        self.history = fit(
            alternation,
            Sweeps(ratings.fingerprint if run.checkpoints is not None else ""),
            FitSettings(epochs=n, learning_rate=1.0, evaluate_every=0, restore_best=False),
            run,
            {} if run.checkpoints is None else self._identity(),
        )
        spread = variances.spread(*alternation.sizes)
        b, c = alternation.b.astype(np.float32), alternation.c.astype(np.float32)
        for side, counts in ((b, np.diff(ratings.user_offsets)), (c, ratings.item_counts)):
            side[counts == 0] = mean_row(side, counts > 0)
        self._catalogue = catalogue
        self.learned = Biases(b, c, np.array(alternation.penalties), spread, variances)
        self.figures = [self.history.figure("none held out")]

    @property
    def tables(self) -> Tables:
        """The biases, with factors of no width."""
        found = self._learned(self.learned)
        b, c = found.user_biases, found.item_biases
        x, q = (np.zeros((len(side), 0), np.float32) for side in (b, c))
        return Tables(x, q, b, c, np.zeros((0, 0), np.float32))

    def fold(
        self, items: Numbers, values: npt.ArrayLike, identities: Numbers | None = None
    ) -> FoldedFactors:
        """See `RatingAlgorithm.fold`: the damped mean of what the items leave."""
        found, mean, bias = self._learned(self.learned), self.catalogue.mean, 0.0
        c, spread = found.item_biases, found.spread
        items = np.asarray(items, np.int64)
        rated = check_rated(items, values, len(c))
        self._known_items(items, identities)
        left = (rated - np.float32(mean) - c[items]).astype(np.float64)
        usual = self.average
        if not len(left):
            bias = float(usual.user_biases[0])
        elif self.settings.biases in ("both", "users"):
            bias = float(left.sum() / (found.penalties[0] + len(left)))
        nothing = np.zeros((len(c), 0), np.float32)
        variance, unknown = spread.of_new_user(len(left)), (nothing[:1], usual.item_biases)
        scale, x = self.catalogue.scale, nothing[0]
        return FoldedFactors(mean + bias, x, variance, spread, scale, 0.0, nothing, c, unknown)

    def _fit_variances(self, ratings: Ratings, catalogue: Catalogue) -> Variances:
        """Fit them to the errors of a part of the ratings that biases are fitted without."""
        if len(ratings) < 2:
            return fit_no_variances(deviation(ratings))
        part, held_out = split(ratings, min(0.1, _ERRORS / len(ratings)), seed=0)
        first = self._alternate(part, catalogue.mean)
        for _ in range(SWEEPS):
            first.step(None, 1.0)
        u, i = held_out.user_ids, held_out.item_ids
        predictions = catalogue.clip((catalogue.mean + first.b[u] + first.c[i]).astype(np.float32))
        errors = held_out.values - predictions
        return fit_variances(errors, predictions, u, i, *first.sizes, deviation(ratings))

    def _alternate(self, ratings: Ratings, mean: float) -> Alternation:
        biases = self.settings.biases
        learned = biases in ("both", "users"), biases in ("both", "items")
        return Alternation(ratings, mean, learned)


class Alternation(Trainer):
    """Biases (users,) and (items,) under training, as the fitting loop sees them: damped means in turn.

    ``variances`` are sigma^2, tau_u^2 and tau_i^2; ``learned`` says whose biases are.
    """

    def __init__(
        self, ratings: Ratings, mean: float, learned: tuple[bool, bool] = (True, True)
    ) -> None:
        self.b, self.c = np.zeros(ratings.n_users), np.zeros(ratings.n_items)
        self._learn_users, self._learn_items = learned
        self._users, self._items = ratings.user_ids, ratings.item_ids
        self._values = ratings.values.astype(np.float64) - mean
        self._n_users = np.diff(ratings.user_offsets).astype(np.float64)
        self._n_items = ratings.item_counts.astype(np.float64)
        self.unit = deviation(ratings)
        self.variances = np.array(_START) * self.unit**2
        self.learned = {"user_biases": self.b, "item_biases": self.c, "variances": self.variances}

    @property
    def penalties(self) -> tuple[float, float]:
        """Lambda of users and of items."""
        noise, of_users, of_items = self.variances.tolist()
        return noise / of_users, noise / of_items

    @property
    def expected_error(self) -> float:
        """The mean square of errors of ratings that are left out: noise and what is not known of the biases."""
        noise = float(self.variances[0])
        (of_users, of_items), n = self.penalties, max(len(self._values), 1)
        shares = ((self._n_users, of_users), (self._n_items, of_items))
        return noise * (1 + sum(float((k / (k + p + 1e-9)).sum()) for k, p in shares) / n)

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """Solve for the items, then for the users; the loss is the squared error afterwards."""
        # Both divisions are kept from 0 / 0: a row without ratings and without a penalty stays at zero.
        of_users, of_items = self.penalties
        if self._learn_items:
            left = np.bincount(self._items, self._values - self.b[self._users], len(self.c))
            self.c[:] = left / np.maximum(self._n_items + of_items, 1e-9)
        if self._learn_users:
            left = np.bincount(self._users, self._values - self.c[self._items], len(self.b))
            self.b[:] = left / np.maximum(self._n_users + of_users, 1e-9)
        errors = self._values - self.b[self._users] - self.c[self._items]
        error = float(np.sum(errors**2))
        # New estimates of the variances: what they begin with counts as `_WEIGHT` more ratings, users and items.
        noise, total, found = self.variances[0], error, []
        sides = (self.b, self._n_users), (self.c, self._n_items)
        for (bias, counts), penalty, first in zip(sides, self.penalties, _START[1:], strict=True):
            own = noise / (counts + penalty + 1e-9)
            total += counts @ own
            rated = counts > 0
            squares = bias[rated] @ bias[rated] + own[rated].sum()
            found.append(
                (squares + _WEIGHT * first * self.unit**2) / (np.count_nonzero(rated) + _WEIGHT)
            )
        start = _WEIGHT * _START[0] * self.unit**2
        self.variances[:] = (total + start) / (len(self._values) + _WEIGHT), *found
        return StepResult(error, float(len(self._values)))

    @property
    def sizes(self) -> tuple[Sizes, Sizes]:
        """Numbers of ratings and errors of users and of items."""
        errors = self._values - self.b[self._users] - self.c[self._items]
        of_users = Sizes.of(self._users, errors, len(self.b))
        return of_users, Sizes.of(self._items, errors, len(self.c))


def alternate(ratings: Ratings, mean: float, sweeps: int = SWEEPS) -> Alternation:
    """The biases of ``ratings`` about ``mean``, after some sweeps."""
    found = Alternation(ratings, mean)
    for _ in range(sweeps):
        found.step(None, 1.0)
    return found
