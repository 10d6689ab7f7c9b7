"""Any rating model as a Surprise algorithm: everything AlgoBase promises, and what it never had."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.stats import norm
from surprise import AlgoBase, Prediction, PredictionImpossible, Trainset
from surprise.utils import get_rng

from tacenda import artifact
from tacenda.artifact import Artifact
from tacenda.errors import ArtifactError, ConfigurationError, DataError, NotFittedError
from tacenda.fitting import Callback
from tacenda.fitting.checkpoint import Resume
from tacenda.fitting.history import DivergenceError
from tacenda.settings import HasSettings
from tacenda_surprise import storage
from tacenda_surprise.models.base import FoldedUser, RatingModel, folded_probabilities
from tacenda_surprise.models.bias import BiasModel
from tacenda_surprise.models.choices import Choices
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.models.ranking import By, Lists, best_items
from tacenda_surprise.new_users import Given, NewUser, NewUsers
from tacenda_surprise.output import EpochPrinter, no_collection, prediction_objects, why_impossible
from tacenda_surprise.settings import AlgorithmSettings
from tacenda_surprise.side_info import SideInfo
from tacenda_surprise.trainsets import (
    FitData,
    as_list,
    as_pairs,
    as_trainset,
    merged,
    numbers,
    ratings_of,
)

__all__ = ["TacendaAlgorithm"]

S = TypeVar("S", bound=AlgorithmSettings)
Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]
UNKNOWN = "UKN__"  # how AlgoBase.predict marks a raw id the trainset does not know


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
        self.bu: Floats | None = None
        self.bi: Floats | None = None
        self.pu: Floats | None = None
        self.qi: Floats | None = None
        self._choices: Choices | None = None
        if self.rated is not None:
            self._require_conditional()

    # -- what it is --------------------------------------------------------------------------------

    @property
    def predicts_unknown(self) -> bool:
        """Whether pairs with an unknown user or item can be predicted."""
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
        trainset: Any,
        *,
        checkpoints: str | os.PathLike[str] | None = None,
        resume: Resume = "auto",
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Fit to ``trainset`` and return self.

        Parameters
        ----------
        trainset
            What to fit to: a Trainset, or a data frame whose columns are users, items and ratings, or a sparse
            matrix (users, items).
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
        trainset = as_trainset(trainset)
        data = self._data(trainset)
        try:
            model = self._new_model().fit(
                data.ratings,
                identities=data.identities,
                callbacks=self._callbacks(callbacks),
                checkpoints=checkpoints,
                resume=resume,
                progress=type(self).__name__,
            )
        except DivergenceError as error:
            # A search goes on, and takes other settings for better.
            rates = [one.name for one in self.settings.options() if one.name.startswith("lr_")]
            advice = f"give a lower {rates[0]}" if rates else "give a lower learning rate"
            warnings.warn(
                f"{type(self).__name__} diverged: the {error.what} is {error.value}. It predicts the mean of all "
                f"ratings; {advice}",
                stacklevel=2,
            )
            model = BiasModel(biases="none").fit(data.ratings)
        self._adopt(trainset, model, data)
        return self

    def _new_model(self) -> RatingModel:
        """Make the unfitted model that the settings describe."""
        options = self.settings.for_model()
        if hasattr(self.settings, "random_state"):
            options["seed"] = self._seed()
        model: Any = self.model_class
        made: RatingModel = model(**options)
        return made

    def _data(self, trainset: Trainset) -> FitData:
        """Prepare what the model is given."""
        if self.rated is None:
            return FitData(ratings_of(trainset), None, trainset._raw2inner_id_users)
        return self.rated.joined(trainset)

    def _seed(self) -> int:
        state = getattr(self.settings, "random_state", None)
        return int(get_rng(state).randint(2**31 - 1))

    def _adopt(self, trainset: Trainset, model: RatingModel, data: FitData) -> None:
        """Take a fitted model, all at once: an interrupted fit leaves the algorithm as it was."""
        AlgoBase.fit(self, trainset)
        self.model = model
        self._users, self._items = data.users, trainset._raw2inner_id_items
        n = trainset.n_users
        self._unrated_users = {
            str(raw): number for raw, number in data.users.items() if number >= n
        }
        self._seen = Identities.of(data.ratings, data.identities)
        self._new_users, self._choices = NewUsers(), None
        self.bu = self.bi = self.pu = self.qi = None
        tables = model.tables
        if tables is not None:  # what users of Surprise read
            self.bu = tables.user_biases[:n].astype(float)
            self.bi = tables.item_biases.astype(float)
            self.pu = tables.user_factors[:n].astype(float)
            self.qi = tables.item_factors.astype(float)

    def partial_fit(
        self,
        trainset: Any,
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
            The new ratings, or old and new ones, as for ``fit``; of a pair in both the new rating counts.
        n_epochs
            Passes over all ratings, old and new; None leaves the number to the model.
        callbacks
            The fitting loop calls them.

        Raises
        ------
        ConfigurationError
            The model cannot go on, or the rating scales differ.
        DataError
            A rating is not finite or off the scale.
        """
        model = copy(self._fitted())
        trainset = as_trainset(trainset, self.trainset.rating_scale)
        everything = merged(self.trainset, trainset, self._users, self._items, model.catalogue)
        data = self._data(everything)
        model.partial_fit(
            data.ratings,
            identities=data.identities,
            epochs=n_epochs,
            callbacks=self._callbacks(callbacks),
            progress=type(self).__name__,
        )
        given = self._new_users.given()
        self._adopt(everything, model, data)
        for one in given:
            if one.uid not in self._users:
                self._add(one)
        return self

    def _add(self, given: Given) -> NewUser:
        """Fold a user in, and keep them if they have a raw id."""
        low, high = (float(end) for end in self.trainset.rating_scale)
        new = NewUser.of(self._fitted(), self._items, (low, high), given, self._lists)
        return self._new_users.add(new)

    def _callbacks(self, callbacks: Sequence[Callback]) -> Sequence[Callback]:
        return (EpochPrinter(), *callbacks) if self.settings.verbose else callbacks

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
        artifact.write(path, self.to_artifact())

    def to_artifact(self) -> Artifact:
        """Return what `save` writes. Raises NotFittedError."""
        model = self._fitted()
        saved = storage.Saved(
            storage.address_of(type(self)),
            self._saved_arguments(),
            self.trainset,
            self._users,
            self._seen,
            self._new_users.given(),
            self.choices,
        )
        return storage.pack_up(model, saved)

    def _saved_arguments(self) -> dict[str, Any]:
        """Return the arguments as JSON values, without the device, and ``rated``, which is saved as numbers."""
        values = self.settings.to_dict()
        values.pop("rated", None)
        values.pop("device", None)
        return {
            name: None if isinstance(value, np.random.RandomState) else value
            for name, value in values.items()
        }

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load an algorithm of this class or one derived from it; ``TacendaAlgorithm.load`` loads any.

        Raises `ArtifactError` for a folder that is missing, damaged or of another class.
        """
        with storage.load_errors(path):
            return cls.from_artifact(artifact.read(path))

    @classmethod
    def from_artifact(cls, found: Artifact) -> Self:
        """Rebuild what `to_artifact` gave; to be called within ``storage.load_errors``."""
        model, saved, ratings = storage.unpacked(found)
        if "rated" in saved.arguments:
            raise ArtifactError("it names an argument that is never saved: 'rated'")
        algo = storage.class_at(saved.address, cls).from_settings(saved.arguments)
        if algo.conditional:
            algo.rated = saved.more_rated()
        algo._adopt(saved.trainset, model, FitData(ratings, saved.seen, saved.users))
        algo._choices = saved.choices
        for given in saved.given:
            algo._add(given)
        return algo

    # -- what Surprise calls -----------------------------------------------------------------------

    def estimate(self, u: int | str, i: int | str) -> float:
        """Return the expected rating, not clipped, of inner ids or of AlgoBase's marks for unknown ones."""
        model = self._fitted()
        item = -1 if isinstance(i, str) else i
        user = -1
        if not isinstance(u, str):
            user = u
        elif (new := self._new_users.get(raw := u.removeprefix(UNKNOWN))) is not None:
            return float(new.model_user.score(np.array([item]))[0])
        else:
            user = self._unrated_users.get(raw, -1)
        if not self.predicts_unknown and (user < 0 or item < 0):
            raise PredictionImpossible(why_impossible(user, item))
        return float(model.score_pairs(np.array([user]), np.array([item]))[0])

    def test(
        self, testset: Iterable[tuple[Any, Any, float | None]], verbose: bool = False
    ) -> list[Prediction]:
        """Return what AlgoBase.test returns, predicting all pairs at once."""
        model, rows = self._fitted(), list(testset)
        with no_collection():
            uids, iids, truths = zip(*rows, strict=True) if rows else ((),) * 3
            users, items = numbers(uids, self._users), numbers(iids, self._items)
            impossible = ((users < 0) | (items < 0)) & (not self.predicts_unknown)
            scores = model.score_pairs(users, items).astype(np.float64)
            for user, places in self._new_users.rows(uids, users):
                scores[places] = user.score(items[places])
                impossible[places] = False
            scores[impossible] = self.default_prediction()
            estimates = np.clip(scores, *self.trainset.rating_scale).tolist()
            refused = np.flatnonzero(impossible).tolist()
            reasons = {row: why_impossible(users[row], items[row]) for row in refused}
            predictions = prediction_objects(uids, iids, truths, estimates, reasons)
        if verbose:
            for prediction in predictions:
                print(prediction)
        return predictions

    # -- what AlgoBase has nothing like ------------------------------------------------------------

    def predict_many(self, uids: Sequence[Any], iids: Sequence[Any]) -> Floats:
        """Estimate the ratings (pairs,) of raw ids, clipped to the scale: ``predict`` without its objects.

        Raises ConfigurationError if there is not one item for every user.
        """
        model = self._fitted()
        scores = self._per_pair(
            uids, iids, model.score_pairs, lambda user, items: user.score(items)
        )
        return np.asarray(np.clip(scores, *self.trainset.rating_scale))

    def predict_users(self, uids: Sequence[Any]) -> Floats:
        """Estimate the ratings (users, items) of all items, in the order of their inner ids, for some users.

        Raises DataError for an unknown user.
        """
        uids = as_list(uids, "uids")
        self._require_known(uids)
        users = numbers(uids, self._users)
        scores = self._fitted().score_users(users).astype(np.float64)
        for user, rows in self._new_users.rows(uids, users):
            scores[rows] = user.score()
        return np.asarray(np.clip(scores, *self.trainset.rating_scale))

    def predict_std(self, uids: Sequence[Any], iids: Sequence[Any]) -> Floats:
        """Return standard deviations (pairs,) of the ratings of raw ids, their noise included.

        Raises ConfigurationError if there is not one item for every user.
        """
        model = self._fitted()
        return self._per_pair(
            uids, iids, model.deviations, lambda user, items: user.deviations(items)
        )

    def predict_proba(self, uids: Sequence[Any], iids: Sequence[Any]) -> Floats:
        """Return probabilities (pairs, levels) of the ratings `levels`.

        Raises ConfigurationError on a continuous scale, or if there is not one item for every user.
        """
        model = self._fitted()
        catalogue = model.catalogue
        return self._per_pair(
            uids,
            iids,
            model.probabilities,
            lambda user, items: folded_probabilities(user, items, catalogue),
        )

    def predict_density(
        self, uids: Sequence[Any], iids: Sequence[Any], ratings: Sequence[float]
    ) -> Floats:
        """Return the density (pairs,) of ``ratings`` (pairs,) of raw ids: normal about the score, not clipped.

        The question to ask on a continuous scale, where no single rating has a probability.
        """
        if len(ratings) != len(uids):
            raise ConfigurationError(
                f"there are {len(uids)} users and {len(ratings)} ratings; give one for every pair"
            )
        scores = self._per_pair(
            uids, iids, self._fitted().score_pairs, lambda user, items: user.score(items)
        )
        return np.asarray(norm.pdf(ratings, scores, self.predict_std(uids, iids)))

    @property
    def levels(self) -> Floats:
        """The ratings (levels,) that `predict_proba` is about, ascending."""
        return self._fitted().catalogue.levels.astype(np.float64)

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
    ) -> dict[Any, list[tuple[Any, float]]]:
        """Find the ``n`` best items of every user, or of ``uids``: (raw item id, estimate), best first.

        No anti-testset is built: it takes the memory of one block of users. The first call fits the model of what
        gets chosen.

        Parameters
        ----------
        n
            Items for each user.
        uids
            Raw user ids; an unknown one is a `DataError`.
        exclude_seen
            Leave out what the user has rated or is known to have rated.
        by
            What is best: ``"both"`` is an item that the user is likely to choose and to like then
            (`tacenda_surprise.models.choices`); ``"choice"`` and ``"rating"`` are one of the two alone. The
            highest estimates are often those of obscure items.
        candidates
            Raw ids of the items that may be listed; None: all. Unknown ones are left out.
        exclude
            Raw ids of items that may not.
        min_ratings
            How many ratings an item must have.
        """
        model = self._fitted()
        wanted = list(self._users) if uids is None else as_list(uids, "uids")
        self._require_known(wanted)
        known = [uid for uid in wanted if uid in self._users]
        raw_items = list(self._items)
        low, high = self.trainset.rating_scale
        lists = self._lists(by, candidates, exclude, min_ratings)
        seen = self._seen if exclude_seen else None
        ranked = best_items(model, numbers(known, self._users), n, seen, lists)
        found = {
            uid: [
                (raw_items[item], score)
                for item, score in zip(r.items, np.clip(r.scores, low, high).tolist(), strict=True)
            ]
            for uid, r in zip(known, ranked, strict=True)
        }
        for uid in wanted:
            if uid not in found:
                user = self._new_users.get(str(uid))
                assert user is not None  # or it would not be known
                found[uid] = user.listed(lists, n, exclude_seen=exclude_seen)
        return {uid: found[uid] for uid in wanted}

    @property
    def choices(self) -> Choices:
        """The model of what gets chosen, fitted when it is asked for first."""
        self._fitted()
        if self._choices is None:
            self._choices = Choices.of(ratings_of(self.trainset), self._seen)
        return self._choices

    def _lists(
        self,
        by: By = "both",
        candidates: Iterable[Any] | None = None,
        exclude: Iterable[Any] = (),
        min_ratings: int = 0,
    ) -> Lists:
        """What ``top_n`` ranks by, and what it leaves out."""
        allowed, banned = (
            None if ids is None else numbers(as_list(ids, what), self._items)
            for ids, what in ((candidates, "candidates"), (exclude, "exclude"))
        )
        unsupported = None
        if min_ratings > 0:
            sizes = (len(self.trainset.ir[i]) for i in range(len(self._items)))
            unsupported = np.fromiter(sizes, np.int64, len(self._items)) < min_ratings
        return Lists.of(
            None if by == "rating" else self.choices,
            by,
            len(self._items),
            None if allowed is None else allowed[allowed >= 0].tolist(),
            () if banned is None else banned[banned >= 0].tolist(),
            unsupported,
        )

    def fold_in(
        self,
        ratings: Mapping[Any, float] | Iterable[tuple[Any, float]] = (),
        rated: Iterable[Any] = (),
        *,
        uid: Hashable | None = None,
    ) -> NewUser:
        """Predict for a user the algorithm was not fitted to, from their ratings, without fitting again.

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
        if uid is not None and uid in self._users:
            raise ConfigurationError(
                f"user {uid!r} is in the trainset already; fold_in is for users who are not"
            )
        scale = self.trainset.rating_scale
        return self._add(Given.of(uid, dict(ratings), as_list(rated, "rated"), self._items, scale))

    def _knows(self, uid: Any) -> bool:
        """Whether the user was fitted, is known by identities, or was folded in."""
        return uid in self._users or self._new_users.get(str(uid)) is not None

    def _seen_by(self, uid: Any) -> list[Any]:
        """Raw ids of what a user is known to have rated; none of an unknown one."""
        raw, found = list(self._items), []
        if uid in self._users:
            found = self._seen.of_user(self._users[uid]).tolist()
        elif (new := self._new_users.get(str(uid))) is not None:
            found = new.seen.tolist()
        return [raw[item] for item in found]

    def _require_known(self, uids: Iterable[Any]) -> None:
        for uid in uids:
            if not self._knows(uid):
                raise DataError(
                    f"user {uid!r} is not in the trainset; fold_in(uid={uid!r}, ratings=...) makes it known"
                )

    def _per_pair(
        self,
        uids: Sequence[Any],
        iids: Sequence[Any],
        of_model: Callable[[Numbers, Numbers], npt.NDArray[np.float32]],
        of_new_user: Callable[[FoldedUser, Numbers], npt.NDArray[np.float32]],
    ) -> Floats:
        """Ask the model, or a new user, about pairs of raw ids; the answers have one row a pair."""
        uids, iids = as_pairs(uids, iids)
        users, items = numbers(uids, self._users), numbers(iids, self._items)
        found = of_model(users, items).astype(np.float64)
        for user, rows in self._new_users.rows(uids, users):
            found[rows] = of_new_user(user, items[rows])
        return found
