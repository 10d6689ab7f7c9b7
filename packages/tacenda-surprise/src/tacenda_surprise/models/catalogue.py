"""What a fitted model knows besides its parameters: who and what is numbered, and the scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.errors import ArtifactError, ConfigurationError, DataError
from tacenda.ratings import IdIndex, Ratings

MOST_LEVELS = 50  # ten stars in fifths; more is no scale that anybody clicks on


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
        (levels,) float32, ascending: the different ratings possible, as far as they can be told;
        empty if there are more than `MOST_LEVELS`.
    """

    users: IdIndex
    items: IdIndex
    scale: tuple[float, float]
    mean: float
    levels: npt.NDArray[np.float32]

    @classmethod
    def of(cls, ratings: Ratings) -> Catalogue:
        """That of ``ratings``."""
        mean = ratings.mean if len(ratings) else float(np.mean(ratings.scale))
        levels = possible_levels(ratings.levels, ratings.scale)
        return cls(ratings.users, ratings.items, ratings.scale, mean, levels)

    def extended(self, ratings: Ratings) -> Catalogue:
        """That of ``ratings``, which go on from those of this one; the mean stays.

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
        return replace(new, mean=self.mean, levels=self.levels)

    def require_levels(self, who: str) -> npt.NDArray[np.float32]:
        """``levels``; raises ConfigurationError where the scale is continuous."""
        if not len(self.levels):
            raise ConfigurationError(
                f"{who} needs ratings of at most {MOST_LEVELS} levels, and these are continuous or have "
                "more: round them, or use a factorization"
            )
        return self.levels

    def clip(self, scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Scores brought to the scale, in place."""
        return np.clip(scores, *self.scale, out=scores)

    def config(self) -> dict[str, Any]:
        """What ``arrays`` does not hold, as JSON."""
        return {"scale": list(self.scale), "mean": self.mean}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Raw ids as UTF-8, and the levels."""
        arrays: dict[str, npt.NDArray[Any]] = {"levels": self.levels}
        for name, index in (("users", self.users), ("items", self.items)):
            encoded = [raw.encode() for raw in index.raw.tolist()]
            arrays[f"{name}.text"] = np.frombuffer(b"".join(encoded), np.uint8)
            arrays[f"{name}.offsets"] = np.cumsum([0, *map(len, encoded)]).astype(np.int64)
        return arrays

    @classmethod
    def from_arrays(
        cls, config: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
    ) -> Catalogue:
        """The catalogue of an artefact. Raises ArtifactError."""
        low, high = (float(end) for end in config["scale"])
        mean = float(config["mean"])
        if not (np.isfinite([low, high, mean]).all() and low <= high):
            raise ArtifactError(f"the rating scale {low} to {high} with mean {mean} is none")
        levels = require(arrays, "levels", shape=("levels",), dtype=np.float32, finite=True)
        ends = np.array([low, high], np.float32)
        whole = not len(levels) or (levels[[0, -1]] == ends).all()
        if len(levels) > MOST_LEVELS or (np.diff(levels) <= 0).any() or not whole:
            raise ArtifactError("the array 'levels' does not ascend from end to end of the scale")
        indices = [_unpacked(arrays, name) for name in ("users", "items")]
        return cls(indices[0], indices[1], (low, high), mean, levels)


def possible_levels(
    seen: npt.NDArray[np.float32], scale: tuple[float, float]
) -> npt.NDArray[np.float32]:
    """All multiples of the smallest step between the ratings seen, from end to end of the scale.

    Half stars are found by their step; where the ratings seen are not on such a grid they are the levels.
    """
    if not 0 < len(seen) <= MOST_LEVELS:
        return np.empty(0, np.float32)
    low, high = scale
    ends = np.unique(np.concatenate([seen, [low, high]]).astype(np.float64))
    step = np.diff(ends).min(initial=np.inf)
    n = (high - low) / step + 1
    places = (ends - low) / step
    if n <= MOST_LEVELS + 1e-6 and np.allclose(places, np.rint(places), atol=1e-3):
        return np.linspace(low, high, round(n)).astype(np.float32)
    return (
        np.unique(ends.astype(np.float32)) if len(ends) <= MOST_LEVELS else np.empty(0, np.float32)
    )


def _unpacked(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> IdIndex:
    text = require(arrays, f"{name}.text", shape=("bytes",), dtype=np.uint8).tobytes()
    offsets = require(arrays, f"{name}.offsets", shape=("ids + 1",), dtype=np.int64)
    if not len(offsets) or offsets[0] or offsets[-1] != len(text) or (np.diff(offsets) < 0).any():
        raise ArtifactError(f"the array '{name}.offsets' does not fit '{name}.text'")
    pairs = pairwise(offsets.tolist())
    try:
        return IdIndex([text[i:j].decode() for i, j in pairs], name.removesuffix("s"))
    except UnicodeDecodeError as error:
        raise ArtifactError(f"the array '{name}.text' is not UTF-8: {error}") from error
