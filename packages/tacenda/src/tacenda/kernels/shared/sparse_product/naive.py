"""The sparse product as a plain loop over nonzeros in float64: the specification."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.shared.sparse_product.arguments import check

_Array = NDArray[Any]


def multiply(
    indptr: _Array,
    indices: _Array,
    data: _Array,
    dense: _Array,
    out: _Array | None = None,
    transpose: bool = False,
    *,
    row_scale: _Array | None = None,
    column_scale: _Array | None = None,
    columns: int | None = None,
    threads: int = 1,
) -> _Array:
    """See `tacenda.kernels.shared.sparse_product.multiply`; ``threads`` is without effect."""
    product = check(indptr, indices, data, dense, out, transpose, row_scale, column_scale, columns)
    rows = len(product.indptr) - 1
    columns = len(product.out) if transpose else len(product.dense)
    r = np.ones(rows) if row_scale is None else np.asarray(row_scale, np.float64)
    c = np.ones(columns) if column_scale is None else np.asarray(column_scale, np.float64)
    x = product.dense.astype(np.float64)
    y = np.zeros(product.out.shape)
    for i in range(rows):
        for p in range(int(product.indptr[i]), int(product.indptr[i + 1])):
            k = int(product.indices[p])
            if not 0 <= k < columns:
                raise KernelError(f"row {i} has a column index {k} outside 0 .. {columns - 1}")
            e = r[i] * float(product.data[p]) * c[k]
            if transpose:
                y[k] += e * x[i]
            else:
                y[i] += e * x[k]
    product.out[...] = y
    return product.out
