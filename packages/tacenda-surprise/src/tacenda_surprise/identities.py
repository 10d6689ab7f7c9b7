"""Who has rated what, whatever the ratings: the sets N(u)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tacenda.array_ops import to_device
from tacenda.arrays import Array, Arrays, Int32, Offsets, below
from tacenda.errors import DataError
from tacenda.kernels.shared import sparse_product
from tacenda.ratings import Ratings
from tacenda_surprise.catalogue import Numbers


class Identities(Arrays):
    """The sets N(u) of the items that each user has rated, ascending and without duplicates, as CSR."""

    offsets: Offsets[Array, "users identities"]
    item_ids: Int32[Array, "identities", below("items")]

    @classmethod
    def of(cls, ratings: Ratings, more: Identities | None = None) -> Identities:
        """Take the rated pairs, whose memory is shared, and join them with ``more``."""
        known = cls(ratings.user_offsets, ratings.item_ids)
        return known if more is None else known.union(more, ratings.n_items)

    @classmethod
    def from_pairs(cls, users: Numbers, items: Numbers, n_users: int, n_items: int) -> Identities:
        """Sort numbered users and items (pairs,), in any order; duplicates merge.

        Raises DataError for a number out of range, and where there is not one item for each user.
        """
        users, items = np.asarray(users), np.asarray(items)
        if users.shape != items.shape:
            raise DataError(
                f"there are {users.size} users and {items.size} items; give one for each"
            )
        for what, ids, n in (("user", users, n_users), ("item", items, n_items)):
            if len(ids) and (ids.min() < 0 or ids.max() >= n):
                raise DataError(f"one of the {what} numbers is not in 0 to {n - 1}; renumber them")
        # A pair is sorted as one number, user * n_items + item, which is fast.
        cells = np.unique(users.astype(np.int64) * max(n_items, 1) + items)
        offsets = np.searchsorted(cells, np.arange(n_users + 1) * max(n_items, 1))
        return cls(offsets.astype(np.int64), (cells % max(n_items, 1)).astype(np.int32))

    @property
    def n_users(self) -> int:
        """Number of users, those without identities included."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """|N(u)| (users,)."""
        return np.diff(np.asarray(self.offsets))

    @property
    def user_ids(self) -> npt.NDArray[np.int64]:
        """The user of every identity, (identities,)."""
        return np.repeat(np.arange(self.n_users), self.sizes)

    def of_user(self, user: int) -> npt.NDArray[np.int32]:
        """Return N(u), (|N(u)|,)."""
        items: npt.NDArray[np.int32] = self.item_ids[self.offsets[user] : self.offsets[user + 1]]
        return items

    def take(self, users: Numbers) -> Identities:
        """Return the sets of some users."""
        offsets = np.append(0, np.cumsum(self.sizes[users]))
        return Identities(offsets, self.item_ids[places_of_users(self.offsets, users)])

    def by_item(self, n_items: int) -> Identities:
        """Return the sets of the users who have rated each item."""
        return Identities.from_pairs(self.item_ids, self.user_ids, n_items, self.n_users)

    def union(self, other: Identities, n_items: int) -> Identities:
        """Join the identities of both, for as many users as the longer one has."""
        users = np.concatenate([self.user_ids, other.user_ids])
        items = np.concatenate([self.item_ids, other.item_ids])
        n_users = max(self.n_users, other.n_users)
        return Identities.from_pairs(users, items, n_users, n_items)

    def means(self, table: Array, device: str = "cpu") -> Array:
        """Average the rows of ``table`` (items, width) over every N(u): (users, width), zeros for an empty N(u)."""
        ones = to_device(np.ones(len(self.item_ids), np.float32), device)
        scale = to_device((1.0 / np.maximum(np.diff(self.offsets), 1)).astype(np.float32), device)
        return sparse_product(self.offsets, self.item_ids, ones, table, row_scale=scale)


def places_of_users(offsets: Numbers, users: Numbers) -> Numbers:
    """Find the places (n,) of the ratings of some users; user u has ``offsets[u]:offsets[u + 1]``."""
    starts, sizes = offsets[users], offsets[users + 1] - offsets[users]
    n_before = np.cumsum(sizes) - sizes  # ratings of the users before each
    return np.repeat(starts - n_before, sizes) + np.arange(sizes.sum())


def users_at(offsets: Numbers, places: Numbers) -> Numbers:
    """Find the users (n,) of the ratings in some places: the inverse of `places_of_users`."""
    return np.searchsorted(offsets, places, side="right") - 1
