"""The sparse product as a plain loop over nonzeros in float64: the specification."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError

_Array = NDArray[Any]


def multiply(
    indptr: _Array,
    indices: _Array,
    data: _Array,
    dense: _Array,
    row_scale: _Array | None,
    column_scale: _Array | None,
    threads: int,
) -> _Array:
    """See `tacenda.kernels.shared.sparse_product.multiply`; ``threads`` is without effect."""
    rows, columns = len(indptr) - 1, len(dense)
    r = np.ones(rows) if row_scale is None else row_scale.astype(np.float64)
    c = np.ones(columns) if column_scale is None else column_scale.astype(np.float64)
    x, y = dense.astype(np.float64), np.zeros((rows, dense.shape[1]))
    for i in range(rows):
        for p in range(int(indptr[i]), int(indptr[i + 1])):
            k = int(indices[p])
            if not 0 <= k < columns:
                raise KernelError(f"row {i} has a column index {k} outside 0 .. {columns - 1}")
            y[i] += r[i] * float(data[p]) * c[k] * x[k]
    return y.astype(np.float32)
