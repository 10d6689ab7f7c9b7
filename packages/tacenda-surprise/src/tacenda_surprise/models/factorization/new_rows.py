"""Users and items a factorization was not fitted to: ridge regressions on the factors of the other side.

With Q the factors of the rated items and s the mean of the conditioning factors over everything known to be
rated, the bias b and factors x of a new user minimize

    |r - mean - c - b - Q x|^2 + lambda(n) |x - s|^2 + lambda_b(n) b^2,

which is what SGD minimizes for a fitted user with n ratings, whose weight
multiplies all three terms. New items likewise, without s.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.kernels.ratings.sgd import Tables
from tacenda.ratings import Ratings
from tacenda_surprise.models.base import Floats, Numbers
from tacenda_surprise.models.factorization.defaults import LEAST_PENALTY, Used


def fold(
    used: Used,
    tables: Tables,
    mean: float,
    items: Numbers,
    values: Floats,
    prior: Floats,
) -> tuple[float, Floats]:
    """Solve for bias and factors of a user with these ratings (n,) of ``items`` (n,); ``prior`` is s (factors,)."""
    n, biased = len(items), used.rates.user_biases > 0
    weights = used.user_factors.total(n), used.user_biases.total(n) if biased else None
    return _solved(
        tables.item_factors[items], values - mean - tables.item_biases[items], prior, *weights
    )


def _solved(
    rows: Floats, targets: Floats, prior: Floats, penalty: float, of_bias: float | None
) -> tuple[float, Floats]:
    """Bias and factors of a row, a ridge regression of ``targets`` (n,) on ``rows`` (n, factors) and a constant."""
    n, width = rows.shape
    if not n:
        return 0.0, prior
    Q = rows.astype(np.float64)
    design = np.append(Q, np.full((n, 1), float(of_bias is not None)), axis=1)
    weights = np.full(width + 1, max(penalty, LEAST_PENALTY))
    weights[-1] = max(of_bias or 0.0, LEAST_PENALTY)
    solved = np.linalg.solve(design.T @ design + np.diag(weights), design.T @ (targets - Q @ prior))
    return float(solved[-1]), (prior + solved[:-1]).astype(np.float32)


def grown_tables(
    used: Used, tables: Tables, prior: Floats, mean: float, ratings: Ratings
) -> Tables:
    """Lengthen tables to as many rows as ``ratings`` has users and items.

    New users, then new items, begin where their own ratings put them while everything else stays; a few
    epochs of training then reconcile them with the rest. ``user_factors`` are p = x - s, without what comes
    from identities; ``prior`` is s (users, factors), of new users too, or (0, factors) without conditioning.
    """
    old_users, old_items = len(tables.user_factors), len(tables.item_factors)
    p, b = (lengthened(t, ratings.n_users) for t in (tables.user_factors, tables.user_biases))
    q, c = (lengthened(t, ratings.n_items) for t in (tables.item_factors, tables.item_biases))
    w = tables.side_factors
    w = lengthened(w, ratings.n_items) if len(prior) else w
    s = prior if len(prior) else np.zeros_like(p)
    nothing = np.zeros(p.shape[1], np.float32)
    for u in range(old_users, len(p)):
        ids, values = ratings.of_user(u)
        b[u], x = fold(used, Tables(p, q, b, c, w), mean, ids, values, s[u])
        p[u] = x - s[u]
    for i in range(old_items, len(q)):
        ids, values = ratings.of_item(i)
        biased = used.rates.item_biases > 0
        of_bias = used.item_biases.total(len(ids)) if biased else None
        targets, penalty = values - mean - b[ids], used.item_factors.total(len(ids))
        c[i], q[i] = _solved(p[ids] + s[ids], targets, nothing, penalty, of_bias)
    return Tables(p, q, b, c, w)


def lengthened(array: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """Copy ``array`` with rows of zeros at its end, ``rows`` in all."""
    more = np.zeros((rows - len(array), *array.shape[1:]), array.dtype)
    return np.concatenate([array, more])
