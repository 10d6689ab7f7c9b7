"""Steps of gradient descent on a few rows of a large table, each row with a rate of its own.

    s_j += mean(g_j ** 2),     W_j -= rate g_j / (sqrt(s_j) + epsilon)

for the rows j that have a gradient: AdaGrad (Duchi et al. 2011) with one accumulator a row, which costs a column
of memory instead of another table and suits rows of words, rare and frequent.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve

__all__ = ["adagrad"]

_Floats = NDArray[np.floating[Any]]


def adagrad(
    table: _Floats,
    sums: _Floats,
    rows: NDArray[np.integer[Any]],
    gradient: _Floats,
    rate: float,
    epsilon: float = 1e-8,
    threads: int = 1,
) -> tuple[_Floats, _Floats]:
    """One step; ``table`` and ``sums`` are changed in place.

    Parameters
    ----------
    table, sums
        W (all, width) and s (all,), of one dtype, float32 or float64, in C order.
    rows
        j (some,), each at most once.
    gradient
        g (some, width), in the dtype of the table.
    rate, epsilon
        Positive numbers.
    threads
        Threads to share the rows; no result depends on it.

    Returns
    -------
    ``table`` and ``sums``. NaN propagates. Releases the GIL.

    Raises
    ------
    KernelError
        Where shapes or dtypes do not fit, or a row does not exist.
    """
    rows, gradient = _check(table, sums, rows, gradient)
    result: tuple[_Floats, _Floats] = resolve("row_steps")(
        table, sums, rows, gradient, rate, epsilon, threads
    )
    return result


def _check(
    table: _Floats, sums: _Floats, rows: NDArray[np.integer[Any]], gradient: _Floats
) -> tuple[NDArray[np.int32], _Floats]:
    """``rows`` and ``gradient`` as the loops need them. Raises KernelError."""
    for name, array, ndim in (("table", table, 2), ("sums", sums, 1)):
        if (
            array.ndim != ndim
            or array.dtype not in (np.float32, np.float64)
            or not array.flags.c_contiguous
        ):
            raise KernelError(
                f"{name} must have {ndim} dimensions, float32 or float64, in C order, "
                f"not {array.dtype} {array.shape}"
            )
    if sums.shape != table.shape[:1] or sums.dtype != table.dtype:
        raise KernelError(f"sums {sums.dtype} {sums.shape} do not fit {table.dtype} {table.shape}")
    rows, gradient = np.asarray(rows), np.ascontiguousarray(gradient)
    if gradient.shape != (len(rows), table.shape[1]) or gradient.dtype != table.dtype:
        raise KernelError(
            f"gradient must be {table.dtype} {(len(rows), table.shape[1])}, "
            f"not {gradient.dtype} {gradient.shape}"
        )
    if len(rows) and (rows.min() < 0 or rows.max() >= len(table)):
        raise KernelError(f"rows run from {rows.min()} to {rows.max()}, of {len(table)}")
    return rows.astype(np.int32, copy=False), gradient
