"""Users, items and the rating scale of the training data, which a model saves with its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.arrays import LARGEST, Array, Arrays, Float32, Offsets, UInt8, ascending, at_least
from tacenda.errors import ArtifactError, ConfigurationError, DataError
from tacenda.offsets import pack_words, unpack_words
from tacenda.ratings import IdIndex, Ratings

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.integer[Any]]

MOST_LEVELS = 50  # ten stars in steps of 0.2; finer scales are treated as continuous
_MAX_UNUSED_WIDTH = 5.0  # a scale so many times as wide as the ratings used is ignored


class _Levels(Arrays):
    """The possible ratings; none if there are more than `MOST_LEVELS`. See `possible_levels`."""

    levels: Float32[Array, "levels", ascending]
    level_counts: Float32[Array, "levels", at_least(0)]  # ratings of each


@dataclass(frozen=True)
class Catalogue:
    """Users, items and the rating scale of the data a model was fitted on."""

    users: IdIndex  # raw ids, in the order of their numbers
    items: IdIndex
    scale: tuple[float, float]  # lowest and highest rating possible
    mean: float
    levels: Floats  # (levels,) ascending: see `possible_levels`
    counts: Floats  # (levels,), how many of the ratings are nearest to each level

    @classmethod
    def of(cls, ratings: Ratings) -> Catalogue:
        levels, scale = possible_levels(ratings.levels, ratings.scale), ratings.scale
        given = np.bincount(find_nearest(levels, ratings.values), minlength=len(levels))
        counts = given[: len(levels)].astype(np.float32)
        return cls(ratings.users, ratings.items, scale, ratings.mean, levels, counts)

    def extend(self, ratings: Ratings) -> Catalogue:
        """Return what `grow` does, for a model that cannot have new levels.

        Raises DataError for a rating that is none of the levels; a continuous scale has any.
        """
        grown = self.grow(ratings)
        if grown.levels is not self.levels:
            raise DataError(
                f"some ratings are none of the levels of the fit, {self.levels[0]:g} to "
                f"{self.levels[-1]:g} in {len(self.levels)} levels; fit again"
            )
        return grown

    def grow(self, ratings: Ratings, few: tuple[Floats, Floats] | None = None) -> Catalogue:
        """Return the catalogue of ``ratings``, whose users and items begin with those of this one, with new levels.

        Scale and mean stay. With more than `MOST_LEVELS` levels the scale becomes continuous, and it stays so. If only
        a ``few`` ratings are new, these (n,) and what their pairs were rated before (n,), NaN if they were not, save
        looking at all others.
        """
        old, new = self.levels, ratings.levels if few is None else few[0]
        if len(old):
            nearest = old[find_nearest(old, new)]
            # A level that nobody had given may be some roundings away from the rating that it stands for.
            new = new[np.abs(new - nearest) > 4 * np.spacing(np.abs(old).max())]
        grows = len(old) and len(new)
        levels = possible_levels(np.union1d(old, new), self.scale) if grows else old
        values = ratings.values
        weights: Doubles | None = None
        if few is not None:
            before = few[1][~np.isnan(few[1])]
            values = np.concatenate([old, few[0], before])
            weights = np.concatenate([self.counts, np.ones(len(few[0])), -np.ones(len(before))])
        given = np.bincount(find_nearest(levels, values), weights, len(levels))
        counts = given[: len(levels)].astype(np.float32)
        return replace(self, users=ratings.users, items=ratings.items, levels=levels, counts=counts)

    def require_levels(self, who: str) -> Floats:
        """Return the levels. Raises ConfigurationError, which begins with ``who``, on a continuous scale."""
        if not len(self.levels):
            raise ConfigurationError(
                f"{who} needs ratings of at most {MOST_LEVELS} levels, and these are continuous or have "
                "more: round them, or ask for densities"
            )
        return self.levels

    @property
    def sizes(self) -> dict[str, int]:
        """The dimensions of arrays with a row for each user or item."""
        return {"users": len(self.users), "items": len(self.items)}

    def config_dict(self) -> dict[str, Any]:
        return {"scale": list(self.scale), "mean": self.mean}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays to save: raw ids in UTF-8, the levels and their counts.

        Raises ArtifactError for an id that UTF-8 cannot encode.
        """
        return {
            **_Levels(self.levels, self.counts).to_arrays(),
            **pack_names("users", check_utf8(self.users)),
            **pack_names("items", check_utf8(self.items)),
        }

    @classmethod
    def from_arrays(
        cls, config: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
    ) -> Catalogue:
        """Read the catalogue of a saved model. Raises ArtifactError if it is damaged."""
        try:
            low, high = (float(end) for end in config["scale"])
            mean = float(config["mean"])
            users, items = (
                IdIndex(unpack_names(f"{one}s", arrays), one) for one in ("user", "item")
            )
        except (DataError, LookupError, OverflowError, TypeError, ValueError) as error:
            raise ArtifactError(f"its users, items or scale are damaged: {error!r}") from error
        slack = 1e-6 * (abs(low) + abs(high))  # the mean of float32 values, rounded
        if not (-LARGEST <= low <= high <= LARGEST and low - slack <= mean <= high + slack):
            raise ArtifactError(f"{low} to {high} with mean {mean} is not a rating scale")
        saved = _Levels.from_arrays(arrays)
        levels, ends = saved.levels, np.array([low, high], np.float32)
        if len(levels) > MOST_LEVELS or (levels < ends[0]).any() or (levels > ends[1]).any():
            raise ArtifactError("the array 'levels' is too long, or holds a level off the scale")
        return cls(users, items, (low, high), mean, levels, saved.level_counts)


def possible_levels(seen: Floats, scale: tuple[float, float]) -> Floats:
    """Find the possible ratings (levels,): a grid that contains the ratings seen and the ends of the scale.

    Its step is the smallest between these points. If the scale is more than `_MAX_UNUSED_WIDTH` times as wide as the
    ratings seen, as 0 to 100 for stars, its ends are ignored. Without such a grid, the levels are the points
    themselves. Returns none if there are more than `MOST_LEVELS`.
    """
    if not 0 < len(seen) <= MOST_LEVELS:
        return np.empty(0, np.float32)
    used = np.unique(seen).astype(np.float64)
    points = np.union1d(used, np.array(scale, np.float32))  # in float32, as the ratings are
    step = np.diff(used if len(used) > 1 else points).min(initial=np.inf)
    if np.ptp(points) / step + 1 > _MAX_UNUSED_WIDTH * (np.ptp(used) / step + 1):
        points = used
    places = (points - points[0]) / np.diff(points).min(initial=np.inf)
    whole = np.rint(places)
    if whole[-1] < MOST_LEVELS and np.allclose(places, whole, atol=1e-3):
        points = np.interp(np.arange(whole[-1] + 1), whole, points)
    return (points if len(points) <= MOST_LEVELS else points[:0]).astype(np.float32)


def find_nearest(levels: Floats, values: Floats) -> Numbers:
    """Find the number of the level nearest to each value (values,)."""
    return np.searchsorted((levels[1:] + levels[:-1]) / 2, values)


def check_utf8(index: IdIndex) -> list[str]:
    """Return raw ids as a model saves them. Raises ArtifactError for an id that UTF-8 cannot encode."""
    ids: list[str] = index.raw.tolist()
    for raw in ids:
        try:
            raw.encode()
        except UnicodeEncodeError as error:
            raise ArtifactError(
                f"the {index.what} id {raw!a:.80} holds half of a surrogate pair, which cannot be saved: correct "
                "the id, or read it with its encoding"
            ) from error
    return ids


class _Names(Arrays):
    text: UInt8[Array, "bytes"]
    offsets: Offsets[Array, "names bytes"]


def pack_names(prefix: str, names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Return ``<prefix>.text`` uint8 (bytes,) and ``<prefix>.offsets`` int64 (names + 1,), see `pack_words`."""
    return _Names(*pack_words(names)).to_arrays(f"{prefix}.")


def unpack_names(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> list[str]:
    """Return the strings that `pack_names` packed. Raises ArtifactError."""
    saved = _Names.from_arrays(arrays, f"{prefix}.")
    return unpack_words(saved.text, saved.offsets, prefix)
