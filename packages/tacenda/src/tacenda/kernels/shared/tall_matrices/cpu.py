"""Products of tall matrices on the CPU: BLAS."""

from typing import Any

import numpy as np
import scipy.linalg.blas
from numpy.typing import NDArray

from tacenda.kernels.shared.tall_matrices import TINY

__all__ = ["gram", "moments", "multiply", "multiply_columns", "normalize", "subtract_along"]

_Array = NDArray[Any]


def gram(X: _Array, Y: _Array) -> NDArray[np.float64]:
    """See `tacenda.kernels.shared.tall_matrices.gram`."""
    return np.asarray(X.T @ Y, np.float64)


def multiply(X: _Array, M: NDArray[np.float64]) -> _Array:
    """See `tacenda.kernels.shared.tall_matrices.multiply`."""
    return np.ascontiguousarray(X @ M.astype(X.dtype))


def multiply_columns(X: _Array, Y: _Array) -> _Array:
    """See `tacenda.kernels.shared.tall_matrices.multiply_columns`."""
    return np.asarray(np.einsum("ij,ij->j", X, Y))


def moments(X: _Array, centred: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """See `tacenda.kernels.shared.tall_matrices.moments`."""
    rows = X.astype(np.float64)
    mean = np.zeros(rows.shape[1])
    if len(rows) and not centred:
        mean = rows.mean(axis=0)
        rows = rows - mean
    return mean, rows.T @ rows


def subtract_along(Y: _Array, u: _Array, X: _Array, a: float) -> _Array:
    """See `tacenda.kernels.shared.tall_matrices.subtract_along`."""
    # Y.T is the matrix in Fortran's order that BLAS changes where it lies
    update = scipy.linalg.blas.sger if Y.dtype == np.float32 else scipy.linalg.blas.dger
    u = u.astype(Y.dtype, copy=False)
    if Y.size:
        update(-a, u @ X, u, a=Y.T, overwrite_a=1)
    return Y


def normalize(X: _Array) -> _Array:
    """See `tacenda.kernels.shared.tall_matrices.normalize`."""
    squared = np.einsum("ij,ij->i", X, X)
    X *= (1 / np.sqrt(np.maximum(squared, TINY))).astype(X.dtype)[:, None]
    return X
