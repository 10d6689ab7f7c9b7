"""Bayesian matrix factorization as a model: predictions averaged over samples of the parameters.

    E[r_ui] = mean + (1/S) sum_s (b_u^s + c_i^s + x_u^s . q_i^s)

which is one scalar product of the samples laid side by side. The spread over samples is what is not known of
the parameters; together with the noise it is the predictive deviation (Salakhutdinov and Mnih 2008).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacit.artifact import require
from tacit.errors import ArtifactError, NotFittedError
from tacit.fitting import Callback, FitSettings, History, Sweeps
from tacit.fitting import fit as run
from tacit.kernels import rating_scores, rating_solves
from tacit.kernels.rating_sgd import Tables
from tacit.ratings import Ratings
from tacit_surprise.models.base import Floats, Numbers, RatingModel, check_rated
from tacit_surprise.models.catalogue import Catalogue
from tacit_surprise.models.factorization.config import BayesianConfig
from tacit_surprise.models.factorization.gibbs import KEPT, Gibbs
from tacit_surprise.models.identities import Identities

_BLOCK = 4096  # pairs whose samples are looked at together


class Samples(NamedTuple):
    """What `Gibbs` kept, each with the samples first, float32; the last column is the bias."""

    users: Floats
    items: Floats
    links: Floats
    mean: Floats
    precision: Floats
    alpha: Floats


class FoldedSamples(NamedTuple):
    """Bias and factors of one user for every sample; see `tacit_surprise.models.FoldedUser`."""

    user: Floats  # (samples, width)
    items: Floats  # (samples, items, width)
    base: float
    noise: float

    def _draws(self, items: Numbers) -> Floats:
        known = (np.asarray(items) >= 0).astype(np.float32)
        chosen = self.items[:, items] * known[None, :, None]
        scores = np.einsum("sd,sid->si", self.user[:, :-1], chosen[:, :, :-1])
        return np.asarray(scores + chosen[:, :, -1] + self.user[:, -1:] + self.base, np.float32)

    def score(self, items: Numbers | None = None) -> Floats:
        """Expected ratings (items,), not clipped; of all items if None; -1 is an unknown item."""
        wanted = np.arange(self.items.shape[1]) if items is None else np.asarray(items)
        return np.asarray(self._draws(wanted).mean(axis=0))

    def deviations(self, items: Numbers) -> Floats:
        """Spread over the samples and noise together, (items,)."""
        return np.asarray(np.sqrt(self._draws(items).var(axis=0) + self.noise**2), np.float32)


class BayesianPMFModel(RatingModel):
    """Probabilistic matrix factorization by Gibbs sampling.

    Args:
        config: settings; keyword arguments replace single ones.
        settings: any field of `BayesianConfig`.
    """

    name: ClassVar[str] = "bayesian_pmf"
    conditional: ClassVar[bool] = False

    def __init__(self, config: BayesianConfig | None = None, **settings: Any) -> None:
        values = (config or BayesianConfig()).to_dict()
        self.config = BayesianConfig.from_dict(values | settings)
        self.figures: list[dict[str, Any]] = []
        self.fitted_on: dict[str, Any] = {}
        self.history = History()
        self._samples: Samples | None = None

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
        known: Identities | None = None
        if self.conditional:
            known = Identities.of(ratings)
            known = known if identities is None else known.union(identities, ratings.n_items)
        chain = Gibbs(self.config, ratings, catalogue.mean, known)
        self.history = run(
            chain,
            Sweeps(ratings.fingerprint if checkpoints is not None else ""),
            FitSettings(
                epochs=self.config.burn_in + self.config.n_samples,
                learning_rate=1.0,
                evaluate_every=0,
                restore_best=False,
            ),
            configuration={"model": self.name, **self.config.to_dict()},
            callbacks=callbacks,
            checkpoints=checkpoints,
            description=progress or self.name,
        )
        self._catalogue = catalogue
        self._adopt(Samples(**chain.samples))
        self.fitted_on = {
            "n_ratings": len(ratings),
            "n_users": ratings.n_users,
            "n_items": ratings.n_items,
        }
        self.figures = [self.history.figure("squared error of a draw")]
        return self

    def _adopt(self, samples: Samples) -> None:
        self._samples = samples
        self.__dict__.pop("tables", None)

    def _fitted(self) -> Samples:
        if self._samples is None:
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted: call fit(ratings), or load one with tacit.load"
            )
        return self._samples

    @cached_property
    def tables(self) -> Tables:
        """Factors whose scalar product is the average over samples, (users or items, samples * factors)."""
        samples = self._fitted()
        n, width = len(samples.users), self.config.n_factors
        flat = [
            np.ascontiguousarray(part[:, :, :-1].transpose(1, 0, 2)).reshape(-1, n * width)
            for part in (samples.users, samples.items)
        ]
        biases = [part[:, :, -1].mean(axis=0) for part in (samples.users, samples.items)]
        none = np.zeros((0, n * width), np.float32)
        return Tables(flat[0], flat[1] / np.float32(n), biases[0], biases[1], none)

    @property
    def _noise(self) -> float:
        return float(np.sqrt(np.mean(1.0 / self._fitted().alpha)))

    # -- predicting --------------------------------------------------------------------------------

    def score_pairs(self, users: Numbers, items: Numbers) -> Floats:
        """See `RatingModel.score_pairs`."""
        x, q, b, c, _ = self.tables
        return rating_scores.scores(users, items, x, q, b, c, self.catalogue.mean)

    def score_users(self, users: Numbers) -> Floats:
        """See `RatingModel.score_users`."""
        x, q, b, c, _ = self.tables
        users = np.asarray(users)
        known = (users >= 0).astype(np.float32)[:, None]
        scores = (x[users] * known) @ q.T
        scores += b[users][:, None] * known
        scores += c + np.float32(self.catalogue.mean)
        return np.asarray(scores)

    def deviations(self, users: Numbers, items: Numbers) -> Floats:
        """Spread over the samples and noise together, (pairs,)."""
        samples, users, items = self._fitted(), np.asarray(users), np.asarray(items)
        variances = np.empty(len(users), np.float32)
        for start in range(0, len(users), _BLOCK):
            part = slice(start, start + _BLOCK)
            x = samples.users[:, users[part]] * (users[part] >= 0)[None, :, None]
            q = samples.items[:, items[part]] * (items[part] >= 0)[None, :, None]
            scores = np.einsum("snd,snd->sn", x[:, :, :-1], q[:, :, :-1])
            variances[part] = (scores + x[:, :, -1] + q[:, :, -1]).var(axis=0)
        return np.asarray(np.sqrt(variances + np.float32(self._noise**2)))

    def fold_in(
        self, items: Numbers, values: npt.ArrayLike, identities: Numbers | None = None
    ) -> FoldedSamples:
        """See `RatingModel.fold_in`: the expected factors of the user under every sample."""
        samples = self._fitted()
        items = np.asarray(items, np.int64)
        rated = check_rated(items, values, len(self.catalogue.items))
        expected = samples.mean.copy()
        if self.conditional:
            known = np.union1d(items, np.asarray(identities if identities is not None else [], int))
            expected += samples.links[:, known].sum(axis=1) / np.sqrt(max(len(known), 1))
        user = np.empty_like(samples.mean)
        offsets, ids = np.array([0, len(items)]), np.arange(len(items))
        for s in range(len(user)):
            table = samples.items[s, items]
            targets = rated - np.float32(self.catalogue.mean) - table[:, -1]
            design = np.append(table[:, :-1], np.ones((len(items), 1), np.float32), axis=1)
            user[s] = rating_solves.solve(
                offsets, ids, targets, design, expected[s], samples.precision[s],
                float(samples.alpha[s]),
            )[0]  # fmt: skip
        return FoldedSamples(user, samples.items, self.catalogue.mean, self._noise)

    # -- artefact ----------------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Settings and scale, as JSON values."""
        return {"settings": self.config.to_dict(), "catalogue": self.catalogue.config()}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The fitted state. Raises NotFittedError."""
        samples = self._fitted()._asdict()
        return {**{f"samples.{n}": a for n, a in samples.items()}, **self.catalogue.arrays()}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """The model of an artefact, every array checked. Raises ArtifactError."""
        model = cls(BayesianConfig.from_dict(dict(config["settings"])))
        model._catalogue = Catalogue.from_arrays(config["catalogue"], arrays)
        n_users, n_items = len(model._catalogue.users), len(model._catalogue.items)
        dims = {"users": n_users, "items": n_items, "width": model.config.n_factors + 1}
        dims |= {"samples": model.config.n_samples, "links": n_items if cls.conditional else 0}
        shapes: dict[str, tuple[str, ...]] = {
            "users": ("samples", "users", "width"),
            "items": ("samples", "items", "width"),
            "links": ("samples", "links", "width"),
            "mean": ("samples", "width"),
            "precision": ("samples", "width", "width"),
            "alpha": ("samples",),
        }
        found = {}
        for name in KEPT:
            found[name] = require(
                arrays, f"samples.{name}", shape=shapes[name], dtype=np.float32, finite=True,
                dims=dims,
            )  # fmt: skip
        if not (found["alpha"] > 0).all():
            raise ArtifactError("the array 'samples.alpha' is not positive: the file is damaged")
        model._adopt(Samples(**found))
        return model


class ConditionalBayesianPMFModel(BayesianPMFModel):
    """Bayesian matrix factorization that conditions on the identities of rated items."""

    name: ClassVar[str] = "conditional_bayesian_pmf"
    conditional: ClassVar[bool] = True
