"""Products and sums of matrices with a row for each word or token and few columns.

They use NumPy and BLAS on the CPU, and torch on a device. Fitting keeps matrices of the vocabulary on the device, and
matrices (states, states) on the host. Memory besides the result: for `moments` two copies of X in float64 on the CPU
and one of X on a device, for `gram` of two dtypes one copy of the narrower matrix in the wider dtype, and otherwise a
row or less. float32 is multiplied as float32 unless torch allows TF32 (`torch.set_float32_matmul_precision`).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.array_ops import in_c_order, library, to_numpy, to_tensors
from tacenda.arrays import Array


def gram(X: Array, Y: Array) -> NDArray[np.float64]:
    """Return X^T Y (left, right), float64 on the host, summed in the wider dtype of the two."""
    if isinstance(X, np.ndarray):
        return np.asarray(X.T @ Y, np.float64)
    dtype = library(X).promote_types(X.dtype, Y.dtype)
    result: NDArray[np.float64] = to_numpy((X.T.to(dtype) @ Y.to(dtype)).double())
    return result


def product(X: Array, M: NDArray[Any]) -> NDArray[Any]:
    """Return X M (rows, any) in the dtype of X and C order; M is on the host, and rounded to the dtype of X."""
    factor: Any = M if isinstance(X, np.ndarray) else to_tensors((M,), X.device)[0]
    result: NDArray[Any] = in_c_order(X @ in_c_order(factor, X.dtype))
    return result


def moments(X: Array, centered: bool = False) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean m of the rows and sum_i (x_i - m) (x_i - m)^T, float64 on the host.

    Sums are in float64 on the CPU and in the dtype of X on a device. ``centered`` means that the mean is zero.
    """
    X = X.astype(np.float64) if isinstance(X, np.ndarray) else X
    if centered or not len(X):
        return np.zeros(X.shape[1]), gram(X, X)
    mean = X.mean(0)
    rows = X - mean
    return np.asarray(to_numpy(mean), np.float64), gram(rows, rows)


def update(Y: Array, u: Array, X: Array, a: float = 1.0) -> Array:
    """Subtract ``a u (u^T X)`` from Y (rows, columns), in place, and return Y, which is in C order; X may be Y.

    u (rows,) is on the host or where Y is, and is rounded to the dtype of Y.
    """
    if not isinstance(Y, np.ndarray):
        u = to_tensors((u,), Y.device)[0].to(Y.dtype)
        return Y.addr_(u, u @ X, alpha=-a)
    if Y.size:
        # imported here because it takes as long as all other imports of an LDS, and its settings do not need it
        from scipy.linalg import blas

        u = in_c_order(u, Y.dtype)
        # Y.T is in Fortran order, so that BLAS changes it in place
        step = blas.sger if Y.dtype == np.float32 else blas.dger
        step(-a, u @ X, u, a=Y.T, overwrite_a=1)
    return Y
