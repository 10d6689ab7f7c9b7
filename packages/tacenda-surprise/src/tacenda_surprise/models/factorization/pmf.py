"""Probabilistic matrix factorization by maximum a posteriori: fitted, applied, saved.

r_ui ~ N(mean + b_u + c_i + x_u . q_i, sigma^2)      (Mnih 2010, eq 5.20; the mean is taken off first)
PMF:             x_u ~ N(0, sigma_U^2 I)             (eq 5.16)
conditional PMF: x_u ~ N(s_u, sigma_U^2 I),   s_u = mean of w_j over the items j the user has rated (eq 5.22)
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacenda import devices
from tacenda.estimator import Estimator
from tacenda.fitting import History
from tacenda.kernels.ratings import scores as rating_scores
from tacenda.kernels.ratings.sgd import Tables
from tacenda.ratings import Ratings, split
from tacenda.settings import configured_by
from tacenda_surprise.models.base import (
    Floats,
    FoldedFactors,
    Loop,
    Numbers,
    RatingModel,
    check_rated,
)
from tacenda_surprise.models.catalogue import Catalogue, deviation, require_floats
from tacenda_surprise.models.factorization.defaults import Used
from tacenda_surprise.models.factorization.new_rows import fold, grown_tables, lengthened
from tacenda_surprise.models.factorization.settings import (
    ConditionalFactorizationSettings,
    FactorizationSettings,
)
from tacenda_surprise.models.factorization.training import initial_tables, train
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.models.spread import Sizes, Spread, Variances
from tacenda_surprise.models.spread import fit as fit_spread

_MATTERS = 0.005  # a smaller difference of errors may be chance
_HELD_OUT = "RMSE of the ratings held out"

_MANY = 200_000  # ratings: with so many the second fit goes on from the first
_ERRORS = 5_000  # of ratings left out of the first fit
_AT_ONCE = 4_000_000  # ratings scored


class _Fitted(NamedTuple):
    """Tables whose ``user_factors`` are x, the part s of it that comes from identities, and numbers of the fit."""

    tables: Tables
    prior: Floats
    used: Used


class PMFModel(RatingModel):
    """Probabilistic matrix factorization by maximum a posteriori (Mnih 2010, section 5.3)."""

    name: ClassVar[str] = "pmf"
    settings: FactorizationSettings
    settings_class = FactorizationSettings
    _fitted: _Fitted | None = None
    _variances: Variances | None = None
    _spread: Spread | None = None

    @configured_by(FactorizationSettings)
    def __init__(self, settings: FactorizationSettings) -> None:
        super().__init__(settings)

    def _fit(self, loop: Loop, ratings: Ratings, identities: Identities | None) -> None:
        """Fit twice: without some ratings, whose errors say when to stop and how far predictions are off; then to all.

        Where there are many ratings the second fit goes on from the first, for the last fifth of the epochs.
        """
        settings, catalogue = self.settings, Catalogue.of(ratings)
        used = Used.of(settings, ratings)
        share = settings.validation or min(0.1, _ERRORS / len(ratings))
        stopped, start, last = None, None, used
        if len(ratings) > 1:
            part, held_out = split(ratings, share, seed=settings.seed)
            first, planned = loop.inside("validation"), used
            if not settings.validation:
                first = first._replace(callbacks=())
                if len(ratings) >= _MANY and settings.solver == "sgd" and used.epochs > 1:
                    last = used._replace(epochs=max(used.epochs // 5, 1))
                    planned = used._replace(epochs=used.epochs - last.epochs)
            found, history = self._trained(
                first, planned, part, catalogue.mean, identities,
                held_out if settings.validation else None,
            )  # fmt: skip
            self._variances = self._variances_of(part, held_out, found, catalogue)
            loop = loop.after_the_first()
            if settings.validation:
                stopped = history
                used = last = used._replace(epochs=epochs_of(history, used.epochs))
            elif last is not used:
                start = found
        else:
            nothing = np.zeros(0, np.float32)
            none = Sizes(np.zeros(0), np.zeros(0))
            empty = np.zeros(0, np.int64)
            self._variances = fit_spread(
                nothing, nothing, empty, empty, none, none, deviation(ratings)
            )
        if not settings.validation or settings.refit or len(ratings) == 1:
            found, history = self._trained(
                loop, last, ratings, catalogue.mean, identities, start=start
            )
        self._catalogue, self.history = catalogue, history
        self._fitted = found._replace(used=used)
        self._spread = self._spread_of(ratings)
        self._note(ratings, stopped or history, _HELD_OUT)

    def _trained(
        self,
        loop: Loop,
        used: Used,
        ratings: Ratings,
        mean: float,
        identities: Identities | None,
        held_out: Ratings | None = None,
        start: _Fitted | None = None,
    ) -> tuple[_Fitted, History]:
        """One fit, from random tables or going on from ``start``."""
        known, passed = self._known(ratings, identities), 0
        if start is None:
            tables = initial_tables(
                self.settings, ratings.n_users, ratings.n_items, deviation(ratings),
                conditional=self.conditional,
            )  # fmt: skip
        else:
            tables, passed = start.tables, start.used.epochs
            if known is not None:
                tables = tables._replace(user_factors=tables.user_factors - start.prior)
        history = train(
            self.name, self.settings, used, loop, ratings, tables, mean, known, held_out, passed
        )
        prior = np.zeros((0, self.settings.n_factors), np.float32)
        if known is not None:
            prior = known.means(tables.side_factors)
            tables = tables._replace(user_factors=tables.user_factors + prior)
        return _Fitted(tables, prior, used), history

    def _variances_of(
        self, part: Ratings, held_out: Ratings, found: _Fitted, catalogue: Catalogue
    ) -> Variances:
        """The parameters of the variances, from the errors of what was held out."""
        x, q, b, c, _ = found.tables
        u, i = held_out.user_ids, held_out.item_ids
        predictions = catalogue.clip(rating_scores.scores(u, i, x, q, b, c, catalogue.mean))
        errors = held_out.values - predictions
        sizes = sizes_of(part, found.tables, catalogue.mean)
        return fit_spread(errors, predictions, u, i, *sizes, deviation(part))

    def _spread_of(self, ratings: Ratings) -> Spread:
        sizes = sizes_of(ratings, self.tables, self.catalogue.mean)
        return self._learned(self._variances).spread(*sizes)

    def _go_on(
        self, loop: Loop, ratings: Ratings, identities: Identities | None, epochs: int | None
    ) -> None:
        """Train on, with the learning rates of the last epochs of the fit; the mean stays.

        Known users and items are found by their raw ids and keep their numbers, new ones follow, and users
        without ratings stay as they are. The default is a quarter of the epochs of the fit.
        """
        old = self._parameters()
        total = old.used.epochs
        n = max(total // 4, 1) if epochs is None else epochs
        used = old.used._replace(epochs=n)
        catalogue, ratings, identities = self.catalogue.grown(ratings, identities)
        known = self._known(ratings, identities)
        prior = lengthened(old.prior, ratings.n_users if self.conditional else 0)
        own = old.tables.user_factors
        if known is not None:
            own = own - old.prior
            news = known.means(lengthened(old.tables.side_factors, ratings.n_items))
            prior[len(own) :] = news[len(own) :]
        tables = grown_tables(
            used,
            old.tables._replace(user_factors=own),
            prior,
            catalogue.mean,
            ratings,
        )
        history = train(
            self.name,
            self.settings,
            used,
            loop,
            ratings,
            tables,
            catalogue.mean,
            known,
            first_epoch=max(total - n, 0),
        )
        if known is not None:
            # What was known of users who are not mentioned now is still true.
            told = known.sizes > 0
            prior[told] = known.means(tables.side_factors)[told]
            tables = tables._replace(user_factors=tables.user_factors + prior)
        found = old._replace(tables=tables, prior=prior)
        before = self._learned(self._spread)
        self._catalogue, self.history, self._fitted = catalogue, history, found
        self._spread = self._spread_of(ratings)
        n_before = self.fitted_on["n_ratings"]
        if len(ratings) < n_before:
            # Of who was known before, these ratings are not all.
            self._spread = before.lengthened(self._spread)
        self._note(ratings, history, _HELD_OUT)
        self.fitted_on["n_ratings"] = max(n_before, len(ratings))

    def _parameters(self) -> _Fitted:
        return self._learned(self._fitted)

    # -- predicting --------------------------------------------------------------------------------

    def deviations(self, users: Numbers, items: Numbers) -> Floats:
        """See `tacenda_surprise.models.spread`, (pairs,)."""
        scores, scale = self.score_pairs(users, items), self.catalogue.scale
        return self._learned(self._spread).deviations(users, items, scores, scale)

    def fold_in(
        self, items: Numbers, values: npt.ArrayLike, identities: Numbers | None = None
    ) -> FoldedFactors:
        """See `RatingModel.fold_in`."""
        tables, _, used = self._parameters()
        spread = self._learned(self._spread)
        items = np.asarray(items, np.int64)
        rated = check_rated(items, values, len(self.catalogue.items))
        known = self._known_items(items, identities)
        prior = np.zeros(self.settings.n_factors, np.float32)
        if self.conditional and len(known):
            prior = tables.side_factors[known].mean(axis=0)
        mean, scale = self.catalogue.mean, self.catalogue.scale
        bias, factors = fold(used, tables, mean, items, rated, prior)
        variance = spread.of_new_user(len(items))
        return FoldedFactors(
            bias, factors, variance, spread, scale, mean, tables.item_factors, tables.item_biases
        )

    @property
    def tables(self) -> Tables:
        """User factors x, item factors, biases and conditioning factors of the fitted model."""
        return self._parameters().tables

    # -- artefact ----------------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Settings, numbers of the fit, scale and parameters of the variances, as JSON values."""
        return {
            "settings": devices.without_device(self.settings),
            "used": self._parameters().used.to_dict(),
            "catalogue": self.catalogue.config(),
            "variances": self._learned(self._variances).to_list(),
        }

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the fitted state. Raises NotFittedError."""
        tables, prior, _ = self._parameters()
        spread = self._learned(self._spread).arrays()
        return {**tables._asdict(), "user_prior": prior, **spread, **self.catalogue.arrays()}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Rebuild the model of an artefact, checking every array. Raises ArtifactError."""
        model = cls.from_settings(config["settings"])
        catalogue = Catalogue.from_arrays(config["catalogue"], arrays)
        n_users, n_items = len(catalogue.users), len(catalogue.items)
        dims = {"users": n_users, "items": n_items, "factors": model.settings.n_factors}
        dims |= {"sides": n_items if cls.conditional else 0}
        dims |= {"priors": n_users if cls.conditional else 0}
        shapes: dict[str, tuple[str, ...]] = {
            "user_factors": ("users", "factors"),
            "item_factors": ("items", "factors"),
            "user_biases": ("users",),
            "item_biases": ("items",),
            "side_factors": ("sides", "factors"),
            "user_prior": ("priors", "factors"),
        }
        found = require_floats(arrays, shapes, dims)
        prior = found.pop("user_prior")
        model._catalogue = catalogue
        model._fitted = _Fitted(Tables(**found), prior, Used.from_dict(config["used"]))
        model._variances = Variances.from_list(config["variances"])
        model._spread = Spread.from_arrays(arrays, n_users, n_items)
        return model


class ConditionalPMFModel(PMFModel):
    """Matrix factorization whose users are expected to like what their rated items say (eq 5.22)."""

    name: ClassVar[str] = "conditional_pmf"
    conditional: ClassVar[bool] = True
    settings_class = ConditionalFactorizationSettings

    @configured_by(ConditionalFactorizationSettings)
    def __init__(self, settings: ConditionalFactorizationSettings) -> None:
        Estimator.__init__(self, settings)


def epochs_of(history: History, planned: int) -> int:
    """For how many epochs a fit to all ratings shall last after one that was watched on ratings held out.

    All that were planned, unless the last ones were really worse than the best: the errors of a few ratings
    have their best epoch anywhere.
    """
    best = history.best
    if best is None or history.evaluations[-1].value <= (1 + _MATTERS) * best.value:
        return planned
    return best.epoch


def sizes_of(ratings: Ratings, tables: Tables, mean: float) -> tuple[Sizes, Sizes]:
    """What is known of users and items that ``tables`` were fitted to, found for a part of the users at a time."""
    x, q, b, c, _ = tables
    squares = np.zeros(ratings.n_users), np.zeros(ratings.n_items)
    offsets, start = ratings.user_offsets, 0
    while start < ratings.n_users:
        stop = int(np.searchsorted(offsets, offsets[start] + _AT_ONCE, side="right")) - 1
        stop = min(max(stop, start + 1), ratings.n_users)
        span = slice(offsets[start], offsets[stop])
        users = np.repeat(np.arange(start, stop), np.diff(offsets[start : stop + 1]))
        items = ratings.item_ids[span]
        scores = rating_scores.scores(users, items, x, q, b, c, mean).clip(*ratings.scale)
        errors = (ratings.values[span] - scores).astype(np.float64) ** 2
        squares[0][start:stop] = np.bincount(users - start, errors, stop - start)
        squares[1][:] += np.bincount(items, errors, ratings.n_items)
        start = stop
    counts = np.diff(offsets).astype(float), ratings.item_counts.astype(float)
    users_too, items_too = map(Sizes, counts, squares)
    return users_too, items_too
