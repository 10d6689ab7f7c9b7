"""Biases under training, as the fitting loop sees them: users and items in turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.fitting import StepResult
from tacenda.ratings import Ratings
from tacenda_surprise.models.base import Floats
from tacenda_surprise.models.bias.config import BiasConfig

Doubles = npt.NDArray[np.float64]


class Biases(NamedTuple):
    """B (users,), c (items,) float32 and the standard deviation of a rating about them."""

    users: Floats
    items: Floats
    noise: float


class Alternation:
    """Damped means of what the other side leaves.

    Parameters
    ----------
    config
        Which biases there are, and how they are damped.
    ratings
        To learn from.
    mean
        Taken off every rating.
    b
        Biases of users to begin with (users,).
    c
        Of items (items,).
    """

    def __init__(
        self, config: BiasConfig, ratings: Ratings, mean: float, b: Doubles, c: Doubles
    ) -> None:
        self._config, self._b, self._c = config, b, c
        self._users, self._items = ratings.user_ids, ratings.item_ids
        self._values = ratings.values.astype(np.float64) - mean
        self._of_user = np.bincount(self._users, minlength=len(b)) + config.reg_users
        self._of_item = np.bincount(self._items, minlength=len(c)) + config.reg_items

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """Items, then users; its loss is the squared error afterwards."""
        if self._config.of_items:
            left = np.bincount(self._items, self._values - self._b[self._users], len(self._c))
            self._c = left / np.maximum(self._of_item, 1e-9)
        if self._config.of_users:
            left = np.bincount(self._users, self._values - self._c[self._items], len(self._b))
            self._b = left / np.maximum(self._of_user, 1e-9)
        return StepResult(float(np.sum(self._errors() ** 2)), float(len(self._values)))

    def _errors(self) -> Doubles:
        return np.asarray(self._values - self._b[self._users] - self._c[self._items])

    def found(self) -> Biases:
        """The biases, and the spread of the errors each as if its rating had been left out."""
        weight = np.zeros(len(self._values))
        if self._config.of_items:
            weight += 1 / self._of_item[self._items]
        if self._config.of_users:
            weight += 1 / self._of_user[self._users]
        errors = self._errors() / np.maximum(1 - weight, 0.25)
        # two ratings a whole unit off, so that a handful of ratings is not taken for certainty
        noise = np.sqrt((np.sum(errors**2) + 2.0) / (len(errors) + 2.0))
        return Biases(self._b.astype(np.float32), self._c.astype(np.float32), float(noise))

    def evaluate(self) -> float | None:
        """Nothing is held out."""
        return None

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        """Both biases."""
        return {"user_biases": self._b, "item_biases": self._c}

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Puts back what ``state()`` gave."""
        b, c = state["user_biases"], state["item_biases"]
        if b.shape != self._b.shape or c.shape != self._c.shape:
            raise ValueError("the biases are of other ratings")
        self._b, self._c = b.copy(), c.copy()
