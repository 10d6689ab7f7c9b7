"""A Surprise Trainset as compact arrays, converted once."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain, repeat
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from surprise import Trainset

from tacit.errors import DataError
from tacit.ratings import IdIndex, Ratings

_CONVERTED: WeakKeyDictionary[Trainset, Ratings] = WeakKeyDictionary()


def ratings_of(trainset: Trainset) -> Ratings:
    """The ratings of ``trainset``, users and items numbered by its inner ids.

    Kept for as long as the trainset lives, so that the algorithms of a grid search convert it once. Where a
    user rated an item twice the later rating counts, and a warning says how often that was.

    Raises DataError for a rating that is not finite or off the scale, or if there are none.
    """
    found = _CONVERTED.get(trainset)
    if found is None:
        found = _CONVERTED[trainset] = _convert(trainset)
    return found


def _convert(trainset: Trainset) -> Ratings:
    n = trainset.n_ratings
    rows = [trainset.ur[u] for u in range(trainset.n_users)]
    flat = np.fromiter(chain.from_iterable(chain.from_iterable(rows)), np.float64, 2 * n)
    users = np.repeat(np.arange(len(rows)), np.fromiter(map(len, rows), np.int64, len(rows)))
    if not n:
        raise DataError("the trainset holds no ratings; give at least one")
    found = Ratings(
        users,
        flat[::2].astype(np.int64),
        flat[1::2],
        raw_index(trainset._raw2inner_id_users, "user"),
        raw_index(trainset._raw2inner_id_items, "item"),
        scale=trainset.rating_scale,
        duplicates="last",
    )
    if len(found) < n:
        warnings.warn(
            f"{n - len(found)} ratings repeat a user and an item; the last of each counts",
            stacklevel=4,
        )
    return found


def raw_index(raw: Iterable[Hashable], what: str) -> IdIndex:
    """Raw ids in this order; where 7 and "7" are two, as Python writes them."""
    ids = list(raw)
    texts = [str(one) for one in ids]
    return IdIndex(texts if len(set(texts)) == len(texts) else [repr(one) for one in ids], what)


def numbers(ids: Iterable[Any], index: dict[Any, int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The number of every raw id, -1 for those that are unknown."""
    wanted: Sequence[Any] = ids if isinstance(ids, Sequence) else list(ids)
    return np.fromiter(map(index.get, wanted, repeat(-1)), np.int64, len(wanted))
