"""Matrices with a row for each word or token and few columns: products that leave the rows where they lie.

    gram            X^T Y                         small, so it comes back to the host, in float64
    multiply        X M                           M small, from the host
    multiply_columns  x_k . y_k                   of every column k, on the host
    moments         mean and scatter of the rows  on the host, in float64
    subtract_along  Y - a u (u^T X)               in place
    normalize       every row at unit length      in place

Fitting keeps matrices of the vocabulary on the device and all that is (states, states) on the host. On a CUDA device
X, Y and u are torch tensors there. Memory beside the result: none on the CPU; on a device a row of X and one of Y.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve
from tacenda.kernels.machinery.arrays import check_array, check_floats, common_device

__all__ = [
    "TINY",
    "gram",
    "moments",
    "multiply",
    "multiply_columns",
    "normalize",
    "subtract_along",
]

_Floats = NDArray[np.floating[Any]]
_Matrix = NDArray[np.float64]

TINY = 1e-12
"""Rows whose squared length is less are divided by the root of this instead: a row of zeros stays one."""


def gram(X: _Floats, Y: _Floats) -> _Matrix:
    """Return X^T Y (columns of X, columns of Y), float64 on the host, summed in the precision of the inputs.

    Parameters
    ----------
    X, Y
        (rows, columns) each, float32 or float64, any layout; the sum is in the wider dtype.

    Raises
    ------
    KernelError
        Shapes or dtypes do not fit.
    """
    device = _checked(X, Y)
    result: _Matrix = resolve("tall_gram", device)(X, Y)
    return result


def multiply(X: _Floats, M: _Matrix) -> _Floats:
    """Return X M (rows, columns of M) in the dtype of X and C order.

    Parameters
    ----------
    X
        (rows, columns), float32 or float64, any layout.
    M
        (columns of X, any), float64 on the host, rounded to the dtype of X.

    Raises
    ------
    KernelError
        Shapes or dtypes do not fit.
    """
    check_floats(X, 2, "X")
    if M.ndim != 2 or len(M) != X.shape[1]:
        raise KernelError(f"M must have {X.shape[1]} rows, as X has columns, and is {M.shape}")
    result: _Floats = resolve("tall_product", common_device(X=X))(X, M)
    return result


def multiply_columns(X: _Floats, Y: _Floats) -> _Floats:
    """Return the sum over rows of X_ik Y_ik (columns,), on the host, summed in the dtype of X.

    Parameters
    ----------
    X, Y
        (rows, columns) each, of one floating dtype, any layout.

    Raises
    ------
    KernelError
        Shapes or dtypes do not fit.
    """
    device = _checked(X, Y)
    if X.shape != Y.shape or X.dtype != Y.dtype:
        raise KernelError(f"both matrices must be {tuple(X.shape)} {X.dtype}, as the first one is")
    result: _Floats = resolve("tall_columns", device)(X, Y)
    return result


def moments(X: _Floats, centred: bool = False) -> tuple[NDArray[np.float64], _Matrix]:
    """Return the mean of the rows and sum_i (x_i - mean) (x_i - mean)^T, float64 on the host.

    Parameters
    ----------
    X
        (rows, columns), float32 or float64, any layout. Sums are in float64 on the CPU and in the dtype of X on a
        device, about the mean.
    centred
        Whether the mean is known to be zero.

    Raises
    ------
    KernelError
        X is no such matrix.
    """
    check_floats(X, 2, "X")
    result: tuple[NDArray[np.float64], _Matrix] = resolve("tall_moments", common_device(X=X))(
        X, centred
    )
    return result


def subtract_along(Y: _Floats, u: _Floats, X: _Floats, a: float = 1.0) -> _Floats:
    """Subtract ``a u (u^T X)`` from Y, in place, and return Y.

    Parameters
    ----------
    Y
        (rows, columns), float32 or float64, C order.
    u
        (rows,), on the host or where Y is; rounded to the dtype of Y.
    X
        (rows, columns), in the dtype of Y; it may be Y.
    a
        A number.

    Raises
    ------
    KernelError
        Shapes, dtypes or layouts do not fit.
    """
    device = _checked(Y, X)
    check_array(Y, tuple(X.shape), X, "Y, changed in place,")
    if u.shape != (len(Y),):
        raise KernelError(f"u must be ({len(Y)},), not {tuple(u.shape)}")
    result: _Floats = resolve("tall_update", device)(Y, u, X, a)
    return result


def normalize(X: _Floats) -> _Floats:
    """Bring every row of X (rows, columns) to unit length, in place, and return X; rows of zeros stay.

    X is float32 or float64 and may be a part of the columns of a larger matrix. Raises KernelError.
    """
    check_floats(X, 2, "X")
    result: _Floats = resolve("unit_rows", common_device(X=X))(X)
    return result


def _checked(X: _Floats, Y: _Floats) -> str:
    """The device of matrices with the same rows. Raises KernelError."""
    device = common_device(X=X, Y=Y)
    check_floats(X, 2, "X")
    check_floats(Y, 2, "Y")
    if len(X) != len(Y):
        raise KernelError(f"both matrices must have the same rows, not {len(X)} and {len(Y)}")
    return device
