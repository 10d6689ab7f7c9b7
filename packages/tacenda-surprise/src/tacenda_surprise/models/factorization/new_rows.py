"""Users and items a factorization was not fitted to: ridge regressions on the factors of the other side.

With Q the factors of the rated items and s the mean of the conditioning factors over everything known to be
rated, the bias b and factors x of a new user minimize

    |r - mean - c - b - Q x|^2 + n lambda |x - s|^2 + n lambda_b b^2,

which is what SGD minimizes for a fitted user (its penalties count once for each of the n ratings). New items
likewise, without s.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.kernels.ratings import solves as rating_solves
from tacenda.kernels.ratings.sgd import Tables
from tacenda.ratings import Ratings
from tacenda_surprise.models.base import Floats, Numbers
from tacenda_surprise.models.factorization.settings import FactorizationSettings
from tacenda_surprise.models.factorization.training import ridge_weights


class FoldedFactors(NamedTuple):
    """Bias b and factors x of one user beside the items; see `tacenda_surprise.models.FoldedUser`."""

    bias: float
    factors: Floats
    noise: float
    mean: float
    item_factors: Floats
    item_biases: Floats

    def score(self, items: Numbers | None = None) -> Floats:
        """Expected ratings (items,), not clipped; of all items if None; -1 is an unknown item."""
        if items is None:
            scores = self.item_factors @ self.factors + self.item_biases
        else:
            known = (np.asarray(items) >= 0).astype(np.float32)
            # not by BLAS, whose sums depend on how many items there are
            products = np.einsum("nd,d->n", self.item_factors[items], self.factors)
            scores = (products + self.item_biases[items]) * known
        return np.asarray(scores + np.float32(self.mean + self.bias), np.float32)

    def deviations(self, items: Numbers) -> Floats:
        """The noise of the ratings, (items,)."""
        return np.full(len(items), self.noise, np.float32)


def fold(
    settings: FactorizationSettings,
    penalty: float,
    tables: Tables,
    mean: float,
    items: Numbers,
    values: Floats,
    prior: Floats,
) -> tuple[float, Floats]:
    """Solve for bias and factors of a user with these ratings (n,) of ``items`` (n,); ``prior`` is s (factors,)."""
    n = len(items)
    if not n:
        return 0.0, prior
    Q = tables.item_factors[items].astype(np.float64)
    residual = values - mean - tables.item_biases[items] - Q @ prior
    ones = np.full((n, 1), float(settings.biased))
    design = np.concatenate([Q, ones], axis=1)
    weights = n * ridge_weights(settings, penalty)
    solved = np.linalg.solve(design.T @ design + np.diag(weights), design.T @ residual)
    return float(solved[-1]), (prior + solved[:-1]).astype(np.float32)


def grown_tables(
    settings: FactorizationSettings,
    penalty: float,
    tables: Tables,
    prior: Floats,
    mean: float,
    ratings: Ratings,
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
    precision = np.diag(ridge_weights(settings, penalty))
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
            means, precision, scaled=True,
        )  # fmt: skip
        x[rows], bias[rows] = (solved - means)[:, :-1], solved[:, -1]
    return Tables(p, q, b, c, w)


def lengthened(array: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """Copy ``array`` with rows of zeros at its end, ``rows`` in all."""
    more = np.zeros((rows - len(array), *array.shape[1:]), array.dtype)
    return np.concatenate([array, more])
