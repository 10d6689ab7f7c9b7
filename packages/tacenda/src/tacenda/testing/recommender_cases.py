"""The model and the data that `tacenda.testing.recommenders.RecommenderTests` works with."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacenda.datasets import synthetic_ratings
from tacenda.ratings import Ratings, split
from tacenda.testing.model_cases import ModelCases


class RecommenderCases(ModelCases):
    """Inherit, and define ``make_model``.

    Attributes
    ----------
    atol
        How far predictions may differ where the same numbers are computed in another order.
    learns
        Whether the model is expected to beat the mean of all ratings on ratings held out.
    """

    atol: float = 1e-4
    learns: bool = True

    def training_data(self) -> Ratings:
        """`ratings`."""
        return self.ratings()

    def ratings(self) -> Ratings:
        """What the model is fitted on; override it if the default does not suit the model."""
        return self._split()[0]

    def _split(self) -> tuple[Ratings, Ratings]:
        found = synthetic_ratings.generate(120, 60, 2300, rank=2, noise=0.6, seed=3)
        return split(found.ratings, 0.1, seed=0)

    def some_pairs(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Pairs of numbers, unknown users and items among them."""
        rng = np.random.default_rng(0)
        ratings = self.ratings()
        return rng.integers(-1, ratings.n_users, 80), rng.integers(-1, ratings.n_items, 80)
