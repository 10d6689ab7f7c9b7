"""Training by alternating least squares: each sweep solves for all users, then for all items.

With one side fixed the loss of `training` is a ridge regression for every row of the other, bias and factors
together, its weight counted once for every rating (Zhou et al. 2008, ALS-WR).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacenda.fitting import StepResult
from tacenda.kernels.ratings import solves as rating_solves
from tacenda.kernels.ratings.sgd import Tables
from tacenda.ratings import Ratings
from tacenda_surprise.models.base import Floats
from tacenda_surprise.models.factorization.config import FactorizationConfig
from tacenda_surprise.models.factorization.training import Tabled


class ALS(Tabled):
    """Tables under training; no conditioning.

    Parameters
    ----------
    config
        Penalties, none of them None.
    ratings
        To learn from.
    tables
        Changed in place.
    mean
        Taken off every rating.
    held_out
        Ratings for `evaluate`.
    """

    def __init__(
        self,
        config: FactorizationConfig,
        ratings: Ratings,
        tables: Tables,
        mean: float,
        held_out: Ratings | None = None,
    ) -> None:
        super().__init__(tables, mean, held_out)
        self._config, self._ratings = config, ratings
        weights = np.full(config.n_factors + 1, max(config.reg_factors or 0.0, 1e-6))
        # without biases a weight so large that they stay at zero
        weights[-1] = max(config.reg_biases, 1e-6) if config.biased else 1e12
        self._precision = np.diag(weights)

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """One sweep; its loss is the squared error after it."""
        p, q, b, c, _ = self.tables
        ratings = self._ratings
        self._solve(ratings, p, b, q, c)
        self._solve(ratings.by_item, q, c, p, b)
        errors = ratings.values - self.scores(ratings)
        self._steps += 1
        return StepResult(float(np.einsum("n,n->", errors, errors)), float(len(ratings)))

    def _solve(
        self, ratings: Ratings, x: Floats, bias: Floats, others: Floats, other_bias: Floats
    ) -> None:
        table = np.append(others, np.ones((len(others), 1), np.float32), axis=1)
        targets = ratings.values - np.float32(self._mean) - other_bias[ratings.item_ids]
        found = rating_solves.solve(
            ratings.user_offsets, ratings.item_ids, targets, table,
            np.zeros(table.shape[1], np.float32), self._precision, scaled=True,
        )  # fmt: skip
        x[...], bias[...] = found[:, :-1], found[:, -1]
