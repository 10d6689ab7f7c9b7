"""Predictions of a blend for a user it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from surprise import AlgoBase

from tacenda_surprise.models.blending import Weights
from tacenda_surprise.models.catalogue import Catalogue
from tacenda_surprise.models.levels import nearest
from tacenda_surprise.models.ranking import Lists, check_length
from tacenda_surprise.new_users import NewUser
from tacenda_surprise.output import named

Floats = npt.NDArray[np.float64]

_NOBODY = object()  # an id that no trainset has


class BlendedUser(NamedTuple):
    """What the algorithms of a blend say of a new user, averaged; made by ``Blend.fold_in``."""

    users: list[NewUser | AlgoBase]  # what every algorithm made of the user, or the algorithm
    weights: Weights
    usual: Floats  # (algorithms,), the error of one that knows no deviations
    items: Mapping[Hashable, int]  # raw item id -> number
    scale: tuple[float, float]  # lowest and highest rating
    seen: npt.NDArray[np.int64]  # numbers of the items the user is known to have rated
    catalogue: Catalogue  # whose levels `predict_proba` is about
    lists: Callable[..., Lists]  # what lists are ranked by, for the arguments of ``top_n``

    @property
    def levels(self) -> npt.NDArray[np.float32]:
        """The ratings (levels,) that `predict_proba` is about; none on a continuous scale."""
        return self.catalogue.levels

    def predict(self, iid: Hashable) -> float:
        """The expected rating of an item, clipped to the scale."""
        return float(self._estimates([iid])[0])

    def predict_std(self, iid: Hashable) -> float:
        """The standard deviation of the rating of an item, its noise included."""
        every = [
            user.predict_std(iid) if isinstance(user, NewUser) else usual
            for user, usual in zip(self.users, self.usual.tolist(), strict=True)
        ]
        return float(self.weights.deviations(np.array([every]))[0])

    def predict_proba(self, iid: Hashable) -> npt.NDArray[np.float32]:
        """The probability of each of ``levels`` (levels,). Raises ConfigurationError on a continuous scale."""
        levels = self.catalogue.require_levels("predict_proba")
        mean = np.array([self.predict(iid)], np.float32)
        deviation = np.array([self.predict_std(iid)], np.float32)
        return np.asarray(nearest(mean, deviation, levels, self.catalogue.counts)[0])

    def top_n(
        self, n: int = 10, *, exclude_seen: bool = True, **filters: Any
    ) -> list[tuple[Any, float]]:
        """The ``n`` best items: (raw item id, estimate), best first.

        ``filters`` are ``by``, ``candidates``, ``exclude`` and ``min_ratings`` of the blend's ``top_n``.
        """
        check_length(n)
        raw, lists = list(self.items), self.lists(**filters)
        x = None if lists.choices is None else lists.choices.of_new_user(self.seen)[0]
        scores = self._estimates(raw).astype(np.float32)
        items, estimates = lists.best(scores, x, n, self.seen if exclude_seen else None)
        return named(items, estimates, raw, self.scale)

    def _estimates(self, iids: Sequence[Any]) -> Floats:
        every = [
            [user.predict(iid) for iid in iids]
            if isinstance(user, NewUser)
            else [user.predict(_NOBODY, iid).est for iid in iids]
            for user in self.users
        ]
        return np.asarray(np.clip(self.weights.combine(np.array(every, float).T), *self.scale))
