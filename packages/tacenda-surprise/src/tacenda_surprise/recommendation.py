"""Lists of items for users, whether the model was fitted to them or they were folded in."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from tacenda.errors import ConfigurationError
from tacenda_surprise.batch_predictions import BatchPredictions
from tacenda_surprise.models.choices import Choices
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.models.ranking import By, Lists, best_items
from tacenda_surprise.new_users import Given, NewUser
from tacenda_surprise.trainsets import as_list, numbers, ratings_of


class Recommendation(BatchPredictions):
    """The best items of users, and users who come later.

    A subclass sets what is declared here and in `BatchPredictions`.
    """

    _seen: Identities  # who is known to have rated what
    _choices: Choices | None

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

    def _add(self, given: Given) -> NewUser:
        """Fold a user in, and keep them if they have a raw id."""
        low, high = (float(end) for end in self.trainset.rating_scale)
        new = NewUser.of(self._fitted(), self._items, (low, high), given, self._lists)
        return self._new_users.add(new)

    def _seen_by(self, uid: Any) -> list[Any]:
        """Raw ids of what a user is known to have rated; none of an unknown one."""
        raw, found = list(self._items), []
        if uid in self._users:
            found = self._seen.of_user(self._users[uid]).tolist()
        elif (new := self._new_users.get(str(uid))) is not None:
            found = new.seen.tolist()
        return [raw[item] for item in found]
