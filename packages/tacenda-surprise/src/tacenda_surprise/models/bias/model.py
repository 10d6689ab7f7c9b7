"""Biases alone: what a rating is expected to be without any interaction of user and item.

    r_ui ~ mean + b_u + c_i          (Mnih 2010, section 5.4.3 and Table 5.2, "bias-only models")

The biases are damped means of what the others leave, found in turn (Koren 2010, section 2.1):

    c_i = sum_u (r_ui - mean - b_u) / (lambda_i + n_i),   b_u = sum_i (r_ui - mean - c_i) / (lambda_u + n_u)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.errors import ArtifactError
from tacenda.fitting import Callback, FitSettings, Sweeps
from tacenda.fitting import fit as run
from tacenda.kernels.ratings.sgd import Tables
from tacenda.ratings import Ratings
from tacenda_surprise.models.base import Floats, Numbers, check_rated
from tacenda_surprise.models.bias.config import BiasConfig
from tacenda_surprise.models.bias.training import Alternation, Biases
from tacenda_surprise.models.catalogue import Catalogue
from tacenda_surprise.models.configured import ConfiguredRatingModel
from tacenda_surprise.models.identities import Identities


class FoldedBias(NamedTuple):
    """A user's bias beside those of the items; see `tacenda_surprise.models.FoldedUser`."""

    base: float
    item_biases: Floats
    noise: float

    def score(self, items: Numbers | None = None) -> Floats:
        """Expected ratings (items,), not clipped; of all items if None; -1 is an unknown item."""
        c = self.item_biases if items is None else np.append(self.item_biases, np.float32(0))[items]
        return np.asarray(c + np.float32(self.base), np.float32)

    def deviations(self, items: Numbers) -> Floats:
        """The noise of the ratings, (items,)."""
        return np.full(len(items), self.noise, np.float32)


class BiasModel(ConfiguredRatingModel[BiasConfig]):
    """Biases of users and items; everything else should be better than this.

    Parameters
    ----------
    config
        Settings; keyword arguments replace single ones.
    settings
        Any field of `BiasConfig`.

    Raises
    ------
    ConfigurationError
        a setting is unknown or out of range.
    """

    name: ClassVar[str] = "bias"
    settings = BiasConfig
    _biases: Biases | None = None

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
        catalogue = Catalogue.of(ratings)
        start = np.zeros(ratings.n_users), np.zeros(ratings.n_items)
        sweeps = Alternation(self.config, ratings, catalogue.mean, *start)
        return self._run(
            sweeps, self.config.n_epochs, ratings, catalogue, callbacks, checkpoints, progress
        )

    def partial_fit(
        self,
        ratings: Ratings,
        *,
        identities: Identities | None = None,
        n_epochs: int | None = None,
        callbacks: Sequence[Callback] = (),
        progress: str = "",
    ) -> Self:
        """See `RatingModel.partial_fit`; ends where a new fit to ``ratings`` would, but for the mean."""
        b, c, _ = self._fitted()
        catalogue = self.catalogue.extended(ratings)
        start = np.zeros(ratings.n_users), np.zeros(ratings.n_items)
        start[0][: len(b)], start[1][: len(c)] = b, c
        sweeps = Alternation(self.config, ratings, catalogue.mean, *start)
        epochs = self.config.n_epochs if n_epochs is None else n_epochs
        return self._run(sweeps, epochs, ratings, catalogue, callbacks, None, progress)

    def _run(
        self,
        sweeps: Alternation,
        n_epochs: int,
        ratings: Ratings,
        catalogue: Catalogue,
        callbacks: Sequence[Callback],
        checkpoints: str | os.PathLike[str] | None,
        progress: str,
    ) -> Self:
        self.history = run(
            sweeps,
            Sweeps(ratings.fingerprint if checkpoints is not None else ""),
            FitSettings(epochs=n_epochs, learning_rate=1.0, evaluate_every=0, restore_best=False),
            configuration={"model": self.name, **self.config.to_dict()},
            callbacks=callbacks,
            checkpoints=checkpoints,
            description=progress or self.name,
        )
        self._catalogue = catalogue
        self._biases = sweeps.found()
        self._note(ratings, self.history, "none held out")
        return self

    def _fitted(self) -> Biases:
        return self._learned(self._biases)

    @property
    def tables(self) -> Tables:
        """The biases, with factors of no width."""
        b, c, _ = self._fitted()
        none = np.zeros((0, 0), np.float32)
        return Tables(
            np.zeros((len(b), 0), np.float32), np.zeros((len(c), 0), np.float32), b, c, none
        )

    def score_pairs(self, users: Numbers, items: Numbers) -> Floats:
        """See `RatingModel.score_pairs`."""
        b, c, _ = self._fitted()
        mean = np.float32(self.catalogue.mean)
        return np.asarray(mean + _with_unknown(b)[users] + _with_unknown(c)[items], np.float32)

    def score_users(self, users: Numbers) -> Floats:
        """See `RatingModel.score_users`."""
        b, c, _ = self._fitted()
        mean = np.float32(self.catalogue.mean)
        return np.asarray(mean + _with_unknown(b)[users][:, None] + c, np.float32)

    def deviations(self, users: Numbers, items: Numbers) -> Floats:
        """The noise of the ratings (pairs,)."""
        return np.full(len(users), self._fitted().noise, np.float32)

    def fold_in(
        self, items: Numbers, values: npt.ArrayLike, identities: Numbers | None = None
    ) -> FoldedBias:
        """See `RatingModel.fold_in`: the damped mean of what the items leave."""
        _, c, noise = self._fitted()
        items = np.asarray(items, np.int64)
        rated = check_rated(items, values, len(self.catalogue.items))
        mean = self.catalogue.mean
        left = (rated - np.float32(mean) - c[items]).astype(np.float64)
        bias = 0.0
        if self.config.of_users and len(left):
            bias = float(left.sum()) / (self.config.reg_users + len(left))
        return FoldedBias(mean + bias, c, noise)

    def config_dict(self) -> dict[str, Any]:
        """Settings, scale and noise, as JSON values."""
        return {**super().config_dict(), "noise": self._fitted().noise}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The fitted state. Raises NotFittedError."""
        b, c, _ = self._fitted()
        return {"user_biases": b, "item_biases": c, **self.catalogue.arrays()}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """The model of an artefact, every array checked. Raises ArtifactError."""
        model = cls(BiasConfig.from_dict(dict(config["settings"])))
        catalogue = Catalogue.from_arrays(config["catalogue"], arrays)
        dims = {"users": len(catalogue.users), "items": len(catalogue.items)}
        b, c = (
            require(arrays, f"{side}_biases", shape=(f"{side}s",), dtype=np.float32, finite=True, dims=dims)
            for side in ("user", "item")
        )  # fmt: skip
        noise = float(config["noise"])
        if not 0 <= noise < np.inf:
            raise ArtifactError(f"the noise of the ratings is {noise}: the file is damaged")
        model._catalogue, model._biases = catalogue, Biases(b, c, noise)
        return model


def _with_unknown(table: Floats) -> Floats:
    return np.append(table, np.float32(0))
