"""Probabilistic matrix factorization by maximum a posteriori: fitted, applied, saved.

r_ui ~ N(mean + b_u + c_i + x_u . q_i, sigma^2)      (Mnih 2010, eq 5.20; the mean is taken off first)
PMF:             x_u ~ N(0, sigma_U^2 I)             (eq 5.16)
conditional PMF: x_u ~ N(s_u, sigma_U^2 I),   s_u = mean of w_j over the items j the user has rated (eq 5.22)
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import Configured
from tacenda.errors import ArtifactError
from tacenda.fitting import History
from tacenda.kernels.ratings import scores as rating_scores
from tacenda.kernels.ratings.sgd import Tables
from tacenda.ratings import Ratings, split
from tacenda.settings import configured_by
from tacenda_surprise.models.base import Floats, Loop, Numbers, RatingModel, check_rated
from tacenda_surprise.models.catalogue import Catalogue, require_floats
from tacenda_surprise.models.factorization.new_rows import (
    FoldedFactors,
    fold,
    grown_tables,
    lengthened,
)
from tacenda_surprise.models.factorization.settings import (
    ConditionalFactorizationSettings,
    FactorizationSettings,
    Rates,
)
from tacenda_surprise.models.factorization.training import initial_tables, train
from tacenda_surprise.models.identities import Identities

_HELD_OUT = "RMSE of the ratings held out"

# of `residual_deviation`
_SAMPLE = 64  # users, and as many items
_PRIOR_WEIGHT = 2  # ratings
_AT_ONCE = 4_000_000  # ratings scored
_MOST = 300  # ratings of one user or item that are looked at


class _Fitted(NamedTuple):
    """Tables whose ``user_factors`` are x, the part s of it that comes from identities, sigma, and rates."""

    tables: Tables
    prior: Floats
    noise: float
    rates: Rates


class PMFModel(RatingModel, Configured[FactorizationSettings]):
    """Probabilistic matrix factorization by maximum a posteriori (Mnih 2010, section 5.3)."""

    name: ClassVar[str] = "pmf"
    settings_class = FactorizationSettings
    _fitted: _Fitted | None = None

    @configured_by(FactorizationSettings)
    def __init__(self, settings: FactorizationSettings) -> None:
        super().__init__(settings)

    def _fit(self, loop: Loop, ratings: Ratings, identities: Identities | None) -> None:
        settings, stopped = self.settings, None
        rates = Rates.of(settings, ratings, conditional=self.conditional)
        catalogue, whole = Catalogue.of(ratings), True
        if settings.validation and len(ratings) > 1:
            part, held_out = split(ratings, settings.validation, seed=settings.seed)
            first = loop.inside("validation")
            found, history = self._trained(first, rates, part, catalogue.mean, identities, held_out)
            whole = settings.refit
            if whole:
                stopped, best = history, history.best
                loop = loop.after_the_first()
                rates = rates._replace(epochs=best.epoch if best else rates.epochs)
        if whole:
            found, history = self._trained(loop, rates, ratings, catalogue.mean, identities)
        self._catalogue, self.history = catalogue, history
        self._fitted = found._replace(noise=self._noise(ratings, found))
        self._note(ratings, stopped or history, _HELD_OUT)

    def _trained(
        self,
        loop: Loop,
        rates: Rates,
        ratings: Ratings,
        mean: float,
        identities: Identities | None,
        held_out: Ratings | None = None,
    ) -> tuple[_Fitted, History]:
        """One fit from random tables, its noise still unknown."""
        known = self._known(ratings, identities)
        tables = initial_tables(
            self.settings, ratings.n_users, ratings.n_items, conditional=self.conditional
        )
        history = train(
            self.name, self.settings, rates, loop, ratings, tables, mean, known, held_out
        )
        prior = np.zeros((0, self.settings.n_factors), np.float32)
        if known is not None:
            prior = known.means(tables.side_factors)
            tables = tables._replace(user_factors=tables.user_factors + prior)
        return _Fitted(tables, prior, 0.0, rates), history

    def _go_on(
        self, loop: Loop, ratings: Ratings, identities: Identities | None, epochs: int | None
    ) -> None:
        """Train on, with the learning rates of the last epochs of the fit; the mean stays.

        Known users and items are found by their raw ids and keep their numbers, new ones follow, and users
        without ratings stay as they are. The default is a quarter of the epochs of the fit.
        """
        old = self._parameters()
        total = old.rates.epochs
        n = max(total // 4, 1) if epochs is None else epochs
        rates = old.rates._replace(epochs=n)
        catalogue, ratings, identities = self.catalogue.grown(ratings, identities)
        known = self._known(ratings, identities)
        prior = lengthened(old.prior, ratings.n_users if self.conditional else 0)
        own = old.tables.user_factors
        if known is not None:
            own = own - old.prior
            news = known.means(lengthened(old.tables.side_factors, ratings.n_items))
            prior[len(own) :] = news[len(own) :]
        tables = grown_tables(
            self.settings,
            rates.penalty,
            old.tables._replace(user_factors=own),
            prior,
            catalogue.mean,
            ratings,
        )
        history = train(
            self.name,
            self.settings,
            rates,
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
        self._catalogue, self.history, self._fitted = catalogue, history, found
        if len(ratings) >= self.fitted_on["n_ratings"]:
            self._fitted = found._replace(noise=self._noise(ratings, found))
        self._note(ratings, history, _HELD_OUT)

    def _noise(self, ratings: Ratings, found: _Fitted) -> float:
        mean, penalty = self.catalogue.mean, found.rates.penalty
        return residual_deviation(ratings, found.tables, mean, penalty, self.settings.seed)

    def _parameters(self) -> _Fitted:
        return self._learned(self._fitted)

    # -- predicting --------------------------------------------------------------------------------

    def deviations(self, users: Numbers, items: Numbers) -> Floats:
        """The noise of the ratings (pairs,); a point estimate does not know that of the parameters."""
        return np.full(len(users), self._parameters().noise, np.float32)

    def fold_in(
        self, items: Numbers, values: npt.ArrayLike, identities: Numbers | None = None
    ) -> FoldedFactors:
        """See `RatingModel.fold_in`."""
        tables, _, noise, rates = self._parameters()
        items = np.asarray(items, np.int64)
        rated = check_rated(items, values, len(self.catalogue.items))
        known = self._known_items(items, identities)
        prior = np.zeros(self.settings.n_factors, np.float32)
        if self.conditional and len(known):
            prior = tables.side_factors[known].mean(axis=0)
        mean = self.catalogue.mean
        bias, factors = fold(self.settings, rates.penalty, tables, mean, items, rated, prior)
        return FoldedFactors(bias, factors, noise, mean, tables.item_factors, tables.item_biases)

    @property
    def tables(self) -> Tables:
        """User factors x, item factors, biases and conditioning factors of the fitted model."""
        return self._parameters().tables

    # -- artefact ----------------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Settings, rates, scale and noise, as JSON values."""
        return {
            "settings": self.settings.to_dict(),
            "used": self._parameters().rates._asdict(),
            "catalogue": self.catalogue.config(),
            "noise": self._parameters().noise,
        }

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the fitted state. Raises NotFittedError."""
        tables, prior, *_ = self._parameters()
        return {**tables._asdict(), "user_prior": prior, **self.catalogue.arrays()}

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
        prior, noise = found.pop("user_prior"), float(config["noise"])
        if not 0 <= noise < np.inf:
            raise ArtifactError(f"the noise of the ratings is {noise}: the file is damaged")
        model._catalogue = catalogue
        model._fitted = _Fitted(Tables(**found), prior, noise, Rates.from_dict(config["used"]))
        return model


class ConditionalPMFModel(PMFModel):
    """Matrix factorization whose users are expected to like what their rated items say (eq 5.22)."""

    name: ClassVar[str] = "conditional_pmf"
    conditional: ClassVar[bool] = True
    settings_class = ConditionalFactorizationSettings

    @configured_by(ConditionalFactorizationSettings)
    def __init__(self, settings: ConditionalFactorizationSettings) -> None:
        Configured.__init__(self, settings)


def leverage(rows: Floats, others: npt.NDArray[np.int64], penalty: float) -> float:
    """Mean h_ii of ratings whose partners' factors are ``rows[others]``."""
    n = len(others)
    Q = np.append(rows[others[:_MOST]], np.ones((min(n, _MOST), 1), np.float32), axis=1)
    Q = Q.astype(np.float64) * (n / len(Q)) ** 0.5
    gram = Q @ Q.T if len(Q) < Q.shape[1] else Q.T @ Q
    ridged = gram + n * max(penalty, 1e-6) * np.eye(len(gram))
    return float(np.trace(np.linalg.solve(ridged, gram)) / n)


def residual_deviation(
    ratings: Ratings, tables: Tables, mean: float, penalty: float, seed: int
) -> float:
    """Estimate the standard deviation of a new rating about its score.

    Each residual counts as if its rating had been left out. For a user with rated items Q and ridge weights
    n lambda, leaving rating i out changes its residual to e_i / (1 - h_ii),
    H = Q (Q^T Q + n lambda I)^{-1} Q^T (likewise with the roles of user and item exchanged). Both leverages
    are taken off; they are found for a sample of users and items, in the smaller of both dimensions.

    ``ratings`` are those fitted, whose scores follow from ``tables`` and ``mean``; ``penalty`` is lambda, and
    ``seed`` that of the sample of users and items.
    """
    users, items = tables.user_factors, tables.item_factors
    rng = np.random.default_rng(seed)
    active = np.flatnonzero(np.diff(ratings.user_offsets))
    sample = rng.permutation(active)[:_SAMPLE]
    of_user = [leverage(items, ratings.of_user(u)[0].astype(np.int64), penalty) for u in sample]
    sizes = np.diff(ratings.user_offsets)[sample]
    all_counts = ratings.item_counts
    chosen = rng.permutation(np.flatnonzero(all_counts))[:_SAMPLE]
    of_item = [leverage(users, raters, penalty) for raters in _raters(ratings, chosen)]
    counts = all_counts[chosen]
    low, high = ratings.scale
    prior = (high - low) / 4 or 1.0  # of a rating of which nothing is known
    left = (1 - np.average(of_user, weights=sizes)) * (1 - np.average(of_item, weights=counts))
    n = len(ratings)
    variance = _squares(ratings, tables, mean) / n / max(float(left), 0.1) ** 2
    return float(np.sqrt((n * variance + _PRIOR_WEIGHT * prior**2) / (n + _PRIOR_WEIGHT)))


def _raters(ratings: Ratings, items: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    """The users of each of some items, ascending, without the table of all ratings by item."""
    wanted = np.zeros(ratings.n_items, bool)
    wanted[items] = True
    places = np.flatnonzero(wanted[ratings.item_ids])
    found = ratings.item_ids[places]
    users = np.searchsorted(ratings.user_offsets, places, side="right") - 1
    return [users[found == item] for item in items]


def _squares(ratings: Ratings, tables: Tables, mean: float) -> float:
    """The sum of squared residuals, found for a part of the users at a time."""
    x, q, b, c, _ = tables
    offsets, total, start = ratings.user_offsets, 0.0, 0
    while start < ratings.n_users:
        stop = int(np.searchsorted(offsets, offsets[start] + _AT_ONCE, side="right")) - 1
        stop = min(max(stop, start + 1), ratings.n_users)
        span = slice(offsets[start], offsets[stop])
        users = np.repeat(np.arange(start, stop), np.diff(offsets[start : stop + 1]))
        scores = rating_scores.scores(users, ratings.item_ids[span], x, q, b, c, mean)
        residuals = ratings.values[span] - scores
        total += float(np.sum(residuals.astype(np.float64) ** 2))
        start = stop
    return total
