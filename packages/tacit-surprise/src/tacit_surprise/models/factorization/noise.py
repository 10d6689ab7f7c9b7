"""How far a new rating will be from its score: the residuals, each as if its rating had been left out.

For a user with rated items Q and ridge weights n lambda, leaving rating i out changes its residual to
e_i / (1 - h_ii), H = Q (Q^T Q + n lambda I)^{-1} Q^T (likewise with the roles of user and item exchanged).
Both leverages are taken off; they are found for a sample of users and items, in the smaller of both dimensions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tacit.ratings import Ratings

Floats = npt.NDArray[np.float32]
SAMPLE = 64  # users, and items
_PRIOR_WEIGHT = 2  # ratings
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
    ratings: Ratings, residuals: Floats, users: Floats, items: Floats, penalty: float, seed: int
) -> float:
    """Estimated standard deviation of a new rating about its score.

    Args:
        ratings: the ratings fitted.
        residuals: (ratings,), rating less score, in their order.
        users: x (users, factors).
        items: q (items, factors).
        penalty: lambda.
        seed: of the sample.
    """
    rng = np.random.default_rng(seed)
    active = np.flatnonzero(np.diff(ratings.user_offsets))
    sample = rng.permutation(active)[:SAMPLE]
    of_user = [leverage(items, ratings.of_user(u)[0].astype(np.int64), penalty) for u in sample]
    sizes = np.diff(ratings.user_offsets)[sample]
    rated = np.flatnonzero(np.diff(ratings.by_item.user_offsets))
    chosen = rng.permutation(rated)[:SAMPLE]
    of_item = [leverage(users, ratings.of_item(i)[0].astype(np.int64), penalty) for i in chosen]
    counts = np.diff(ratings.by_item.user_offsets)[chosen]
    low, high = ratings.scale
    prior = (high - low) / 4 or 1.0  # of a rating of which nothing is known
    left = (1 - np.average(of_user, weights=sizes)) * (1 - np.average(of_item, weights=counts))
    variance = float(np.mean(residuals.astype(np.float64) ** 2)) / max(float(left), 0.1) ** 2
    n = len(residuals)
    return float(np.sqrt((n * variance + _PRIOR_WEIGHT * prior**2) / (n + _PRIOR_WEIGHT)))
