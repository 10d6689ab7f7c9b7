"""Restricted Boltzmann machines (RBMs) for ratings as algorithms: fitted, applied, saved.

A new user is folded in without training. If users are cases, their hidden units are inferred; if they are visible
units, the biases and weights of one unit are solved for (`tacenda_surprise.machine`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax

from tacenda.fitting import FitRun, History
from tacenda.forks import cached_property
from tacenda.kernels.boltzmann import Expected
from tacenda.ratings import Ratings, split
from tacenda.settings import configured_by
from tacenda_surprise.algorithm import RatingAlgorithm
from tacenda_surprise.boltzmann import Task, sides, train
from tacenda_surprise.catalogue import Catalogue, Floats, Numbers
from tacenda_surprise.identities import Identities, places_of_users
from tacenda_surprise.levels import Scale, raise_means
from tacenda_surprise.machine import (
    ConditionalRBMSettings,
    FittedRBM,
    RBMSettings,
    compute_odds,
    penalty_of,
    solve_units,
    solve_visible,
)
from tacenda_surprise.rows import Touched

# Ratings at the expected value that a new case begins with, in models that do not say.
_FORMER_DAMPING = 5.0


class RBM(RatingAlgorithm):
    """A restricted Boltzmann machine with softmax visible units (Mnih 2010, section 5.2).

    It predicts a distribution over the rating values (``predict_proba``). Its errors differ from the errors of
    factorizations, so blending the two is worthwhile.
    """

    name = "rbm"
    settings: RBMSettings
    learned_class = FittedRBM
    learned: FittedRBM | None

    __init__ = configured_by(RBMSettings)(RatingAlgorithm.__init__)

    @classmethod
    def thesis(cls, **options: Any) -> Self:
        """Make the RBM of the thesis, trained as in section 5.4.2; ``options`` override individual settings.

        Users are cases, levels have weights of their own, and there is no offset. Parameters change after every
        user, by plain steps with learning rates of 0.001 (weights) and 0.0001 (biases) and weight decay of 0.01
        (weights) and 0.001 (biases). Trains 250 epochs and keeps the parameters with the lowest error on a held-out 5%
        of the ratings; there is no second fit. The thesis does not say where the parameters start: weights are small
        random numbers, and visible biases the logarithms of how often each level is given, as in Salakhutdinov,
        Mnih and Hinton (2007).
        """
        values: dict[str, Any] = {"orientation": "user", "ordinal": False, "offset": False}
        values |= {"optimizer": "sgd", "lr_all": 0.001, "lr_decay": 1.0, "reg_all": 0.01}
        values |= {"reg_side": 0.01} if cls.conditional else {}
        values |= {"n_epochs": 250, "validation": 0.05, **options}
        model = cls.from_settings(values)
        if not model.settings.validation:
            return model
        patience = max(model.settings.n_epochs, 1)
        return cls.from_settings({"patience": patience, "refit": False, **values})

    # -- fitting -----------------------------------------------------------------------------------

    def _fit(self, run: FitRun, ratings: Ratings, identities: Identities | None) -> None:
        settings = self.settings
        self._catalogue = catalogue = Catalogue.of(ratings)
        scale = Scale.of(catalogue, ratings)
        epochs, validated = settings.n_epochs, None
        task = Task(
            settings, self._seed, scale, ratings, self._join_identities(ratings, identities)
        )
        if settings.validation and len(ratings) > 1:
            part, held_out = split(ratings, settings.validation, seed=self._seed)
            task_of_part = task._replace(
                ratings=part, known=self._join_identities(part, identities), held_out=held_out
            )
            machine, validated = train(
                task_of_part, run.stage("validation"), epochs, self._identity
            )
            history = validated
            epochs = validated.best.epoch if validated.best else epochs
            run = run.stage(first=False)
        if validated is None or settings.refit:
            machine, history = train(task, run, epochs, self._identity)
        self._finish(machine, history, ratings, validated)

    def _resume_fit(
        self, run: FitRun, ratings: Ratings, known: Identities | None, epochs: int | None
    ) -> None:
        """Repeat the last epochs of the learning rate schedule, with all ratings.

        Slopes and hidden units are computed again; the scale, and the rating whose score is zero, stay. New visible
        units (users, if items are cases) are first solved for as `fold` does; Adam's averages start again. The default
        is a quarter of the epochs of the settings.
        """
        start, planned = self._learned(self.learned), self.settings.n_epochs
        self._catalogue = catalogue = self.catalogue.extend(ratings)
        n = max(planned // 4, 1) if epochs is None else epochs
        scale, passed = Scale.about(start.rating_values, catalogue), max(planned - n, 0)
        task = Task(self.settings, self._seed, scale, ratings, known, start=start, passed=passed)
        machine, history = train(task, run, n, self._identity)
        self._finish(machine, history, ratings)

    def _update_rows(
        self, run: FitRun, ratings: Ratings, known: Identities | None, touched: Touched
    ) -> None:
        """Infer the hidden units of the cases of new ratings, and solve for their visible units; all others stay."""
        old, settings = self._learned(self.learned), self.settings
        catalogue = self.catalogue.extend(ratings)
        scale = Scale.about(old.rating_values, catalogue)
        visible, cases = sides(settings, np.unique(touched.users), np.unique(touched.items))
        by_visible, by_case = sides(settings, ratings, ratings.by_item)
        if known is not None and settings.items_are_cases:
            known = known.by_item(ratings.n_items)
        machine, rated = old.grow(by_visible.n_users, by_case.n_users), Identities.of(by_case)

        def infer(chosen: Numbers) -> None:
            """Compute the inputs of the hidden units of some cases from their ratings."""
            levels = scale.level_of(by_case.values[places_of_users(rated.offsets, chosen)])
            told = None if known is None else known.take(chosen)
            machine.inputs[chosen] = machine.hidden_inputs(rated.take(chosen), levels, scale, told)

        if settings.offset:
            for case in cases.tolist():
                ids, values = by_case.of_user(case)
                machine.slopes[case] = estimate_case_slope(
                    machine, scale, ids, scale.level_of(values), _damping(old)
                )
        infer(cases)
        solve_units(machine, scale, by_visible, visible.tolist(), float(old.penalty))
        places = places_of_users(by_visible.user_offsets, visible)
        infer(np.unique(by_visible.item_ids[places]))
        self._catalogue, self.learned = catalogue, machine

    def _finish(
        self, rbm: FittedRBM, history: History, ratings: Ratings, validated: History | None = None
    ) -> None:
        """Set what the fit learned; ``validated`` is the history of a fit that held ratings out."""
        # A first fit that is not repeated has the penalty of fewer ratings than there are.
        penalty = np.float64(self.settings.penalty_for(ratings))
        self.learned, self.history = replace(rbm, penalty=penalty), history
        self._report(validated)

    # -- predicting --------------------------------------------------------------------------------

    @cached_property
    def _machine(self) -> tuple[FittedRBM, Scale]:
        """The RBM with rows for unknown users and items, and the scores of its levels."""
        learned = self._learned(self.learned)
        completed = learned.complete(*sides(self.settings, *self._have_ratings))
        return completed, Scale.about(learned.rating_values, self.catalogue)

    def _expect(self, users: Numbers, items: Numbers) -> tuple[Expected, Scale]:
        """Compute the distributions of ratings (pairs,), in scores."""
        machine, scale = self._machine
        pairs = sides(self.settings, np.asarray(users), np.asarray(items))
        return machine.expect(*pairs, scale.scores), scale

    def probabilities(self, users: Numbers, items: Numbers) -> Floats:
        """Return the probability of every level (pairs, levels), as the RBM predicts it.

        Raises ConfigurationError on a continuous scale: the bins of the RBM are no ratings.
        """
        self.catalogue.require_levels(f"{type(self).__name__}.predict_proba")
        return self._expect(users, items)[0].chances

    def score_pairs(self, users: Numbers, items: Numbers) -> Floats:
        found, scale = self._expect(users, items)
        return scale.ratings(found.means)

    def score_users(self, users: Numbers) -> Floats:
        (machine, scale), users = self._machine, np.asarray(users)
        everything = slice(0, len(self.catalogue.items))
        if self.settings.items_are_cases:
            return scale.ratings(machine.mean_scores(users, everything, scale.scores))
        return scale.ratings(machine.mean_scores(everything, users, scale.scores).T)

    def deviations(self, users: Numbers, items: Numbers) -> Floats:
        found, scale = self._expect(users, items)
        return _find_deviations(found.chances, scale)

    def _fold(self, items: Numbers, values: Floats, known: Numbers) -> FoldedUnit:
        """See `RatingAlgorithm.fold`; identities make a difference only if users are cases."""
        levels = self._machine[1].level_of(values)
        if self.settings.items_are_cases:
            return self._fold_visible(items, levels)
        return self._fold_case(items, levels, known if self.conditional else known[:0])

    def _fold_visible(self, items: Numbers, levels: npt.NDArray[np.int32]) -> FoldedUnit:
        """Solve for the biases b and weights w of a new visible unit, and predict it in every case."""
        machine, scale = self._machine
        b, w, p = machine.visible_biases[-1], machine.weights[-1], machine.activations
        if len(items):
            penalty = penalty_of(float(machine.penalty), len(self.catalogue.items))
            b, w = solve_visible(machine, scale, p, items, levels, penalty)
        odds = compute_odds(w[None], b[None], p, machine.slopes, scale.scores)
        return FoldedUnit.of(odds[:, 0], scale)

    def _fold_case(
        self, items: Numbers, levels: npt.NDArray[np.int32], known: Numbers
    ) -> FoldedUnit:
        """Infer the hidden units of a new case from their inputs x, and predict every visible unit in it."""
        machine, scale = self._machine
        s, W, slope, x = scale.scores, machine.weights, machine.slopes[-1], machine.inputs[-1]
        if len(items) and self.settings.offset:
            slope = estimate_case_slope(machine, scale, items, levels, _damping(machine))
        if len(items) or len(known):
            rows = W[items] * s[levels][:, None] if W.ndim == 2 else W[items, levels]
            x = machine.hidden_biases + machine.side_weights[known].sum(axis=0) + rows.sum(axis=0)
        slopes = np.array([slope], np.float32)
        odds = compute_odds(W, machine.visible_biases, expit(x)[None], slopes, s)
        return FoldedUnit.of(odds[:, :, 0], scale)

    @property
    def folds_identities(self) -> bool:
        """Whether `fold` conditions on identities: it does if users are cases."""
        return self.conditional and not self.settings.items_are_cases

    def _sizes(self) -> dict[str, Any]:
        sizes = super()._sizes()
        visible, cases = sides(self.settings, sizes["users"], sizes["items"])
        n_sides = visible if self.conditional else 0
        hidden = self.settings.n_hidden
        return {"visible": visible, "cases": cases, "hidden": hidden, "sides": n_sides}


class ConditionalRBM(RBM):
    """An RBM that also learns from who has rated what (Mnih 2010, eq 5.12): better than `RBM`.

    With items as cases (the default), it learns from who has rated each item. To predict for users for whom only the
    identities of rated items are known, set ``orientation="user"``.
    """

    name = "conditional_rbm"
    conditional = True

    __init__ = configured_by(ConditionalRBMSettings)(RatingAlgorithm.__init__)


class FoldedUnit(NamedTuple):
    """Probabilities of the levels of every item, and of an unknown one in the last row."""

    chances: Floats  # (items + 1, levels)
    scale: Scale

    @classmethod
    def of(cls, odds: Floats, scale: Scale) -> FoldedUnit:
        """Divide the ``odds`` (levels, items + 1), see `compute_odds`, by their sums."""
        return cls(np.ascontiguousarray((odds / odds.sum(axis=0)).T), scale)

    def score(self, items: Numbers | None = None) -> Floats:
        chosen = self.chances[:-1] if items is None else self.chances[items]
        return self.scale.ratings(_average(chosen, self.scale.scores))

    def deviations(self, items: Numbers) -> Floats:
        return _find_deviations(self.chances[items], self.scale)

    def probabilities(self, items: Numbers) -> Floats:
        """Probabilities of the levels (items, levels)."""
        return np.asarray(self.chances[items])


def _find_deviations(chances: Floats, scale: Scale) -> Floats:
    """Compute the standard deviations (n,), in units of the ratings, of distributions (n, levels)."""
    s = scale.scores
    variance = np.maximum(_average(chances, s**2) - _average(chances, s) ** 2, 1e-6)
    return np.asarray(np.sqrt(variance) * np.float32(scale.unit), np.float32)


def _average(chances: Floats, of: Floats) -> Floats:
    """Sum each row with weights; unlike in BLAS, a sum does not depend on how many rows there are."""
    return np.asarray(np.einsum("nk,k->n", chances, of))


def _damping(machine: FittedRBM) -> float:
    """Return how many ratings at the expected value a new case begins with."""
    return _FORMER_DAMPING if machine.usual is None else float(machine.usual.of_cases)


def estimate_case_slope(
    machine: FittedRBM, scale: Scale, visible: Numbers, levels: Numbers, damping: float
) -> float:
    """Estimate the slope o of a new case from the levels (n,) of visible units (n,).

    As in `CaseData`, but from the visible biases alone. ``damping`` ratings at the expected value count, too.
    """
    logits, s = machine.visible_biases[visible].astype(np.float64), scale.scores.astype(np.float64)
    excess = scale.scores[levels] - softmax(logits, axis=1) @ scale.scores
    by = np.array([excess.sum() / (len(visible) + damping)])
    n = len(visible)
    return float(raise_means(logits, s, np.array([0, n]), np.arange(n), by)[0])
