"""Restricted Boltzmann machines for ratings as a model: fitted, applied, saved."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacit.errors import ConfigurationError, NotFittedError
from tacit.fitting import Callback, History
from tacit.kernels.rating_boltzmann import Expected
from tacit.ratings import Ratings, split
from tacit_surprise.models.base import Floats, Numbers, RatingModel, check_rated
from tacit_surprise.models.boltzmann.cases import Cases, Scale
from tacit_surprise.models.boltzmann.config import BoltzmannConfig
from tacit_surprise.models.boltzmann.folding import (
    FoldedUnit,
    as_case,
    as_visible,
    penalty_of,
    usual_slope,
)
from tacit_surprise.models.boltzmann.machine import Machine
from tacit_surprise.models.boltzmann.training import train
from tacit_surprise.models.catalogue import Catalogue
from tacit_surprise.models.identities import Identities


class RBMModel(RatingModel):
    """A restricted Boltzmann machine with one softmax visible unit for every rating of a case.

    Args:
        config: settings; keyword arguments replace single ones.
        settings: any field of `BoltzmannConfig`.
    """

    name: ClassVar[str] = "rbm"
    conditional: ClassVar[bool] = False

    def __init__(self, config: BoltzmannConfig | None = None, **settings: Any) -> None:
        values = (config or BoltzmannConfig()).to_dict()
        self.config = BoltzmannConfig.from_dict(values | settings)
        self.figures: list[dict[str, Any]] = []
        self.fitted_on: dict[str, Any] = {}
        self.history = History()
        self._machine: Machine | None = None

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
        config, catalogue = self.config, Catalogue.of(ratings)
        scale = Scale.of(catalogue, type(self).__name__)
        n_epochs, folder = config.n_epochs, None if checkpoints is None else Path(checkpoints)

        def train_on(part: Ratings, epochs: int, held_out: Ratings | None) -> Machine:
            where = folder / "first" if folder and held_out else folder
            return self._train(
                part,
                scale,
                identities,
                epochs=epochs,
                held_out=held_out,
                callbacks=callbacks,
                checkpoints=where,
                description=progress or self.name,
            )

        machine: Machine | None = None
        if config.validation and len(ratings) > 1:
            part, held_out = split(ratings, config.validation, seed=config.seed)
            machine = train_on(part, n_epochs, held_out)
            n_epochs = self.history.best.epoch if self.history.best else n_epochs
        if machine is None or config.refit:
            machine = train_on(ratings, n_epochs, None)
        return self._finish(machine, scale, catalogue, ratings)

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

        Args:
            ratings: old ratings that are still valid, and new ones.
            identities: as in ``fit``.
            n_epochs: passes over the cases; None: a quarter of those of the settings.
            callbacks: called by the fitting loop.
            progress: what the progress bar says; "" for the model's name.

        Raises:
            NotFittedError: there is nothing to go on from.
            DataError: users, items or the rating scale do not go on from those fitted.
            ConfigurationError: ``n_epochs`` is negative.
        """
        start, planned = self._fitted(), self.config.n_epochs
        catalogue = self.catalogue.extended(ratings)
        epochs = max(planned // 4, 1) if n_epochs is None else n_epochs
        if epochs < 0:
            raise ConfigurationError(f"n_epochs must be at least 0, not {epochs}")
        machine = self._train(
            ratings,
            self._scale,
            identities,
            epochs=epochs,
            passed=max(planned - epochs, 0),
            start=start,
            callbacks=callbacks,
            description=progress or self.name,
        )
        return self._finish(machine, self._scale, catalogue, ratings)

    def _train(
        self,
        ratings: Ratings,
        scale: Scale,
        identities: Identities | None,
        *,
        held_out: Ratings | None = None,
        **of_the_loop: Any,
    ) -> Machine:
        cases = self._cases(ratings, scale, identities)
        machine, self.history = train(
            self.config,
            cases,
            scale,
            conditional=self.conditional,
            criterion=None if held_out is None else self._criterion(scale, held_out),
            held_out="" if held_out is None else held_out.fingerprint,
            **of_the_loop,
        )
        return machine

    def _finish(
        self, machine: Machine, scale: Scale, catalogue: Catalogue, ratings: Ratings
    ) -> Self:
        self._catalogue = catalogue
        self._adopt(machine, scale)
        n_users, n_items = ratings.n_users, ratings.n_items
        self.fitted_on = {"n_ratings": len(ratings), "n_users": n_users, "n_items": n_items}
        self.figures = [self.history.figure("RMSE of the ratings held out")]
        return self

    @property
    def _items_are_cases(self) -> bool:
        return self.config.orientation == "item"

    def _cases(self, ratings: Ratings, scale: Scale, more: Identities | None) -> Cases:
        return Cases.of(
            self._by_case(ratings),
            scale,
            self.config.damping,
            offset=self.config.offset,
            identities=self._known(ratings, more),
        )

    def _by_case(self, ratings: Ratings) -> Ratings:
        return ratings.by_item if self._items_are_cases else ratings

    def _known(self, ratings: Ratings, more: Identities | None) -> Identities | None:
        if not self.conditional:
            return None
        known = Identities.of(ratings)
        known = known if more is None else known.union(more, ratings.n_items)
        if not self._items_are_cases:
            return known
        users = known.user_ids
        return Identities.from_pairs(known.item_ids, users, ratings.n_items, ratings.n_users)

    def _criterion(self, scale: Scale, held_out: Ratings) -> Callable[[Machine], float]:
        pairs = self._sides(held_out.user_ids, held_out.item_ids)
        return lambda machine: machine.rmse(*pairs, scale, held_out.values)

    def _adopt(self, machine: Machine, scale: Scale) -> None:
        self._machine, self._scale = machine, scale
        self._complete = machine.with_unknown()
        self._activations = self._complete.activations()

    def _fitted(self) -> Machine:
        if self._machine is None:
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted: call fit(ratings), or load one with tacit.load"
            )
        return self._machine

    # -- predicting --------------------------------------------------------------------------------

    def _sides(self, users: Numbers, items: Numbers) -> tuple[Numbers, Numbers]:
        """(visible units, cases)."""
        users, items = np.asarray(users), np.asarray(items)
        return (users, items) if self._items_are_cases else (items, users)

    def _expect(self, users: Numbers, items: Numbers) -> Expected:
        self._fitted()
        visible, cases = self._sides(users, items)
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
        if self._items_are_cases:
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
        if self._items_are_cases:
            penalty = penalty_of(config.reg, len(self.catalogue.items))
            return as_visible(machine, scale, items, levels, penalty)
        known = np.union1d(items, np.asarray(identities if identities is not None else [], int))
        slope = usual_slope(machine, scale, items, levels, config.damping) if config.offset else 0.0
        known = known if self.conditional else known[:0]
        return as_case(machine, scale, items, levels, known.astype(np.int64), slope)

    # -- artefact ----------------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Settings and scale, as JSON values."""
        return {"settings": self.config.to_dict(), "catalogue": self.catalogue.config()}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The fitted state. Raises NotFittedError."""
        return {**self._fitted()._asdict(), **self.catalogue.arrays()}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """The model of an artefact, every array checked. Raises ArtifactError."""
        model = cls(BoltzmannConfig.from_dict(dict(config["settings"])))
        catalogue = Catalogue.from_arrays(config["catalogue"], arrays)
        sizes = len(catalogue.users), len(catalogue.items)
        visible, cases = sizes if model._items_are_cases else sizes[::-1]
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
