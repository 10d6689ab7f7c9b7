"""Surprise's trainsets as compact arrays, converted once, and back; two trainsets as one."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain, pairwise, repeat
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from scipy.sparse import issparse
from surprise import Dataset, Reader, Trainset

from tacenda.errors import ConfigurationError, DataError
from tacenda.ratings import IdIndex, Ratings
from tacenda_surprise.models.catalogue import Catalogue
from tacenda_surprise.models.identities import Identities

_MISSING = {"None", "nan", "NaT", "<NA>"}  # their texts, as pandas is not needed
_CONVERTED: WeakKeyDictionary[Trainset, Ratings] = WeakKeyDictionary()


class FitData(NamedTuple):
    """What a model is fitted to: ratings, further identities, and the number of every raw user id."""

    ratings: Ratings
    identities: Identities | None
    users: dict[Hashable, int]


def as_trainset(data: Any, scale: tuple[float, float] | None = None) -> Trainset:
    """A Trainset as it is, or one of a data frame or a sparse matrix, on ``scale``; None: that of its ratings.

    The first three columns of a data frame are users, items and ratings, whatever their names; row and column of a
    sparse matrix (users, items) are the raw ids, and stored zeros are ratings.

    Raises DataError for anything else, and for ratings that are not finite numbers.
    """
    if isinstance(data, Trainset):
        return data
    if issparse(data):
        table = data.tocoo()
        columns = [table.row.tolist(), table.col.tolist(), table.data.astype(float).tolist()]
    elif hasattr(data, "iloc") and np.ndim(data) == 2 and data.shape[1] >= 3:
        columns = [data.iloc[:, k].tolist() for k in range(3)]
    else:
        raise DataError(
            f"ratings are given as a {type(data).__name__}; give a Trainset, a sparse matrix, or a data frame "
            "whose columns are users, items and ratings"
        )
    try:
        values = np.array(columns[2], np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"the third column of the data frame, that of the ratings, holds no numbers: {error}; give users, "
            "items and ratings in this order"
        ) from error
    if not len(values) or not np.isfinite(values).all():
        raise DataError("there are no ratings, or some are not finite; correct or leave them out")
    reader = Reader(rating_scale=scale or (float(values.min()), float(values.max())))
    rows = zip(columns[0], columns[1], values.tolist(), strict=True)
    return Dataset(reader).construct_trainset([(*row, None) for row in rows])


def ratings_of(trainset: Trainset) -> Ratings:
    """Convert the ratings of ``trainset``, users and items numbered by its inner ids.

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
            stacklevel=5,
        )
    return found


def trainset_of(
    ratings: Ratings, users: Sequence[Hashable], items: Sequence[Hashable], mean: float
) -> Trainset:
    """Make a Trainset of ``ratings``, whose numbers are the inner ids; its lists are in their order.

    There is at least one rating of every user and every item; ``users`` and ``items`` are their raw ids, and
    ``mean`` is that of all ratings.
    """
    rows = [_lists(part) for part in (ratings, ratings.by_item)]
    numbered = [{raw: number for number, raw in enumerate(ids)} for ids in (users, items)]
    found = Trainset(*rows, len(users), len(items), len(ratings), ratings.scale, *numbered)
    found._global_mean = mean
    _CONVERTED[found] = ratings
    return found


def _lists(ratings: Ratings) -> defaultdict[int, list[tuple[int, float]]]:
    pairs = list(zip(ratings.item_ids.tolist(), ratings.values.tolist(), strict=True))
    ends = ratings.user_offsets.tolist()
    return defaultdict(list, {u: pairs[i:j] for u, (i, j) in enumerate(pairwise(ends)) if j > i})


def merged(
    trainset: Trainset,
    more: Trainset,
    users: Mapping[Hashable, int],
    items: Mapping[Hashable, int],
    catalogue: Catalogue,
) -> Trainset:
    """Join what a model was fitted to and ``more``; of a pair in both the rating of ``more`` counts.

    ``users`` and ``items`` map raw ids to numbers in the model, whose ``catalogue`` this is, users without
    ratings included. They keep their numbers, which become inner ids; users and items that only ``more`` has are
    numbered after them.

    Raises ConfigurationError if the rating scales differ, DataError if a rating of ``more`` is not finite or off
    the scale.
    """
    if tuple(more.rating_scale) != tuple(trainset.rating_scale):
        raise ConfigurationError(
            f"the new ratings have the scale {more.rating_scale} and the old ones {trainset.rating_scale}; "
            "give both the same Reader(rating_scale=...)"
        )
    old, new = ratings_of(trainset), ratings_of(more)
    new_users = [raw for raw in more._raw2inner_id_users if raw not in users]
    new_items = [raw for raw in more._raw2inner_id_items if raw not in items]
    all_users = dict(users) | {raw: len(users) + k for k, raw in enumerate(new_users)}
    all_items = dict(items) | {raw: len(items) + k for k, raw in enumerate(new_items)}
    user_numbers = numbers(more._raw2inner_id_users, all_users)
    item_numbers = numbers(more._raw2inner_id_items, all_items)
    ratings = Ratings(
        np.concatenate([old.user_ids, user_numbers[new.user_ids]]),
        np.concatenate([old.item_ids, item_numbers[new.item_ids]]),
        np.concatenate([old.values, new.values]),
        more_ids(catalogue.users, new_users),
        more_ids(catalogue.items, new_items),
        scale=old.scale,
        duplicates="last",
    )
    return trainset_of(ratings, list(all_users), list(all_items), ratings.mean)


def join(trainset: Trainset, more: Trainset) -> Trainset:
    """Join two trainsets; of a pair in both the rating of ``more`` counts."""
    users, items = trainset._raw2inner_id_users, trainset._raw2inner_id_items
    return merged(trainset, more, users, items, Catalogue.of(ratings_of(trainset)))


def raw_index(raw: Iterable[Hashable], what: str) -> IdIndex:
    """Index raw ids by their text, in this order; where both 7 and "7" occur, as Python writes them.

    Raises DataError for None, and for what else data frames have in the place of an id that is missing.
    """
    ids = list(raw)
    check_ids(ids, what)
    texts = [str(one) for one in ids]
    return IdIndex(texts if len(set(texts)) == len(texts) else [repr(one) for one in ids], what)


def check_ids(ids: Iterable[Any], what: str) -> None:
    """Raise DataError for an id that is missing, as None and nan are."""
    for one in ids:
        if not isinstance(one, str) and str(one) in _MISSING:
            raise DataError(
                f"the {what} of a rating is missing, its id is {one}: give every rating a {what}, or leave it out"
            )


def more_ids(index: IdIndex, new: Sequence[Hashable]) -> IdIndex:
    """Add raw ids at the end of ``index``, each as text that is not there already."""
    if not new:
        return index
    texts = dict.fromkeys(index.raw.tolist())
    for raw in new:
        ways = (str(raw), repr(raw), f"{type(raw).__name__} {raw!r}")
        texts[next((text for text in ways if text not in texts), ways[0])] = None
    if len(texts) < len(index) + len(new):
        raise DataError(
            f"two {index.what}s have ids of the same text, as 7 and '7'; make the ids of one type"
        )
    return IdIndex(texts, index.what)


def as_list(ids: Iterable[Any], what: str) -> list[Any]:
    """The ids as a list. Raises ConfigurationError for a text, which would be taken apart letter by letter."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise ConfigurationError(f"{what} is {ids!r}; give a list of ids, as [{ids!r}]")
    return ids if isinstance(ids, list) else list(ids)


def as_pairs(uids: Iterable[Any], iids: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Users and items of pairs as lists. Raises ConfigurationError for texts, or where there is not one of each."""
    uids, iids = as_list(uids, "uids"), as_list(iids, "iids")
    if len(uids) != len(iids):
        raise ConfigurationError(
            f"there are {len(uids)} users and {len(iids)} items; give one of each for every pair"
        )
    return uids, iids


def check_ratings(uids: Sequence[Any], ratings: Sequence[float]) -> None:
    """Raise ConfigurationError where there is not one rating for every user of some pairs."""
    if len(ratings) != len(uids):
        raise ConfigurationError(
            f"there are {len(uids)} users and {len(ratings)} ratings; give one for every pair"
        )


def numbers(ids: Iterable[Any], index: dict[Any, int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The number of every raw id, -1 for those that are unknown."""
    wanted: Sequence[Any] = ids if isinstance(ids, Sequence) else list(ids)
    return np.fromiter(map(index.get, wanted, repeat(-1)), np.int64, len(wanted))
