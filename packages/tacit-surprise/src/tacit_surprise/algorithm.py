"""Any rating model as a Surprise algorithm: everything AlgoBase promises, and what it never had."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from surprise import AlgoBase, Prediction, PredictionImpossible, Trainset
from surprise.utils import get_rng

from tacit.errors import ConfigurationError, DataError, NotFittedError
from tacit.fitting import Callback
from tacit.ratings import Ratings
from tacit_surprise.folded import Folded
from tacit_surprise.models.base import RatingModel
from tacit_surprise.models.identities import Identities
from tacit_surprise.models.ranking import best_items
from tacit_surprise.reporting import EpochPrinter
from tacit_surprise.side_info import SideInfo, as_side_info, warn_of_dropped
from tacit_surprise.trainsets import numbers, ratings_of, raw_index

__all__ = ["TacitAlgorithm"]

Floats = npt.NDArray[np.float64]
_UNKNOWN = "UKN__"  # how AlgoBase.predict marks a raw id the trainset does not know


class TacitAlgorithm(AlgoBase):  # type: ignore[misc]
    """Hosts a `tacit_surprise.models.RatingModel`; subclasses say which, and with which settings.

    Attributes:
        model: the fitted model; None before ``fit``.
        bu, bi: biases of users and items (users,), (items,) float64; None where the model has none.
        pu, qi: factors (users, factors), (items, factors) float64; likewise.
    """

    #: Whether an unknown user or item leaves anything to predict from.
    predicts_unknown = True

    #: Whether identities without ratings are of any use to it.
    conditional = False

    def __init__(
        self,
        *,
        rated: SideInfo | Iterable[Iterable[Any]] | None = None,
        random_state: Any = None,
        verbose: bool = False,
        callbacks: Sequence[Callback] = (),
        checkpoints: str | os.PathLike[str] | None = None,
    ) -> None:
        AlgoBase.__init__(self)
        if rated is not None and not self.conditional:
            raise ConfigurationError(
                f"{type(self).__name__} does not condition on what is rated; leave out rated=, or use a "
                "conditional algorithm"
            )
        self.rated = rated
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks
        self.checkpoints = checkpoints
        self.model: RatingModel | None = None

    def _new_model(self, seed: int) -> RatingModel:
        """The unfitted model that these settings describe."""
        raise NotImplementedError(f"{type(self).__name__} does not say which model it hosts")

    # -- fitting -----------------------------------------------------------------------------------

    def fit(self, trainset: Trainset) -> Self:
        """Fit to ``trainset`` and return self.

        Raises `DataError` for ratings that are not finite or off the scale, `ConfigurationError` for
        settings out of range.
        """
        AlgoBase.fit(self, trainset)
        seed = int(get_rng(self.random_state).randint(2**31 - 1))
        ratings, identities = self._input(trainset)
        callbacks = (EpochPrinter(), *self.callbacks) if self.verbose else self.callbacks
        self.model = self._new_model(seed).fit(
            ratings,
            identities=identities,
            callbacks=callbacks,
            checkpoints=self.checkpoints,
            progress=type(self).__name__,
        )
        self._seen = Identities.of(ratings)
        self._folded: dict[str, Folded] = {}
        self._publish()
        return self

    def _input(self, trainset: Trainset) -> tuple[Ratings, Identities | None]:
        """Ratings and identities; users that only the identities know get the numbers after the others."""
        ratings = ratings_of(trainset)
        self._users: dict[Hashable, int] = trainset._raw2inner_id_users
        self._items: dict[Hashable, int] = trainset._raw2inner_id_items
        side = as_side_info(self.rated)
        if side is None:
            return ratings, None
        found = side.numbered(self._users, self._items)
        warn_of_dropped(found.dropped)
        if found.new_users:
            first = len(self._users)
            self._users = {**self._users, **{u: first + k for k, u in enumerate(found.new_users)}}
            ratings = Ratings(
                ratings.user_ids,
                ratings.item_ids,
                ratings.values,
                raw_index(self._users, "user"),
                ratings.items,
                scale=ratings.scale,
            )
        return ratings, found.identities

    def _publish(self) -> None:
        """Sets what Surprise's users read: bu, bi, pu, qi."""
        tables = getattr(self.model, "tables", None)
        if tables is None:
            return
        n = self.trainset.n_users
        self.bu, self.bi = tables.user_biases[:n].astype(float), tables.item_biases.astype(float)
        self.pu, self.qi = tables.user_factors[:n].astype(float), tables.item_factors.astype(float)

    def _fitted(self) -> RatingModel:
        if self.model is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted: call fit(trainset)")
        return self.model

    # -- what Surprise calls -----------------------------------------------------------------------

    def estimate(self, u: int | str, i: int | str) -> float:
        """Expected rating, not clipped, of inner ids or of AlgoBase's marks for unknown ones."""
        model = self._fitted()
        item = -1 if isinstance(i, str) else i
        user = -1
        if not isinstance(u, str):
            user = u
        elif (raw := u.removeprefix(_UNKNOWN)) in self._folded:
            return float(self._folded[raw].model_user.score(np.array([item]))[0])
        else:
            user = self._only_identities().get(raw, -1)
        self._refuse(user, item)
        return float(model.score_pairs(np.array([user]), np.array([item]))[0])

    def test(
        self, testset: Iterable[tuple[Any, Any, float | None]], verbose: bool = False
    ) -> list[Prediction]:
        """What AlgoBase.test gives, for all pairs at once."""
        uids, iids, truths = zip(*testset, strict=True) if (testset := list(testset)) else ((),) * 3
        users, items = numbers(uids, self._users), numbers(iids, self._items)
        impossible = np.zeros(len(users), bool)
        if not self.predicts_unknown:
            impossible = (users < 0) | (items < 0)
        scores = self._fitted().score_pairs(users, items).astype(np.float64)
        if self._folded:
            impossible &= ~self._score_folded(uids, items, scores)
        scores[impossible] = self.default_prediction()
        estimates = np.clip(scores, *self.trainset.rating_scale).tolist()
        details = [{"was_impossible": False} for _ in uids]
        for row in np.flatnonzero(impossible):
            details[row] = {"was_impossible": True, "reason": _reason(users[row], items[row])}  # type: ignore[dict-item]
        rows = zip(uids, iids, truths, estimates, details, strict=True)
        predictions = list(map(tuple.__new__, repeat(Prediction), rows))
        if verbose:
            for prediction in predictions:
                print(prediction)
        return predictions

    def _refuse(self, user: int, item: int) -> None:
        if not self.predicts_unknown and (user < 0 or item < 0):
            raise PredictionImpossible(_reason(user, item))

    def _score_folded(
        self, uids: Sequence[Any], items: npt.NDArray[np.int64], scores: Floats
    ) -> npt.NDArray[np.bool_]:
        """Puts the scores of users that were folded in in their places; says where those are."""
        texts = np.array([str(uid) if str(uid) in self._folded else "" for uid in uids])
        known = numbers(uids, self._users) >= 0
        for raw in set(texts.tolist()) - {""}:
            rows = np.flatnonzero((texts == raw) & ~known)
            scores[rows] = self._folded[raw].model_user.score(items[rows])
        return np.asarray((texts != "") & ~known)

    def _only_identities(self) -> dict[str, int]:
        n = self.trainset.n_users
        return {str(raw): number for raw, number in self._users.items() if number >= n}

    # -- many at once ------------------------------------------------------------------------------

    def predict_many(self, uids: Sequence[Any], iids: Sequence[Any]) -> Floats:
        """Estimates (pairs,) of raw ids, clipped to the scale; ``predict`` without its objects."""
        users, items = self._pairs(uids, iids)
        scores = self._fitted().score_pairs(users, items).astype(np.float64)
        if self._folded:
            self._score_folded(uids, items, scores)
        return np.asarray(np.clip(scores, *self.trainset.rating_scale))

    def predict_std(self, uids: Sequence[Any], iids: Sequence[Any]) -> Floats:
        """Standard deviations (pairs,) of the ratings of raw ids, their noise included."""
        return self._fitted().deviations(*self._pairs(uids, iids)).astype(np.float64)

    def predict_proba(self, uids: Sequence[Any], iids: Sequence[Any]) -> Floats:
        """Probabilities (pairs, levels) of the ratings ``levels``; raises for a continuous scale."""
        return self._fitted().probabilities(*self._pairs(uids, iids)).astype(np.float64)

    @property
    def levels(self) -> Floats:
        """The ratings (levels,) that `predict_proba` is about, ascending."""
        return self._fitted().catalogue.levels.astype(np.float64)

    def top_n(
        self, n: int = 10, uids: Iterable[Any] | None = None, *, exclude_seen: bool = True
    ) -> dict[Any, list[tuple[Any, float]]]:
        """The ``n`` best items of every user, or of ``uids``: (raw item id, estimate), best first.

        Args:
            n: items a user.
            uids: raw user ids; an unknown one is a `DataError`.
            exclude_seen: leave out what the user has rated or is known to have rated.

        An anti-testset is not built: memory for one block of users is all it takes.
        """
        model = self._fitted()
        wanted = list(self._users) if uids is None else list(uids)
        known = [uid for uid in wanted if uid in self._users]
        strange = [u for u in wanted if u not in self._users and str(u) not in self._folded]
        if strange:
            raise DataError(
                f"user {strange[0]!r} is not in the trainset; fold_in(uid={strange[0]!r}, ratings=...) "
                "makes it known"
            )
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
                found[uid] = self._folded[str(uid)].top_n(n, exclude_seen=exclude_seen)
        return {uid: found[uid] for uid in wanted}

    def fold_in(
        self,
        ratings: Mapping[Any, float] | Iterable[tuple[Any, float]] = (),
        rated: Iterable[Any] = (),
        *,
        uid: Hashable | None = None,
    ) -> Folded:
        """A user the algorithm was not fitted on, from their ratings, without fitting again.

        Args:
            ratings: (raw item id, rating) of what the user has rated; the last counts for an item twice.
            rated: raw ids of further items known to be rated, for the conditional models.
            uid: raw id under which ``predict``, ``test`` and ``top_n`` know the user from now on.

        Returns:
            The user, with ``predict`` and ``top_n`` of its own. Items nobody has rated are left out.

        Raises:
            ConfigurationError: ``uid`` is a user of the trainset.
            DataError: a rating is not finite or off the scale.
        """
        model = self._fitted()
        if uid is not None and uid in self._users:
            raise ConfigurationError(
                f"user {uid!r} is in the trainset already; fold_in is for users who are not"
            )
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
        user = model.fold_in(items, list(known.values()), more)
        folded = Folded(
            user, self._items, (float(low), float(high)), np.union1d(items, more).astype(np.int64)
        )
        if uid is not None:
            self._folded[str(uid)] = folded
        return folded

    def _pairs(
        self, uids: Sequence[Any], iids: Sequence[Any]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        if len(uids) != len(iids):
            raise ConfigurationError(
                f"there are {len(uids)} users and {len(iids)} items; give one of each for every pair"
            )
        model = self._fitted()
        assert model is not None
        return numbers(uids, self._users), numbers(iids, self._items)


def _reason(user: int, item: int) -> str:
    if user < 0 and item < 0:
        return "User and item are unknown."
    return "User is unknown." if user < 0 else "Item is unknown."
