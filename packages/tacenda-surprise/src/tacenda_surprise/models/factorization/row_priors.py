"""Mean and precision of the rows of a table, drawn from their posterior.

The rows of a table have a Normal-Wishart prior with mu_0 = 0, beta_0 = 2, nu_0 = width + 1 + m and W_0 = V^{-1} / m,
by which their covariance is expected to be V (Salakhutdinov and Mnih 2008, eq 14). V is diagonal; a bias has a
variance of 0.15, and so has the product of factors of a user and an item. (Their section 4 has nu_0 = width and
W_0 = I, of which a row has no expected variance: a single rating then makes it infinite.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Array
from tacenda.kernels.shared import tall_matrices

Matrix = npt.NDArray[np.float64]

_BETA = 2.0
_ROWS = 4.0  # m, how many rows the prior of their covariance is worth
_VARIANCE = 0.15  # of a bias, and of the product of factors


class Hyper(NamedTuple):
    """Mean (width,) and precision (width, width) of the rows of a table."""

    mean: npt.NDArray[np.float64]
    precision: Matrix


def draw_hyper(
    rng: np.random.Generator,
    rows: Array,
    centred: Array | None = None,
) -> Hyper:
    """Draw mean and precision from their posterior, given ``rows`` (n, width).

    The rows ``centred`` (m, width) have the same precision, and their mean is known to be zero.
    """
    n, width = rows.shape
    degrees = width + 1 + _ROWS + n
    mean, scatter = tall_matrices.moments(rows)
    scale = _ROWS * np.diag(expected_variances(width)) + scatter
    scale += _BETA * n / (_BETA + n) * np.outer(mean, mean)
    if centred is not None:
        scale += tall_matrices.moments(centred, centred=True)[1]
        degrees += len(centred)
    precision = draw_wishart(rng, degrees, np.asarray(np.linalg.inv(scale), np.float64))
    root = np.linalg.cholesky((_BETA + n) * precision)
    noise = np.linalg.solve(root.T, rng.standard_normal(width))
    return Hyper(n * mean / (_BETA + n) + noise, precision)


def expected_variances(width: int) -> npt.NDArray[np.float64]:
    """The diagonal of V (width,)."""
    factors = max(width - 1, 1)
    return np.append(np.full(width - 1, (_VARIANCE / factors) ** 0.5), _VARIANCE)


def draw_wishart(rng: np.random.Generator, degrees: float, scale: Matrix) -> Matrix:
    """Draw from the Wishart distribution with mean ``degrees * scale`` (Bartlett's decomposition)."""
    width = len(scale)
    A = np.tril(rng.standard_normal((width, width)), -1)
    A[np.diag_indices(width)] = np.sqrt(rng.chisquare(degrees - np.arange(width)))
    root = np.linalg.cholesky(scale) @ A
    return root @ root.T
