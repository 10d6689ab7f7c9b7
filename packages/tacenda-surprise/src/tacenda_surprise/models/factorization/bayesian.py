"""Bayesian matrix factorization as a model: predictions averaged over samples of the parameters.

    E[r_ui] = mean + (unit/S) sum_s (b_u^s + c_i^s + x_u^s . q_i^s)

which `samples.average` brings to one scalar product; the unit is the standard deviation of the ratings, which are
standardized for the chain. The spread over samples is what is not known of the parameters; together with the noise it
is the predictive deviation (Salakhutdinov and Mnih 2008).

Where the noise is far from normal, for example when nearly all ratings are the highest, factors explain some of it and
predict worse than biases alone. So a part of the ratings is left out while the chain burns in, and tells with which
weight f on it, and 1 - f on `BiasModel`, the two together predict best. Where that is less than one, the samples are
shrunk towards the biases accordingly (`Samples.shrunk`). The noise of ratings near the end of a scale is smaller than
that of others: how much, the residuals of single samples tell, which are distributed as the noise is. The errors of the
ratings left out then say how large the noise is altogether.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda import devices
from tacenda.arrays import LARGEST
from tacenda.errors import ArtifactError, ConfigurationError
from tacenda.fitting import FitSettings, History, Sweeps
from tacenda.fitting.batches import fingerprint_arrays
from tacenda.kernels.ratings.sgd import Tables
from tacenda.ratings import Ratings, split
from tacenda.settings import configured_by
from tacenda_surprise.models.base import Floats, Loop, Numbers, RatingModel, check_rated
from tacenda_surprise.models.catalogue import (
    Catalogue,
    deviation,
    require_floats,
    standardized,
)
from tacenda_surprise.models.factorization.defaults import bayesian_width, sweeps
from tacenda_surprise.models.factorization.gibbs import LESS, Gibbs, Start, device_for
from tacenda_surprise.models.factorization.new_rows import lengthened
from tacenda_surprise.models.factorization.samples import (
    FoldedSamples,
    LeftOut,
    Samples,
    Unit,
    average,
    fold,
)
from tacenda_surprise.models.factorization.settings import BayesianSettings
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.models.spread import Curve, fit_curve

_ERRORS = 20_000  # residuals that the noise is compared with
_DRAWS = 4  # samples they are taken from
_HELD_OUT = 0.05  # of the ratings, while the chain burns in
_LEAST_BURN_IN, _LEAST_RATINGS = 16, 400  # fewer would not tell the weight
_AVERAGES = ("user_factors", "item_factors", "user_biases", "item_biases")


class BayesianPMFModel(RatingModel):
    """Probabilistic matrix factorization by Gibbs sampling (Salakhutdinov and Mnih 2008)."""

    name: ClassVar[str] = "bayesian_pmf"
    settings: BayesianSettings
    settings_class = BayesianSettings
    _samples: Samples | None = None
    _tables: Tables | None = None
    _unit: Unit | None = None
    _chains = 1  # the number of the last chain, which no later one may have
    _weight, _wider = 1.0, 1.0

    @configured_by(BayesianSettings)
    def __init__(self, settings: BayesianSettings) -> None:
        super().__init__(settings)

    def _fit(self, loop: Loop, ratings: Ratings, identities: Identities | None) -> None:
        settings, catalogue = self.settings, Catalogue.of(ratings)
        width, known = bayesian_width(settings, ratings), self._known(ratings, identities)
        unit = deviation(ratings)
        standard = standardized(ratings, catalogue.mean, unit)
        burn_in, n = sweeps(settings, ratings, width)
        device = device_for(settings, width, ratings, known)
        start, left_out, self._weight, self._wider = None, None, 1.0, 1.0
        self._chains = 1
        with devices.out_of_memory(settings, LESS):
            if burn_in >= _LEAST_BURN_IN and len(ratings) >= _LEAST_RATINGS:
                part, held_out = split(standard, _HELD_OUT, seed=settings.seed)
                lasting = burn_in // 2, burn_in - burn_in // 2
                known_of_part = self._known(part, identities)
                first = Gibbs(settings, width, part, known_of_part, lasting=lasting, device=device)
                self._run(loop.inside("first"), first, part)
                taken = Samples(**first.samples)
                self._weight = taken.weight(part, held_out)
                left_out = LeftOut.of(taken.shrunk(self._weight, part), held_out, catalogue, unit)
                start, burn_in, loop = first.position, burn_in // 4, loop.after_the_first()
            number = int(start is not None)
            chain = Gibbs(settings, width, standard, known, start, number, (burn_in, n), device)
            self._sample(loop, chain, standard, ratings, catalogue, unit, left_out)

    def _go_on(
        self, loop: Loop, ratings: Ratings, identities: Identities | None, epochs: int | None
    ) -> None:
        """Go on with the chain where it ended: ``epochs`` samples after a quarter of ``burn_in``.

        Known users and items are found by their raw ids and keep their numbers, and new ones follow. Of a
        user without ratings nothing is known from then on. The default is ``n_samples``. Raises ConfigurationError if
        ``epochs`` is 0.
        """
        old = self._fitted()
        if epochs == 0:
            raise ConfigurationError(
                f"{type(self).__name__} goes on by drawing samples, and epochs is 0: give at least 1"
            )
        catalogue, ratings, identities = self.catalogue.grown(ratings, identities)
        known = self._known(ratings, identities)
        users = lengthened(old.users[-1], ratings.n_users)
        users[old.users.shape[1] :] = old.mean[-1]
        links = lengthened(old.links[-1], ratings.n_items if self.conditional else 0)
        items = lengthened(old.items[-1], ratings.n_items)
        gamma = lengthened(old.gamma[-1], ratings.n_users)
        gamma[old.gamma.shape[1] :] = 1.0
        numbers = (float(part[-1]) for part in (old.nu, old.tau))
        start = Start(users, items, links, float(old.alpha[-1]), gamma, *numbers)
        unit = self._learned(self._unit).unit
        standard = standardized(ratings, catalogue.mean, unit)
        width = users.shape[1] - 1
        burn_in, n = sweeps(self.settings, ratings, width)
        lasting = burn_in // 4, n if epochs is None else epochs
        device = device_for(self.settings, width, ratings, known)
        with devices.out_of_memory(self.settings, LESS):
            number = self._chains + 1
            chain = Gibbs(self.settings, width, standard, known, start, number, lasting, device)
            self._sample(loop, chain, standard, ratings, catalogue, unit)
        self._chains = number

    def _run(self, loop: Loop, chain: Gibbs, ratings: Ratings) -> History:
        data = ""
        if loop.checkpoints is not None:
            known = chain.identities
            arrays = () if known is None else (known.offsets, known.item_ids)
            data = fingerprint_arrays(arrays, ratings.fingerprint)
        return loop.run(
            chain,
            Sweeps(data),
            FitSettings(
                epochs=chain.burn_in + len(chain.samples["alpha"]),
                learning_rate=1.0,
                evaluate_every=0,
                restore_best=False,
            ),
            {"model": self.name, **devices.without_device(self.settings)},
        )

    def _sample(
        self,
        loop: Loop,
        chain: Gibbs,
        standard: Ratings,
        ratings: Ratings,
        catalogue: Catalogue,
        unit: float,
        left_out: LeftOut | None = None,
    ) -> None:
        settings, history = self.settings, self._run(loop, chain, ratings)
        taken = Samples(**chain.samples).shrunk(self._weight, standard)
        x, q = average(taken.users[:, :, :-1], taken.items[:, :, :-1], settings.rank, settings.seed)
        b, c = (part[:, :, -1].mean(axis=0) for part in (taken.users, taken.items))
        size, root = np.float32(unit), np.float32(unit**0.5)
        none = np.zeros((0, x.shape[1]), np.float32)
        self._tables = Tables(x * root, q * root, b * size, c * size, none)
        self._samples, self._catalogue = taken.thinned(settings.n_kept), catalogue
        self._unit = self._noise(taken, ratings, unit, left_out)
        self.history = history
        self._note(ratings, history, "squared error of a draw")

    def _noise(
        self, taken: Samples, ratings: Ratings, unit: float, left_out: LeftOut | None
    ) -> Unit:
        """What the samples say of the noise, and how it depends on the prediction."""
        noises, mean = taken.noises, self.catalogue.mean
        rng = np.random.default_rng(self.settings.seed)
        chosen = rng.permutation(len(ratings))[:_ERRORS]
        users, items = ratings.user_ids[chosen], ratings.item_ids[chosen]
        values = (ratings.values[chosen].astype(np.float64) - mean) / unit
        predictions = self.catalogue.clip(self.score_pairs(users, items))
        z = []
        for s in range(len(taken.alpha))[-_DRAWS:]:
            x, q = taken.users[s][users], taken.items[s][items]
            scores = np.einsum("nd,nd->n", x[:, :-1], q[:, :-1]) + x[:, -1] + q[:, -1]
            # against the usual noise of the user, which predictions go by
            z.append((values - scores) / np.sqrt(noises[users]))
        curve, factor = fit_curve(np.concatenate(z), np.tile(predictions, len(z)), unit)
        if left_out is not None:
            self._wider = left_out.factor(curve, factor)
        noises = (noises * factor * self._wider).astype(np.float32)
        return Unit(mean, unit, noises, curve, self.catalogue.scale)

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
        variances = samples.variances(users, items)
        return self._learned(self._unit).deviations(
            variances, users, self.score_pairs(users, items)
        )

    def fold_in(
        self, items: Numbers, values: npt.ArrayLike, identities: Numbers | None = None
    ) -> FoldedSamples:
        """See `RatingModel.fold_in`: the expected factors of the user under every sample."""
        samples = self._fitted()
        items = np.asarray(items, np.int64)
        rated = check_rated(items, values, len(self.catalogue.items))
        known = self._known_items(items, identities)
        return fold(samples, self._learned(self._unit), items, rated, known)

    # -- artefact ----------------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Settings, scale, unit and curve of the noise, number of the last chain, as JSON values."""
        unit = self._learned(self._unit)
        return {
            "settings": devices.without_device(self.settings),
            "catalogue": self.catalogue.config(),
            "unit": unit.unit,
            "weight": self._weight,
            "wider": self._wider,
            "chains": self._chains,
            "curve": list(unit.curve),
        }

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the fitted state. Raises NotFittedError."""
        kept = {f"samples.{n}": a for n, a in self._fitted()._asdict().items()}
        averages = {f"average.{n}": getattr(self.tables, n) for n in _AVERAGES}
        noises = {"noises": self._learned(self._unit).noises}
        return {**kept, **averages, **noises, **self.catalogue.arrays()}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Rebuild the model of an artefact, checking every array. Raises ArtifactError."""
        model = cls.from_settings(config["settings"])
        model._catalogue = Catalogue.from_arrays(config["catalogue"], arrays)
        n_users, n_items = len(model._catalogue.users), len(model._catalogue.items)
        dims = {"users": n_users, "items": n_items, "links": n_items if cls.conditional else 0}
        dims |= {"noises": n_users + 1}
        shapes: dict[str, tuple[str, ...]] = {
            "samples.users": ("samples", "users", "width"),
            "samples.items": ("samples", "items", "width"),
            "samples.links": ("samples", "links", "width"),
            "samples.mean": ("samples", "width"),
            "samples.precision": ("samples", "width", "width"),
            "samples.item_mean": ("samples", "width"),
            "samples.item_precision": ("samples", "width", "width"),
            "samples.gamma": ("samples", "users"),
            "samples.alpha": ("samples",),
            "samples.nu": ("samples",),
            "samples.tau": ("samples",),
            "noises": ("noises",),
            "average.user_factors": ("users", "rank"),
            "average.item_factors": ("items", "rank"),
            "average.user_biases": ("users",),
            "average.item_biases": ("items",),
        }
        found = require_floats(arrays, shapes, dims)
        positive = "samples.alpha", "samples.gamma", "samples.nu", "samples.tau", "noises"
        for name in positive:
            if not (found[name] > 0).all() or not len(found["samples.mean"]):
                raise ArtifactError(f"the array '{name}' is not positive: the file is damaged")
        unit, curve = float(config["unit"]), Curve.from_list(config["curve"])
        if not 0 < unit < LARGEST:
            raise ArtifactError(f"its ratings have a deviation of {unit}: the file is damaged")
        scale = model._catalogue.scale
        model._unit = Unit(model._catalogue.mean, unit, found["noises"], curve, scale)
        model._weight, model._wider = float(config["weight"]), float(config["wider"])
        if not (0 <= model._weight <= 1 and 0 < model._wider < LARGEST):
            raise ArtifactError(
                f"its weight is {model._weight}, its noise {model._wider} times as large: the file is damaged"
            )
        model._chains = config.get("chains", 1)
        if type(model._chains) is not int or not 1 <= model._chains < LARGEST:
            raise ArtifactError(
                f"the number of its last chain is {model._chains!r}: the file is damaged"
            )
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
