"""A user the algorithm was not fitted to, in raw ids."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda_surprise.models.base import FoldedUser
from tacenda_surprise.models.ranking import top

Numbers = npt.NDArray[np.int64]


class Given(NamedTuple):
    """What is known of a new user; items are numbers of the model."""

    uid: Hashable | None  # raw id; None if the user is not to be found under any
    items: Numbers  # (n,) items whose ratings are known
    values: npt.NDArray[np.float32]  # (n,) the ratings
    rated: Numbers  # further items known to be rated


class NewUser(NamedTuple):
    """Predictions for a user the algorithm was not fitted to.

    Attributes
    ----------
    model_user
        The same user in the model's numbers.
    items
        Raw item id -> number.
    scale
        Lowest and highest rating.
    given
        What is known of the user.
    """

    model_user: FoldedUser
    items: Mapping[Hashable, int]
    scale: tuple[float, float]
    given: Given

    @property
    def seen(self) -> Numbers:
        """Numbers of the items the user is known to have rated."""
        return np.union1d(self.given.items, self.given.rated).astype(np.int64)

    def predict(self, iid: Hashable) -> float:
        """The expected rating of an item, clipped to the scale."""
        score = float(self.model_user.score(np.array([self.items.get(iid, -1)]))[0])
        return min(max(score, self.scale[0]), self.scale[1])

    def predict_std(self, iid: Hashable) -> float:
        """The standard deviation of the rating of an item, its noise included."""
        return float(self.model_user.deviations(np.array([self.items.get(iid, -1)]))[0])

    def top_n(self, n: int = 10, *, exclude_seen: bool = True) -> list[tuple[Any, float]]:
        """The ``n`` best items: (raw item id, estimate), best first."""
        numbers, scores = top(self.model_user.score(), n, self.seen if exclude_seen else None)
        raw = np.array(list(self.items), dtype=object)
        return list(zip(raw[numbers], np.clip(scores, *self.scale).tolist(), strict=True))
