"""Restricted Boltzmann machines for ratings as a model: fitted, applied, saved."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda import devices
from tacenda.errors import ArtifactError
from tacenda.estimator import Estimator
from tacenda.fitting import History
from tacenda.kernels.ratings.boltzmann import Expected
from tacenda.ratings import Ratings, split
from tacenda.settings import configured_by
from tacenda_surprise.models.base import Floats, Loop, Numbers, RatingModel, check_rated
from tacenda_surprise.models.boltzmann.machine import Machine, Scale, sides
from tacenda_surprise.models.boltzmann.new_units import (
    FoldedUnit,
    as_case,
    as_visible,
    penalty_of,
    usual_slope,
)
from tacenda_surprise.models.boltzmann.settings import (
    BoltzmannSettings,
    ConditionalBoltzmannSettings,
)
from tacenda_surprise.models.boltzmann.training import train
from tacenda_surprise.models.catalogue import Catalogue, require_floats
from tacenda_surprise.models.identities import Identities

_DAMPING = 5.0  # of a user folded in, where the settings leave it to the ratings


class RBMModel(RatingModel):
    """A restricted Boltzmann machine with one softmax visible unit for every rating of a case."""

    name: ClassVar[str] = "rbm"
    settings: BoltzmannSettings
    settings_class = BoltzmannSettings
    _machine: Machine | None = None
    _penalty = 0.0

    @configured_by(BoltzmannSettings)
    def __init__(self, settings: BoltzmannSettings) -> None:
        super().__init__(settings)

    # -- fitting -----------------------------------------------------------------------------------

    def _fit(self, loop: Loop, ratings: Ratings, identities: Identities | None) -> None:
        settings, catalogue = self.settings, Catalogue.of(ratings)
        scale = Scale.of(catalogue, ratings, settings.advanced.bins)
        epochs, whole = settings.epochs, True
        if settings.validation and len(ratings) > 1:
            part, held_out = split(ratings, settings.validation, seed=settings.seed)
            known = self._known(part, identities)
            machine, history = train(
                settings, scale, loop.inside("first"), part, known, epochs, held_out=held_out
            )
            whole = settings.refit
            epochs = history.best.epoch if history.best else epochs
            loop = loop.after_the_first()
        if whole:
            known = self._known(ratings, identities)
            machine, history = train(settings, scale, loop, ratings, known, epochs)
        self._finish(machine, history, scale, catalogue, ratings)

    def _go_on(
        self, loop: Loop, ratings: Ratings, identities: Identities | None, epochs: int | None
    ) -> None:
        """Repeat the last epochs of the schedule of the learning rate, with all ratings there are by now.

        Slopes and hidden units are found anew; the scale, and the rating that scores zero, stay. New visible
        units (users, where items are cases) are first solved for as `fold_in` does; Adam's averages, and
        chains, begin afresh. The default is a quarter of the epochs of the settings.
        """
        start, planned = self._fitted(), self.settings.epochs
        catalogue = self.catalogue.extended(ratings)
        n = max(planned // 4, 1) if epochs is None else epochs
        machine, history = train(
            self.settings,
            self._scale,
            loop,
            ratings,
            self._known(ratings, identities),
            n,
            start=start,
            passed=max(planned - n, 0),
        )
        self._finish(machine, history, self._scale, catalogue, ratings)

    def _finish(
        self,
        machine: Machine,
        history: History,
        scale: Scale,
        catalogue: Catalogue,
        ratings: Ratings,
    ) -> None:
        self._catalogue, self.history = catalogue, history
        self._penalty = self.settings.penalty_for(ratings)
        self._adopt(machine, scale)
        self._note(ratings, history, "RMSE of the ratings held out")

    def _adopt(self, machine: Machine, scale: Scale) -> None:
        self._machine, self._scale = machine, scale
        self._complete = machine.with_unknown()
        self._activations = self._complete.activations()

    def _fitted(self) -> Machine:
        return self._learned(self._machine)

    # -- predicting --------------------------------------------------------------------------------

    def _expect(self, users: Numbers, items: Numbers) -> Expected:
        self._fitted()
        visible, cases = sides(self.settings, np.asarray(users), np.asarray(items))
        machine, scores = self._complete, self._scale.scores
        if self.settings.advanced.prediction == "exact":
            chances = machine.exact(visible, cases, scores)
            return Expected(chances, np.einsum("nk,k->n", chances, scores))
        return machine.expect(visible, cases, scores, self._activations)

    def probabilities(self, users: Numbers, items: Numbers) -> Floats:
        """Probability of every level (pairs, levels), as the machine has it.

        Raises ConfigurationError for a continuous scale, which is in bins for the machine alone.
        """
        self.catalogue.require_levels(f"{type(self).__name__}.probabilities")
        return self._expect(users, items).chances

    def score_pairs(self, users: Numbers, items: Numbers) -> Floats:
        """The mean of the ratings' distribution, see `RatingModel.score_pairs`."""
        found = self._expect(users, items).means
        return self._scale.ratings(found)

    def score_users(self, users: Numbers) -> Floats:
        """See `RatingModel.score_users`; always by mean field."""
        self._fitted()
        users, everything = np.asarray(users), slice(0, len(self.catalogue.items))
        s, machine, p = self._scale.scores, self._complete, self._activations
        if self.settings.items_are_cases:
            return self._scale.ratings(machine.mean_scores(users, everything, s, p))
        return self._scale.ratings(machine.mean_scores(everything, users, s, p).T)

    def deviations(self, users: Numbers, items: Numbers) -> Floats:
        """Standard deviation of the ratings' distribution (pairs,)."""
        return FoldedUnit(self._expect(users, items).chances, self._scale).deviations(
            np.arange(len(users))
        )

    def fold_in(
        self, items: Numbers, values: npt.ArrayLike, identities: Numbers | None = None
    ) -> FoldedUnit:
        """See `RatingModel.fold_in`; identities tell something of a user only where users are cases."""
        self._fitted()
        settings, machine, scale = self.settings, self._complete, self._scale
        items = np.asarray(items, np.int64)
        levels = scale.level_of(check_rated(items, values, len(self.catalogue.items)))
        known = self._known_items(items, identities)
        if settings.items_are_cases:
            penalty = penalty_of(self._penalty, len(self.catalogue.items))
            return as_visible(machine, scale, items, levels, penalty)
        damping = settings.advanced.damping
        damping = _DAMPING if damping is None else damping
        slope = usual_slope(machine, scale, items, levels, damping) if settings.offset else 0.0
        known = known if self.conditional else known[:0]
        return as_case(machine, scale, items, levels, known, slope)

    @property
    def folds_identities(self) -> bool:
        """Whether ``fold_in`` conditions on identities: where users are cases."""
        return self.conditional and not self.settings.items_are_cases

    # -- artefact ----------------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Settings, scale and penalty, as JSON values."""
        self._fitted()
        return {
            "settings": devices.without_device(self.settings),
            "catalogue": self.catalogue.config(),
            "penalty": self._penalty,
        }

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the fitted state. Raises NotFittedError."""
        machine = self._fitted()._asdict()
        return {**machine, "machine_levels": self._scale.levels, **self.catalogue.arrays()}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Rebuild the model of an artefact, checking every array. Raises ArtifactError."""
        model = cls.from_settings(config["settings"])
        catalogue = Catalogue.from_arrays(config["catalogue"], arrays)
        sizes = len(catalogue.users), len(catalogue.items)
        visible, cases = sizes if model.settings.items_are_cases else sizes[::-1]
        levels = require_floats(arrays, {"machine_levels": ("levels",)}, {})["machine_levels"]
        if not len(levels) or (np.diff(levels) <= 0).any():
            raise ArtifactError("the array 'machine_levels' does not ascend: the file is damaged")
        machine = Machine.from_arrays(
            arrays,
            tied=model.settings.ordinal,
            dims={
                "visible": visible,
                "cases": cases,
                "hidden": model.settings.n_hidden,
                "levels": len(levels),
                "sides": visible if cls.conditional else 0,
            },
        )
        model._catalogue, model._penalty = catalogue, float(config["penalty"])
        if not 0 <= model._penalty < np.inf:
            raise ArtifactError(f"its penalty is {model._penalty}: the file is damaged")
        model._adopt(machine, Scale.about(levels, catalogue))
        return model


class ConditionalRBMModel(RBMModel):
    """A machine whose hidden biases depend on the identities of what a case has ratings with (eq 5.12)."""

    name: ClassVar[str] = "conditional_rbm"
    conditional: ClassVar[bool] = True
    settings_class = ConditionalBoltzmannSettings

    @configured_by(ConditionalBoltzmannSettings)
    def __init__(self, settings: ConditionalBoltzmannSettings) -> None:
        Estimator.__init__(self, settings)
