"""Tall matrices on the CPU: BLAS for products, one pass over memory for unit rows."""

from typing import Any

import numpy as np
import scipy.linalg.blas
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.shared.tall_matrices import TINY

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
    step, rest = divmod(X.strides[0], X.itemsize)
    if rest or step < X.shape[1] or X.strides[1] != X.itemsize or not X.size:
        squared = np.einsum("ij,ij->i", X, X)
        X *= (1 / np.sqrt(np.maximum(squared, TINY))).astype(X.dtype)[:, None]
        return X
    # as one vector, so that the compiler knows that the elements of a row are next to each other
    flat = as_strided(X, ((len(X) - 1) * step + X.shape[1],), (X.itemsize,))
    _normalize(flat, step, len(X), X.shape[1], X.dtype.type(TINY))
    return X


@njit(fastmath={"contract", "reassoc"})
def _normalize(flat, step, n_rows, n_columns, tiny):  # type: ignore[no-untyped-def]
    """Bring each row to unit length: row i is ``flat[i step : i step + n_columns]``."""
    one = flat.dtype.type(1)
    for i in range(n_rows):
        row = flat[i * step : i * step + n_columns]
        squared = flat.dtype.type(0)
        for j in range(n_columns):
            squared += row[j] * row[j]
        factor = one / np.sqrt(max(squared, tiny))
        for j in range(n_columns):
            row[j] *= factor
