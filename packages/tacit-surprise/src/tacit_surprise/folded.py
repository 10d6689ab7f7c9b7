"""A user who was folded in, in raw ids."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacit_surprise.models.base import FoldedUser
from tacit_surprise.models.ranking import top


class Folded(NamedTuple):
    """Predictions for a user the algorithm was not fitted on.

    Attributes:
        model_user: the same in the model's numbers.
        items: raw item id -> number.
        scale: lowest and highest rating.
        seen: numbers of the items the user has rated.
    """

    model_user: FoldedUser
    items: Mapping[Hashable, int]
    scale: tuple[float, float]
    seen: npt.NDArray[np.int64]

    def predict(self, iid: Hashable) -> float:
        """The expected rating of an item, clipped to the scale."""
        score = float(self.model_user.score(np.array([self.items.get(iid, -1)]))[0])
        return min(max(score, self.scale[0]), self.scale[1])

    def top_n(self, n: int = 10, *, exclude_seen: bool = True) -> list[tuple[Any, float]]:
        """The ``n`` best items: (raw item id, estimate), best first."""
        numbers, scores = top(self.model_user.score(), n, self.seen if exclude_seen else None)
        raw = np.array(list(self.items), dtype=object)
        return list(zip(raw[numbers], np.clip(scores, *self.scale).tolist(), strict=True))
