"""Stochastic gradient descent in rounds, for devices that visit thousands of rows side by side.

Each round visits a subset of the users, each with all of their ratings, while the items stay as they are, then all
items that these have rated while the users stay (`tacenda.kernels.ratings.visits`): the steps of `SGD`, each rating
once from either side, in an order in which rows can be visited at once and which no accident of timing changes. With
several rounds to an epoch the two sides grow together, as they do where every rating moves both. Here each side fits
the full residual in turn, so factor learning rates must be lower.

The conditioning factors take one step after a round, with the sums g_u of the users' visits:

    w_j = exp(-gamma lambda_w sum_u 1 / |N(u)|) w_j + gamma sum_u g_u / |N(u)|

over the users of the round with j in N(u), which is what one user after another does to first order. All of them see
the same w, so that what they have in common is corrected as often as there are users who share it, and overshoots where
these are many. With identities a round therefore has few users: see `overlap`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from tacenda.arrays import Array, library, to_device
from tacenda.fitting import StepResult
from tacenda.kernels.ratings import visits
from tacenda.kernels.ratings.sgd import Penalties, Rates, Tables
from tacenda.kernels.ratings.visits import Side
from tacenda.kernels.shared import sparse_product
from tacenda.ratings import Ratings
from tacenda_surprise.models.identities import Identities

# `benchmarks.ratings.rounds` tries others: more rounds change no error; with eight times as many users who share an
# item a fit diverges.
_RATE = 0.7  # of the factors, against one user after another
_ROUNDS = 8  # of an epoch, at least
_SHARED = 4.0  # users of a round who have rated the same item, on average over the ratings


class Pieces(NamedTuple):
    """The entries of a sparse table, row after row: ids and values on the device."""

    offsets: npt.NDArray[np.int64]  # (rows + 1,)
    ids: Array
    values: Array

    @classmethod
    def of(cls, table: csr_array, device: str) -> Pieces:
        """Put a table there."""
        parts = table.indices.astype(np.int32), table.data.astype(np.float32)
        return cls(table.indptr.astype(np.int64), *(to_device(part, device) for part in parts))


class Known(NamedTuple):
    """The identities of the users of a round."""

    by_user: Pieces
    items: Array
    by_item: Pieces  # ids are places among the users
    shares: Array  # 1 / |N(u)| of each user


class Round(NamedTuple):
    """Some users and the items that they have rated, on the device, those with many ratings first."""

    users: Array
    by_user: Pieces
    items: Array
    by_item: Pieces  # ids are places among ``users``
    known: Known | None


def rounds(ratings: Ratings, identities: Identities | None, seed: int, device: str) -> list[Round]:
    """Share the users who have ratings among rounds, in an order that depends on ``seed``."""
    sizes, table = np.diff(ratings.user_offsets), ratings.to_csr()
    filled = np.flatnonzero(sizes)
    order = np.random.default_rng([seed, len(filled)]).permutation(filled)
    found, n, own = [], _ROUNDS, None
    if identities is not None:
        ones = np.ones(len(identities.item_ids), np.float32)
        shape = identities.n_users, ratings.n_items
        own = csr_array((ones, identities.item_ids, identities.offsets), shape=shape)
        n = max(n, math.ceil(overlap(identities, ratings.n_items) * len(filled) / _SHARED))
    for part in np.array_split(order, max(min(n, len(order)), 1)):
        users = part[np.argsort(-sizes[part], kind="stable")]
        items, by_item = columns(table[users])
        of_users, of_items = (Pieces.of(side, device) for side in (table[users], by_item))
        known = None if own is None else known_of(own[users], device)
        found.append(
            Round(to_device(users, device), of_users, to_device(items, device), of_items, known)
        )
    return found


def overlap(identities: Identities, n_items: int) -> float:
    """The part of the users who have rated an item that another user has rated, on average over such items."""
    counts = np.bincount(identities.item_ids, minlength=n_items).astype(np.float64)
    return float((counts**2).sum() / max(counts.sum() * identities.n_users, 1.0))


def known_of(own: csr_array, device: str) -> Known:
    """The identities of some users, a row each."""
    items, by_item = columns(own)
    shares = (1.0 / np.maximum(np.diff(own.indptr), 1)).astype(np.float32)
    by_user, of_items = (Pieces.of(side, device) for side in (own, by_item))
    return Known(by_user, to_device(items, device), of_items, to_device(shares, device))


def penalties(given: Penalties, ratings: Ratings, device: str) -> Penalties:
    """Those of every row, on the device."""
    rows = (ratings.n_users, ratings.n_items) * 2
    found = [
        to_device(np.ascontiguousarray(np.broadcast_to(np.asarray(each, np.float32), (n,))), device)
        for each, n in zip(given[:4], rows, strict=True)
    ]
    return Penalties._make([*found, given.side])


def columns(table: csr_array) -> tuple[npt.NDArray[np.int64], csr_array]:
    """The columns that are not empty, the longest first, and the table of these columns, by column."""
    turned = table.T.tocsr()
    sizes = np.diff(turned.indptr)
    chosen = np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]
    return chosen, turned[chosen]


def epoch(
    parts: list[Round],
    tables: Tables,
    mean: float,
    rates: Rates,
    penalties: Penalties,
    weights: Array,
    seed: int,
) -> tuple[Array, StepResult]:
    """Go once through all rounds, whose order depends on ``seed``; ``tables`` are changed in place, on their device.

    ``weights`` (users,) are what a rating of each user counts. Returns the squared errors of all users (users,), each
    from before the step of the user, and the loss, which is their sum.
    """
    p, q, b, c, w = tables
    alike = library(c).ones_like(c)
    users, items = (
        Side(p, b, penalties.user_factors, penalties.user_biases, weights),
        Side(q, c, penalties.item_factors, penalties.item_biases, alike),
    )
    errors, n = library(b).zeros_like(b), 0
    for k in np.random.default_rng(seed).permutation(len(parts)):
        part: Round = parts[k]
        known, prior = part.known, None
        if known is not None:
            prior = sparse_product.multiply(*known.by_user, w, row_scale=known.shares)
        of_users = _RATE * rates.user_factors, rates.user_biases
        found = visits.visit(
            *part.by_user, part.users, users, q, c, alike, mean, of_users, seed, prior
        )
        x = p[part.users] if prior is None else p[part.users] + prior
        of_items = _RATE * rates.item_factors, rates.item_biases
        visits.visit(
            *part.by_item,
            part.items,
            items,
            x,
            b[part.users],
            weights[part.users],
            mean,
            of_items,
            seed,
        )
        if known is not None:
            shares = known.shares * rates.side
            step = sparse_product.multiply(*known.by_item, found.sums, column_scale=shares)
            many = sparse_product.multiply(*known.by_item, shares[:, None])
            w[known.items] = math.e ** (many * -penalties.side) * w[known.items] + step
        errors[part.users] = found.errors
        n += len(part.by_user.ids)
    return errors, StepResult(float(errors.sum()), float(n))
