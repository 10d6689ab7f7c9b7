"""Stochastic gradient descent in rounds, for devices that visit thousands of rows side by side.

In a round all of some users are visited while the items stay as they are, then all items that these have rated while
the users stay (`tacenda.kernels.ratings.visits`): the steps of `SGD`, each rating once from either side, in an order
that lets rows be visited at once and that no accident of timing changes. With many rounds to an epoch the two sides
grow together as they do where every rating moves both; `_ROUNDS` is where more of them change no error of a fit.

The conditioning factors take one step after a round, with the sums g_u of the users' visits:

    w_j = exp(-gamma lambda_w sum_u 1 / |N(u)|) w_j + gamma sum_u g_u / |N(u)|

over the users of the round with j in N(u), which is what one user after another does to first order. All of them see the
same w, so that what they have in common is corrected as many times as there are users; where users share many items, a
round has therefore fewer of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from tacenda.devices import Array, put
from tacenda.fitting import StepResult
from tacenda.kernels.ratings import visits
from tacenda.kernels.ratings.sgd import Penalties, Rates, Tables
from tacenda.kernels.ratings.visits import Side
from tacenda.kernels.shared import sparse_product
from tacenda.ratings import Ratings
from tacenda_surprise.models.identities import Identities

_ROUNDS = 8
_SHARED = (
    4.0  # items of a user that the others of a round have on average, over those that the user has
)


class Pieces(NamedTuple):
    """The entries of a sparse table, row after row, on the device: (rows + 1,), (entries,) and (entries,) float32."""

    offsets: Array
    ids: Array
    values: Array


class Round(NamedTuple):
    """Some users and the items they have rated, those with many ratings first."""

    users: Array
    by_user: Pieces
    items: Array
    by_item: Pieces  # ids are places among ``users``
    shares: Array  # 1 / |N(u)| of each user, or nothing without conditioning
    of_user: Pieces  # the identities
    known: Array  # items among them
    of_known: Pieces


def rounds(ratings: Ratings, identities: Identities | None, seed: int, device: str) -> list[Round]:
    """Share the users among rounds, in an order that depends on ``seed``."""
    sizes = np.diff(ratings.user_offsets)
    filled = np.flatnonzero(sizes)
    n = _ROUNDS
    if identities is not None:
        n = max(n, int(len(filled) * overlap(identities, ratings.n_items) / _SHARED))
    order = np.random.default_rng([seed, len(filled)]).permutation(filled)
    table = ratings.to_csr()
    own = None
    if identities is not None:
        ones = np.ones(len(identities.item_ids), np.float32)
        shape = identities.n_users, ratings.n_items
        own = csr_array((ones, identities.item_ids, identities.offsets), shape=shape)
    found = []
    for part in np.array_split(order, max(min(n, len(order)), 1)):
        users = part[np.argsort(-sizes[part], kind="stable")]
        items, by_item = columns(table[users])
        shares, of_user, known, of_known = (
            np.zeros(0, np.float32),
            csr_array((0, 0)),
            items[:0],
            csr_array((0, 0)),
        )
        if own is not None and identities is not None:
            of_user = own[users]
            known, of_known = columns(of_user)
            shares = (1.0 / np.maximum(identities.sizes[users], 1)).astype(np.float32)
        found.append(
            Round(
                put(users, device), pieces(table[users], device), put(items, device), pieces(by_item, device),
                put(shares, device), pieces(of_user, device), put(known, device), pieces(of_known, device),
            )
        )  # fmt: skip
    return found


def penalties(given: Penalties, ratings: Ratings, device: str) -> Penalties:
    """Those of every row, on the device."""
    rows = (ratings.n_users, ratings.n_items) * 2
    found = (
        put(np.ascontiguousarray(np.broadcast_to(np.asarray(each, np.float32), (n,))), device)
        for each, n in zip(given[:4], rows, strict=True)
    )
    return Penalties(*found, side=given.side)


def overlap(identities: Identities, n_items: int) -> float:
    """Which part of a user's items another user has, on average over both."""
    counts = np.bincount(identities.item_ids, minlength=n_items).astype(np.float64)
    return float((counts**2).sum() / max(counts.sum() * identities.n_users, 1.0))


def columns(table: csr_array) -> tuple[npt.NDArray[np.int64], csr_array]:
    """The columns that are not empty, the longest first, and the table of these columns, by column."""
    turned = table.T.tocsr()
    sizes = np.diff(turned.indptr)
    chosen = np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]
    return chosen, turned[chosen]


def pieces(table: csr_array, device: str) -> Pieces:
    """Put a table on the device."""
    parts = (
        table.indptr.astype(np.int64),
        table.indices.astype(np.int32),
        table.data.astype(np.float32),
    )
    return Pieces(*(put(part, device) for part in parts))


def epoch(
    parts: list[Round], tables: Tables, mean: float, rates: Rates, penalties: Penalties, seed: int
) -> StepResult:
    """Go once through all rounds, whose order depends on ``seed``; ``tables`` are changed in place, on their device.

    The loss is the squared error of all ratings, each from before the step of its user.
    """
    p, q, b, c, w = tables
    users, items = (
        Side(p, b, penalties.user_factors, penalties.user_biases),
        Side(q, c, penalties.item_factors, penalties.item_biases),
    )
    error, n = 0.0, 0
    for k in np.random.default_rng(seed).permutation(len(parts)):
        part, prior = parts[k], None
        if len(w):
            prior = sparse_product.multiply(*part.of_user, w, row_scale=part.shares)
        of_users = rates.user_factors, rates.user_biases
        found = visits.visit(*part.by_user, part.users, users, q, c, mean, of_users, seed, prior)
        x = p[part.users] if prior is None else p[part.users] + prior
        of_items = rates.item_factors, rates.item_biases
        visits.visit(*part.by_item, part.items, items, x, b[part.users], mean, of_items, seed)
        if prior is not None:
            shares = part.shares * rates.side
            step = sparse_product.multiply(*part.of_known, found.sums, column_scale=shares)
            many = sparse_product.multiply(*part.of_known, shares[:, None])
            w[part.known] = math.e ** (many * -penalties.side) * w[part.known] + step
        error = error + found.errors.sum()
        n += len(part.by_user.ids)
    return StepResult(float(error), float(n))
