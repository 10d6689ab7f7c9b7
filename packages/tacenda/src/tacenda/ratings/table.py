"""The Ratings container.

Stored in the order (user, item): ``item_ids`` (n_ratings) int32 and ``values`` (n_ratings) float32,
the ratings of user u at ``user_offsets[u]:user_offsets[u + 1]``, items ascending. The same by item,
(item, user), is made when it is first asked for. 16 bytes a rating for both.
"""

import hashlib
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from tacenda.errors import DataError
from tacenda.ratings import checks
from tacenda.ratings.checks import Duplicates, Ints, Offsets, Values
from tacenda.ratings.index import IdIndex, number_ids

_AT_ONCE = 1 << 22


class Ratings:
    """Explicit ratings of numbered users and items, immutable by convention.

    ``users``, ``items``: the raw ids. ``scale``: lowest and highest rating possible. A part of a
    data set (a fold) keeps users, items and scale of the whole, so that numbers mean the same.
    """

    def __init__(
        self,
        user_ids: ArrayLike,
        item_ids: ArrayLike,
        values: ArrayLike,
        users: IdIndex,
        items: IdIndex,
        *,
        scale: tuple[float, float] | None = None,
        duplicates: Duplicates = "error",
    ) -> None:
        """From numbers, in any order; see ``from_arrays`` for raw ids.

        ``duplicates``: what to do if a user rated an item twice: "error" or "last" (the later row
        counts). Raises DataError for lengths that differ, numbers out of range, values that are
        not finite or off the scale, duplicates, or no ratings at all where no scale is given.
        """
        self.users, self.items = users, items
        u, i = checks.numbers(user_ids, users), checks.numbers(item_ids, items)
        v = np.asarray(values, np.float32)
        if not (u.shape == i.shape == v.shape and v.ndim == 1):
            raise DataError(
                f"users, items and values have shapes {u.shape}, {i.shape}, {v.shape}; "
                "give one of each for every rating"
            )
        rows = checks.Rows(u, i, v, users, items)
        rows.check_finite()
        if scale is None:
            if not len(v):
                raise DataError("there are no ratings; give at least one, or the scale")
            scale = float(v.min()), float(v.max())
        self.scale = float(scale[0]), float(scale[1])
        rows.check_scale(*self.scale)
        if not _ascending(u, i):
            key = u.astype(np.int64) * max(len(items), 1) + i
            order = np.argsort(key, kind="stable")
            order = order[rows.kept(key[order], duplicates)]
            u, i, v = u[order], i[order], v[order]
        self.user_offsets: Offsets = _offsets(u, len(users))
        self.item_ids: Ints = i
        self.values: Values = v

    @classmethod
    def from_csr(
        cls,
        user_offsets: ArrayLike,
        item_ids: ArrayLike,
        values: ArrayLike,
        users: IdIndex,
        items: IdIndex,
        *,
        scale: tuple[float, float] | None = None,
    ) -> "Ratings":
        """From ratings that are in order already: int32 ``item_ids`` and float32 ``values`` are not copied.

        The ratings of user u stand at ``user_offsets[u]:user_offsets[u + 1]``. Raises DataError for offsets
        that do not fit, and as ``Ratings`` does.
        """
        offsets = np.asarray(user_offsets, np.int64)
        n = np.size(item_ids)
        fit = offsets.shape == (len(users) + 1,) and bool((offsets[1:] >= offsets[:-1]).all())
        if not fit or offsets[0] != 0 or offsets[-1] != n:
            raise DataError(f"user offsets must ascend from 0 to {n} in {len(users)} steps")
        numbers = np.repeat(np.arange(len(users), dtype=np.int32), np.diff(offsets))
        return cls(numbers, item_ids, values, users, items, scale=scale)

    @classmethod
    def from_arrays(
        cls,
        users: ArrayLike,
        items: ArrayLike,
        values: ArrayLike,
        *,
        scale: tuple[float, float] | None = None,
        duplicates: Duplicates = "error",
    ) -> "Ratings":
        """From raw ids, one of each a rating: integers or anything with a ``str``.

        Users and items are numbered in sorted order. Without ``scale`` it is taken from the values.
        """
        user_index, user_ids = number_ids(users, "user")
        item_index, item_ids = number_ids(items, "item")
        options: dict[str, Any] = {"scale": scale, "duplicates": duplicates}
        return cls(user_ids, item_ids, values, user_index, item_index, **options)

    @classmethod
    def from_triples(
        cls, triples: Iterable[tuple[object, object, float]], **options: Any
    ) -> "Ratings":
        """From (raw user, raw item, value) triples; options as ``from_arrays``."""
        users: list[str] = []
        items: list[str] = []
        values: list[float] = []
        for user, item, value in triples:
            users.append(str(user))
            items.append(str(item))
            values.append(value)
        return cls.from_arrays(users, items, np.array(values, np.float64), **options)

    @property
    def n_users(self) -> int:
        """Users numbered, those without a rating here included."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        """Items numbered, those without a rating here included."""
        return len(self.items)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        low, high = self.scale
        return (
            f"Ratings({len(self)} ratings from {low:g} to {high:g}, "
            f"{self.n_users} users, {self.n_items} items)"
        )

    @cached_property
    def mean(self) -> float:
        """The mean rating, summed in float64; NaN if there are none."""
        return float(self.values.mean(dtype=np.float64)) if len(self) else float("nan")

    @cached_property
    def levels(self) -> Values:
        """The different values that occur, ascending."""
        return np.unique(self.values)

    @cached_property
    def user_ids(self) -> Ints:
        """The user of every rating, (n_ratings), in the order of ``item_ids`` and ``values``."""
        return np.repeat(np.arange(self.n_users, dtype=np.int32), np.diff(self.user_offsets))

    @cached_property
    def item_counts(self) -> Offsets:
        """How many have rated every item, (n_items)."""
        return _counts(self.item_ids, self.n_items)

    def of_user(self, user: int) -> tuple[Ints, Values]:
        """Items and values of a user's ratings (views)."""
        span = slice(self.user_offsets[user], self.user_offsets[user + 1])
        return self.item_ids[span], self.values[span]

    def of_item(self, item: int) -> tuple[Ints, Values]:
        """Users and values of an item's ratings (views)."""
        return self.by_item.of_user(item)

    @cached_property
    def by_item(self) -> "Ratings":
        """The same ratings with users and items exchanged; made once, on first use."""
        other = object.__new__(Ratings)
        columns = self.to_csr().tocsc()  # by counting, users in their order
        other.users, other.items, other.scale = self.items, self.users, self.scale
        other.user_offsets = columns.indptr.astype(np.int64)
        other.item_ids, other.values = columns.indices.astype(np.int32, copy=False), columns.data
        return other

    def select(self, keep: NDArray[Any]) -> "Ratings":
        """The ratings at these positions (a mask or indices), with the same users, items, scale."""
        user_ids, item_ids, values = self.user_ids[keep], self.item_ids[keep], self.values[keep]
        return Ratings(user_ids, item_ids, values, self.users, self.items, scale=self.scale)

    def to_csr(self) -> scipy.sparse.csr_array:
        """(n_users, n_items) sparse matrix of the values; a rating of 0 is a stored zero."""
        shape = (self.n_users, self.n_items)
        return scipy.sparse.csr_array((self.values, self.item_ids, self.user_offsets), shape=shape)

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest of the ratings, raw ids and scale; does not depend on the order given."""
        digest = hashlib.blake2b(repr(self.scale).encode(), digest_size=16)
        for index in (self.users, self.items):
            digest.update("\n".join(index.raw.tolist()).encode() + b"\0")
        for array in (self.user_offsets, self.item_ids, self.values):
            digest.update(array.tobytes())
        return digest.hexdigest()


def _ascending(u: Ints, i: Ints) -> bool:
    """Whether every pair comes after the one before it: in order, and none twice."""
    later = i[1:] > i[:-1]
    later &= u[1:] == u[:-1]
    later |= u[1:] > u[:-1]
    return bool(later.all())


def _counts(ids: Ints, n: int) -> Offsets:
    """Of each number below ``n``; a part at a time, as ``bincount`` copies to int64."""
    counts = np.zeros(n, np.int64)
    for start in range(0, len(ids), _AT_ONCE):
        counts += np.bincount(ids[start : start + _AT_ONCE], minlength=n)
    return counts


def _offsets(ids: Ints, n: int) -> Offsets:
    return np.concatenate(([0], np.cumsum(_counts(ids, n)))).astype(np.int64)
