"""The checks of what a step on rows is given, once for every backend."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError

_Array = NDArray[Any]


def check(
    table: _Array, sums: _Array, rows: _Array, gradient: _Array
) -> tuple[NDArray[np.int32], _Array]:
    """``rows`` and ``gradient`` as the loops need them."""
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
