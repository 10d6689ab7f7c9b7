"""The best items of users, a block of users at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.errors import ConfigurationError
from tacenda_surprise.models.base import Floats, RatingModel
from tacenda_surprise.models.identities import Identities

_SCORES = 8_000_000  # in memory at a time


class Ranked(NamedTuple):
    """The best items of one user, best first: numbers (n,) and scores (n,) float32, not clipped."""

    user: int
    items: npt.NDArray[np.int64]
    scores: Floats


def best_items(
    model: RatingModel, users: npt.NDArray[np.integer[Any]], n: int, seen: Identities | None
) -> Iterator[Ranked]:
    """The ``n`` items with the highest scores for each of ``users``, without those ``seen``.

    Ties go to the lower number. Fewer than ``n`` come where fewer are left.
    """
    n_items = len(model.catalogue.items)
    block = max(1, _SCORES // max(n_items, 1))
    for start in range(0, len(users), block):
        part = users[start : start + block]
        for user, scores in zip(part.tolist(), model.score_users(part), strict=True):
            hidden = seen.of_user(user) if seen is not None and user >= 0 else None
            yield Ranked(user, *top(scores, n, hidden))


def top(
    scores: Floats, n: int, hidden: npt.NDArray[np.integer[Any]] | None
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Numbers and scores of the ``n`` best items but the ``hidden`` ones, best first."""
    if n < 1:
        raise ConfigurationError(f"n is {n}; ask for at least one item")
    values = scores.copy()
    if hidden is not None:
        values[hidden] = -np.inf
    left = len(values) - (0 if hidden is None else len(np.unique(hidden)))
    n = min(n, left)
    candidates = np.arange(n)
    if 0 < n < len(values):
        border = -np.partition(-values, n - 1)[n - 1]
        certain = np.flatnonzero(values > border)
        ties = np.flatnonzero(values == border)[: n - len(certain)]  # by number, not by chance
        candidates = np.concatenate([certain, ties])
    order = candidates[np.lexsort((candidates, -values[candidates]))]
    return order, values[order]
