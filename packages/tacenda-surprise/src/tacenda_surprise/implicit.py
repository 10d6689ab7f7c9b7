"""What gets chosen: a factorization of who has rated what, whatever the ratings (Hu, Koren and Volinsky 2008).

    minimize sum_ui c_ui (p_ui - x_u . y_i)^2 + lambda (sum_u |x_u|^2 + sum_i |y_i|^2),
    p_ui = 1 and c_ui = 1 + a if user u has rated item i, else 0 and 1,

over all pairs, by alternating least squares. Given all y a user's factors are a ridge regression whose precision is
lambda I + Y^T Y, the same for everybody, beside what the rated items N(u) add:

    x_u = (lambda I + Y^T Y + a sum_{i in N(u)} y_i y_i^T)^{-1} (1 + a) sum_{i in N(u)} y_i.

A list is ranked by how likely the user is to choose an item and to like it then,

    (max(x_u . y_i, 0) + 0.001 n_i / n) Phi((r_ui - m) / s)^{1/4},

with the predicted rating r_ui, the mean m of all ratings and their standard deviation s; n_i of the n users have rated
the item. The numbers here were chosen on generated sets (`benchmarks/ratings/generated.py`).
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from tacenda.arrays import Array, Arrays, Constraint, Float32, named
from tacenda.kernels.ratings import Targets, rating_solves
from tacenda.ratings import Ratings
from tacenda_surprise.catalogue import Identities, deviation

Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.integer[Any]]

_WIDTH, _SWEEPS = 32, 10
_CONFIDENCE = 3.0  # a
_PENALTY = 40.0  # lambda
# What the most popular item has in advance, so that users of whom nothing is known get it.
_POPULAR = 1e-3
_LIKED = 0.25  # the power of how likely they are to like it
_SEED = 0


has_deviation = Constraint(lambda array, sizes: None if array[1] > 0 else "holds no deviation")


class ImplicitFactors(Arrays):
    """Factors x of users and y of items, and what ratings are compared with."""

    x: Float32[Array, "users width", named("users")]
    y: Float32[Array, "items width", named("items")]
    popularity: Float32[Array, "items"]  # of all users the part that has rated the item
    liking: Float32[Array, "2", has_deviation]  # m and s

    @classmethod
    def of(cls, ratings: Ratings, seen: Identities) -> Self:
        """Fit to ``seen`` (who has rated what), which includes ``ratings``."""
        n_users, n_items = seen.n_users, ratings.n_items
        rng = np.random.default_rng(_SEED)
        width = min(_WIDTH, n_items, max(n_users, 1))
        y = rng.standard_normal((n_items, width), np.float32) * np.float32(0.1)
        by_item = Identities.from_pairs(seen.item_ids, seen.user_ids, n_items, n_users)
        x = solve(seen.offsets, seen.item_ids, y)
        for _ in range(_SWEEPS):
            y = solve(by_item.offsets, by_item.item_ids, x)
            x = solve(seen.offsets, seen.item_ids, y)
        popularity = by_item.sizes / max(n_users, 1)
        liking = ratings.mean if len(ratings) else 0.0, deviation(ratings)
        return cls(x, y, popularity.astype(np.float32), np.array(liking, np.float32))

    def of_new_user(self, items: Numbers) -> Floats:
        """Factors (1, width) of a user who has rated ``items``."""
        offsets = np.array([0, len(items)])
        return solve(offsets, np.asarray(items, np.int32), self.y)

    def scores(self, x: Floats) -> Floats:
        """How likely users with factors ``x`` are to choose each item (users, items), at least 0."""
        found = np.maximum(x @ self.y.T, 0.0)
        found += _POPULAR * self.popularity
        return np.asarray(found)

    def combined(self, x: Floats, ratings: Floats) -> Floats:
        """What lists by both go by (users, items), for the predicted ``ratings`` (users, items)."""
        mean, size = self.liking.tolist()
        return np.asarray(self.scores(x) * ndtr((ratings - mean) / size) ** _LIKED, np.float32)


def solve(offsets: npt.NDArray[np.int64], ids: Numbers, others: Floats) -> Floats:
    """Factors of all rows of one side, given those of the other."""
    width = others.shape[1]
    precision = _PENALTY * np.eye(width) + others.astype(np.float64).T @ others
    targets = np.full(len(ids), (1 + _CONFIDENCE) / _CONFIDENCE, np.float32)
    nothing = np.zeros(width, np.float32)
    rows = Targets(offsets, ids, targets)
    return rating_solves(rows, others, nothing, precision, _CONFIDENCE)
