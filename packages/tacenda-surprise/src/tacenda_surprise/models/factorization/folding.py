"""Users the model was not fitted on: one ridge regression on the items' factors, nothing retrained.

With Q the factors of the rated items and s the mean of the conditioning factors over everything known to be
rated, the bias b and factors x of a new user minimize

    |r - mean - c - b - Q x|^2 + n lambda |x - s|^2 + n lambda_b b^2,

what SGD minimizes for a fitted user (its penalties count once for each of the n ratings).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.kernels.ratings.sgd import Tables
from tacenda_surprise.models.factorization.config import FactorizationConfig

Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class FoldedFactors:
    """Bias and factors of one user; see `tacenda_surprise.models.FoldedUser`.

    Attributes
    ----------
    bias
        b.
    factors
        x (factors,).
    noise
        Standard deviation of a rating.
    """

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
    config: FactorizationConfig,
    tables: Tables,
    mean: float,
    items: Numbers,
    values: Floats,
    prior: Floats,
) -> tuple[float, Floats]:
    """Bias and factors of a user with these ratings.

    Parameters
    ----------
    config
        Of the fitted model, all of it numbers.
    tables
        Of the fitted model.
    mean
        Of the fitted model.
    items
        (n,) rated.
    values
        (n,) ratings.
    prior
        s (factors,).
    """
    n = len(items)
    if not n:
        return 0.0, prior
    Q = tables.item_factors[items].astype(np.float64)
    residual = values - mean - tables.item_biases[items] - Q @ prior
    design = np.concatenate([Q, np.ones((n, 1))], axis=1)
    # A weight of zero leaves what the ratings do not tell at the prior: the least-norm solution.
    weights = n * np.append(
        np.full(Q.shape[1], max(config.reg_factors or 0.0, 1e-6)), config.reg_biases
    )
    if not config.biased:
        design[:, -1] = 0.0
    weights[-1] = max(weights[-1], 1e-6)
    solved = np.linalg.solve(design.T @ design + np.diag(weights), design.T @ residual)
    return float(solved[-1]), (prior + solved[:-1]).astype(np.float32)
