"""Few new ratings: the places of the ratings of their users and items, and the variances of these."""

from __future__ import annotations

import numpy as np

from tacenda.kernels.ratings import Tables, rating_scores
from tacenda.ratings import Ratings
from tacenda_surprise.catalogue import Numbers
from tacenda_surprise.trainsets import Touched
from tacenda_surprise.variance import PredictiveVariance, Sizes, Variances

_ERRORS_OF_ALL = 20_000  # ratings, with whose errors the errors of a few are compared


def places_of_users(ratings: Ratings, users: Numbers) -> Numbers:
    """Places (n,) of the ratings of some users."""
    spans = zip(ratings.user_offsets[users], ratings.user_offsets[users + 1], strict=True)
    return np.concatenate([np.arange(start, stop) for start, stop in spans])


def places_of_items(ratings: Ratings, items: Numbers) -> Numbers:
    """Places (n,) of the ratings of some items, without turning the whole table."""
    if len(items) == 1:
        return np.flatnonzero(ratings.item_ids == items[0])
    return np.flatnonzero(np.isin(ratings.item_ids, items))


def users_at(ratings: Ratings, places: Numbers) -> Numbers:
    """The users (n,) of the ratings in some places."""
    return np.searchsorted(ratings.user_offsets, places, side="right") - 1


def touch_spread(
    variances: Variances,
    before: PredictiveVariance,
    ratings: Ratings,
    tables: Tables,
    mean: float,
    touched: Touched,
) -> PredictiveVariance:
    """Return the variances with other rows for the users and items of new ratings; ``tables`` are those after them."""
    users, items = np.unique(touched.users), np.unique(touched.items)
    of_users, _ = _sizes_of_rows(places_of_users(ratings, users), ratings, tables, mean)
    _, of_items = _sizes_of_rows(places_of_items(ratings, items), ratings, tables, mean)
    some = np.arange(0, len(ratings), max(len(ratings) // _ERRORS_OF_ALL, 1))
    every, _ = _sizes_of_rows(some, ratings, tables, mean)
    mean_square = float(every.squares.sum() / len(some)) or 1.0
    return variances.touch(before, (users, of_users), (items, of_items), mean_square)


def _sizes_of_rows(
    places: Numbers, ratings: Ratings, tables: Tables, mean: float
) -> tuple[Sizes, Sizes]:
    """Count the ratings in ``places`` and sum their errors, by the users and by the items that occur there."""
    x, q, b, c, _ = tables
    users, items = users_at(ratings, places), ratings.item_ids[places]
    scores = rating_scores(users, items, x, q, b, c, mean).clip(*ratings.scale)
    errors = ratings.values[places] - scores
    sides = (np.unique(ids, return_inverse=True) for ids in (users, items))
    of_users, of_items = (Sizes.of(numbers, errors, len(ids)) for ids, numbers in sides)
    return of_users, of_items
