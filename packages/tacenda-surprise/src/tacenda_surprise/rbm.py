"""Restricted Boltzmann machines for ratings as algorithms: fitted, applied, saved.

Users whom a machine was not fitted to: where users are cases, their hidden units are inferred and nothing is learned.
Where they are visible units, the biases and weights of one unit are solved for (`tacenda_surprise.boltzmann`).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Array, Float32, ascending, take
from tacenda.errors import ArtifactError
from tacenda.fitting import FitRun, History
from tacenda.kernels.ratings import Expected
from tacenda.ratings import Ratings, split
from tacenda.settings import configured_by
from tacenda_surprise.algorithm import RatingAlgorithm
from tacenda_surprise.boltzmann import (
    ConditionalRBMSettings,
    Machine,
    RBMSettings,
    Scale,
    Task,
    penalty_of,
    raise_means,
    sides,
    softmax,
    solve_visible,
    squash,
    train,
)
from tacenda_surprise.catalogue import Catalogue, Identities
from tacenda_surprise.users import check_rated

Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.integer[Any]]

_DAMPING = 5.0  # of a user folded in, where the settings leave it to the ratings


class RBM(RatingAlgorithm):
    """A restricted Boltzmann machine with softmax visible units (Mnih 2010, section 5.2).

    It predicts a distribution over the ratings of the scale (``predict_proba``), and errs elsewhere than the
    factorizations do, which makes it worth blending with them.
    """

    name = "rbm"
    settings: RBMSettings
    settings_class = RBMSettings
    _machine: Machine | None = None
    _penalty = 0.0

    @configured_by(RBMSettings)
    def __init__(self, settings: RBMSettings) -> None:
        super().__init__(settings)

    @classmethod
    def thesis(cls, **options: Any) -> Self:
        """Make the machine of the thesis, trained as in section 5.4.2; ``options`` replace single ones.

        Users are cases, levels have weights of their own, and there is no offset. Parameters change after
        every user, by plain steps with rates 0.001 of weights and 0.0001 of biases, less 0.01 and 0.001 times
        themselves. Of 250 passes the parameters of the one that predicts a twentieth of the ratings best are kept;
        there is no second fit. The thesis does not say where the parameters start: weights are small
        random numbers, and visible biases the logarithms of how often each level is given, as in Salakhutdinov,
        Mnih and Hinton (2007).
        """
        values: dict[str, Any] = {
            "orientation": "user",
            "ordinal": False,
            "offset": False,
            "lr_all": 0.001,
            "reg_all": 0.01,
            "n_epochs": 250,
            "validation": 0.05,
            "optimizer": "sgd",
            "lr_decay": 1.0,
            **({"reg_side": 0.01} if cls.conditional else {}),
            **options,
        }
        if values["validation"]:
            values = {"patience": max(values["n_epochs"], 1), "refit": False, **values}
        return cls.from_settings(values)

    # -- fitting -----------------------------------------------------------------------------------

    def _fit(self, run: FitRun, ratings: Ratings, identities: Identities | None) -> None:
        settings, catalogue = self.settings, Catalogue.of(ratings)
        scale = Scale.of(catalogue, ratings, settings.bins)
        epochs, whole = settings.n_epochs, True
        task = Task(settings, self._seed, scale, ratings, self._known(ratings, identities))
        if settings.validation and len(ratings) > 1:
            part, held_out = split(ratings, settings.validation, seed=self._seed)
            first = task._replace(
                ratings=part, known=self._known(part, identities), held_out=held_out
            )
            machine, history = train(first, run.stage("first"), epochs, self._identity(run))
            whole = settings.refit
            epochs = history.best.epoch if history.best else epochs
            run = run.after_first()
        if whole:
            machine, history = train(task, run, epochs, self._identity(run))
        self._finish(machine, history, scale, catalogue, ratings)

    def _go_on(
        self, run: FitRun, ratings: Ratings, identities: Identities | None, epochs: int | None
    ) -> None:
        """Repeat the last epochs of the schedule of the learning rate, with all ratings there are by now.

        Slopes and hidden units are found anew; the scale, and the rating that scores zero, stay. New visible
        units (users, where items are cases) are first solved for as `fold` does; Adam's averages, and
        chains, begin afresh. The default is a quarter of the epochs of the settings.
        """
        start, planned = self._learned(self._machine), self.settings.n_epochs
        catalogue, known = self.catalogue.extended(ratings), self._known(ratings, identities)
        n = max(planned // 4, 1) if epochs is None else epochs
        task = Task(
            self.settings, self._seed, self._scale, ratings, known, None, start, max(planned - n, 0)
        )
        machine, history = train(task, run, n, self._identity(run))
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
        self._take(machine, scale)
        self.figures = [history.figure("RMSE of the ratings held out")]

    def _take(self, machine: Machine, scale: Scale) -> None:
        self._machine, self._scale = machine, scale
        self._complete = machine.with_unknown()
        self._activations = self._complete.activations()

    # -- predicting --------------------------------------------------------------------------------

    def _expect(self, users: Numbers, items: Numbers) -> Expected:
        self._learned(self._machine)
        visible, cases = sides(self.settings, np.asarray(users), np.asarray(items))
        machine, scores = self._complete, self._scale.scores
        if self.settings.prediction == "exact":
            chances = machine.exact(visible, cases, scores)
            return Expected(chances, np.einsum("nk,k->n", chances, scores))
        return machine.expect(visible, cases, scores, self._activations)

    def probabilities(self, users: Numbers, items: Numbers) -> Floats:
        """Probability of every level (pairs, levels), as the machine has it.

        Raises ConfigurationError for a continuous scale, which is in bins for the machine alone.
        """
        self.catalogue.require_levels(f"{type(self).__name__}.predict_proba")
        return self._expect(users, items).chances

    def score_pairs(self, users: Numbers, items: Numbers) -> Floats:
        """The mean of the ratings' distribution, see `RatingAlgorithm.score_pairs`."""
        found = self._expect(users, items).means
        return self._scale.ratings(found)

    def score_users(self, users: Numbers) -> Floats:
        """See `RatingAlgorithm.score_users`; always by mean field."""
        self._learned(self._machine)
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

    def fold(
        self, items: Numbers, values: npt.ArrayLike, identities: Numbers | None = None
    ) -> FoldedUnit:
        """See `RatingAlgorithm.fold`; identities tell something of a user only where users are cases."""
        self._learned(self._machine)
        settings, machine, scale = self.settings, self._complete, self._scale
        items = np.asarray(items, np.int64)
        levels = scale.level_of(check_rated(items, values, len(self.catalogue.items)))
        known = self._known_items(items, identities)
        if settings.items_are_cases:
            penalty = penalty_of(self._penalty, len(self.catalogue.items))
            return as_visible(machine, scale, items, levels, penalty)
        damping = settings.damping
        damping = _DAMPING if damping is None else damping
        slope = usual_slope(machine, scale, items, levels, damping) if settings.offset else 0.0
        known = known if self.conditional else known[:0]
        return as_case(machine, scale, items, levels, known, slope)

    @property
    def folds_identities(self) -> bool:
        """Whether `fold` conditions on identities: where users are cases."""
        return self.conditional and not self.settings.items_are_cases

    # -- to disk and back --------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Add the penalty."""
        return {**super().config_dict(), "penalty": self._penalty}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Add the machine, and the levels that it knows. Raises NotFittedError."""
        machine = self._learned(self._machine).to_arrays()
        return {**super().arrays(), **machine, "machine_levels": self._scale.levels}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Rebuild the model, checking every array. Raises ArtifactError."""
        model = super().from_arrays(config, arrays)
        catalogue, settings = model.catalogue, model.settings
        sizes = len(catalogue.users), len(catalogue.items)
        visible, cases = sizes if settings.items_are_cases else sizes[::-1]
        levels = take(arrays, "machine_levels", Float32[Array, "levels", ascending], {})
        if not len(levels):
            raise ArtifactError("the array 'machine_levels' is empty: the file is damaged")
        n = settings.n_hidden
        machine = Machine.from_arrays(
            arrays,
            visible=visible,
            cases=cases,
            hidden=n,
            levels=len(levels),
            sides=visible if cls.conditional else 0,
            weights=(n,) if settings.ordinal else (len(levels), n),
        )
        model._penalty = float(config["penalty"])
        if not 0 <= model._penalty < np.inf:
            raise ArtifactError(f"its penalty is {model._penalty}: the file is damaged")
        model._take(machine, Scale.about(levels, catalogue))
        return model


class ConditionalRBM(RBM):
    """A machine that is also told what has been rated (Mnih 2010, eq 5.12): better than `RBM`.

    With items as cases (the default) it is told who has rated an item. To predict for users of whom only the
    identities of rated items are known, give ``orientation="user"``.
    """

    name = "conditional_rbm"
    conditional = True
    settings_class = ConditionalRBMSettings

    @configured_by(ConditionalRBMSettings)
    def __init__(self, settings: ConditionalRBMSettings) -> None:
        RatingAlgorithm.__init__(self, settings)


class FoldedUnit(NamedTuple):
    """Probabilities of the levels of every item, and of an unknown one in the last row."""

    chances: Floats  # (items + 1, levels)
    scale: Scale

    def score(self, items: Numbers | None = None) -> Floats:
        """Expected ratings (items,); of all items if None; -1 is an unknown item."""
        chosen = self.chances[:-1] if items is None else self.chances[items]
        return self.scale.ratings(_expect(chosen, self.scale.scores))

    def deviations(self, items: Numbers) -> Floats:
        """Standard deviations of the ratings (items,)."""
        chosen, s = self.chances[items], self.scale.scores
        variance = np.maximum(_expect(chosen, s**2) - _expect(chosen, s) ** 2, 1e-6)
        return np.asarray(np.sqrt(variance) * np.float32(self.scale.unit), np.float32)

    def probabilities(self, items: Numbers) -> Floats:
        """Probabilities of the levels (items, levels)."""
        return np.asarray(self.chances[items])


def _expect(chances: Floats, of: Floats) -> Floats:
    """Weighted sum of each row; unlike that of BLAS it does not depend on how many rows there are."""
    return np.asarray(np.einsum("nk,k->n", chances, of))


def usual_slope(
    machine: Machine,
    scale: Scale,
    visible: Numbers,
    levels: npt.NDArray[np.int32],
    damping: float,
) -> float:
    """The slope o of a new case with these ratings: as in `Cases`, but from the visible biases alone."""
    if not len(visible):
        return 0.0
    logits, s = machine.visible_biases[visible].astype(np.float64), scale.scores.astype(np.float64)
    excess = scale.scores[levels] - softmax(logits) @ scale.scores
    by = np.array([excess.sum() / (len(visible) + damping)])
    n = len(visible)
    return float(raise_means(logits, s, np.array([0, n]), np.arange(n), by)[0])


def as_case(
    machine: Machine,
    scale: Scale,
    visible: Numbers,
    levels: npt.NDArray[np.int32],
    identities: Numbers,
    slope: float,
) -> FoldedUnit:
    """Infer a case with these ratings; the machine has its rows for the unknown."""
    s, W = scale.scores, machine.weights
    x = machine.hidden_biases + machine.side_weights[identities].sum(axis=0)
    rows = W[visible] * s[levels][:, None] if W.ndim == 2 else W[visible, levels]
    p = squash(x + rows.sum(axis=0))
    logits = machine.visible_biases + s * np.float32(slope)
    logits += (W @ p)[:, None] * s if W.ndim == 2 else W @ p
    return FoldedUnit(softmax(logits), scale)


def as_visible(
    machine: Machine,
    scale: Scale,
    cases: Numbers,
    levels: npt.NDArray[np.int32],
    penalty: float,
) -> FoldedUnit:
    """Learn a visible unit with these ratings of ``cases``; the machine has its rows for the unknown."""
    p, s = machine.activations(), scale.scores
    b, w = solve_visible(machine, scale, p, cases, levels, penalty)
    from_hidden = (p @ w)[:, None] * s if w.ndim == 1 else p @ w.T
    return FoldedUnit(softmax(b + s * machine.slopes[:, None] + from_hidden), scale)
