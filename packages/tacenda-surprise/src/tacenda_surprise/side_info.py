"""Identities without ratings, who has rated what, and how they join the ratings of a trainset."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from surprise import Trainset

from tacenda.errors import DataError
from tacenda.ratings import Ratings
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.trainsets import FitData, as_list, check_ids, more_ids, numbers, ratings_of

_DENSE = 0.9  # above this density the pairs carry no information
_FEW = 100  # too few pairs to judge density


class Numbered(NamedTuple):
    """Identities for the numbers of a trainset, users it does not know numbered after its own."""

    identities: Identities
    new_users: list[Hashable]  # raw ids of the users that only the identities know
    dropped: int  # pairs left out as nobody has rated their item


class SideInfo:
    """Pairs of raw user and item ids that are known to be rated; no ratings.

    Parameters
    ----------
    pairs
        (raw user id, raw item id); further fields are not looked at, and duplicates merge.

    Raises DataError for what is no pair, and for an id that is missing.

    Examples
    --------
    >>> ConditionalPMF(rated=SideInfo([("alice", "Brazil"), ("alice", "Alien")])).fit(trainset)
    """

    def __init__(self, pairs: Iterable[Iterable[Any]]) -> None:
        kept: dict[tuple[Hashable, Hashable], None] = {}
        for pair in as_list(pairs, "pairs"):
            if isinstance(pair, str | bytes) or not isinstance(pair, Iterable):
                raise DataError(f"{pair!r} is no pair; give (raw user id, raw item id)")
            user, item, *_ = pair
            kept[user, item] = None
        check_ids({user for user, _ in kept}, "user")
        check_ids({item for _, item in kept}, "item")
        self.pairs: list[tuple[Hashable, Hashable]] = list(kept)

    @classmethod
    def from_testset(cls, testset: Iterable[tuple[Any, Any, Any]]) -> SideInfo:
        """Take the pairs of a Surprise testset; their ratings are not even looked at.

        Results with it are transductive: the model is told who has rated the items it is tested on, as the
        competitors for the Netflix prize were.
        """
        return cls((user, item) for user, item, _ in testset)

    def __len__(self) -> int:
        return len(self.pairs)

    def __repr__(self) -> str:
        return f"<SideInfo of {len(self)} pairs>"

    def numbered(self, users: Mapping[Any, int], items: Mapping[Any, int]) -> Numbered:
        """The pairs as numbers."""
        item_ids = numbers((item for _, item in self.pairs), dict(items))
        known = item_ids >= 0
        new: dict[Hashable, int] = {}
        user_ids = np.empty(len(self.pairs), np.int64)
        for row, (user, _) in enumerate(self.pairs):
            if known[row]:
                found = users.get(user)
                if found is None:
                    found = new.setdefault(user, len(users) + len(new))
                user_ids[row] = found
        n_users = len(users) + len(new)
        dropped = int((~known).sum())
        identities = Identities.from_pairs(user_ids[known], item_ids[known], n_users, len(items))
        return Numbered(identities, list(new), dropped)

    def joined(self, trainset: Trainset) -> FitData:
        """Add the pairs to a trainset; users that only they know are numbered after the others.

        Raises DataError for unusable ratings or pairs; warns of pairs that are left out.
        """
        ratings = ratings_of(trainset)
        users: dict[Hashable, int] = trainset._raw2inner_id_users
        found = self.numbered(users, trainset._raw2inner_id_items)
        _refuse_everything(Identities.of(ratings, found.identities), ratings)
        if found.dropped:
            warnings.warn(
                f"{found.dropped} identities are of items that nobody has rated in the trainset; left out",
                stacklevel=4,
            )
        if found.new_users:
            first = len(users)
            if len({str(user) for user in found.new_users}) < len(found.new_users):
                raise DataError(
                    "two users of rated= have ids of the same text, as 7 and '7'; Surprise cannot tell such "
                    "users apart unless they have ratings: make the ids of one type"
                )
            users = {**users, **{user: first + k for k, user in enumerate(found.new_users)}}
            ratings = Ratings(
                ratings.user_ids,
                ratings.item_ids,
                ratings.values,
                more_ids(ratings.users, found.new_users),
                ratings.items,
                scale=ratings.scale,
            )
        return FitData(ratings, found.identities, users)


def _refuse_everything(seen: Identities, ratings: Ratings) -> None:
    """Raise DataError if users are said to have rated nearly all that they did not, as with an anti-testset."""
    known = len(Identities.of(ratings).item_ids)
    n, possible = len(seen.item_ids) - known, seen.n_users * ratings.n_items - known
    if n > max(_DENSE * possible, _FEW):
        raise DataError(
            f"{n} of the {possible} pairs without a rating are said to be rated, nearly all: give "
            "those that are known to be rated, not an anti-testset"
        )
