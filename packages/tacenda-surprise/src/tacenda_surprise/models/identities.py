"""Which items each user has rated, without the ratings: what conditional models condition on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Array, to_device
from tacenda.artifact import require
from tacenda.errors import ArtifactError, DataError
from tacenda.kernels.shared import sparse_product
from tacenda.offsets import checked_offsets
from tacenda.ratings import Ratings


@dataclass(frozen=True)
class Identities:
    """The sets N(u), as CSR.

    Attributes
    ----------
    offsets
        (users + 1,) int64.
    item_ids
        (identities,) int32, ascending within a user, without duplicates.
    """

    offsets: npt.NDArray[np.int64]
    item_ids: npt.NDArray[np.int32]

    @classmethod
    def of(cls, ratings: Ratings, more: Identities | None = None) -> Identities:
        """The rated pairs themselves, whose memory is shared, and those of ``more``."""
        known = cls(ratings.user_offsets, ratings.item_ids)
        return known if more is None else known.union(more, ratings.n_items)

    @classmethod
    def from_pairs(
        cls,
        users: npt.NDArray[np.integer[Any]],
        items: npt.NDArray[np.integer[Any]],
        n_users: int,
        n_items: int,
    ) -> Identities:
        """From (pairs,) numbers in any order; duplicates merge. Raises DataError for a number off range."""
        for what, ids, n in (("user", users, n_users), ("item", items, n_items)):
            if len(ids) and (ids.min() < 0 or ids.max() >= n):
                raise DataError(f"a {what} number is not in 0 to {n - 1}; number them anew")
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
        return np.diff(self.offsets)

    @property
    def user_ids(self) -> npt.NDArray[np.int64]:
        """The user of every identity, (identities,)."""
        return np.repeat(np.arange(self.n_users), self.sizes)

    def of_user(self, user: int) -> npt.NDArray[np.int32]:
        """N(u), (|N(u)|,)."""
        return self.item_ids[self.offsets[user] : self.offsets[user + 1]]

    def union(self, other: Identities, n_items: int) -> Identities:
        """The identities of both, for as many users as the longer one has."""
        users = np.concatenate([self.user_ids, other.user_ids])
        items = np.concatenate([self.item_ids, other.item_ids])
        n_users = max(self.n_users, other.n_users)
        return Identities.from_pairs(users, items, n_users, n_items)

    def means(self, table: Array, device: str = "cpu") -> Array:
        """The mean row of ``table`` (items, width) over every N(u), (users, width); zeros if empty."""
        ones = to_device(np.ones(len(self.item_ids), np.float32), device)
        scale = to_device((1.0 / np.maximum(self.sizes, 1)).astype(np.float32), device)
        return sparse_product.multiply(self.offsets, self.item_ids, ones, table, row_scale=scale)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What `found` reads."""
        return {"rated.offsets": self.offsets, "rated.item_ids": self.item_ids}

    @classmethod
    def found(
        cls, arrays: Mapping[str, npt.NDArray[Any]], n_users: int, n_items: int
    ) -> Self | None:
        """Rebuild those of an artefact, None if it has none. Raises ArtifactError."""
        if "rated.offsets" not in arrays:
            return None
        offsets = require(arrays, "rated.offsets", shape=(n_users + 1,), dtype=np.int64)
        items = require(arrays, "rated.item_ids", shape=("items",), dtype=np.int32)
        checked_offsets(offsets, len(items), what="the array 'rated.offsets'", error=ArtifactError)
        if len(items) and not 0 <= items.min() <= items.max() < n_items:
            raise ArtifactError(f"the array 'rated.item_ids' holds a number off 0 to {n_items - 1}")
        return cls(offsets, items)
