"""Predictions of the factorizations: r_ui = mean + b_u + c_i + x_u . q_i, whatever the tables were found by."""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar

import numpy as np

from tacenda.kernels.ratings import scores as rating_scores
from tacenda.kernels.ratings.sgd import Tables
from tacenda_surprise.models.base import Floats, Numbers
from tacenda_surprise.models.configured import ConfiguredRatingModel
from tacenda_surprise.models.settings import Settings

S = TypeVar("S", bound=Settings)


class Factorization(ConfiguredRatingModel[S]):
    """Base of the factorizations: scores are those of ``tables``."""

    @property
    @abstractmethod
    def tables(self) -> Tables:
        """User factors x, item factors q, biases b and c, and conditioning factors. Raises NotFittedError."""

    def score_pairs(self, users: Numbers, items: Numbers) -> Floats:
        """See `RatingModel.score_pairs`."""
        x, q, b, c, _ = self.tables
        return rating_scores.scores(users, items, x, q, b, c, self.catalogue.mean)

    def score_users(self, users: Numbers) -> Floats:
        """See `RatingModel.score_users`."""
        x, q, b, c, _ = self.tables
        users = np.asarray(users)
        known = (users >= 0).astype(np.float32)[:, None]
        scores = (x[users] * known) @ q.T
        scores += b[users][:, None] * known
        scores += c + np.float32(self.catalogue.mean)
        return np.asarray(scores)
