"""How far a new rating will be from its score: the residuals, each as if its rating had been left out.

For a user with rated items Q and ridge weights n lambda, leaving rating i out changes its residual to
e_i / (1 - h_ii), H = Q (Q^T Q + n lambda I)^{-1} Q^T (likewise with the roles of user and item exchanged).
Both leverages are taken off; they are found for a sample of users and items, in the smaller of both dimensions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tacenda.kernels.ratings import scores as rating_scores
from tacenda.kernels.ratings.sgd import Tables
from tacenda.ratings import Ratings
from tacenda_surprise.models.base import Floats

_SAMPLE = 64  # users, and as many items
_PRIOR_WEIGHT = 2  # ratings
_AT_ONCE = 4_000_000  # ratings scored
_MOST = 300  # ratings of one user or item that are looked at


def leverage(rows: Floats, others: npt.NDArray[np.int64], penalty: float) -> float:
    """Mean h_ii of ratings whose partners' factors are ``rows[others]``."""
    n = len(others)
    Q = np.append(rows[others[:_MOST]], np.ones((min(n, _MOST), 1), np.float32), axis=1)
    Q = Q.astype(np.float64) * (n / len(Q)) ** 0.5
    gram = Q @ Q.T if len(Q) < Q.shape[1] else Q.T @ Q
    ridged = gram + n * max(penalty, 1e-6) * np.eye(len(gram))
    return float(np.trace(np.linalg.solve(ridged, gram)) / n)


def residual_deviation(
    ratings: Ratings, tables: Tables, mean: float, penalty: float, seed: int
) -> float:
    """Estimated standard deviation of a new rating about its score.

    ``ratings`` are those fitted, whose scores follow from ``tables`` and ``mean``; ``penalty`` is lambda, and
    ``seed`` that of the sample of users and items.
    """
    users, items = tables.user_factors, tables.item_factors
    rng = np.random.default_rng(seed)
    active = np.flatnonzero(np.diff(ratings.user_offsets))
    sample = rng.permutation(active)[:_SAMPLE]
    of_user = [leverage(items, ratings.of_user(u)[0].astype(np.int64), penalty) for u in sample]
    sizes = np.diff(ratings.user_offsets)[sample]
    all_counts = ratings.item_counts
    chosen = rng.permutation(np.flatnonzero(all_counts))[:_SAMPLE]
    of_item = [leverage(users, raters, penalty) for raters in _raters(ratings, chosen)]
    counts = all_counts[chosen]
    low, high = ratings.scale
    prior = (high - low) / 4 or 1.0  # of a rating of which nothing is known
    left = (1 - np.average(of_user, weights=sizes)) * (1 - np.average(of_item, weights=counts))
    n = len(ratings)
    variance = _squares(ratings, tables, mean) / n / max(float(left), 0.1) ** 2
    return float(np.sqrt((n * variance + _PRIOR_WEIGHT * prior**2) / (n + _PRIOR_WEIGHT)))


def _raters(ratings: Ratings, items: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    """The users of each of some items, ascending, without the table of all ratings by item."""
    wanted = np.zeros(ratings.n_items, bool)
    wanted[items] = True
    places = np.flatnonzero(wanted[ratings.item_ids])
    found = ratings.item_ids[places]
    users = np.searchsorted(ratings.user_offsets, places, side="right") - 1
    return [users[found == item] for item in items]


def _squares(ratings: Ratings, tables: Tables, mean: float) -> float:
    """The sum of squared residuals, found for a part of the users at a time."""
    x, q, b, c, _ = tables
    offsets, total, start = ratings.user_offsets, 0.0, 0
    while start < ratings.n_users:
        stop = int(np.searchsorted(offsets, offsets[start] + _AT_ONCE, side="right")) - 1
        stop = min(max(stop, start + 1), ratings.n_users)
        span = slice(offsets[start], offsets[stop])
        users = np.repeat(np.arange(start, stop), np.diff(offsets[start : stop + 1]))
        scores = rating_scores.scores(users, ratings.item_ids[span], x, q, b, c, mean)
        residuals = ratings.values[span] - scores
        total += float(np.sum(residuals.astype(np.float64) ** 2))
        start = stop
    return total
