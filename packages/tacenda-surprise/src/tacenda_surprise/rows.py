"""Rows of users and items: scores, averages, rows of unknown ids and new ones, and the few that new ratings touch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.kernels.ratings import Tables, rating_scores
from tacenda.ratings import Ratings
from tacenda_surprise.catalogue import Floats, Numbers
from tacenda_surprise.identities import users_at


def mean_row(table: npt.NDArray[Any], weights: npt.NDArray[Any]) -> Floats:
    """Average the rows of ``table`` (rows, ...) with ``weights`` (rows,), equal ones if all weights are zero."""
    shares = weights if weights.any() else np.ones(len(table))
    return np.asarray(np.einsum("n...,n->...", table, shares / shares.sum()), np.float32)


def take_rows(table: Floats, ids: Numbers, unknown: npt.NDArray[Any]) -> Floats:
    """Take the rows ``ids`` (n,) of a table (rows, ...), and ``unknown`` for -1: (n, ...)."""
    taken = table[ids]
    taken[np.asarray(ids) < 0] = unknown
    return taken


def lengthen(array: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """Copy ``array`` (n, ...), and append rows of zeros: (rows, ...)."""
    more = np.zeros((rows - len(array), *array.shape[1:]), array.dtype)
    return np.concatenate([array, more])


def score_pairs(
    tables: Tables, average: Tables, mean: float, users: Numbers, items: Numbers
) -> Floats:
    """Score pairs of users and items (pairs,) as `TableScores` would; one pair takes less time without that object."""
    x, q, b, c, _ = tables
    found = rating_scores(users, items, x, q, b, c, mean)
    # faster than any() for a few
    if len(users) and (users.item(users.argmin()) < 0 or items.item(items.argmin()) < 0):
        strange = np.flatnonzero((users < 0) | (items < 0))
        sides = zip((x, q, b, c), (users, items) * 2, average, strict=False)
        x, q, b, c = (take_rows(table, side[strange], one[0]) for table, side, one in sides)
        each = np.arange(len(strange))
        found[strange] = rating_scores(each, each, x, q, b, c, mean)
    return found


class TableScores(NamedTuple):
    """Expected ratings, float32 and not clipped: the mean, biases, and products of factors; -1 is an unknown id."""

    tables: Tables
    average: Tables  # rows (1, ...) that stand for an unknown user and an unknown item
    mean: float

    def of_users(self, users: Numbers) -> Floats:
        """Score all items for each of ``users``: (users, items)."""
        x, q, b, c, _ = self.tables
        scores = take_rows(x, users, self.average.user_factors[0]) @ q.T
        scores += take_rows(b, users, self.average.user_biases[0])[:, None]
        scores += c + np.float32(self.mean)
        return np.asarray(scores)

    def of_new_user(self, bias: float, x: Floats, items: Numbers | None) -> Floats:
        """Score ``items``, or all if None, for a user with a bias and factors (factors,): (items,)."""
        _, q, _, c, _ = self.tables
        if items is None:
            scores = q @ x + c
        else:
            q = take_rows(q, items, self.average.item_factors[0])
            # Not by BLAS, whose sums depend on how many items there are.
            scores = np.einsum("nd,d->n", q, x) + take_rows(c, items, self.average.item_biases[0])
        return np.asarray(scores + np.float32(self.mean + bias), np.float32)


class Touched(NamedTuple):
    """New ratings that are few compared with the old ones: numbers of user and item, and the ratings (new,)."""

    users: npt.NDArray[np.int64]
    items: npt.NDArray[np.int64]
    values: npt.NDArray[np.float32]
    before: npt.NDArray[np.float32]  # what the pair was rated before; NaN if it was not

    @classmethod
    def of(cls, users: Any, items: Any, values: Any, old: Ratings) -> Touched:
        """Look up what the pairs were rated in the ``old`` ratings."""
        before = np.full(len(values), np.nan, np.float32)
        for k in np.flatnonzero((users < old.n_users) & (items < old.n_items)).tolist():
            rated, given = old.of_user(users[k])
            place = np.searchsorted(rated, items[k])
            if place < len(rated) and rated[place] == items[k]:
                before[k] = given[place]
        return cls(users, items, values, before)

    def by_user(self, ratings: Ratings) -> Iterator[tuple[int, Numbers, npt.NDArray[np.float32]]]:
        """Yield each user with the items and the values of all of their ``ratings``, old and new."""
        for user in np.unique(self.users).tolist():
            yield user, *ratings.of_user(user)

    def by_item(self, ratings: Ratings) -> Iterator[tuple[int, Numbers, npt.NDArray[np.float32]]]:
        """Yield each item with the users and the values of all of its ``ratings``, old and new.

        The table is searched for each item, which takes less time than to transpose it.
        """
        for item in np.unique(self.items).tolist():
            places = np.flatnonzero(ratings.item_ids == item)
            yield item, users_at(ratings.user_offsets, places), ratings.values[places]
