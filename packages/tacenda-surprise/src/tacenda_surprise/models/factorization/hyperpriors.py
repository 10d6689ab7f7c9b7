"""Draws from the posterior of the mean and precision of normally distributed rows.

Normal-Wishart with mu_0 = 0, beta_0 = 2, nu_0 = width and W_0 = I (Salakhutdinov and Mnih 2008, eq 14, and
their section 4 for the values).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]

_BETA = 2.0


class Hyper(NamedTuple):
    """Mean (width,) and precision (width, width) of the rows."""

    mean: npt.NDArray[np.float64]
    precision: Matrix


def draw(rng: np.random.Generator, rows: npt.NDArray[np.floating]) -> Hyper:
    """One draw given ``rows`` (n, width)."""
    rows = rows.astype(np.float64)
    n, width = rows.shape
    mean = rows.mean(axis=0) if n else np.zeros(width)
    centered = rows - mean
    scale = np.eye(width) + centered.T @ centered
    scale += _BETA * n / (_BETA + n) * np.outer(mean, mean)
    precision = wishart(rng, width + n, np.linalg.inv(scale))
    root = np.linalg.cholesky((_BETA + n) * precision)
    noise = np.linalg.solve(root.T, rng.standard_normal(width))
    return Hyper(n * mean / (_BETA + n) + noise, precision)


def wishart(rng: np.random.Generator, degrees: float, scale: Matrix) -> Matrix:
    """A draw from the Wishart distribution with mean ``degrees * scale`` (Bartlett's decomposition)."""
    width = len(scale)
    A = np.tril(rng.standard_normal((width, width)), -1)
    A[np.diag_indices(width)] = np.sqrt(rng.chisquare(degrees - np.arange(width)))
    root = np.linalg.cholesky(scale) @ A
    return root @ root.T
