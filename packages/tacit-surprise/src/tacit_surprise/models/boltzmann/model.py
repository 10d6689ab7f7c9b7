"""Restricted Boltzmann machines for ratings as a model: fitted, applied, saved."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacit.artifact import require
from tacit.errors import NotFittedError
from tacit.fitting import ArrayBatches, Callback, FitSettings, History, StepDecay
from tacit.fitting import fit as run
from tacit.ratings import Ratings, split
from tacit_surprise.models.base import Floats, Numbers, RatingModel, check_rated
from tacit_surprise.models.boltzmann.cases import Cases, Scale
from tacit_surprise.models.boltzmann.config import BoltzmannConfig
from tacit_surprise.models.boltzmann.folding import FoldedUnit, as_case, as_visible
from tacit_surprise.models.boltzmann.machine import Machine, softmax
from tacit_surprise.models.boltzmann.training import ContrastiveDivergence
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

        def train(
            part: Ratings, epochs: int, held_out: Ratings | None, where: Path | None
        ) -> Machine:
            cases = self._cases(part, scale, identities)
            chain = ContrastiveDivergence(
                config,
                cases,
                scale,
                conditional=self.conditional,
                criterion=None if held_out is None else lambda m: self._rmse(m, scale, held_out),
            )
            filled = np.flatnonzero(np.diff(cases.ratings.user_offsets))
            self.history = run(
                chain,
                ArrayBatches(filled, batch_size=config.batch_cases, seed=config.seed),
                FitSettings(
                    epochs=epochs,
                    learning_rate=StepDecay(config.learning_rate, config.lr_decay, 1),
                    evaluate_every=1 if held_out else 0,
                    patience=config.patience if held_out else None,
                    restore_best=held_out is not None,
                ),
                configuration={"model": self.name, **config.to_dict()},
                callbacks=callbacks,
                checkpoints=where,
                description=progress or self.name,
            )
            return chain.machine()

        machine: Machine | None = None
        if config.validation and len(ratings) > 1:
            part, held_out = split(ratings, config.validation, seed=config.seed)
            machine = train(part, n_epochs, held_out, None if folder is None else folder / "first")
            n_epochs = self.history.best.epoch if self.history.best else n_epochs
        if machine is None or config.refit:
            machine = train(ratings, n_epochs, None, folder)
        self._catalogue = catalogue
        self._adopt(machine, scale)
        self.fitted_on = {
            "n_ratings": len(ratings),
            "n_users": ratings.n_users,
            "n_items": ratings.n_items,
        }
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

    def _rmse(self, machine: Machine, scale: Scale, held_out: Ratings) -> float:
        visible, cases = self._sides(held_out.user_ids, held_out.item_ids)
        chances = machine.probabilities(visible, cases, scale.scores, exact=False)
        errors = scale.ratings(chances @ scale.scores) - held_out.values
        return float(np.sqrt(np.mean(errors**2, dtype=np.float64)))

    def _adopt(self, machine: Machine, scale: Scale) -> None:
        self._machine, self._scale = machine, scale
        self._complete = machine.with_unknown()

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

    def probabilities(self, users: Numbers, items: Numbers) -> Floats:
        """Probability of every level (pairs, levels), as the machine has it."""
        self._fitted()
        visible, cases = self._sides(users, items)
        exact = self.config.prediction == "exact"
        return self._complete.probabilities(visible, cases, self._scale.scores, exact=exact)

    def score_pairs(self, users: Numbers, items: Numbers) -> Floats:
        """The mean of the ratings' distribution, see `RatingModel.score_pairs`."""
        chances = self.probabilities(users, items)
        return self._scale.ratings(np.einsum("nk,k->n", chances, self._scale.scores))

    def score_users(self, users: Numbers) -> Floats:
        """See `RatingModel.score_users`; always by mean field."""
        self._fitted()
        users, everything = np.asarray(users), slice(0, len(self.catalogue.items))
        s, machine = self._scale.scores, self._complete
        if self._items_are_cases:
            return self._scale.ratings(machine.mean_scores(users, everything, s))
        return self._scale.ratings(machine.mean_scores(everything, users, s).T)

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
            penalty = config.reg * len(self.catalogue.items)
            return as_visible(machine, scale, items, levels, max(penalty, 1e-3))
        known = np.union1d(items, np.asarray(identities if identities is not None else [], int))
        slope = 0.0
        if config.offset and len(items):
            usual = FoldedUnit(softmax(machine.visible_biases[items]), scale)
            excess = scale.scores[levels] - usual.chances @ scale.scores
            variance = np.mean(usual.deviations(np.arange(len(items))) ** 2) / scale.unit**2
            slope = float(excess.sum() / (len(items) + config.damping) / max(variance, 0.05))
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
        dims = {"visible": visible, "cases": cases, "hidden": model.config.n_hidden}
        dims |= {"levels": len(catalogue.levels), "sides": visible if cls.conditional else 0}
        tied = model.config.ordinal
        shapes: dict[str, tuple[str, ...]] = {
            "weights": ("visible", "hidden") if tied else ("visible", "levels", "hidden"),
            "visible_biases": ("visible", "levels"),
            "hidden_biases": ("hidden",),
            "side_weights": ("sides", "hidden"),
            "slopes": ("cases",),
            "base": ("levels",),
            "inputs": ("cases", "hidden"),
        }
        found = {
            name: require(arrays, name, shape=shape, dtype=np.float32, finite=True, dims=dims)
            for name, shape in shapes.items()
        }
        model._catalogue = catalogue
        model._adopt(Machine(**found), Scale.of(catalogue, cls.__name__))
        return model


class ConditionalRBMModel(RBMModel):
    """A machine whose hidden biases depend on the identities of what a case has ratings with (eq 5.12)."""

    name: ClassVar[str] = "conditional_rbm"
    conditional: ClassVar[bool] = True
