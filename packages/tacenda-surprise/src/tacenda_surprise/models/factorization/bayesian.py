"""Bayesian matrix factorization as a model: predictions averaged over samples of the parameters.

    E[r_ui] = mean + (1/S) sum_s (b_u^s + c_i^s + x_u^s . q_i^s)

which `samples.average` brings to one scalar product. The spread over samples is what is not known of the parameters;
together with the noise it is the predictive deviation (Salakhutdinov and Mnih 2008).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import Configured
from tacenda.errors import ArtifactError
from tacenda.fitting import FitSettings, Sweeps
from tacenda.fitting.batches import fingerprint_arrays
from tacenda.kernels.ratings.sgd import Tables
from tacenda.ratings import Ratings
from tacenda.settings import configured_by
from tacenda_surprise.models.base import Floats, Loop, Numbers, RatingModel, check_rated
from tacenda_surprise.models.catalogue import Catalogue, require_floats
from tacenda_surprise.models.factorization.gibbs import Gibbs, Start
from tacenda_surprise.models.factorization.new_rows import lengthened
from tacenda_surprise.models.factorization.samples import FoldedSamples, Samples, average, fold
from tacenda_surprise.models.factorization.settings import BayesianSettings, bayesian_width
from tacenda_surprise.models.identities import Identities

_BLOCK = 4096  # pairs whose samples are looked at together
_AVERAGES = ("user_factors", "item_factors", "user_biases", "item_biases")


class BayesianPMFModel(RatingModel, Configured[BayesianSettings]):
    """Probabilistic matrix factorization by Gibbs sampling (Salakhutdinov and Mnih 2008)."""

    name: ClassVar[str] = "bayesian_pmf"
    settings_class = BayesianSettings
    _samples: Samples | None = None
    _tables: Tables | None = None
    _chains = 0

    @configured_by(BayesianSettings)
    def __init__(self, settings: BayesianSettings) -> None:
        super().__init__(settings)

    def _fit(self, loop: Loop, ratings: Ratings, identities: Identities | None) -> None:
        settings, catalogue = self.settings, Catalogue.of(ratings)
        width, known = bayesian_width(settings, ratings), self._known(ratings, identities)
        chain = Gibbs(settings, width, ratings, catalogue.mean, known)
        self._sample(loop, chain, settings, ratings, catalogue)

    def _go_on(
        self, loop: Loop, ratings: Ratings, identities: Identities | None, epochs: int | None
    ) -> None:
        """Go on with the chain where it ended: ``epochs`` samples after a quarter of ``burn_in``.

        Known users and items are found by their raw ids and keep their numbers, and new ones follow. Of a
        user without ratings nothing is known from then on. The default is ``n_samples``.
        """
        old = self._fitted()
        n = self.settings.n_samples if epochs is None else epochs
        settings = replace(self.settings, n_samples=n, burn_in=self.settings.burn_in // 4)
        catalogue, ratings, identities = self.catalogue.grown(ratings, identities)
        known = self._known(ratings, identities)
        users = lengthened(old.users[-1], ratings.n_users)
        users[old.users.shape[1] :] = old.mean[-1]
        links = lengthened(old.links[-1], ratings.n_items if self.conditional else 0)
        start = Start(
            users, lengthened(old.items[-1], ratings.n_items), links, float(old.alpha[-1])
        )
        self._chains += 1
        width = users.shape[1] - 1
        chain = Gibbs(settings, width, ratings, catalogue.mean, known, start, self._chains)
        self._sample(loop, chain, settings, ratings, catalogue)

    def _sample(
        self,
        loop: Loop,
        chain: Gibbs,
        settings: BayesianSettings,
        ratings: Ratings,
        catalogue: Catalogue,
    ) -> None:
        data = ""
        if loop.checkpoints is not None:
            known = chain.identities
            arrays = () if known is None else (known.offsets, known.item_ids)
            data = fingerprint_arrays(arrays, ratings.fingerprint)
        history = loop.run(
            chain,
            Sweeps(data),
            FitSettings(
                epochs=settings.burn_in + settings.n_samples,
                learning_rate=1.0,
                evaluate_every=0,
                restore_best=False,
            ),
            {"model": self.name, **settings.to_dict()},
        )
        taken = Samples(**chain.samples)
        x, q = average(taken.users[:, :, :-1], taken.items[:, :, :-1], settings.rank, settings.seed)
        b, c = (part[:, :, -1].mean(axis=0) for part in (taken.users, taken.items))
        self._tables = Tables(x, q, b, c, np.zeros((0, x.shape[1]), np.float32))
        self._samples, self._catalogue = taken.thinned(settings.n_kept), catalogue
        self.history = history
        self._note(ratings, history, "squared error of a draw")

    def _fitted(self) -> Samples:
        return self._learned(self._samples)

    @property
    def tables(self) -> Tables:
        """Biases, and factors whose scalar product is the average over samples, (users or items, rank)."""
        return self._learned(self._tables)

    # -- predicting --------------------------------------------------------------------------------

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
        return np.asarray(np.sqrt(variances + np.float32(samples.noise**2)))

    def fold_in(
        self, items: Numbers, values: npt.ArrayLike, identities: Numbers | None = None
    ) -> FoldedSamples:
        """See `RatingModel.fold_in`: the expected factors of the user under every sample."""
        samples = self._fitted()
        items = np.asarray(items, np.int64)
        rated = check_rated(items, values, len(self.catalogue.items))
        known = self._known_items(items, identities)
        return fold(samples, self.catalogue.mean, items, rated, known)

    # -- artefact ----------------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Settings and scale, as JSON values."""
        return {"settings": self.settings.to_dict(), "catalogue": self.catalogue.config()}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the fitted state. Raises NotFittedError."""
        kept = {f"samples.{n}": a for n, a in self._fitted()._asdict().items()}
        averages = {f"average.{n}": getattr(self.tables, n) for n in _AVERAGES}
        return {**kept, **averages, **self.catalogue.arrays()}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Rebuild the model of an artefact, checking every array. Raises ArtifactError."""
        model = cls.from_settings(config["settings"])
        model._catalogue = Catalogue.from_arrays(config["catalogue"], arrays)
        n_users, n_items = len(model._catalogue.users), len(model._catalogue.items)
        dims = {"users": n_users, "items": n_items, "links": n_items if cls.conditional else 0}
        shapes: dict[str, tuple[str, ...]] = {
            "samples.users": ("samples", "users", "width"),
            "samples.items": ("samples", "items", "width"),
            "samples.links": ("samples", "links", "width"),
            "samples.mean": ("samples", "width"),
            "samples.precision": ("samples", "width", "width"),
            "samples.alpha": ("samples",),
            "average.user_factors": ("users", "rank"),
            "average.item_factors": ("items", "rank"),
            "average.user_biases": ("users",),
            "average.item_biases": ("items",),
        }
        found = require_floats(arrays, shapes, dims)
        if not (found["samples.mean"].size and (found["samples.alpha"] > 0).all()):
            raise ArtifactError("the array 'samples.alpha' is not positive: the file is damaged")
        model._samples = Samples(*(found[f"samples.{name}"] for name in Samples._fields))
        averages = {name: found[f"average.{name}"] for name in _AVERAGES}
        none = np.zeros((0, averages["user_factors"].shape[1]), np.float32)
        model._tables = Tables(**averages, side_factors=none)
        return model


class ConditionalBayesianPMFModel(BayesianPMFModel):
    """Bayesian matrix factorization that conditions on the identities of rated items."""

    name: ClassVar[str] = "conditional_bayesian_pmf"
    conditional: ClassVar[bool] = True
    settings_class = BayesianSettings
