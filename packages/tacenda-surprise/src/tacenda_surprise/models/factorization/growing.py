"""More ratings for a fitted model: its numbers stay, users and items it does not know come after them.

A new user, then a new item, begins where its own ratings put it while everything else is left as it is: at the
solution of one ridge regression (see `folding`), which a few epochs of training then reconcile with the rest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.kernels.ratings import solves as rating_solves
from tacenda.kernels.ratings.sgd import Tables
from tacenda.ratings import IdIndex, Ratings
from tacenda_surprise.models.base import Floats
from tacenda_surprise.models.catalogue import Catalogue, possible_levels
from tacenda_surprise.models.factorization.config import FactorizationConfig
from tacenda_surprise.models.identities import Identities

_Numbers = npt.NDArray[np.int64]


class Grown(NamedTuple):
    """The catalogue with what is new at its end, and ratings and identities in its numbers."""

    catalogue: Catalogue
    ratings: Ratings
    identities: Identities | None


def grown(old: Catalogue, ratings: Ratings, identities: Identities | None) -> Grown:
    """``ratings`` brought to the numbers of ``old`` by their raw ids; the mean stays that of ``old``."""
    users, user_numbers = _extended(old.users, ratings.users)
    items, item_numbers = _extended(old.items, ratings.items)
    scale = (min(old.scale[0], ratings.scale[0]), max(old.scale[1], ratings.scale[1]))
    levels = np.union1d(old.levels, ratings.levels).astype(np.float32)
    levels = possible_levels(levels, scale) if len(old.levels) else old.levels
    found = Ratings(
        user_numbers[ratings.user_ids], item_numbers[ratings.item_ids], ratings.values,
        users, items, scale=scale,
    )  # fmt: skip
    if identities is not None:
        identities = Identities.from_pairs(
            user_numbers[identities.user_ids], item_numbers[identities.item_ids],
            len(users), len(items),
        )  # fmt: skip
    catalogue = replace(old, users=users, items=items, scale=scale, levels=levels)
    return Grown(catalogue, found, identities)


def _extended(old: IdIndex, new: IdIndex) -> tuple[IdIndex, _Numbers]:
    """``old`` with what only ``new`` has at its end, and the number there of everything in ``new``."""
    found = np.array([-1 if n is None else n for n in map(old.find, new.raw.tolist())], np.int64)
    strange = np.flatnonzero(found < 0)
    if not len(strange):
        return old, found
    found[strange] = len(old) + np.arange(len(strange))
    return IdIndex([*old.raw.tolist(), *new.raw[strange].tolist()], old.what), found


def lengthened(array: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """A copy of ``array`` with rows of zeros at its end, ``rows`` in all."""
    more = np.zeros((rows - len(array), *array.shape[1:]), array.dtype)
    return np.concatenate([array, more])


def grown_tables(
    config: FactorizationConfig,
    tables: Tables,
    prior: Floats,
    mean: float,
    ratings: Ratings,
) -> Tables:
    """Tables with as many rows as ``ratings`` has users and items.

    Parameters
    ----------
    config
        With numbers for all penalties.
    tables
        ``user_factors`` without what comes from identities, p = x - s.
    prior
        s (users, factors), of new users too; (0, factors) without conditioning.
    mean
        Taken off every rating.
    ratings
        In the numbers of the tables.
    """
    old_users, old_items = len(tables.user_factors), len(tables.item_factors)
    p, b = (lengthened(t, ratings.n_users) for t in (tables.user_factors, tables.user_biases))
    q, c = (lengthened(t, ratings.n_items) for t in (tables.item_factors, tables.item_biases))
    w = tables.side_factors
    w = lengthened(w, ratings.n_items) if len(prior) else w
    s = prior if len(prior) else np.zeros_like(p)
    penalties = np.append(np.full(p.shape[1], max(config.reg_factors or 0.0, 1e-6)), 1e12)
    if config.biased:
        penalties[-1] = max(config.reg_biases, 1e-6)
    offset = np.float32(mean)
    for rows, side, x, bias, expected, others, other_bias in (
        (slice(old_users, None), ratings, p, b, s, q, c),
        (slice(old_items, None), ratings.by_item, q, c, None, p + s, b),
    ):
        first = rows.start
        if first == len(x):
            continue
        start = side.user_offsets[first]
        ids, values = side.item_ids[start:], side.values[start:]
        means = np.zeros((len(x) - first, x.shape[1] + 1), np.float32)
        if expected is not None:
            means[:, :-1] = expected[rows]
        solved = rating_solves.solve(
            side.user_offsets[first:] - start, ids, values - offset - other_bias[ids],
            np.append(others, np.ones((len(others), 1), np.float32), axis=1),
            means, np.diag(penalties), scaled=True,
        )  # fmt: skip
        x[rows], bias[rows] = (solved - means)[:, :-1], solved[:, -1]
    return Tables(p, q, b, c, w)
