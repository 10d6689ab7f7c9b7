"""Predictions, top lists and new users without a Python object for every pair."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from surprise import Trainset

from tacenda.errors import ConfigurationError, DataError
from tacenda_surprise.folded import Folded, Given
from tacenda_surprise.models.base import FoldedUser, RatingModel, folded_probabilities
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.models.ranking import best_items
from tacenda_surprise.trainsets import numbers

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


class ManyAtOnce:
    """The part of `tacenda_surprise.algorithm.TacendaAlgorithm` that AlgoBase has nothing like."""

    trainset: Trainset
    _users: dict[Hashable, int]
    _items: dict[Hashable, int]
    _folded: dict[str, Folded]
    _seen: Identities

    def _fitted(self) -> RatingModel:
        raise NotImplementedError

    def _folded_rows(
        self, uids: Sequence[Any], users: Numbers
    ) -> Iterator[tuple[FoldedUser, Numbers]]:
        """The users among ``uids`` that were folded in, each with the rows where they stand."""
        if not self._folded:
            return
        rows: dict[str, list[int]] = {}
        for row in np.flatnonzero(users < 0).tolist():
            text = str(uids[row])
            if text in self._folded:
                rows.setdefault(text, []).append(row)
        for text, found in rows.items():
            yield self._folded[text].model_user, np.array(found)

    def predict_many(self, uids: Sequence[Any], iids: Sequence[Any]) -> Floats:
        """Estimates (pairs,) of raw ids, clipped to the scale; ``predict`` without its objects."""
        users, items = self._pairs(uids, iids)
        scores = self._fitted().score_pairs(users, items).astype(np.float64)
        for user, rows in self._folded_rows(uids, users):
            scores[rows] = user.score(items[rows])
        return np.asarray(np.clip(scores, *self.trainset.rating_scale))

    def predict_users(self, uids: Sequence[Any]) -> Floats:
        """Estimates (users, items) of all items, in the order of their inner ids, for a block of users.

        Raises DataError for an unknown user.
        """
        for uid in uids:
            if uid not in self._users and str(uid) not in self._folded:
                raise DataError(f"user {uid!r} is not in the trainset; fold_in makes users known")
        users = numbers(uids, self._users)
        scores = self._fitted().score_users(users).astype(np.float64)
        for user, rows in self._folded_rows(uids, users):
            scores[rows] = user.score()
        return np.asarray(np.clip(scores, *self.trainset.rating_scale))

    def predict_std(self, uids: Sequence[Any], iids: Sequence[Any]) -> Floats:
        """Standard deviations (pairs,) of the ratings of raw ids, their noise included."""
        users, items = self._pairs(uids, iids)
        deviations = self._fitted().deviations(users, items).astype(np.float64)
        for user, rows in self._folded_rows(uids, users):
            deviations[rows] = user.deviations(items[rows])
        return deviations

    def predict_proba(self, uids: Sequence[Any], iids: Sequence[Any]) -> Floats:
        """Probabilities (pairs, levels) of the ratings ``levels``; raises for a continuous scale."""
        model = self._fitted()
        users, items = self._pairs(uids, iids)
        chances = model.probabilities(users, items).astype(np.float64)
        for user, rows in self._folded_rows(uids, users):
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

        Parameters
        ----------
        n
            Items a user.
        uids
            Raw user ids; an unknown one is a `DataError`.
        exclude_seen
            Leave out what the user has rated or is known to have rated.

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

        Parameters
        ----------
        ratings
            (raw item id, rating) of what the user has rated; the last counts for an item twice.
        rated
            Raw ids of further items known to be rated, for the conditional models.
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
            a rating is not finite or off the scale.
        """
        self._fitted()
        if uid is not None:
            self._check_new(uid)
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

    def _fold(self, given: Given) -> Folded:
        low, high = self.trainset.rating_scale
        user = self._fitted().fold_in(given.items, given.values, given.rated)
        folded = Folded(user, self._items, (float(low), float(high)), given)
        if given.uid is not None:
            self._folded[str(given.uid)] = folded
        return folded

    def _check_new(self, uid: Hashable) -> None:
        if uid in self._users:
            raise ConfigurationError(
                f"user {uid!r} is in the trainset already; fold_in is for users who are not"
            )
        before = self._folded.get(str(uid))
        if before is not None and before.given.uid != uid:
            raise ConfigurationError(
                f"user {before.given.uid!r} was folded in before, and predict cannot tell {uid!r} from that: "
                "Surprise asks for unknown users by the text of their ids"
            )

    def _pairs(self, uids: Sequence[Any], iids: Sequence[Any]) -> tuple[Numbers, Numbers]:
        if len(uids) != len(iids):
            raise ConfigurationError(
                f"there are {len(uids)} users and {len(iids)} items; give one of each for every pair"
            )
        self._fitted()
        return numbers(uids, self._users), numbers(iids, self._items)
