"""Restricted Boltzmann machines for ratings as a model: fitted, applied, saved."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda.errors import ConfigurationError
from tacenda.fitting import Callback, History
from tacenda.kernels.ratings.boltzmann import Expected
from tacenda.ratings import Ratings
from tacenda_surprise.models.base import Floats, Numbers, check_rated
from tacenda_surprise.models.boltzmann.cases import Scale
from tacenda_surprise.models.boltzmann.config import BoltzmannConfig
from tacenda_surprise.models.boltzmann.fits import How, fit_machine, sides, train_on
from tacenda_surprise.models.boltzmann.folding import (
    FoldedUnit,
    as_case,
    as_visible,
    penalty_of,
    usual_slope,
)
from tacenda_surprise.models.boltzmann.machine import Machine
from tacenda_surprise.models.catalogue import Catalogue
from tacenda_surprise.models.configured import ConfiguredRatingModel
from tacenda_surprise.models.identities import Identities


class RBMModel(ConfiguredRatingModel[BoltzmannConfig]):
    """A restricted Boltzmann machine with one softmax visible unit for every rating of a case.

    Parameters
    ----------
    config
        Settings; keyword arguments replace single ones.
    settings
        Any field of `BoltzmannConfig`.
    """

    name: ClassVar[str] = "rbm"
    settings = BoltzmannConfig
    _machine: Machine | None = None

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
        """See `RatingModel.fit`. Raises ConfigurationError for a continuous rating scale."""
        catalogue = Catalogue.of(ratings)
        scale = Scale.of(catalogue, type(self).__name__)
        how = self._how(scale, identities, callbacks, checkpoints, progress)
        return self._finish(*fit_machine(how, ratings), scale, catalogue, ratings)

    def partial_fit(
        self,
        ratings: Ratings,
        *,
        identities: Identities | None = None,
        n_epochs: int | None = None,
        callbacks: Sequence[Callback] = (),
        progress: str = "",
    ) -> Self:
        """Goes on from the fitted parameters, with all ratings there are by now.

        Users and items keep their numbers, new ones come behind them. Slopes and hidden units are found anew
        from ``ratings``; the scale, and the rating that scores zero, stay. New visible units (users, where
        items are cases) are solved for as `fold_in` does, then the last epochs of the schedule of the
        learning rate are repeated; Adam's averages, and chains, begin afresh.

        Parameters
        ----------
        ratings
            Old ratings that are still valid, and new ones.
        identities
            As in ``fit``.
        n_epochs
            Passes over the cases; None: a quarter of those of the settings.
        callbacks
            Called by the fitting loop.
        progress
            What the progress bar says; "" for the model's name.

        Raises
        ------
        NotFittedError
            There is nothing to go on from.
        DataError
            Users, items or the rating scale do not go on from those fitted.
        ConfigurationError
            ``n_epochs`` is negative.
        """
        start, planned = self._fitted(), self.config.n_epochs
        catalogue = self.catalogue.extended(ratings)
        epochs = max(planned // 4, 1) if n_epochs is None else n_epochs
        if epochs < 0:
            raise ConfigurationError(f"n_epochs must be at least 0, not {epochs}")
        how = self._how(self._scale, identities, callbacks, None, progress)
        passed = max(planned - epochs, 0)
        found = train_on(how, ratings, epochs, start=start, passed=passed)
        return self._finish(*found, self._scale, catalogue, ratings)

    def _how(
        self,
        scale: Scale,
        identities: Identities | None,
        callbacks: Sequence[Callback],
        checkpoints: str | os.PathLike[str] | None,
        progress: str,
    ) -> How:
        description = progress or self.name
        more = self.conditional, identities, callbacks, checkpoints, description
        return How(self.config, scale, *more)

    def _finish(
        self,
        machine: Machine,
        history: History,
        scale: Scale,
        catalogue: Catalogue,
        ratings: Ratings,
    ) -> Self:
        self._catalogue, self.history = catalogue, history
        self._adopt(machine, scale)
        self._note(ratings, history, "RMSE of the ratings held out")
        return self

    def _adopt(self, machine: Machine, scale: Scale) -> None:
        self._machine, self._scale = machine, scale
        self._complete = machine.with_unknown()
        self._activations = self._complete.activations()

    def _fitted(self) -> Machine:
        return self._learned(self._machine)

    # -- predicting --------------------------------------------------------------------------------

    def _expect(self, users: Numbers, items: Numbers) -> Expected:
        self._fitted()
        visible, cases = sides(self.config, np.asarray(users), np.asarray(items))
        machine, scores = self._complete, self._scale.scores
        if self.config.prediction == "exact":
            chances = machine.exact(visible, cases, scores)
            return Expected(chances, np.einsum("nk,k->n", chances, scores))
        return machine.expect(visible, cases, scores, self._activations)

    def probabilities(self, users: Numbers, items: Numbers) -> Floats:
        """Probability of every level (pairs, levels), as the machine has it."""
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
        if self.config.items_are_cases:
            return self._scale.ratings(machine.mean_scores(users, everything, s, p))
        return self._scale.ratings(machine.mean_scores(everything, users, s, p).T)

    def deviations(self, users: Numbers, items: Numbers) -> Floats:
        """Standard deviation of the ratings' distribution (pairs,)."""
        return FoldedUnit(self.probabilities(users, items), self._scale).deviations(
            np.arange(len(users))
        )

    def fold_in(
        self, items: Numbers, values: npt.ArrayLike, identities: Numbers | None = None
    ) -> FoldedUnit:
        """See `RatingModel.fold_in`."""
        self._fitted()
        config, machine, scale = self.config, self._complete, self._scale
        items = np.asarray(items, np.int64)
        levels = scale.level_of(check_rated(items, values, len(self.catalogue.items)))
        if config.items_are_cases:
            penalty = penalty_of(config.reg, len(self.catalogue.items))
            return as_visible(machine, scale, items, levels, penalty)
        known = np.union1d(items, np.asarray(identities if identities is not None else [], int))
        slope = usual_slope(machine, scale, items, levels, config.damping) if config.offset else 0.0
        known = known if self.conditional else known[:0]
        return as_case(machine, scale, items, levels, known.astype(np.int64), slope)

    # -- artefact ----------------------------------------------------------------------------------

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The fitted state. Raises NotFittedError."""
        return {**self._fitted()._asdict(), **self.catalogue.arrays()}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """The model of an artefact, every array checked. Raises ArtifactError."""
        model = cls(BoltzmannConfig.from_dict(dict(config["settings"])))
        catalogue = Catalogue.from_arrays(config["catalogue"], arrays)
        sizes = len(catalogue.users), len(catalogue.items)
        visible, cases = sizes if model.config.items_are_cases else sizes[::-1]
        machine = Machine.from_arrays(
            arrays,
            tied=model.config.ordinal,
            dims={
                "visible": visible,
                "cases": cases,
                "hidden": model.config.n_hidden,
                "levels": len(catalogue.levels),
                "sides": visible if cls.conditional else 0,
            },
        )
        model._catalogue = catalogue
        model._adopt(machine, Scale.of(catalogue, cls.__name__))
        return model


class ConditionalRBMModel(RBMModel):
    """A machine whose hidden biases depend on the identities of what a case has ratings with (eq 5.12)."""

    name: ClassVar[str] = "conditional_rbm"
    conditional: ClassVar[bool] = True
