"""Any rating model as a Surprise algorithm: everything AlgoBase promises, and what it never had."""

from __future__ import annotations

import gc
import os
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from itertools import repeat
from typing import Any, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt
from surprise import AlgoBase, Prediction, PredictionImpossible, Trainset
from surprise.utils import get_rng

from tacenda.errors import ArtifactError, ConfigurationError, DataError, NotFittedError
from tacenda.fitting import Callback, FitLoop
from tacenda.fitting.recorder import Resume
from tacenda.settings import HasSettings
from tacenda_surprise import storage
from tacenda_surprise.models.base import FoldedUser, RatingModel, folded_probabilities
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.models.ranking import best_items
from tacenda_surprise.new_users import Given, NewUser
from tacenda_surprise.settings import AlgorithmSettings
from tacenda_surprise.side_info import FitData, SideInfo, fit_data
from tacenda_surprise.trainsets import merged, numbers

__all__ = ["TacendaAlgorithm"]

S = TypeVar("S", bound=AlgorithmSettings)
Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]
_UNKNOWN = "UKN__"  # how AlgoBase.predict marks a raw id the trainset does not know


class TacendaAlgorithm(HasSettings[S], AlgoBase):  # type: ignore[misc]
    """Hosts a `tacenda_surprise.models.RatingModel`; subclasses say which one, and its settings.

    A subclass sets ``settings_class`` and ``model_class`` and has a constructor of its own::

        @configured_by(MySettings)
        def __init__(self, settings: MySettings) -> None:
            TacendaAlgorithm.__init__(self, settings)

    Attributes
    ----------
    settings
        The arguments it was made with.
    model
        The fitted model; None before ``fit``.
    bu, bi
        Biases of users and items (users,), (items,) float64; None where the model has none.
    pu, qi
        Factors (users, factors), (items, factors) float64; likewise.
    """

    model_class: type[RatingModel]

    def __init__(self, settings: S) -> None:
        AlgoBase.__init__(self)
        self.settings = settings
        self.model: RatingModel | None = None
        if self.rated is not None:
            self._require_conditional()

    # -- what it is --------------------------------------------------------------------------------

    @property
    def predicts_unknown(self) -> bool:
        """Whether an unknown user or item leaves anything to predict from."""
        return True

    @property
    def conditional(self) -> bool:
        """Whether identities without ratings are of any use to it."""
        return bool(getattr(self.model_class, "conditional", False))

    @property
    def is_fitted(self) -> bool:
        """Whether it was fitted or loaded."""
        return self.model is not None

    @property
    def rated(self) -> SideInfo | None:
        """Identities beside those of the trainset, for the next fit."""
        found: SideInfo | None = getattr(self.settings, "rated", None)
        return found

    @rated.setter
    def rated(self, rated: SideInfo | Iterable[Iterable[Any]] | None) -> None:
        if rated is not None:
            self._require_conditional()
        settings: Any = self.settings
        self.settings = replace(settings, rated=rated)

    def _require_conditional(self) -> None:
        if not self.conditional:
            raise ConfigurationError(
                f"{type(self).__name__} does not condition on what is rated; leave out rated=, or use a "
                "conditional algorithm"
            )

    # -- fitting -----------------------------------------------------------------------------------

    def fit(
        self,
        trainset: Trainset,
        *,
        checkpoints: str | os.PathLike[str] | None = None,
        resume: Resume = "auto",
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Fit to ``trainset`` and return self.

        Parameters
        ----------
        trainset
            What to fit to.
        checkpoints
            Folder for checkpoints, from which an interrupted fit goes on.
        resume
            ``"auto"`` goes on from a checkpoint if there is one, True requires one, False starts afresh.
        callbacks
            The fitting loop calls them.

        Raises
        ------
        DataError
            A rating is not finite or off the scale.
        """
        data = fit_data(trainset, self.rated)
        model = self._new_model().fit(
            data.ratings,
            identities=data.identities,
            callbacks=self._callbacks(callbacks),
            checkpoints=checkpoints,
            resume=resume,
            progress=type(self).__name__,
        )
        self._adopt(trainset, model, data)
        return self

    def _new_model(self) -> RatingModel:
        """The unfitted model that the settings describe."""
        options = self.settings.for_model()
        if hasattr(self.settings, "random_state"):
            options["seed"] = self._seed()
        model: Any = self.model_class
        made: RatingModel = model(**options)
        return made

    def _seed(self) -> int:
        state = getattr(self.settings, "random_state", None)
        return int(get_rng(state).randint(2**31 - 1))

    def _adopt(self, trainset: Trainset, model: RatingModel, data: FitData) -> None:
        """Take a fitted model, all at once: an interrupted fit leaves the algorithm as it was."""
        AlgoBase.fit(self, trainset)
        self.model = model
        self._users, self._items = data.users, trainset._raw2inner_id_items
        n = trainset.n_users
        self._quiet = {str(raw): number for raw, number in data.users.items() if number >= n}
        self._seen = Identities.of(data.ratings, data.identities)
        self._new_users: dict[str, NewUser] = {}
        tables = model.tables
        if tables is not None:  # what users of Surprise read
            self.bu, self.bi = (
                tables.user_biases[:n].astype(float),
                tables.item_biases.astype(float),
            )
            self.pu, self.qi = (
                tables.user_factors[:n].astype(float),
                tables.item_factors.astype(float),
            )

    def partial_fit(
        self,
        trainset: Trainset,
        n_epochs: int | None = None,
        *,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Go on from the present parameters with more ratings, and return self.

        Users and items that are new begin where their ratings put them. Everybody keeps their inner ids, and
        users who were folded in stay so unless they now have ratings.

        Parameters
        ----------
        trainset
            The new ratings, or old and new ones; of a pair in both the new rating counts.
        n_epochs
            Passes over all ratings, old and new; None leaves the number to the model.
        callbacks
            The fitting loop calls them.

        Raises
        ------
        ConfigurationError
            The model cannot go on, or the rating scales differ.
        """
        model = copy(self._fitted())
        everything = merged(self.trainset, trainset, self._users, self._items, model.catalogue)
        data = fit_data(everything, self.rated)
        model.partial_fit(
            data.ratings,
            identities=data.identities,
            epochs=n_epochs,
            callbacks=self._callbacks(callbacks),
            progress=type(self).__name__,
        )
        given = [user.given for user in self._new_users.values()]
        self._adopt(everything, model, data)
        for one in given:
            if one.uid not in self._users:
                self._fold(one)
        return self

    def _callbacks(self, callbacks: Sequence[Callback]) -> Sequence[Callback]:
        return (_EpochPrinter(), *callbacks) if self.settings.verbose else callbacks

    def _fitted(self) -> RatingModel:
        if self.model is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted: call fit(trainset)")
        return self.model

    # -- disk --------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save into the folder ``path`` what `load` needs: arguments, model, trainset, users folded in.

        Tensors and a JSON file, never pickle; raw ids keep their types, and ratings are float32. A
        ``random_state`` that is no number is left out.
        """
        model, given = self._fitted(), [user.given for user in self._new_users.values()]
        saved = storage.Saved(
            _address(type(self)),
            self._saved_arguments(),
            self.trainset,
            self._users,
            self._seen,
            given,
        )
        storage.write(path, model, saved)

    def _saved_arguments(self) -> dict[str, Any]:
        """The arguments as JSON values; ``rated`` is saved as numbers."""
        values = self.settings.to_dict()
        values.pop("rated", None)
        return {
            name: None if isinstance(value, np.random.RandomState) else value
            for name, value in values.items()
        }

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """A saved algorithm of this class or one derived from it: ``TacendaAlgorithm.load`` loads any.

        Raises `ArtifactError` for a folder that is missing, damaged or of another class.
        """
        with storage.load_errors(path):
            model, saved, ratings = storage.read(path)
            if "rated" in saved.arguments:
                raise ArtifactError("it names an argument that is never saved: 'rated'")
            algo = _class_at(saved.address, cls).from_settings(saved.arguments)
            if algo.conditional:
                algo.rated = saved.more_rated()
            algo._adopt(saved.trainset, model, FitData(ratings, saved.seen, saved.users))
            for given in saved.given:
                algo._fold(given)
        return cast(Self, algo)

    # -- what Surprise calls -----------------------------------------------------------------------

    def estimate(self, u: int | str, i: int | str) -> float:
        """Expected rating, not clipped, of inner ids or of AlgoBase's marks for unknown ones."""
        model = self._fitted()
        item = -1 if isinstance(i, str) else i
        user = -1
        if not isinstance(u, str):
            user = u
        elif (raw := u.removeprefix(_UNKNOWN)) in self._new_users:
            return float(self._new_users[raw].model_user.score(np.array([item]))[0])
        else:
            user = self._quiet.get(raw, -1)
        if not self.predicts_unknown and (user < 0 or item < 0):
            raise PredictionImpossible(_reason(user, item))
        return float(model.score_pairs(np.array([user]), np.array([item]))[0])

    def test(
        self, testset: Iterable[tuple[Any, Any, float | None]], verbose: bool = False
    ) -> list[Prediction]:
        """What AlgoBase.test gives, for all pairs at once."""
        self._fitted()
        with no_collection():
            predictions = self._predictions(list(testset))
        if verbose:
            for prediction in predictions:
                print(prediction)
        return predictions

    def _predictions(self, testset: list[tuple[Any, Any, float | None]]) -> list[Prediction]:
        uids, iids, truths = zip(*testset, strict=True) if testset else ((),) * 3
        users, items = numbers(uids, self._users), numbers(iids, self._items)
        impossible = np.zeros(len(users), bool)
        if not self.predicts_unknown:
            impossible = (users < 0) | (items < 0)
        scores = self._fitted().score_pairs(users, items).astype(np.float64)
        for user, places in self._rows_of_new_users(uids, users):
            scores[places] = user.score(items[places])
            impossible[places] = False
        scores[impossible] = self.default_prediction()
        estimates = np.clip(scores, *self.trainset.rating_scale).tolist()
        # Many small objects, which map makes faster than a loop does.
        possible: dict[str, Any] = {"was_impossible": False}
        details = list(map(dict.copy, repeat(possible, len(uids))))
        for row in np.flatnonzero(impossible):
            details[row] = {"was_impossible": True, "reason": _reason(users[row], items[row])}
        rows = zip(uids, iids, truths, estimates, details, strict=True)
        return list(map(tuple.__new__, repeat(Prediction), rows))

    # -- what AlgoBase has nothing like ------------------------------------------------------------

    def predict_many(self, uids: Sequence[Any], iids: Sequence[Any]) -> Floats:
        """Estimates (pairs,) of raw ids, clipped to the scale; ``predict`` without its objects."""
        users, items = self._pairs(uids, iids)
        scores = self._fitted().score_pairs(users, items).astype(np.float64)
        for user, rows in self._rows_of_new_users(uids, users):
            scores[rows] = user.score(items[rows])
        return np.asarray(np.clip(scores, *self.trainset.rating_scale))

    def predict_users(self, uids: Sequence[Any]) -> Floats:
        """Estimates (users, items) of all items, in the order of their inner ids, for a block of users.

        Raises DataError for an unknown user.
        """
        self._require_known(uids)
        users = numbers(uids, self._users)
        scores = self._fitted().score_users(users).astype(np.float64)
        for user, rows in self._rows_of_new_users(uids, users):
            scores[rows] = user.score()
        return np.asarray(np.clip(scores, *self.trainset.rating_scale))

    def predict_std(self, uids: Sequence[Any], iids: Sequence[Any]) -> Floats:
        """Standard deviations (pairs,) of the ratings of raw ids, their noise included."""
        users, items = self._pairs(uids, iids)
        deviations = self._fitted().deviations(users, items).astype(np.float64)
        for user, rows in self._rows_of_new_users(uids, users):
            deviations[rows] = user.deviations(items[rows])
        return deviations

    def predict_proba(self, uids: Sequence[Any], iids: Sequence[Any]) -> Floats:
        """Probabilities (pairs, levels) of the ratings ``levels``; raises for a continuous scale."""
        model = self._fitted()
        users, items = self._pairs(uids, iids)
        chances = model.probabilities(users, items).astype(np.float64)
        for user, rows in self._rows_of_new_users(uids, users):
            chances[rows] = folded_probabilities(user, items[rows], model.catalogue.levels)
        return chances

    @property
    def levels(self) -> Floats:
        """The ratings (levels,) that `predict_proba` is about, ascending."""
        return self._fitted().catalogue.levels.astype(np.float64)

    def top_n(
        self, n: int = 10, uids: Iterable[Any] | None = None, *, exclude_seen: bool = True
    ) -> dict[Any, list[tuple[Any, float]]]:
        """The ``n`` best items of every user, or of ``uids``: (raw item id, estimate), best first.

        No anti-testset is built: it takes the memory of one block of users.

        Parameters
        ----------
        n
            Items for each user.
        uids
            Raw user ids; an unknown one is a `DataError`.
        exclude_seen
            Leave out what the user has rated or is known to have rated.
        """
        model = self._fitted()
        wanted = list(self._users) if uids is None else list(uids)
        self._require_known(wanted)
        known = [uid for uid in wanted if uid in self._users]
        raw_items = np.array(list(self._items), dtype=object)
        low, high = self.trainset.rating_scale
        ranked = best_items(
            model, numbers(known, self._users), n, self._seen if exclude_seen else None
        )
        found = {
            uid: list(zip(raw_items[r.items], np.clip(r.scores, low, high).tolist(), strict=True))
            for uid, r in zip(known, ranked, strict=True)
        }
        for uid in wanted:
            if uid not in found:
                found[uid] = self._new_users[str(uid)].top_n(n, exclude_seen=exclude_seen)
        return {uid: found[uid] for uid in wanted}

    def fold_in(
        self,
        ratings: Mapping[Any, float] | Iterable[tuple[Any, float]] = (),
        rated: Iterable[Any] = (),
        *,
        uid: Hashable | None = None,
    ) -> NewUser:
        """A user the algorithm was not fitted to, from their ratings, without fitting again.

        Parameters
        ----------
        ratings
            (raw item id, rating) of what the user has rated; the last counts for an item given twice.
        rated
            Raw ids of further items known to be rated; ``top_n`` leaves them out, and conditional models
            learn from them.
        uid
            Raw id under which ``predict``, ``test`` and ``top_n`` know the user from now on.

        Returns
        -------
        The user, with ``predict`` and ``top_n`` of its own. Items nobody has rated are left out.

        Raises
        ------
        ConfigurationError
            ``uid`` is a user of the trainset.
        DataError
            A rating is not finite or off the scale.
        """
        self._fitted()
        if uid is not None:
            self._require_new(uid)
        pairs = dict(ratings)
        low, high = self.trainset.rating_scale
        for item, value in pairs.items():
            if not low <= value <= high:
                raise DataError(
                    f"the rating of item {item!r} is {value}, off the scale {low:g} to {high:g}"
                )
        known = {self._items[i]: r for i, r in pairs.items() if i in self._items}
        more = numbers([i for i in rated if i in self._items], self._items)
        items = np.fromiter(known, np.int64, len(known))
        return self._fold(Given(uid, items, np.array(list(known.values()), np.float32), more))

    def _fold(self, given: Given) -> NewUser:
        low, high = self.trainset.rating_scale
        model = self._fitted()
        identities = given.rated if model.folds_identities else None
        user = model.fold_in(given.items, given.values, identities)
        found = NewUser(user, self._items, (float(low), float(high)), given)
        if given.uid is not None:
            self._new_users[str(given.uid)] = found
        return found

    def _require_new(self, uid: Hashable) -> None:
        if uid in self._users:
            raise ConfigurationError(
                f"user {uid!r} is in the trainset already; fold_in is for users who are not"
            )
        before = self._new_users.get(str(uid))
        if before is not None and before.given.uid != uid:
            raise ConfigurationError(
                f"user {before.given.uid!r} was folded in before, and predict cannot tell {uid!r} from that: "
                "Surprise asks for unknown users by the text of their ids"
            )

    def _require_known(self, uids: Iterable[Any]) -> None:
        for uid in uids:
            if uid not in self._users and str(uid) not in self._new_users:
                raise DataError(
                    f"user {uid!r} is not in the trainset; fold_in(uid={uid!r}, ratings=...) makes it known"
                )

    def _pairs(self, uids: Sequence[Any], iids: Sequence[Any]) -> tuple[Numbers, Numbers]:
        if len(uids) != len(iids):
            raise ConfigurationError(
                f"there are {len(uids)} users and {len(iids)} items; give one of each for every pair"
            )
        self._fitted()
        return numbers(uids, self._users), numbers(iids, self._items)

    def _rows_of_new_users(
        self, uids: Sequence[Any], users: Numbers
    ) -> Iterator[tuple[FoldedUser, Numbers]]:
        """The users among ``uids`` that were folded in, each with the rows where they stand."""
        rows: dict[str, list[int]] = {}
        for row in np.flatnonzero(users < 0).tolist() if self._new_users else ():
            text = str(uids[row])
            if text in self._new_users:
                rows.setdefault(text, []).append(row)
        for text, found in rows.items():
            yield self._new_users[text].model_user, np.array(found)


class _EpochPrinter(Callback):
    """What ``verbose=True`` prints: a line for every epoch."""

    def on_epoch_end(self, run: FitLoop) -> bool | None:
        """Print the epoch's number and training error."""
        history = run.history
        line = (
            f"Processing epoch {history.epochs - 1}: training loss {history.epoch_losses[-1]:.4f}"
        )
        if history.evaluations:
            line += f", held out {history.evaluations[-1].value:.4f}"
        print(line)
        return None


@contextmanager
def no_collection() -> Iterator[None]:
    """Hold back the cyclic garbage collector while many objects are made that all stay.

    It would walk through all of Surprise's tuples again and again while a list of predictions grows: three
    quarters of the time of ``test``. What is there at the end counts as old, for the same reason: freezing and
    unfreezing moves it there without a look at it.
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


def _reason(user: int, item: int) -> str:
    if user < 0 and item < 0:
        return "User and item are unknown."
    return "User is unknown." if user < 0 else "Item is unknown."


def _address(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _class_at(address: str, base: type[TacendaAlgorithm[Any]]) -> type[TacendaAlgorithm[Any]]:
    """The class of that address among those that are imported: loading imports nothing."""
    found = [cls for cls in _derived(base) if _address(cls) == address]
    if not found:
        raise ArtifactError(
            f"it is a {address}, which is no {base.__name__} known here: import its class first, or load "
            "it with a class it is derived from"
        )
    return found[-1]


def _derived(base: type[TacendaAlgorithm[Any]]) -> Iterator[type[TacendaAlgorithm[Any]]]:
    yield base
    for cls in base.__subclasses__():
        yield from _derived(cls)
