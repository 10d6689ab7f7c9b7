"""Training by user-blocked SGD, as the fitting loop sees it (Mnih 2010, sections 5.3 and 5.4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.fitting import StepResult
from tacenda.kernels.ratings import scores as rating_scores
from tacenda.kernels.ratings import sgd as rating_sgd
from tacenda.kernels.ratings.sgd import Coefficients, Tables
from tacenda.ratings import Ratings
from tacenda_surprise.models.factorization.config import FactorizationConfig
from tacenda_surprise.models.identities import Identities

Arrays = Mapping[str, npt.NDArray[Any]]


def initial_tables(
    config: FactorizationConfig, n_users: int, n_items: int, *, conditional: bool
) -> Tables:
    """Small random factors, everything else zero."""
    rng = np.random.default_rng(config.seed)
    width = config.n_factors
    size = np.float32(config.init_std / max(width, 1) ** 0.5)
    return Tables(
        rng.standard_normal((n_users, width), np.float32) * size,
        rng.standard_normal((n_items, width), np.float32) * size,
        np.zeros(n_users, np.float32),
        np.zeros(n_items, np.float32),
        np.zeros((n_items if conditional else 0, width), np.float32),
    )


class Tabled:
    """What the fitting loop asks of tables under training, whatever trains them.

    Parameters
    ----------
    tables
        Changed in place by ``step``.
    mean
        Taken off every rating.
    held_out
        Ratings for `evaluate`.
    identities
        N(u); None: no conditioning.
    """

    def __init__(
        self,
        tables: Tables,
        mean: float,
        held_out: Ratings | None,
        identities: Identities | None = None,
    ) -> None:
        self.tables = tables
        self._mean, self._held_out, self._identities = mean, held_out, identities
        self._steps = 0

    def scores(self, ratings: Ratings) -> npt.NDArray[np.float32]:
        """Scores of the pairs of ``ratings``, not clipped."""
        p, q, b, c, w = self.tables
        x = p if self._identities is None else p + self._identities.means(w)
        return rating_scores.scores(ratings.user_ids, ratings.item_ids, x, q, b, c, self._mean)

    def evaluate(self) -> float | None:
        """RMSE on the ratings held out."""
        held_out = self._held_out
        if held_out is None:
            return None
        scores = np.clip(self.scores(held_out), *held_out.scale)
        return float(np.sqrt(np.mean((scores - held_out.values) ** 2, dtype=np.float64)))

    def parameters(self) -> Arrays:
        """The tables."""
        return self.tables._asdict()

    def load_parameters(self, parameters: Arrays) -> None:
        """Puts tables back, in place."""
        for name, table in self.tables._asdict().items():
            if parameters[name].shape != table.shape:
                raise ValueError(f"{name} is {parameters[name].shape} and must be {table.shape}")
            table[...] = parameters[name]

    def state(self) -> Arrays:
        """Tables and the number of steps, on which the order of the ratings depends."""
        return {**self.parameters(), "steps": np.array(self._steps)}

    def load_state(self, state: Arrays) -> None:
        """Puts back what ``state()`` gave."""
        self.load_parameters(state)
        self._steps = int(state["steps"])


class SGD(Tabled):
    """Stochastic gradient descent, a user at a time.

    Parameters
    ----------
    config
        Rates, penalties and seed, none of them None.
    ratings
        To learn from.
    tables
        Changed in place.
    mean
        Taken off every rating.
    identities
        N(u); None: no conditioning.
    held_out
        Ratings for `evaluate`.
    """

    def __init__(
        self,
        config: FactorizationConfig,
        ratings: Ratings,
        tables: Tables,
        mean: float,
        identities: Identities | None = None,
        held_out: Ratings | None = None,
    ) -> None:
        super().__init__(tables, mean, held_out, identities)
        self._config, self._ratings = config, ratings

    def step(self, batch: npt.NDArray[np.int64], learning_rate: float) -> StepResult:
        """One visit to the users of ``batch``."""
        config, ratings = self._config, self._ratings
        assert config.lr_side is not None
        assert config.reg_factors is not None
        assert config.reg_side is not None
        decayed = learning_rate / config.lr_factors if config.lr_factors else 1.0
        biases = config.lr_biases * decayed if config.biased else 0.0
        known = self._identities
        error, _ = rating_sgd.epoch(
            ratings.user_offsets,
            ratings.item_ids,
            ratings.values,
            batch,
            self.tables,
            self._mean,
            Coefficients(learning_rate, biases, config.lr_side * decayed),
            Coefficients(config.reg_factors, config.reg_biases, config.reg_side),
            config.seed * 1_000_003 + self._steps,
            None if known is None else known.offsets,
            None if known is None else known.item_ids,
        )
        self._steps += 1
        sizes = ratings.user_offsets[batch + 1] - ratings.user_offsets[batch]
        return StepResult(error, float(sizes.sum()))
