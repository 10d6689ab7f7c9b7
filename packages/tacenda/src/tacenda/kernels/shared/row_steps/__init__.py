"""Steps of gradient descent on a few rows of a large table, each row with a rate of its own.

    s_j += mean(g_j ** 2),     W_j -= rate g_j / (sqrt(s_j) + epsilon)

for the rows j that have a gradient: AdaGrad (Duchi et al. 2011) with one accumulator a row, which costs a column
of memory instead of another table and suits rows of words, rare and frequent. On a CUDA device table, sums and gradient
are torch tensors there, and rows may be one.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.dispatch import resolve
from tacenda.kernels.machinery.arrays import (
    check_array,
    check_floats,
    check_range,
    common_device,
    given,
    in_c_order,
)

__all__ = ["EPSILON", "adagrad"]

_Floats = NDArray[np.floating[Any]]

EPSILON = 1e-8
"""Keeps the rate of a row without gradients so far finite."""


def adagrad(
    table: _Floats,
    sums: _Floats,
    rows: NDArray[np.integer[Any]],
    gradient: _Floats,
    rate: float,
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
    rate
        A positive number.
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
    device = common_device(table=table, sums=sums, gradient=gradient)
    check_floats(table, 2, "table")
    check_array(table, table.shape, table, "table")
    check_array(sums, table.shape[:1], table, "sums")
    rows, gradient = given(rows), in_c_order(given(gradient))
    check_array(gradient, (len(rows), table.shape[1]), table, "gradient")
    check_range(rows, len(table), "rows")
    rows = rows.astype(np.int32, copy=False) if isinstance(rows, np.ndarray) else rows
    result: tuple[_Floats, _Floats] = resolve("row_steps", device)(
        table, sums, rows, gradient, rate, threads
    )
    return result
