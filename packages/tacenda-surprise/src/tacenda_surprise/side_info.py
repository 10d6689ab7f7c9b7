"""Identities without ratings: who has rated what, the rating unknown."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tacenda.errors import DataError
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.trainsets import numbers

_DENSE = 0.9  # a larger part of all pairs says nothing about anybody
_FEW = 100  # pairs: of so few anything may be true


class Numbered(NamedTuple):
    """Identities for the numbers of a trainset, users it does not know numbered after its own.

    Attributes
    ----------
    identities
        Of all users.
    new_users
        Raw ids of the users that only the identities know.
    dropped
        Pairs left out as nobody has rated their item.
    """

    identities: Identities
    new_users: list[Hashable]
    dropped: int


class SideInfo:
    """Pairs of raw user and item ids that are known to be rated; no ratings.

    Parameters
    ----------
    pairs
        (raw user id, raw item id); more fields are not looked at, duplicates merge.

    Examples
    --------
    >>> ConditionalPMF(rated=SideInfo([("alice", "Brazil"), ("alice", "Alien")])).fit(trainset)
    """

    def __init__(self, pairs: Iterable[Iterable[Any]]) -> None:
        kept: dict[tuple[Hashable, Hashable], None] = {}
        for pair in pairs:
            user, item, *_ = pair
            kept[user, item] = None
        self.pairs: list[tuple[Hashable, Hashable]] = list(kept)

    @classmethod
    def from_testset(cls, testset: Iterable[tuple[Any, Any, Any]]) -> SideInfo:
        """The pairs of a Surprise testset; their ratings are not even looked at.

        Results with it are transductive: the model is told who has rated the items it is tested on, as the
        competitors for the Netflix prize were.
        """
        return cls((user, item) for user, item, _ in testset)

    def __len__(self) -> int:
        return len(self.pairs)

    def numbered(self, users: Mapping[Any, int], items: Mapping[Any, int]) -> Numbered:
        """The pairs in numbers."""
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


def refuse_everything(seen: Identities, n_items: int) -> None:
    """Raises DataError if users are said to have rated nearly everything: that tells nothing about them.

    With an anti-testset beside the ratings it is so.

    Parameters
    ----------
    seen
        Of all users, their ratings included.
    n_items
        Items there are.
    """
    n, possible = len(seen.item_ids), seen.n_users * n_items
    if n > max(_DENSE * possible, _FEW):
        raise DataError(
            f"with the identities {n} of {possible} possible pairs are said to be rated, nearly all: give "
            "those that are known to be rated, not an anti-testset"
        )


def as_side_info(rated: SideInfo | Iterable[Iterable[Any]] | None) -> SideInfo | None:
    """What a user gave as ``rated``."""
    return rated if rated is None or isinstance(rated, SideInfo) else SideInfo(rated)


def warn_of_dropped(dropped: int) -> None:
    """Says how many identities were of no use."""
    if dropped:
        warnings.warn(
            f"{dropped} identities are of items that nobody has rated in the trainset; left out",
            stacklevel=4,
        )
