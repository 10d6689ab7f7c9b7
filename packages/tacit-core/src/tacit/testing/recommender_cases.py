"""The model and the data that `tacit.testing.recommenders.RecommenderTests` works with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tacit import plugins
from tacit.datasets import synthetic_ratings
from tacit.ratings import Ratings, split


class RecommenderCases:
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
    _fitted: Any

    def make_model(self) -> Any:
        """A new unfitted model, small enough to fit in a second on `ratings`."""
        raise NotImplementedError("define make_model() in your test class")

    def ratings(self) -> Ratings:
        """What the model is fitted on; override it if the default does not suit the model."""
        return self._split()[0]

    def _split(self) -> tuple[Ratings, Ratings]:
        found = synthetic_ratings.generate(120, 60, 2300, rank=2, noise=0.6, seed=3)
        return split(found.ratings, 0.1, seed=0)

    @pytest.fixture
    def model(self) -> Any:
        """The fitted model that all tests of a class share; predicting must not change it."""
        cls = type(self)
        if "_fitted" not in cls.__dict__:
            cls._fitted = self.make_model().fit(self.ratings())
        return cls._fitted

    @pytest.fixture(autouse=True)
    def _registered(self) -> Iterator[None]:
        """Put the class where `tacit.load` looks, unless it is installed."""
        cls = type(self.make_model())
        claims = [r for r in plugins.available(cls.kind) if r.name == cls.name]
        if cls.distribution in {claim.distribution for claim in claims}:
            yield
            return
        plugins.register(cls.kind, cls.name, cls, distribution=cls.distribution)
        try:
            yield
        finally:
            plugins.unregister(cls.kind, cls.name, distribution=cls.distribution)

    def some_pairs(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Pairs of numbers, unknown users and items among them."""
        rng = np.random.default_rng(0)
        ratings = self.ratings()
        return rng.integers(-1, ratings.n_users, 80), rng.integers(-1, ratings.n_items, 80)
