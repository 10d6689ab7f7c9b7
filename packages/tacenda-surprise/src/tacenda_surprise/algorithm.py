"""`RatingAlgorithm`: a rating model as a Surprise algorithm, with the methods of AlgoBase and more.

A subclass holds the mathematics, in which users and items are numbers, and -1 is an unknown one. Here they are raw ids.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import repeat
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from surprise import AlgoBase, Prediction, PredictionImpossible, Trainset

from tacenda import plugins
from tacenda.artifact import Artifact
from tacenda.artifact.precision import Precision
from tacenda.errors import ArtifactError, ConfigurationError, DataError, check_whole, warn
from tacenda.estimator import Estimator, resolve
from tacenda.fitting import Callback, FitRun, FitSettings, History, Sweeps, Trainer, fit
from tacenda.fitting.checkpoint import Resume
from tacenda.fitting.history import DivergenceError
from tacenda.forks import cached_property
from tacenda.kernels.ratings import Tables
from tacenda.ratings import Ratings
from tacenda.settings import Settings
from tacenda_surprise import storage
from tacenda_surprise.catalogue import Catalogue, Doubles, Floats, Numbers
from tacenda_surprise.choices import ImplicitFactors
from tacenda_surprise.frames import SideInfo
from tacenda_surprise.identities import Identities
from tacenda_surprise.levels import fit_level_probabilities
from tacenda_surprise.options import EpochPrinter, ReadOption, make_rng
from tacenda_surprise.raw_ids import (
    as_list,
    check_asked,
    check_ids,
    check_known,
    distinct,
    find_type_mismatch,
    find_unknown,
    numbers,
)
from tacenda_surprise.rows import TableScores, Touched, mean_row, score_pairs
from tacenda_surprise.top_n import By, Lists, TopLists, best_items, check_answer, find_hidden
from tacenda_surprise.trainsets import FitData, read_data
from tacenda_surprise.users import (
    Asked,
    FoldedUser,
    Given,
    NewUser,
    NewUsers,
    check_numbers,
    check_rated,
    ratings_by_item,
)
from tacenda_surprise.variance import PredictiveVariance

_PRIOR_ITEMS = 5.0  # identities of a new user that the average user counts as
_UNKNOWN = "UKN__"  # prefix with which AlgoBase marks a raw id that is not in the trainset
# Made once: one pair is predicted in microseconds. Both are without end, and so never used up.
_POSSIBLE, _PREDICTION = repeat({"was_impossible": False}), repeat(Prediction)


class RatingAlgorithm(Estimator, AlgoBase):  # type: ignore[misc]
    """A model of explicit ratings, as a Surprise algorithm; its options are read-only attributes.

    A subclass sets ``name`` and ``distribution`` as in its entry point, and ``learned_class``. It implements
    `_fit`, which sets ``_catalogue`` and ``learned``; `tables`, or else `score_pairs` and `score_users`; `deviations`,
    unless ``learned`` has a ``spread``; and `_fold`. An algorithm that can learn from further ratings also has
    `_resume_fit`. Users and items are numbers in all of these, and -1 is an unknown one.
    """

    kind = "recommenders"
    distribution = "tacenda-surprise"
    api_version: ClassVar[int] = 1
    #: Whether it conditions on the identities of rated items.
    conditional: ClassVar[bool] = False
    #: Whether it learns from ratings; otherwise from who has chosen what, and its estimates only rank.
    takes_ratings: ClassVar[bool] = True
    #: Whether ``fit`` can save its progress; an algorithm that is fitted in one go refuses ``checkpoints``.
    keeps_checkpoints: ClassVar[bool] = True
    indexes: ClassVar[Mapping[str, type[Any]]] = MappingProxyType({"catalogue": Catalogue})
    _fit_call = "fit(trainset)"

    history = History()  # of the last fit
    _seed = 0  # of the last fit
    _usual_items = 0.0  # how many identities of a new user the usual user counts as; models from before have none
    _catalogue: Catalogue | None = None
    #: Who is known to have rated what, by numbers; None before the fit, and in models that were saved without.
    seen: Identities | None = None
    _data: FitData | None = None  # None where it was saved without its ratings
    _instead: RatingAlgorithm | None = None  # what predicts after a fit that diverged
    _implicit: ImplicitFactors | None = None
    _users: dict[Hashable, int]  # the number of every raw id
    _items: dict[Hashable, int]
    _new_users: NewUsers  # who was folded in

    def __init_subclass__(cls, **more: Any) -> None:
        """Make every option an attribute too."""
        super().__init_subclass__(**more)
        if "settings_class" in vars(cls):
            for one in cls.settings_class.options():
                if not hasattr(cls, one.name):
                    setattr(cls, one.name, ReadOption(one))

    def __init__(self, settings: Settings | None = None) -> None:
        AlgoBase.__init__(self)
        Estimator.__init__(self, Settings() if settings is None else settings)
        self._users, self._items, self._new_users = {}, {}, NewUsers()

    def __copy__(self) -> Self:
        """Share everything but the users folded in, whom `fold_in` adds to one of the two."""
        found = object.__new__(type(self))
        found.__dict__ = {**vars(self), "_new_users": NewUsers(self._new_users)}
        return found

    # -- what it is --------------------------------------------------------------------------------

    @property
    def is_fitted(self) -> bool:
        return self._catalogue is not None or self._instead is not None

    def _require_converged(self) -> None:
        if self._instead is not None:
            raise ConfigurationError(
                f"the fit of this {type(self).__name__} diverged, and it predicts the mean of all ratings: fit it "
                "again with a lower learning rate"
            )

    def _require_fitted(self) -> RatingAlgorithm:
        """Return the model that predicts. Raises NotFittedError."""
        model = self._instead or self
        self._learned(model._catalogue)
        return model

    @property
    def catalogue(self) -> Catalogue:
        """Users, items and scale of the training ratings. Raises NotFittedError."""
        found = (self._instead or self)._catalogue
        return found or self._learned(found)

    @property
    def levels(self) -> Doubles:
        """The ratings (levels,) of `predict_proba`, ascending."""
        return self.catalogue.levels.astype(np.float64)

    @property
    def raw_items(self) -> list[Any]:
        """The raw ids of the items, in the order of their numbers."""
        return list(self._items)

    def _fit_data(self) -> FitData:
        self._require_fitted()
        if self._data is None:
            raise ConfigurationError(
                f"this {type(self).__name__} was saved without its ratings, as older versions did: fit it again"
            )
        return self._data

    @property
    def trainset(self) -> Trainset:
        """Surprise's trainset, built from the ratings if they were given in another form."""
        self._data = self._fit_data().with_trainset()
        return self._data.trainset

    @cached_property
    def _public_tables(self) -> tuple[Doubles | None, ...]:
        """Biases of users and items, and factors of users and items, as users of Surprise read them."""
        tables = self._require_fitted().tables if self.is_fitted else None
        if tables is None:
            return (None,) * 4
        n = len(self._users) if self._data is None else self._data.n_users
        x, q, b, c, _ = tables
        return tuple(part.astype(float) for part in (b[:n], c, x[:n], q))

    # the names of Surprise
    bu = property(lambda self: self._public_tables[0], doc="Biases of users (users,), or None.")
    bi = property(lambda self: self._public_tables[1], doc="Biases of items (items,), or None.")
    pu = property(lambda self: self._public_tables[2], doc="Factors (users, factors), or None.")
    qi = property(lambda self: self._public_tables[3], doc="Factors (items, factors), or None.")

    @property
    def rated(self) -> SideInfo | None:
        """Pairs known to be rated in addition to the trainset, for the next fit."""
        found: SideInfo | None = getattr(self.settings, "rated", None)
        return found

    @rated.setter
    def rated(self, rated: SideInfo | Iterable[Iterable[Any]] | None) -> None:
        if rated is not None:
            self._require_conditional()
        self.settings = replace(self.settings, rated=rated)

    def _require_conditional(self) -> None:
        if not self.conditional:
            raise ConfigurationError(
                f"{type(self).__name__} does not condition on what is rated; leave out rated=, or use a "
                "conditional algorithm"
            )

    # -- what a subclass computes ------------------------------------------------------------------

    def _fit(self, run: FitRun, ratings: Ratings, identities: Identities | None) -> None:
        """Fit the model, training with ``run``; identities are None but in conditional models."""
        raise NotImplementedError(f"{type(self).__name__} does not implement _fit")

    def _resume_fit(
        self, run: FitRun, ratings: Ratings, known: Identities | None, epochs: int | None
    ) -> None:
        """Continue training with all ratings, old and new; a model that can do so overrides this method.

        ``known`` are all pairs of users and items that are known, including the rated ones; None except in conditional
        models.
        """
        raise ConfigurationError(
            f"{type(self).__name__} cannot continue its fit: fit it again to all ratings"
        )

    def _update_rows(
        self, run: FitRun, ratings: Ratings, known: Identities | None, touched: Touched
    ) -> None:
        """Learn from the few of the ``ratings`` that are new; a model that need not visit all overrides this method.

        ``known`` is as in `_resume_fit`, and ``touched`` are the new ratings.
        """
        self._resume_fit(run, ratings, known, None)

    @property
    def tables(self) -> Tables | None:
        """Biases and factors whose sum and product are the scores; None for models without such."""
        return None

    @property
    def _table_scores(self) -> TableScores:
        return TableScores(self._require_tables(), self.average, self.catalogue.mean)

    @property
    def predicts_unknown(self) -> bool:
        """Whether pairs with an unknown user or item can be predicted."""
        return True

    def _require_tables(self) -> Tables:
        if (found := self.tables) is None:
            name = type(self).__name__
            raise NotImplementedError(f"{name} has neither tables nor scores of its own")
        return found

    @property
    def _have_ratings(self) -> tuple[Numbers, Numbers]:
        """Whether users (users,) and items (items,) are known to have any ratings, 1 or 0; ones if nothing is known."""
        n_users, n_items = (len(side) for side in (self.catalogue.users, self.catalogue.items))
        if self.seen is None:
            return np.ones(n_users, int), np.ones(n_items, int)
        sizes = np.zeros(n_users, np.int64)
        sizes[: self.seen.n_users] = self.seen.sizes > 0
        return sizes, np.minimum(np.bincount(self.seen.item_ids, minlength=n_items), 1)

    @cached_property
    def average(self) -> Tables:
        """Rows (1, width) that stand for an unknown user and an unknown item: the means of the rated rows of `tables`.

        Zeros would be wrong: the means of factors and biases are not zero, and the other side takes them into account.
        Means over ratings instead of rows would describe popular items, and unknown items are not popular.
        """
        (x, q, b, c, w), (n_users, n_items) = self._require_tables(), self._have_ratings
        sides = (x, n_users), (q, n_items), (b, n_users), (c, n_items)
        return Tables._make([*(mean_row(*side)[None] for side in sides), w[:0]])

    def score_pairs(self, users: Numbers, items: Numbers) -> Floats:
        """Expected ratings (pairs,) float32 of numbered users and items, not clipped; here from `tables`.

        An unknown user is predicted as the `average` one, and so is an unknown item. Raises NotFittedError.
        """
        tables, pairs = self._require_tables(), (np.asarray(users), np.asarray(items))
        return score_pairs(tables, self.average, self.catalogue.mean, *pairs)

    def score_users(self, users: Numbers) -> Floats:
        """Expected ratings of all items (users, items) float32, not clipped, for a block of numbered users."""
        return self._table_scores.of_users(users)

    def deviations(self, users: Numbers, items: Numbers) -> Floats:
        """Standard deviation of the rating of each pair (pairs,), including noise."""
        found = None if self.learned_class is None else self._learned(self.learned)
        spread: PredictiveVariance | None = getattr(found, "spread", None)
        if spread is None:
            raise NotImplementedError(f"{type(self).__name__} does not implement deviations")
        scores = self.score_pairs(users, items)
        return spread.deviations(users, items, scores, self.catalogue.scale)

    def probabilities(self, users: Numbers, items: Numbers) -> Floats:
        """Probability of every level of ``catalogue.levels`` (pairs, levels).

        With the score as its mean and the deviation, see `tacenda_surprise.variance`; models with their own
        distribution override it. Raises ConfigurationError for a continuous scale.
        """
        levels = self.catalogue.require_levels(f"{type(self).__name__}.predict_proba")
        scores = np.clip(self.score_pairs(users, items), *self.catalogue.scale)
        return fit_level_probabilities(
            scores, self.deviations(users, items), levels, self.catalogue.counts
        )

    def fold(
        self, items: npt.ArrayLike, values: npt.ArrayLike, identities: npt.ArrayLike | None = None
    ) -> FoldedUser:
        """Predict for a user who is not in the training ratings, without refitting the model.

        ``items`` (n,) are numbers of rated items, ``values`` (n,) the ratings, which an algorithm that takes no ratings
        ignores, and ``identities`` numbers of further items known to be rated. Raises ConfigurationError or
        DataError as `tacenda_surprise.users.check_rated` does, and ConfigurationError for identities unless
        `folds_identities`.
        """
        model, catalogue = self._require_fitted(), self.catalogue
        scale = catalogue.scale if self.takes_ratings else (-np.inf, np.inf)
        rated = check_rated(items, values, len(catalogue.items), scale)
        numbers = np.asarray(items, np.int64)
        return model._fold(numbers, rated, model._known_items(numbers, identities))

    def _fold(self, items: Numbers, values: Floats, known: Numbers) -> FoldedUser:
        """Do what `fold` does, with valid numbers: ``known`` (m,) are all items known to be rated, ascending.

        ``items`` (n,), whose ratings are ``values`` (n,), are among them; others only where `folds_identities`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement _fold")

    @property
    def folds_identities(self) -> bool:
        """Whether `fold` conditions on identities."""
        return self.conditional

    def _temper(
        self, prior: npt.NDArray[Any], average: npt.NDArray[Any], n: int
    ) -> npt.NDArray[Any]:
        """Shrink the ``prior`` mean of a new user with ``n`` identities towards that of the ``average`` user.

        Models are fitted to users of whom more is known, and would trust one or two identities too much.
        """
        share = n / max(n + self._usual_items, 1)
        return np.asarray(share * prior + (1 - share) * average)

    def _join_identities(
        self, ratings: Ratings, identities: Identities | None
    ) -> Identities | None:
        """Join the identities with those of the ratings; None without conditioning."""
        return Identities.of(ratings, identities) if self.conditional else None

    def _known_items(self, items: Numbers, identities: npt.ArrayLike | None) -> Numbers:
        """Join ``items`` and ``identities`` of a user, ascending.

        Raises ConfigurationError for identities that are no item numbers, or that the model cannot condition on.
        """
        if identities is None:
            return np.sort(items)
        further = check_numbers(identities, len(self.catalogue.items))
        if len(further) and not self.folds_identities:
            raise ConfigurationError(
                f"{type(self).__name__} does not condition new users on what they have rated; leave out the identities"
            )
        return np.union1d(items, further)

    # -- fitting -----------------------------------------------------------------------------------

    def fit(
        self,
        trainset: Any,
        *,
        identities: Identities | None = None,
        checkpoints: str | os.PathLike[str] | None = None,
        resume: Resume = "auto",
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Fit to ``trainset`` and return self.

        Parameters
        ----------
        trainset
            A Trainset; a data frame whose columns are users, items and ratings; a sparse matrix (users, items); or
            `tacenda.ratings.Ratings`, with which ``random_state`` is used directly as the seed.
        identities
            Pairs known to be rated in addition to these `Ratings`, by their numbers. With other input, use ``rated=``.
        checkpoints, resume
            A folder from which an interrupted fit resumes. ``"auto"`` resumes from a checkpoint if there is one, True
            requires one, False starts again.
        callbacks
            `tacenda.fitting.Callback` objects, whose methods the fitting loop calls.

        Raises DataError for a rating that is not finite or off the scale, and for identities of users or items that the
        ratings do not have; ConfigurationError if the algorithm cannot use the identities, keeps no checkpoints or has
        no seed for them, or cannot learn from ratings of this kind.
        """
        run = self._make_run(callbacks, checkpoints, resume)
        if identities is not None:
            self._require_conditional()
        data = read_data(trainset, identities, self.rated, takes_ratings=self.takes_ratings)
        fitted = copy(self)
        fitted._instead, fitted._seed, fitted._data = None, self._draw_seed(trainset), data
        fitted._usual_items = _PRIOR_ITEMS if self.conditional else 0.0
        try:
            fitted._fit(run, data.ratings, data.identities)
        except DivergenceError as error:
            rates = [one.name for one in self.settings.options() if one.name.startswith("lr_")]
            error.advice = f"give a lower {rates[0] if rates else 'learning rate'}"
            if isinstance(trainset, Ratings):
                raise
            # A parameter search goes on, and prefers other settings.
            warn(
                f"{type(self).__name__} diverged: the {error.what} is {error.value}. It predicts the mean of all "
                f"ratings; {error.advice}"
            )
            ours, options = RatingAlgorithm.distribution, {"biases": "none"}
            mean = plugins.make("recommenders", "bias", options, distribution=ours)
            fitted._instead = mean.fit(data.ratings)
        self._adopt(fitted)
        return self

    def partial_fit(
        self, trainset: Any, n_epochs: int | None = None, *, callbacks: Sequence[Callback] = ()
    ) -> Self:
        """Continue fitting with more ratings, and return self.

        ``trainset`` is as in ``fit``; if a pair was rated before, the new rating counts. New users and items start from
        their ratings. Inner ids stay the same, and users who were folded in stay so unless they now have ratings.
        ``n_epochs`` counts passes over all ratings, old and new. With None the model chooses the number; if there are
        few new ratings, some models then update only the users and items of these ratings, and none if there are none.
        With ``callbacks``, which watch the training, a model always trains on all ratings.

        Raises ConfigurationError if the model cannot continue or the rating scales differ, and DataError for a rating
        that is not finite or off the scale.
        """
        if n_epochs is not None:
            check_whole("n_epochs", n_epochs, 0)
        before = self._fit_data()
        more = FitData.of(trainset, before.ratings.scale, takes_ratings=self.takes_ratings)
        data, touched = before.merge(more)
        if self.rated is not None:
            data = data.join(self.rated)
        fitted, known = copy(self), self._join_identities(data.ratings, data.identities)
        seen = self._learned(self.seen)
        if touched is not None and not data.changes_only(touched, before, seen, known):
            touched = None
        run = self._make_run(callbacks)
        if fitted._instead is not None:
            fitted._instead = copy(fitted._instead).partial_fit(data.ratings, n_epochs)
        elif touched is not None and n_epochs is None and not callbacks:
            fitted._update_rows(run, data.ratings, known, touched)
        else:
            fitted._resume_fit(run, data.ratings, known, n_epochs)
        fitted._data, choices = data, self._implicit
        self._adopt_further(fitted)
        if choices is not None and touched is not None:
            seen = self._learned(self.seen)
            self._implicit = choices.solve_touched(seen, len(self._items), touched)
        return self

    def _make_run(
        self,
        callbacks: Sequence[Callback],
        checkpoints: str | os.PathLike[str] | None = None,
        resume: Resume = "auto",
    ) -> FitRun:
        """Return the run of a fit. Raises ConfigurationError if it could not resume, or for a wrong callback."""
        name, run = type(self).__name__, FitRun(checkpoints, resume, callbacks, type(self).__name__)
        if checkpoints is not None and not self.keeps_checkpoints:
            raise ConfigurationError(
                f"{name} cannot save the progress of its fit: leave out checkpoints"
            )
        if checkpoints is not None and getattr(self.settings, "random_state", 0) is None:
            raise ConfigurationError(
                f"a fit with checkpoints needs a seed, without which it cannot be resumed: {name}(random_state=0)"
            )
        if getattr(self.settings, "verbose", False):
            run = replace(run, callbacks=(EpochPrinter(), *run.callbacks))
        return run

    def _adopt_further(self, fitted: Self) -> None:
        """Take over a copy fitted to further ratings; users folded in stay so unless they have ratings now."""
        folded_in = [user.given for user in self._new_users.values()]
        self._adopt(fitted)
        for given in folded_in:
            if given.uid not in self._users:
                self._add(given)

    def _identity(
        self, ratings: Ratings, known: Identities | None = None, held_out: Ratings | None = None
    ) -> dict[str, Any]:
        """Return what identifies a fit in a checkpoint: options that change what is learned, and the data."""
        options = {"model": self.name, "seed": self._seed, **self._plain_settings()}
        for name in ("random_state", "verbose"):
            options.pop(name, None)
        side = None if known is None else known.fingerprint()
        rest = None if held_out is None else held_out.fingerprint
        return {**options, "data": [ratings.fingerprint, side, rest]}

    def _sweep(
        self,
        run: FitRun,
        trainer: Trainer,
        n: int,
        ratings: Ratings,
        known: Identities | None = None,
    ) -> None:
        """Make ``n`` sweeps through the data, and note the history of the fit; it may be resumed with more."""

        def identify() -> dict[str, Any]:
            every = self._identity(ratings, known)
            return {name: value for name, value in every.items() if name != "n_epochs"}

        settings = FitSettings(epochs=n, learning_rate=1.0, evaluate_every=0, restore_best=False)
        self.history = fit(trainer, Sweeps(), settings, run, identify)
        self._report()

    def _report(self, stopped: History | None = None) -> None:
        """Set the figures of the fit; ``stopped`` is the history of one that held ratings out, if any did."""
        criterion = "none held out" if stopped is None else "RMSE of the ratings held out"
        self.figures = [(stopped or self.history).figure(criterion)]

    def _plain_settings(self) -> dict[str, Any]:
        """The options as JSON values, without those that a saved model does not keep."""
        return {
            name: None if isinstance(value, np.random.RandomState) else value
            for name, value in self.settings.to_dict().items()
            if name not in ("rated", "device", "algorithms")
        }

    def _draw_seed(self, trainset: Any) -> int:
        state = getattr(self.settings, "random_state", None)
        if isinstance(trainset, Ratings) and isinstance(state, int):
            return state
        drawn = hasattr(self.settings, "random_state")
        return int(make_rng(state).randint(2**31 - 1)) if drawn else 0

    def _adopt(self, fitted: Self) -> None:
        """Take over a fitted copy all at once, so that an interrupted fit leaves the algorithm as it was."""
        data = fitted._data
        assert data is not None
        if fitted.fitted_on is self.fitted_on or not fitted.fitted_on:
            sizes = len(data.ratings), data.ratings.n_users, data.ratings.n_items
            fitted.fitted_on = dict(zip(("n_ratings", "n_users", "n_items"), sizes, strict=True))
        fitted._know(data, Identities.of(data.ratings, data.identities))
        self.__dict__ = fitted.__dict__

    def _know(self, data: FitData, seen: Identities) -> None:
        """Set what the model was fitted to, and forget what was derived from earlier ratings."""
        self._data, self._users, self._items, self.seen = data, data.users, data.items, seen
        self._new_users, self._implicit = NewUsers(), None
        for name in [*vars(self)]:
            if isinstance(getattr(type(self), name, None), cached_property):
                delattr(self, name)

    # -- pairs of raw ids --------------------------------------------------------------------------

    def predict(
        self,
        uid: Any,
        iid: Any,
        r_ui: float | None = None,
        clip: bool = True,
        verbose: bool = False,
    ) -> Prediction:
        """Return what AlgoBase.predict returns. Raises DataError for an id that cannot be hashed, as a list."""
        return self._predict([uid], [iid], [r_ui], clip=clip, verbose=verbose)[0]

    def estimate(self, u: int | str, i: int | str) -> float:
        """Return the expected rating, not clipped, of inner ids; a string marks a raw id without one, as in AlgoBase.

        Raises PredictionImpossible for an unknown one unless the algorithm ``predicts_unknown``.
        """
        marked = [str(one).removeprefix(_UNKNOWN) for one in (u, i)]
        user, item = (
            np.array([index.get(raw, -1) if isinstance(one, str) else one])
            for one, raw, index in zip((u, i), marked, (self._users, self._items), strict=True)
        )
        new = self._new_users.find(marked[:1], user)
        estimates, reasons = self._estimate(Asked(user, item, new), clip=False)
        if reasons:
            raise PredictionImpossible(reasons[0])
        return float(estimates[0])

    def test(
        self, testset: Iterable[tuple[Any, Any, float | None]], verbose: bool = False
    ) -> list[Prediction]:
        """Return what AlgoBase.test returns, predicting all pairs at once. Raises DataError for other rows."""
        with no_collection():
            try:
                uids, iids, truth = list(zip(*testset, strict=True)) or [()] * 3
            except (TypeError, ValueError) as error:
                raise DataError(
                    "test takes rows of user, item and rating, which may be None: give a list of them, as "
                    "trainset.build_testset() does"
                ) from error
            return self._predict(uids, iids, truth, clip=True, verbose=verbose)

    def _predict(
        self,
        uids: Sequence[Any],
        iids: Sequence[Any],
        truth: Sequence[float | None],
        *,
        clip: bool,
        verbose: bool,
    ) -> list[Prediction]:
        """Predict pairs, whose ratings are the ``truth``, and print them if ``verbose``."""
        estimates, reasons = self._estimate(self._ask(uids, iids), clip=clip)
        # Many small objects, which map makes faster than a loop does.
        details = map(dict.copy, _POSSIBLE)
        fields = zip(uids, iids, truth, estimates.tolist(), details, strict=False)
        predictions: list[Prediction] = list(map(tuple.__new__, _PREDICTION, fields))
        for place, reason in reasons.items():
            predictions[place].details.update(was_impossible=True, reason=reason)
        if verbose and predictions:
            print(*predictions, sep="\n")
        return predictions

    def _ask(self, uids: Sequence[Any], iids: Sequence[Any]) -> Asked:
        """Find out which users and items are known. Raises ConfigurationError unless there is one user for each item.

        Warns if none is known because of their type, or if several pairs are all unknown.
        """
        uids, iids = as_list(uids, "uids"), as_list(iids, "iids")
        if len(uids) != len(iids):
            raise ConfigurationError(
                f"there are {len(uids)} users and {len(iids)} items; give one of each for every pair"
            )
        users, items = numbers(uids, self._users, "user"), numbers(iids, self._items, "item")
        ids = users | items  # negative if one is -1
        if not len(ids) or ids.item(ids.argmin()) >= 0:  # faster than any() for a few
            return Asked(users, items)
        catalogue, new = self.catalogue, self._new_users.find(uids, users)
        if not new:
            check_asked(uids, users, self._users, catalogue.users, self, self._new_users)
        check_asked(iids, items, self._items, catalogue.items, self)
        nothing_known = len(users) > 1 and not self._new_users and max(users.max(), items.max()) < 0
        if nothing_known and find_type_mismatch(uids[:1], self._users) is None:
            warn(
                "none of the users and items asked for is in the trainset: give users first, then items, by the ids "
                "of the trainset",
                once=(self, "strangers"),
            )
        return Asked(users, items, new)

    def _estimate(self, asked: Asked, *, clip: bool = True) -> tuple[Doubles, dict[int, str]]:
        """Estimate ratings (pairs,), and say why those pairs, by place, that cannot be predicted have the default."""
        found = asked.answers(self._require_fitted(), "score_pairs")
        reasons = {} if self.predicts_unknown else asked.explain_unknown()
        if reasons:
            found[list(reasons)] = self.default_prediction()
        if clip:
            lowest, highest = self.catalogue.scale
            found = np.minimum(np.maximum(found, lowest), highest)  # faster than clip() for a few
        return found, reasons

    def predict_many(self, uids: Sequence[Any], iids: Sequence[Any]) -> Doubles:
        """Estimate the ratings (pairs,) of raw ids, clipped to the scale, without a Prediction object for each pair.

        Raises ConfigurationError unless there is one item for every user, as do `predict_std`, `predict_proba` and
        `predict_density`.
        """
        return self._estimate(self._ask(uids, iids))[0]

    def predict_users(self, uids: Sequence[Any]) -> Doubles:
        """Estimate the ratings (users, items) of all items, in the order of their inner ids, for some users.

        Raises DataError for an unknown user.
        """
        model, uids = self._require_fitted(), as_list(uids, "uids")
        self._require_known(uids)
        users = numbers(uids, self._users)
        shape = len(users), len(self.catalogue.items)
        found = check_answer(model, "score_users", model.score_users(users), *shape)
        scores = found.astype(np.float64)
        for user, rows in self._new_users.find(uids, users):
            scores[rows] = user.model_user.score()
        return np.asarray(np.clip(scores, *self.catalogue.scale))

    def predict_std(self, uids: Sequence[Any], iids: Sequence[Any]) -> Doubles:
        """Return the standard deviations (pairs,) of the ratings of raw ids, including noise."""
        return self._ask(uids, iids).answers(self._require_fitted(), "deviations")

    def predict_proba(self, uids: Sequence[Any], iids: Sequence[Any]) -> Doubles:
        """Return the probability of each rating in `levels`, (pairs, levels).

        Raises ConfigurationError on a continuous scale.
        """
        asked, model = self._ask(uids, iids), self._require_fitted()
        return asked.answers(model, "probabilities", len(self.catalogue.levels))

    def predict_density(
        self, uids: Sequence[Any], iids: Sequence[Any], ratings: Sequence[float]
    ) -> Doubles:
        """Return the density (pairs,) of ``ratings`` (pairs,) of raw ids: normal about the score, not clipped.

        Use this on a continuous scale, where no single rating has a probability.
        """
        asked, model = self._ask(uids, iids), self._require_fitted()
        if np.shape(ratings) != (n := len(asked.users),):
            raise ConfigurationError(
                f"there are {n} users and ratings of shape {np.shape(ratings)}; give one for every pair"
            )
        scores, deviations = (asked.answers(model, name) for name in ("score_pairs", "deviations"))
        z = (np.asarray(ratings, np.float64) - scores) / deviations
        return np.asarray(np.exp(-0.5 * z**2) / (deviations * np.sqrt(2 * np.pi)))

    def default_prediction(self) -> float:
        """Return the prediction for impossible cases: the mean of all ratings."""
        return self.catalogue.mean if self._data is None else self._data.mean

    # -- lists -------------------------------------------------------------------------------------

    def top_n(
        self,
        n: int = 10,
        uids: Iterable[Any] | None = None,
        *,
        exclude_seen: bool = True,
        by: By = "both",
        candidates: Iterable[Any] | None = None,
        exclude: Iterable[Any] = (),
        min_ratings: int = 0,
    ) -> Mapping[Any, list[tuple[Any, float]]]:
        """Find the ``n`` best items of every user, or of ``uids``: (raw item id, estimate), best first.

        Returns a mapping of raw user ids to lists, which takes 8 bytes for every place of a list; ``dict`` of it is a
        dict. No anti-testset is built, so memory is needed for only one block of users. The first call fits a model of
        what users choose.

        Parameters
        ----------
        exclude_seen
            Leave out what the user has rated or is known to have rated.
        by
            How to rank items: ``"both"`` prefers items that the user is likely to choose and to like
            (`tacenda_surprise.top_n`); ``"choice"`` and ``"rating"`` use only one of the two. The
            highest estimates often belong to obscure items.
        candidates, exclude
            Raw ids of the items that may be listed (None: all), and of items that may not. Unknown candidates cause a
            warning and are ignored.
        min_ratings
            List only items that this many users have rated; a user who has rated an item twice counts once.

        Raises DataError for an unknown user, if no candidate is known, and if the ids in ``exclude`` have another type
        than the known ids; ConfigurationError if ``n``, ``by`` or ``min_ratings`` is not valid.
        """
        model = self._require_fitted()
        check_whole("n", n)
        wanted = list(self._users) if uids is None else as_list(uids, "uids")
        self._require_known(wanted)
        lists = self.lists(by, candidates, exclude, min_ratings)
        known = numbers([uid for uid in wanted if uid in self._users], self._users)
        fitted = best_items(model, known, n, self.seen if exclude_seen else None, lists)
        raw = self.raw_items
        found = TopLists(wanted, raw, lists.longest(n, len(raw)))
        for uid in wanted:
            if uid in self._users:
                _, items, scores = next(fitted)
            else:
                items, scores = self._new_users[uid].best(lists, n, exclude_seen=exclude_seen)
            found.fill(uid, items, np.clip(scores, *self.catalogue.scale))
        return found

    @property
    def knows_choices(self) -> bool:
        """Whether lists can be ranked by what users choose; false of some models that older versions have saved."""
        return not self.takes_ratings or self._implicit is not None or self._data is not None

    @property
    def implicit_factors(self) -> ImplicitFactors:
        """The model of what users choose, fitted on first access."""
        self._require_fitted()
        if self._implicit is None:
            self._implicit = ImplicitFactors.of(self._fit_data().ratings, self._learned(self.seen))
        return self._implicit

    def lists(
        self,
        by: By = "both",
        candidates: Iterable[Any] | None = None,
        exclude: Iterable[Any] = (),
        min_ratings: int = 0,
        of: Catalogue | None = None,
    ) -> Lists:
        """Choose what lists are ranked by and what they leave out; the arguments are as for `top_n`.

        Raises ConfigurationError where ``of``, the catalogue of a user who was folded in, is no longer that of the fit,
        and where `top_n` does.
        """
        check_whole("min_ratings", min_ratings, 0)
        if of is not None and of is not self.catalogue:
            raise ConfigurationError(
                "the algorithm was fitted again since this user was folded in: fold the user in again"
            )
        if not self.takes_ratings and by == "rating":
            raise ConfigurationError(
                "by is 'rating', and this model knows no ratings: leave by out, or fit a model of ratings"
            )
        if not self.takes_ratings and by in ("both", "choice"):
            by = "rating"  # its only scores, whatever they are
        hidden = find_hidden(self._items, candidates, exclude, self)
        if min_ratings > 0 and self._data is None and self.seen is not None:
            # It was saved without side information.
            hidden |= np.bincount(self.seen.item_ids, minlength=len(hidden)) < min_ratings
        elif min_ratings > 0:
            hidden |= self._fit_data().ratings.item_counts < min_ratings
        factors = self.implicit_factors if by in ("both", "choice") else None
        return Lists.of(factors, by, hidden)

    def _require_known(self, uids: Sequence[Any]) -> None:
        for uid in find_unknown(uids, self._users):
            if uid not in self._new_users:
                mismatch = find_type_mismatch([uid], self._users)
                advice = f"; fold_in(uid={uid!r}, ratings=...) makes it known"
                why = advice if mismatch is None else f": {mismatch}"
                raise DataError(f"user {uid!r} is not in the trainset{why}")

    # -- new users ---------------------------------------------------------------------------------

    def fold_in(
        self,
        ratings: Mapping[Any, float] | Iterable[Any] = (),
        rated: Iterable[Any] = (),
        *,
        uid: Hashable | None = None,
    ) -> NewUser:
        """Predict for a user who is not in the training ratings, without refitting the model.

        Parameters
        ----------
        ratings
            Pairs (raw item id, rating); if an item occurs twice, the last rating counts. For an algorithm that takes no
            ratings, the raw ids of the items.
        rated
            Raw ids of further items known to be rated; ``top_n`` leaves them out, and conditional models
            learn from them. Items that nobody has rated cause a warning and are ignored.
        uid
            Raw id for the user, which ``predict``, ``test`` and ``top_n`` then accept.

        Raises ConfigurationError if ``uid`` is a user of the trainset, or ``ratings`` are not pairs of items and
        ratings; DataError for a rating that is not a number or is off the scale, for a missing id, and if no item is
        known.
        """
        self._require_fitted()
        check_ids([] if uid is None else [uid], "user")
        if uid in self._users:
            raise ConfigurationError(
                f"user {uid!r} is in the trainset already; fold_in is for users who are not"
            )
        rated = as_list(rated, "rated")
        by_item = (
            ratings_by_item(ratings)
            if self.takes_ratings
            else dict.fromkeys(distinct(as_list(ratings, "ratings"), "item"), 1.0)
        )
        given = Given.of(uid, by_item, rated, self._items, self.catalogue.scale)
        check_known([*by_item, *rated], self._items, "items of fold_in", self)
        return self._add(given)

    def _add(self, given: Given) -> NewUser:
        """Fold a user in, and keep them if they have a raw id."""
        model, catalogue = self._require_fitted(), self.catalogue
        rated = given.rated if model.folds_identities else None
        folded = model.fold(given.items, given.values, rated)
        user = NewUser(folded, self._items, given, catalogue, partial(self.lists, of=catalogue))
        if given.uid is not None:
            self._new_users[given.uid] = user
        return user

    # -- to disk and back --------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Return options, the seed of the fit and the scale, as JSON values. Raises NotFittedError."""
        own = {"settings": self._plain_settings(), "seed": self._seed}
        if self.conditional:
            own["usual_items"] = self._usual_items
        return {**super().config_dict(), **own}

    def _read_arrays(self, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        self._seed = int(config.get("seed", 0))
        self._usual_items = max(float(config.get("usual_items", 0.0)), 0.0)
        super()._read_arrays(config, arrays)

    def to_artifact(self, precision: Precision | None = None) -> Artifact:
        """Return the options, the model, the ratings and the folded-in users, which `save` writes.

        Raw ids keep their types, and ratings are float32. A ``random_state`` that is not a number is left out.
        """
        model = self._require_fitted()
        found = Estimator.to_artifact(model, precision)
        config, arrays = found.config, dict(found.arrays)
        implicit = self._implicit
        if self.takes_ratings and self._data is not None:
            implicit = self.implicit_factors
        if implicit is not None:
            arrays |= implicit.to_arrays("choices.")
        if self.seen is not None:
            arrays |= self.seen.to_arrays("rated.")
        if self._data is not None:
            given = [user.given for user in self._new_users.values()]
            own, more = storage.pack_data(self._data, given)
            config = {**config, "surprise": {**own, "class": storage.address_of(type(model))}}
            arrays |= more
        return replace(found, config=config, arrays=arrays)

    def save(self, path: str | os.PathLike[str], *, precision: Precision | None = None) -> None:
        self._require_converged()
        super().save(path, precision=precision)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        """Rebuild an algorithm of this class or a subclass, as `load` does; `RatingAlgorithm` itself rebuilds any."""
        if not hasattr(cls, "name"):
            found = resolve(artifact)
            if not isinstance(found, cls):
                raise ArtifactError(f"it is a {type(found).__name__}, which rates nothing")
            return found
        with storage.damage():
            artifact = storage.upgrade(artifact)
            own = artifact.config.get("surprise")
            if not isinstance(own, dict | None):
                raise ArtifactError(f"its 'surprise' is {own!r:.80}, not an object: it is damaged")
            address = None if own is None else own.get("class")
            target = cls if address is None else storage.class_at(str(address), cls)
            model: Self = super(RatingAlgorithm, target).from_artifact(artifact)
            if own is not None or model._data is None:  # not an older blend, which is complete
                model._restore(own, artifact.arrays)
        return model

    def _restore(self, config: dict[str, Any] | None, arrays: storage.Packed) -> None:
        """Take over what was saved with the model: who has rated what, the model of choices, and users folded in."""
        data, seen, implicit, folded_in = storage.unpack(
            config, arrays, self.catalogue, takes_ratings=self.takes_ratings
        )
        if data is None:
            by_raw: Any = self.catalogue.users.by_raw, self.catalogue.items.by_raw
            (self._users, self._items), self.seen = by_raw, seen
        else:
            self._know(data, self._learned(seen))
            # pairs that are known to be rated, but have no rating
            if self.conditional and (pairs := data.find_unrated(self._learned(seen))):
                self.rated = SideInfo(pairs)
        self._implicit = implicit
        for given in folded_in:
            self._add(given)


@contextmanager
def no_collection() -> Iterator[None]:
    """Hold back the cyclic garbage collector while many objects are made that all stay.

    It would scan all of Surprise's tuples again and again while a list of predictions grows, which takes three
    quarters of the time of ``test``. Freezing and unfreezing at the end moves the new objects to the oldest generation
    without scanning them.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if gc.get_freeze_count() == 0:  # else somebody wants objects to stay frozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()
