"""Products of tall matrices in float64: the specification."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.shared.tall_matrices import TINY

_Array = NDArray[Any]


def gram(X: _Array, Y: _Array) -> NDArray[np.float64]:
    """X^T Y = sum_i x_i y_i^T over the rows."""
    total = np.zeros((X.shape[1], Y.shape[1]))
    for x, y in zip(X.astype(np.float64), Y.astype(np.float64), strict=True):
        total += np.outer(x, y)
    return total


def multiply(X: _Array, M: NDArray[np.float64]) -> _Array:
    """X M, row by row."""
    rows = [x @ M for x in X.astype(np.float64)]
    return np.array(rows, X.dtype).reshape(len(X), M.shape[1])


def multiply_columns(X: _Array, Y: _Array) -> _Array:
    """sum_i X_ik Y_ik."""
    total = np.zeros(X.shape[1])
    for x, y in zip(X.astype(np.float64), Y.astype(np.float64), strict=True):
        total += x * y
    return total.astype(X.dtype)


def moments(X: _Array, centred: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean m = sum_i x_i / n, or 0, and sum_i (x_i - m) (x_i - m)^T."""
    mean = np.zeros(X.shape[1])
    for x in X.astype(np.float64):
        mean += 0 if centred else x / len(X)
    return mean, gram(X - mean, X - mean)


def subtract_along(Y: _Array, u: _Array, X: _Array, a: float) -> _Array:
    """y_i -= a u_i sum_j u_j x_j."""
    along = a * (u.astype(np.float64) @ X.astype(np.float64))
    for i in range(len(Y)):
        Y[i] = Y[i] - float(u[i]) * along
    return Y


def normalize(X: _Array) -> _Array:
    """x_i / |x_i|."""
    for i, x in enumerate(X.astype(np.float64)):
        X[i] = x / np.sqrt(max(x @ x, TINY))
    return X
