"""Users, items, the rating scale and who has rated what: what a model knows besides its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from tacenda.array_ops import to_device
from tacenda.arrays import (
    LARGEST,
    Array,
    Arrays,
    Constraint,
    Float32,
    Int32,
    Offsets,
    UInt8,
    ascending,
    at_least,
    below,
)
from tacenda.errors import ArtifactError, ConfigurationError, DataError
from tacenda.kernels.shared import sparse_product
from tacenda.ratings import IdIndex, Ratings

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.integer[Any]]

MOST_LEVELS = 50  # ten stars in steps of 0.2; finer scales are treated as continuous
_WIDER = 5.0  # a scale with so many times the levels that are used is ignored

not_empty = Constraint(lambda array, sizes: None if array.size else "is empty")


class Identities(Arrays):
    """The sets N(u) of the items that each user has rated, ascending and without duplicates, as CSR."""

    offsets: Offsets[Array, "users identities"]
    item_ids: Int32[Array, "identities", below("items")]

    @classmethod
    def of(cls, ratings: Ratings, more: Identities | None = None) -> Identities:
        """The rated pairs themselves, whose memory is shared, and those of ``more``."""
        known = cls(ratings.user_offsets, ratings.item_ids)
        return known if more is None else known.union(more, ratings.n_items)

    @classmethod
    def from_pairs(cls, users: Numbers, items: Numbers, n_users: int, n_items: int) -> Identities:
        """From (pairs,) numbers in any order; duplicates merge. Raises DataError for a number off range."""
        for what, ids, n in (("user", users, n_users), ("item", items, n_items)):
            if len(ids) and (ids.min() < 0 or ids.max() >= n):
                raise DataError(f"a {what} number is not in 0 to {n - 1}; renumber them")
        # A pair is one number, user * n_items + item, by which sorting is fast.
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
        """N(u), (|N(u)|,)."""
        found: npt.NDArray[np.int32] = self.item_ids[self.offsets[user] : self.offsets[user + 1]]
        return found

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
        return sparse_product(self.offsets, self.item_ids, ones, table, row_scale=scale)


class Pieces(NamedTuple):
    """The entries of a sparse table, row after row: ids and values on a device."""

    offsets: npt.NDArray[np.int64]  # (rows + 1,)
    ids: Array
    values: Array

    @classmethod
    def of(cls, table: csr_array, device: str) -> Pieces:
        """Put a table there."""
        parts = table.indices.astype(np.int32), table.data.astype(np.float32)
        return cls(table.indptr.astype(np.int64), *(to_device(part, device) for part in parts))

    @classmethod
    def of_ratings(cls, ratings: Ratings, device: str) -> Pieces:
        """Put ratings there, user by user."""
        parts = ratings.item_ids, ratings.values
        return cls(ratings.user_offsets, *(to_device(part, device) for part in parts))


class Texts(Arrays):
    """Strings one after another."""

    text: UInt8[Array, "bytes"]
    offsets: Offsets[Array, "strings bytes"]

    @classmethod
    def of(cls, encoded: Sequence[bytes]) -> Texts:
        """Pack strings."""
        offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int64)
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets)

    def split(self) -> list[bytes]:
        """The strings."""
        text = self.text.tobytes()
        return [text[i:j] for i, j in pairwise(self.offsets.tolist())]


class _Levels(Arrays):
    """The possible ratings, as far as the data show them; none if there are more than `MOST_LEVELS`."""

    levels: Float32[Array, "levels", ascending]
    level_counts: Float32[Array, "levels", at_least(0)]  # ratings of each


@dataclass(frozen=True)
class Catalogue:
    """Users, items and the rating scale of the data a model was fitted on."""

    users: IdIndex  # raw ids, in the order of their numbers
    items: IdIndex
    scale: tuple[float, float]  # lowest and highest rating possible
    mean: float
    #: (levels,) ascending: the possible ratings, as far as the data show them; none if there are more than
    #: `MOST_LEVELS`.
    levels: Floats
    counts: Floats  # (levels,), how many of the ratings were of each level

    @classmethod
    def of(cls, ratings: Ratings) -> Catalogue:
        """The catalogue of ``ratings``."""
        mean = ratings.mean if len(ratings) else float(np.mean(ratings.scale))
        levels = possible_levels(ratings.levels, ratings.scale)
        counts = _counts(ratings, levels)
        return cls(ratings.users, ratings.items, ratings.scale, mean, levels, counts)

    def extend(self, ratings: Ratings) -> Catalogue:
        """The catalogue of ``ratings``, whose users and items begin with those of this one; the mean stays.

        Raises DataError where a user or an item has changed its number, or the scale or its levels differ.
        """
        new = Catalogue.of(ratings)
        for what, old, now in (("user", self.users, new.users), ("item", self.items, new.items)):
            if old.raw.tolist() != now.raw[: len(old)].tolist():
                raise DataError(
                    f"the {what}s fitted do not come first and in their order; number new {what}s behind "
                    "them, or fit again"
                )
        if self.scale != new.scale or not np.isin(new.levels, self.levels).all():
            raise DataError(
                f"the ratings are on another scale than those fitted, {self.scale[0]:g} to "
                f"{self.scale[1]:g} in {len(self.levels)} levels; fit again"
            )
        counts = _counts(ratings, self.levels)
        return replace(new, mean=self.mean, levels=self.levels, counts=counts)

    def grow(self, ratings: Ratings, seen: Floats | None = None) -> Catalogue:
        """The catalogue of ``ratings``, as `extend`, but with levels that only they have; the counts stay.

        ``seen`` are the ratings that may be new, and None all. With more than `MOST_LEVELS` levels the scale is
        continuous from then on.
        """
        new = ratings.levels if seen is None else seen
        levels = np.union1d(self.levels, new).astype(np.float32)
        levels = possible_levels(levels, self.scale) if len(self.levels) else self.levels
        counts = np.zeros(len(levels), np.float32)
        if len(levels):
            counts[np.searchsorted((levels[1:] + levels[:-1]) / 2, self.levels)] = self.counts
        return replace(self, users=ratings.users, items=ratings.items, levels=levels, counts=counts)

    def require_levels(self, who: str) -> Floats:
        """The levels. Raises ConfigurationError where the scale is continuous."""
        if not len(self.levels):
            raise ConfigurationError(
                f"{who} needs ratings of at most {MOST_LEVELS} levels, and these are continuous or have "
                "more: round them, or ask for densities"
            )
        return self.levels

    def clip(self, scores: Floats) -> Floats:
        """Clip scores to the scale, in place."""
        np.clip(scores, *self.scale, out=scores)
        return scores

    def config_dict(self) -> dict[str, Any]:
        """Scale and mean, as JSON values."""
        return {"scale": list(self.scale), "mean": self.mean}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Raw ids as UTF-8, the levels and their counts.

        Raises ArtifactError for an id that UTF-8 has not.
        """
        return {
            **_Levels(self.levels, self.counts).to_arrays(),
            **Texts.of(in_utf8(self.users)).to_arrays("users."),
            **Texts.of(in_utf8(self.items)).to_arrays("items."),
        }

    @classmethod
    def from_arrays(
        cls, config: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
    ) -> Catalogue:
        """The catalogue of a saved model. Raises ArtifactError."""
        low, high = (float(end) for end in config["scale"])
        mean = float(config["mean"])
        slack = 1e-6 * (abs(low) + abs(high))  # the mean of float32 values, rounded
        if not (-LARGEST <= low <= high <= LARGEST and low - slack <= mean <= high + slack):
            raise ArtifactError(f"{low} to {high} with mean {mean} is not a rating scale")
        users, items = (_read_ids(arrays, name) for name in ("users", "items"))
        found = _Levels.from_arrays(arrays)
        levels, ends = found.levels, np.array([low, high], np.float32)
        if len(levels) > MOST_LEVELS or (levels < ends[0]).any() or (levels > ends[1]).any():
            raise ArtifactError("the array 'levels' is too long, or holds a level off the scale")
        return cls(users, items, (low, high), mean, levels, found.level_counts)


def mean_row(table: npt.NDArray[Any], weights: npt.NDArray[Any]) -> Floats:
    """The weighted mean of the rows of ``table`` (rows, ...), plain where all ``weights`` (rows,) are zero."""
    shares = weights if weights.any() else np.ones(len(table))
    return np.asarray(np.einsum("n...,n->...", table, shares / shares.sum()), np.float32)


def rows_of(table: Floats, ids: Numbers, unknown: npt.NDArray[Any]) -> Floats:
    """The rows ``ids`` (n,) of a table, ``unknown`` for -1, (n, ...)."""
    found = table[ids]
    found[np.asarray(ids) < 0] = unknown
    return found


def lengthen(array: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """Copy ``array`` with rows of zeros at its end, ``rows`` in all."""
    more = np.zeros((rows - len(array), *array.shape[1:]), array.dtype)
    return np.concatenate([array, more])


def deviation(ratings: Ratings) -> float:
    """Standard deviation of the ratings; where all are alike, a quarter of the scale."""
    found = float(ratings.values.std(dtype=np.float64)) if len(ratings) > 1 else 0.0
    low, high = ratings.scale
    largest = float(np.abs(ratings.values).max(initial=0.0))  # in the unit of the ratings
    return found if found > 1e-6 * largest else (high - low) / 4 or 1.0


def sparsity(ratings: Ratings) -> float:
    """Measure how few ratings users and items have: 2 if each has one rating, towards 0 as they have more."""
    sides = np.diff(ratings.user_offsets), ratings.item_counts
    return sum(float(np.sqrt(counts).sum()) for counts in sides) / max(len(ratings), 1)


def standardize(ratings: Ratings, mean: float, unit: float) -> Ratings:
    """The ratings less ``mean``, in units of ``unit``."""
    values = ((ratings.values.astype(np.float64) - mean) / unit).astype(np.float32)
    low, high = ((end - mean) / unit for end in ratings.scale)
    slack = 1e-5 * (abs(low) + abs(high))
    return Ratings.from_csr(
        ratings.user_offsets, ratings.item_ids, values, ratings.users, ratings.items,
        scale=(low - slack, high + slack),
    )  # fmt: skip


def possible_levels(seen: Floats, scale: tuple[float, float]) -> Floats:
    """All multiples of the smallest step between the ratings seen, from end to end of the scale.

    Half stars are found by their step. If the scale is more than `_WIDER` times as wide as the ratings seen, as 0 to
    100 for stars, the levels end where the ratings do. If the ratings are not on such a grid, the levels are the
    ratings seen, and the ends of the scale unless it is that wide.
    """
    if not 0 < len(seen) <= MOST_LEVELS:
        return np.empty(0, np.float32)
    # the ends as float32 has them too, as the ratings
    ends = np.array(scale, np.float32)
    whole, own = np.union1d(seen, ends), np.unique(seen)
    step = np.diff(whole.astype(np.float64)).min(initial=np.inf)
    used = (float(own[-1]) - float(own[0])) / step + 1
    is_wide = (float(ends[1]) - float(ends[0])) / step + 1 > _WIDER * used
    chosen = own if is_wide else whole
    points = chosen.astype(np.float64)
    places = (points - points[0]) / step
    if places[-1] + 1 <= MOST_LEVELS + 1e-6 and np.allclose(places, np.rint(places), atol=1e-3):
        return np.linspace(points[0], points[-1], round(places[-1] + 1)).astype(np.float32)
    return chosen if len(chosen) <= MOST_LEVELS else np.empty(0, np.float32)


def _counts(ratings: Ratings, levels: Floats) -> Floats:
    """Count the ratings nearest to each level (levels,)."""
    at = np.searchsorted((levels[1:] + levels[:-1]) / 2, ratings.values)
    return np.bincount(at, minlength=len(levels))[: len(levels)].astype(np.float32)


def in_utf8(index: IdIndex) -> list[bytes]:
    """Return raw ids as a model saves them. Raises ArtifactError for one that is no text that UTF-8 has."""
    found = []
    for raw in index.raw.tolist():
        try:
            found.append(raw.encode())
        except UnicodeEncodeError as error:
            raise ArtifactError(
                f"the {index.what} id {raw!a:.80} holds half of a surrogate pair, which cannot be saved: correct "
                "the id, or read it with its encoding"
            ) from error
    return found


def _read_ids(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> IdIndex:
    encoded = Texts.from_arrays(arrays, f"{name}.").split()
    try:
        return IdIndex([raw.decode() for raw in encoded], name.removesuffix("s"))
    except UnicodeDecodeError as error:
        raise ArtifactError(f"the array '{name}.text' is not UTF-8: {error}") from error
