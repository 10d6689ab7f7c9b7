"""Probabilistic matrix factorization as a model: fitted, applied, saved.

r_ui ~ N(mean + b_u + c_i + x_u . q_i, sigma^2)      (Mnih 2010, eq 5.20; the mean is taken off first)
PMF:             x_u ~ N(0, sigma_U^2 I)             (eq 5.16)
conditional PMF: x_u ~ N(s_u, sigma_U^2 I),   s_u = mean of w_j over the items j the user has rated (eq 5.22)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.errors import ArtifactError, ConfigurationError
from tacenda.fitting import Callback
from tacenda.kernels.ratings.sgd import Tables
from tacenda.ratings import Ratings
from tacenda_surprise.models.base import Floats, Numbers, check_rated
from tacenda_surprise.models.catalogue import Catalogue
from tacenda_surprise.models.factorization.config import FactorizationConfig
from tacenda_surprise.models.factorization.defaults import resolved
from tacenda_surprise.models.factorization.folding import FoldedFactors, fold
from tacenda_surprise.models.factorization.growing import grown, grown_tables, lengthened
from tacenda_surprise.models.factorization.mapfit import How, fit_map, train
from tacenda_surprise.models.factorization.noise import residual_deviation
from tacenda_surprise.models.factorization.scoring import Factorization
from tacenda_surprise.models.identities import Identities

_HELD_OUT = "RMSE of the ratings held out"


class _Fitted(NamedTuple):
    """Tables whose ``user_factors`` are x, the part s of it that comes from identities, sigma, and settings
    without None.
    """

    tables: Tables
    prior: Floats
    noise: float
    config: FactorizationConfig


class PMFModel(Factorization[FactorizationConfig]):
    """Probabilistic matrix factorization by maximum a posteriori.

    Parameters
    ----------
    config
        Settings; keyword arguments replace single ones.
    settings
        Any field of `FactorizationConfig`.

    Raises
    ------
    ConfigurationError
        a setting is unknown or out of range.
    """

    name: ClassVar[str] = "pmf"
    settings = FactorizationConfig
    _fitted: _Fitted | None = None

    def __init__(self, config: FactorizationConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        if self.conditional and self.config.solver == "als":
            raise ConfigurationError("solver 'als' does not condition; use 'sgd', or a plain PMF")

    # -- fitting -----------------------------------------------------------------------------------

    def fit(
        self,
        ratings: Ratings,
        *,
        identities: Identities | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoints: str | os.PathLike[str] | None = None,
        progress: str = "",
    ) -> Self:
        """See `RatingModel.fit`."""
        config = resolved(self.config, ratings, conditional=self.conditional)
        catalogue = Catalogue.of(ratings)
        how = How(config, self.name, self.conditional, callbacks, checkpoints, progress)
        found = fit_map(how, ratings, catalogue.mean, identities)
        tables, prior = found.tables, np.zeros((0, config.n_factors), np.float32)
        if found.known is not None:
            prior = found.known.means(tables.side_factors)
            tables = tables._replace(user_factors=tables.user_factors + prior)
        self._catalogue, self.history = catalogue, found.history
        self._fitted = _Fitted(tables, prior, 0.0, config)
        self._fitted = self._fitted._replace(noise=self._noise(ratings))
        self._note(ratings, found.stopped or found.history, _HELD_OUT)
        return self

    def partial_fit(
        self,
        ratings: Ratings,
        *,
        identities: Identities | None = None,
        n_epochs: int | None = None,
        callbacks: Sequence[Callback] = (),
        progress: str = "",
    ) -> Self:
        """Trains on from the present parameters, users and items it does not know included.

        Parameters
        ----------
        ratings
            What to train on, best all ratings, old and new; users without any stay as they are.
            Known users and items are found by their raw ids and keep their numbers; new ones follow.
        identities
            As in ``fit``, in the numbers of ``ratings``.
        n_epochs
            Passes over ``ratings``; None: a quarter of those of the fit. Rates are those of the last
            epochs of the fit. The mean stays.
        callbacks
            Called by the fitting loop.
        progress
            What the progress bar says; "" for the model's name.

        Raises
        ------
        NotFittedError
            The model was neither fitted nor loaded.
        """
        old = self._parameters()
        total = old.config.n_epochs or 0
        n = max(total // 4, 1) if n_epochs is None else n_epochs
        config = replace(old.config, n_epochs=n, validation=0.0)
        catalogue, ratings, identities = grown(self.catalogue, ratings, identities)
        how = How(config, self.name, self.conditional, callbacks, None, progress)
        known = how.known(ratings, identities)
        prior = lengthened(old.prior, ratings.n_users if self.conditional else 0)
        own = old.tables.user_factors - old.prior if self.conditional else old.tables.user_factors
        if known is not None:
            news = known.means(lengthened(old.tables.side_factors, ratings.n_items))
            prior[len(own) :] = news[len(own) :]
        tables = grown_tables(
            config, old.tables._replace(user_factors=own), prior, catalogue.mean, ratings
        )
        history = train(how, ratings, tables, catalogue.mean, known, first_epoch=max(total - n, 0))
        if known is not None:
            # of whom nothing is said now, what was known is still true
            told = known.sizes > 0
            prior[told] = known.means(tables.side_factors)[told]
            tables = tables._replace(user_factors=tables.user_factors + prior)
        self._catalogue, self.history = catalogue, history
        self._fitted = old._replace(tables=tables, prior=prior)
        if len(ratings) >= self.fitted_on["n_ratings"]:
            self._fitted = self._fitted._replace(noise=self._noise(ratings))
        self._note(ratings, history, _HELD_OUT)
        return self

    def _noise(self, ratings: Ratings) -> float:
        tables, _, _, config = self._parameters()
        x, q, penalty = tables.user_factors, tables.item_factors, config.reg_factors or 0.0
        return residual_deviation(ratings, self.score_pairs, x, q, penalty, config.seed)

    def _parameters(self) -> _Fitted:
        return self._learned(self._fitted)

    # -- predicting --------------------------------------------------------------------------------

    def deviations(self, users: Numbers, items: Numbers) -> Floats:
        """The noise of the ratings (pairs,): that of the parameters is not known to a point estimate."""
        return np.full(len(users), self._parameters().noise, np.float32)

    def fold_in(
        self, items: Numbers, values: npt.ArrayLike, identities: Numbers | None = None
    ) -> FoldedFactors:
        """See `RatingModel.fold_in`."""
        tables, _, noise, config = self._parameters()
        items = np.asarray(items, np.int64)
        rated = check_rated(items, values, len(self.catalogue.items))
        prior = np.zeros(self.config.n_factors, np.float32)
        if self.conditional:
            known = np.union1d(items, np.asarray(identities if identities is not None else [], int))
            if len(known):
                prior = tables.side_factors[known].mean(axis=0)
        mean = self.catalogue.mean
        bias, factors = fold(config, tables, mean, items, rated, prior)
        return FoldedFactors(bias, factors, noise, mean, tables.item_factors, tables.item_biases)

    @property
    def tables(self) -> Tables:
        """User factors x, item factors, biases and conditioning factors of the fitted model."""
        return self._parameters().tables

    # -- artefact ----------------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Settings and scale, as JSON values."""
        return {
            "settings": self.config.to_dict(),
            "used": self._parameters().config.to_dict(),
            "catalogue": self.catalogue.config(),
            "noise": self._parameters().noise,
        }

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The fitted state. Raises NotFittedError."""
        tables, prior, *_ = self._parameters()
        return {**tables._asdict(), "user_prior": prior, **self.catalogue.arrays()}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """The model of an artefact, every array checked. Raises ArtifactError."""
        model = cls(FactorizationConfig.from_dict(dict(config["settings"])))
        catalogue = Catalogue.from_arrays(config["catalogue"], arrays)
        n_users, n_items = len(catalogue.users), len(catalogue.items)
        dims = {"users": n_users, "items": n_items, "factors": model.config.n_factors}
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
        found = {
            name: require(arrays, name, shape=shape, dtype=np.float32, finite=True, dims=dims)
            for name, shape in shapes.items()
        }
        prior, noise = found.pop("user_prior"), float(config["noise"])
        if not 0 <= noise < np.inf:
            raise ArtifactError(f"the noise of the ratings is {noise}: the file is damaged")
        model._catalogue = catalogue
        used = FactorizationConfig.from_dict(dict(config.get("used", config["settings"])))
        model._fitted = _Fitted(Tables(**found), prior, noise, used)
        return model


class ConditionalPMFModel(PMFModel):
    """Matrix factorization whose users are expected to like what their rated items say (eq 5.22)."""

    name: ClassVar[str] = "conditional_pmf"
    conditional: ClassVar[bool] = True
