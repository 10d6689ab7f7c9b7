"""Probabilistic matrix factorization as a model: fitted, applied, saved.

r_ui ~ N(mean + b_u + c_i + x_u . q_i, sigma^2)      (Mnih 2010, eq 5.20; the mean is taken off first)
PMF:             x_u ~ N(0, sigma_U^2 I)             (eq 5.16)
conditional PMF: x_u ~ N(s_u, sigma_U^2 I),   s_u = mean of w_j over the items j the user has rated (eq 5.22)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacit.artifact import require
from tacit.errors import ArtifactError, ConfigurationError, NotFittedError
from tacit.fitting import (
    BatchSource,
    BlockBatches,
    Callback,
    FitSettings,
    History,
    StepDecay,
    Sweeps,
)
from tacit.fitting import fit as run
from tacit.kernels import rating_scores
from tacit.kernels.rating_sgd import Tables
from tacit.ratings import Ratings, split
from tacit_surprise.models.base import Floats, Numbers, RatingModel, check_rated
from tacit_surprise.models.catalogue import Catalogue
from tacit_surprise.models.factorization.als import ALS
from tacit_surprise.models.factorization.config import FactorizationConfig
from tacit_surprise.models.factorization.folding import FoldedFactors, fold
from tacit_surprise.models.factorization.noise import residual_deviation
from tacit_surprise.models.factorization.training import SGD, Tabled, initial_tables
from tacit_surprise.models.identities import Identities

_BATCH_RATINGS = 4_000_000  # a few tenths of a second: how often the bar moves and Ctrl-C is heard


class _Fitted(NamedTuple):
    """Tables whose ``user_factors`` are x, the part s of it that comes from identities, and sigma."""

    tables: Tables
    prior: Floats
    noise: float


class PMFModel(RatingModel):
    """Probabilistic matrix factorization by maximum a posteriori.

    Args:
        config: settings; keyword arguments replace single ones.
        settings: any field of `FactorizationConfig`.

    Raises:
        ConfigurationError: a setting is unknown or out of range.
    """

    name: ClassVar[str] = "pmf"
    conditional: ClassVar[bool] = False

    def __init__(self, config: FactorizationConfig | None = None, **settings: Any) -> None:
        values = (config or FactorizationConfig()).to_dict()
        self.config = FactorizationConfig.from_dict(values | settings)
        if self.conditional and self.config.solver == "als":
            raise ConfigurationError("solver 'als' does not condition; use 'sgd', or a plain PMF")
        self.figures: list[dict[str, Any]] = []
        self.fitted_on: dict[str, Any] = {}
        self.history = History()
        self._fitted: _Fitted | None = None

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
        config, n_epochs = self.config, self.config.n_epochs
        mean = Catalogue.of(ratings).mean

        def train(
            part: Ratings, epochs: int, held_out: Ratings | None, folder: Path | None
        ) -> tuple[Tabled, Identities | None]:
            known = self._known(part, identities)
            tables = initial_tables(
                config, part.n_users, part.n_items, conditional=self.conditional
            )
            trained: Tabled
            if config.solver == "als":
                trained = ALS(config, part, tables, mean, held_out)
            else:
                trained = SGD(config, part, tables, mean, known, held_out)
            self.history = run(
                trained,
                _batches(config, part),
                FitSettings(
                    epochs=epochs,
                    learning_rate=StepDecay(config.lr_factors, config.lr_decay, 1),
                    evaluate_every=1 if held_out else 0,
                    patience=config.patience if held_out else None,
                    restore_best=held_out is not None,
                ),
                configuration={"model": self.name, **config.to_dict()},
                callbacks=callbacks,
                checkpoints=folder,
                description=progress or self.name,
            )
            return trained, known

        if config.validation and len(ratings) > 1:
            part, held_out = split(ratings, config.validation, seed=config.seed)
            if len(part) and len(held_out):
                first = None if checkpoints is None else Path(checkpoints) / "validation"
                trained, known = train(part, n_epochs, held_out, first)
                stopped = self.history
                if not config.refit:
                    return self._adopt(ratings, trained.tables, known)
                n_epochs = stopped.best.epoch if stopped.best else n_epochs
        trained, known = train(
            ratings, n_epochs, None, None if checkpoints is None else Path(checkpoints)
        )
        return self._adopt(ratings, trained.tables, known)

    def _known(self, ratings: Ratings, more: Identities | None) -> Identities | None:
        if not self.conditional:
            return None
        known = Identities.of(ratings)
        return known if more is None else known.union(more, ratings.n_items)

    def _adopt(self, ratings: Ratings, tables: Tables, known: Identities | None) -> Self:
        self._catalogue = Catalogue.of(ratings)
        prior = np.zeros((0, self.config.n_factors), np.float32)
        if known is not None:
            prior = known.means(tables.side_factors)
            tables = tables._replace(user_factors=tables.user_factors + prior)
        self._fitted = _Fitted(tables, prior, 0.0)
        residuals = ratings.values - self.score_pairs(ratings.user_ids, ratings.item_ids)
        x, q = tables.user_factors, tables.item_factors
        config = self.config
        noise = residual_deviation(ratings, residuals, x, q, config.reg_factors, config.seed)
        self._fitted = self._fitted._replace(noise=noise)
        self.fitted_on = {
            "n_ratings": len(ratings),
            "n_users": ratings.n_users,
            "n_items": ratings.n_items,
        }
        self.figures = [self.history.figure("RMSE of the ratings held out")]
        return self

    def _parameters(self) -> _Fitted:
        if self._fitted is None:
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted: call fit(ratings), or load one with tacit.load"
            )
        return self._fitted

    # -- predicting --------------------------------------------------------------------------------

    def score_pairs(self, users: Numbers, items: Numbers) -> Floats:
        """See `RatingModel.score_pairs`."""
        x, q, b, c, _ = self._parameters().tables
        return rating_scores.scores(users, items, x, q, b, c, self.catalogue.mean)

    def score_users(self, users: Numbers) -> Floats:
        """See `RatingModel.score_users`."""
        x, q, b, c, _ = self._parameters().tables
        users = np.asarray(users)
        known = (users >= 0).astype(np.float32)[:, None]
        scores = (x[users] * known) @ q.T
        scores += b[users][:, None] * known
        scores += c + np.float32(self.catalogue.mean)
        return np.asarray(scores)

    def deviations(self, users: Numbers, items: Numbers) -> Floats:
        """The noise of the ratings (pairs,): that of the parameters is not known to a point estimate."""
        return np.full(len(users), self._parameters().noise, np.float32)

    def fold_in(
        self, items: Numbers, values: npt.ArrayLike, identities: Numbers | None = None
    ) -> FoldedFactors:
        """See `RatingModel.fold_in`."""
        tables, _, noise = self._parameters()
        items = np.asarray(items, np.int64)
        rated = check_rated(items, values, len(self.catalogue.items))
        prior = np.zeros(self.config.n_factors, np.float32)
        if self.conditional:
            known = np.union1d(items, np.asarray(identities if identities is not None else [], int))
            if len(known):
                prior = tables.side_factors[known].mean(axis=0)
        mean = self.catalogue.mean
        bias, factors = fold(self.config, tables, mean, items, rated, prior)
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
            "catalogue": self.catalogue.config(),
            "noise": self._parameters().noise,
        }

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The fitted state. Raises NotFittedError."""
        tables, prior, _ = self._parameters()
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
        model._fitted = _Fitted(Tables(**found), prior, noise)
        return model

    def with_settings(self, **settings: Any) -> Self:
        """An unfitted model of the same kind with other settings."""
        return type(self)(replace(self.config, **settings))


def _batches(config: FactorizationConfig, ratings: Ratings) -> BatchSource:
    if config.solver == "als":
        return Sweeps()
    return BlockBatches(ratings.user_offsets, batch_size=_BATCH_RATINGS, seed=config.seed)


class ConditionalPMFModel(PMFModel):
    """Matrix factorization whose users are expected to like what their rated items say (eq 5.22)."""

    name: ClassVar[str] = "conditional_pmf"
    conditional: ClassVar[bool] = True
