"""Lists of items for users, whether the model was fitted to them or they were folded in."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from tacenda.errors import ConfigurationError
from tacenda_surprise.batch_predictions import BatchPredictions
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.models.ranking import Lists, best_items
from tacenda_surprise.new_users import Given, NewUser, ratings_by_item
from tacenda_surprise.top_n import Found
from tacenda_surprise.trainsets import as_list, numbers


class Recommendation(BatchPredictions):
    """The best items of users, and users who come later.

    A subclass sets what is declared here and in `BatchPredictions`.
    """

    _seen: Identities  # who is known to have rated what
    _unrated_users: dict[str, int]  # of whom only side information is known

    def _everybody(self) -> list[Any]:
        return list(self._users)

    def _identities(self) -> Identities:
        return self._seen

    def _ranked(
        self, uids: list[Any], n: int, lists: Lists, *, exclude_seen: bool
    ) -> Iterator[Found]:
        known = numbers([uid for uid in uids if uid in self._users], self._users)
        seen = self._seen if exclude_seen else None
        fitted = best_items(self._fitted(), known, n, seen, lists)
        for uid in uids:
            if uid in self._users:
                one = next(fitted)
                yield one.items, one.scores
            else:
                new = self._new_users[str(uid)]
                yield new.best(lists, n, exclude_seen=exclude_seen)

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
            ``uid`` is a user of the trainset, or ``ratings`` are no pairs of items and ratings.
        DataError
            A rating is no number, not finite or off the scale, or the id of an item is missing.
        """
        self._fitted()
        if uid is not None and uid in self._users:
            raise ConfigurationError(
                f"user {uid!r} is in the trainset already; fold_in is for users who are not"
            )
        self._check_new(uid)
        scale = self.trainset.rating_scale
        return self._add(
            Given.of(uid, ratings_by_item(ratings), as_list(rated, "rated"), self._items, scale)
        )

    def _check_new(self, uid: Any) -> None:
        """Raise ConfigurationError for the id, as text, of a user of whom only side information is known."""
        if uid is not None and str(uid) in self._unrated_users:
            raise ConfigurationError(
                f"user {uid!r} has the id, as text, of a user whose rated items are known from side information: give "
                "fold_in another uid"
            )

    def _add(self, given: Given) -> NewUser:
        """Fold a user in, and keep them if they have a raw id."""
        low, high = (float(end) for end in self.trainset.rating_scale)
        new = NewUser.of(
            self._fitted(), self._items, (low, high), given, partial(self._lists, of=self.trainset)
        )
        return self._new_users.add(new)

    def _seen_by(self, uid: Any) -> list[Any]:
        """Raw ids of what a user is known to have rated; none of an unknown one."""
        raw, found = list(self._items), []
        if uid in self._users:
            found = self._seen.of_user(self._users[uid]).tolist()
        elif (new := self._new_users.get(str(uid))) is not None:
            found = new.seen.tolist()
        return [raw[item] for item in found]
