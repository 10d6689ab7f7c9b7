"""What a fitted model knows besides its parameters: the numbers of users and items, and the scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.arrays import LARGEST
from tacenda.artifact import require
from tacenda.errors import ArtifactError, ConfigurationError, DataError
from tacenda.offsets import checked_offsets
from tacenda.ratings import IdIndex, Ratings
from tacenda_surprise.models.identities import Identities

MOST_LEVELS = 50  # ten stars in steps of 0.2; finer scales are treated as continuous


@dataclass(frozen=True)
class Catalogue:
    """Users, items and the rating scale of the data a model was fitted on.

    Attributes
    ----------
    users
        Raw ids of the users, in the order of their numbers.
    items
        Raw ids of the items, likewise.
    scale
        Lowest and highest rating possible.
    mean
        Mean rating of the data.
    levels
        (levels,) float32, ascending: the possible ratings, as far as the data show them; empty if
        there are more than `MOST_LEVELS`.
    counts
        (levels,) float32: how many of the ratings were of each level.
    """

    users: IdIndex
    items: IdIndex
    scale: tuple[float, float]
    mean: float
    levels: npt.NDArray[np.float32]
    counts: npt.NDArray[np.float32]

    @classmethod
    def of(cls, ratings: Ratings) -> Catalogue:
        """The catalogue of ``ratings``."""
        mean = ratings.mean if len(ratings) else float(np.mean(ratings.scale))
        levels = possible_levels(ratings.levels, ratings.scale)
        counts = _counts(ratings, levels)
        return cls(ratings.users, ratings.items, ratings.scale, mean, levels, counts)

    def extended(self, ratings: Ratings) -> Catalogue:
        """The catalogue of ``ratings``, whose users and items begin with those of this one; the mean stays.

        Raises DataError where a user or an item has changed its number, or the scale or its levels differ.
        """
        new = Catalogue.of(ratings)
        for what, old, now in (("user", self.users, new.users), ("item", self.items, new.items)):
            if old.raw.tolist() != now.raw[: len(old)].tolist():
                raise DataError(
                    f"the {what}s fitted do not come first and in their order; number new {what}s behind "
                    "them, or fit anew"
                )
        if self.scale != new.scale or not np.isin(new.levels, self.levels).all():
            raise DataError(
                f"the ratings are on another scale than those fitted, {self.scale[0]:g} to "
                f"{self.scale[1]:g} in {len(self.levels)} levels; fit anew"
            )
        counts = _counts(ratings, self.levels)
        return replace(new, mean=self.mean, levels=self.levels, counts=counts)

    def grown(
        self, ratings: Ratings, identities: Identities | None
    ) -> tuple[Catalogue, Ratings, Identities | None]:
        """Bring ratings and identities to the numbers of this catalogue, by their raw ids.

        Returns
        -------
        The catalogue with new users and items at its end, its scale and levels widened where needed and
        its mean unchanged; the ratings and the identities in its numbers. With more than `MOST_LEVELS`
        levels the scale is continuous from then on.
        """
        users, user_numbers = _extended(self.users, ratings.users)
        items, item_numbers = _extended(self.items, ratings.items)
        scale = (min(self.scale[0], ratings.scale[0]), max(self.scale[1], ratings.scale[1]))
        levels = np.union1d(self.levels, ratings.levels).astype(np.float32)
        levels = possible_levels(levels, scale) if len(self.levels) else self.levels
        found = Ratings(
            user_numbers[ratings.user_ids], item_numbers[ratings.item_ids], ratings.values,
            users, items, scale=scale,
        )  # fmt: skip
        if identities is not None:
            identities = Identities.from_pairs(
                user_numbers[identities.user_ids], item_numbers[identities.item_ids],
                len(users), len(items),
            )  # fmt: skip
        counts = np.zeros(len(levels), np.float32)
        if len(levels):
            counts[_nearest(self.levels, levels)] = self.counts
        catalogue = replace(
            self, users=users, items=items, scale=scale, levels=levels, counts=counts
        )
        return catalogue, found, identities

    def require_levels(self, who: str) -> npt.NDArray[np.float32]:
        """The levels. Raises ConfigurationError where the scale is continuous."""
        if not len(self.levels):
            raise ConfigurationError(
                f"{who} needs ratings of at most {MOST_LEVELS} levels, and these are continuous or have "
                "more: round them, or ask for densities"
            )
        return self.levels

    def clip(self, scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Clip scores to the scale, in place."""
        return np.clip(scores, *self.scale, out=scores)

    def config(self) -> dict[str, Any]:
        """What `arrays` does not hold, as JSON values."""
        return {"scale": list(self.scale), "mean": self.mean}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Raw ids as UTF-8, the levels and their counts. Raises ArtifactError for an id that UTF-8 has not."""
        users, items = in_utf8(self.users), in_utf8(self.items)
        levels = {"levels": self.levels, "level_counts": self.counts}
        return {**levels, **pack(users, "users"), **pack(items, "items")}

    @classmethod
    def from_arrays(
        cls, config: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
    ) -> Catalogue:
        """The catalogue of an artefact. Raises ArtifactError."""
        low, high = (float(end) for end in config["scale"])
        mean = float(config["mean"])
        slack = 1e-6 * (abs(low) + abs(high))  # the mean of float32 values, rounded
        if not (-LARGEST <= low <= high <= LARGEST and low - slack <= mean <= high + slack):
            raise ArtifactError(f"{low} to {high} with mean {mean} is no rating scale")
        levels = require(arrays, "levels", shape=("levels",), dtype=np.float32, finite=True)
        ends = np.array([low, high], np.float32)
        whole = not len(levels) or (levels[[0, -1]] == ends).all()
        if len(levels) > MOST_LEVELS or (np.diff(levels) <= 0).any() or not whole:
            raise ArtifactError("the array 'levels' does not ascend from end to end of the scale")
        counts = require(arrays, "level_counts", shape=levels.shape, dtype=np.float32, finite=True)
        if (counts < 0).any():
            raise ArtifactError("the array 'level_counts' holds a negative number: it is damaged")
        indices = [_unpacked(arrays, name) for name in ("users", "items")]
        return cls(indices[0], indices[1], (low, high), mean, levels, counts)


def deviation(ratings: Ratings) -> float:
    """Standard deviation of the ratings; where all are alike, a quarter of the scale."""
    found = float(ratings.values.std(dtype=np.float64)) if len(ratings) > 1 else 0.0
    low, high = ratings.scale
    return found if found > 1e-6 else (high - low) / 4 or 1.0


def sparsity(ratings: Ratings) -> float:
    """How little users and items have ratings: 2 if every user and item has one rating, towards 0 as they have more."""
    roots = _roots(np.diff(ratings.user_offsets)) + _roots(ratings.item_counts)
    return roots / max(len(ratings), 1)


def _roots(counts: npt.NDArray[np.int64]) -> float:
    return float(np.sqrt(counts).sum())


def standardized(ratings: Ratings, mean: float, unit: float) -> Ratings:
    """The ratings less ``mean``, in units of ``unit``."""
    values = ((ratings.values.astype(np.float64) - mean) / unit).astype(np.float32)
    low, high = ((end - mean) / unit for end in ratings.scale)
    slack = 1e-5 * (abs(low) + abs(high))
    return Ratings.from_csr(
        ratings.user_offsets, ratings.item_ids, values, ratings.users, ratings.items,
        scale=(low - slack, high + slack),
    )  # fmt: skip


def possible_levels(
    seen: npt.NDArray[np.float32], scale: tuple[float, float]
) -> npt.NDArray[np.float32]:
    """All multiples of the smallest step between the ratings seen, from end to end of the scale.

    Half stars are found by their step. Where the ratings do not lie on such a grid, the levels are the
    ratings seen.
    """
    if not 0 < len(seen) <= MOST_LEVELS:
        return np.empty(0, np.float32)
    low, high = scale
    # the ends as float32 has them too, as the ratings
    ends = np.unique(np.concatenate([seen, np.array([low, high], np.float32)])).astype(np.float64)
    step = np.diff(ends).min(initial=np.inf)
    n = (high - low) / step + 1
    places = (ends - low) / step
    if n <= MOST_LEVELS + 1e-6 and np.allclose(places, np.rint(places), atol=1e-3):
        return np.linspace(low, high, round(n)).astype(np.float32)
    return (
        np.unique(ends.astype(np.float32)) if len(ends) <= MOST_LEVELS else np.empty(0, np.float32)
    )


def _counts(ratings: Ratings, levels: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """How many ratings are nearest to each level (levels,)."""
    at = _nearest(ratings.values, levels) if len(levels) else np.zeros(0, np.int64)
    return np.bincount(at, minlength=len(levels)).astype(np.float32)


def _nearest(
    values: npt.NDArray[np.float32], levels: npt.NDArray[np.float32]
) -> npt.NDArray[np.int64]:
    """The number of the level that is nearest to each of ``values``."""
    return np.searchsorted((levels[1:] + levels[:-1]) / 2, values)


def _extended(old: IdIndex, new: IdIndex) -> tuple[IdIndex, npt.NDArray[np.int64]]:
    """``old`` with the ids that only ``new`` has at its end, and the number there of each id of ``new``."""
    found = old.numbers(new.raw.tolist())
    strange = np.flatnonzero(found < 0)
    if not len(strange):
        return old, found
    found[strange] = len(old) + np.arange(len(strange))
    return IdIndex([*old.raw.tolist(), *new.raw[strange].tolist()], old.what), found


def require_floats(
    arrays: Mapping[str, npt.NDArray[Any]],
    shapes: Mapping[str, tuple[str, ...]],
    dims: Mapping[str, int],
) -> dict[str, npt.NDArray[np.float32]]:
    """Return the finite float32 arrays of an artefact that have these shapes; ``dims`` are sizes by name.

    Raises ArtifactError.
    """
    sizes = dict(dims)
    return {
        name: require(arrays, name, shape=shape, dtype=np.float32, finite=True, dims=sizes)
        for name, shape in shapes.items()
    }


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


def pack(encoded: Sequence[bytes], name: str) -> dict[str, npt.NDArray[Any]]:
    """Strings as ``<name>.text`` (bytes,) and ``<name>.offsets`` (strings + 1,)."""
    return {
        f"{name}.text": np.frombuffer(b"".join(encoded), np.uint8),
        f"{name}.offsets": np.cumsum([0, *map(len, encoded)]).astype(np.int64),
    }


def unpack(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> list[bytes]:
    """Return what `pack` was given. Raises ArtifactError for arrays that do not fit each other."""
    text = require(arrays, f"{name}.text", shape=("bytes",), dtype=np.uint8).tobytes()
    offsets = require(arrays, f"{name}.offsets", shape=("strings + 1",), dtype=np.int64)
    checked_offsets(offsets, len(text), what=f"the array '{name}.offsets'", error=ArtifactError)
    return [text[i:j] for i, j in pairwise(offsets.tolist())]


def _unpacked(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> IdIndex:
    encoded = unpack(arrays, name)
    try:
        return IdIndex([raw.decode() for raw in encoded], name.removesuffix("s"))
    except UnicodeDecodeError as error:
        raise ArtifactError(f"the array '{name}.text' is not UTF-8: {error}") from error
