"""Sparse counts times a dense matrix, with the diagonal whitening folded in: W E W X without W E W.

    out = diag(r) E diag(c) X            (rows, width), E (rows, columns) in CSR, X (columns, width)

This is where fitting an LDS to text spends its time: every EM iteration and every step of the
randomised SVD multiplies the lagged counts Psi_k = W E_k W - u u^T by a few hundred dense columns.

On a CUDA device X and the scalings are torch tensors there; E may be tensors or arrays.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve
from tacenda.kernels.machinery.arrays import common_device, given

__all__ = ["multiply"]


def multiply(
    indptr: NDArray[np.integer[Any]],
    indices: NDArray[np.integer[Any]],
    data: NDArray[Any],
    dense: NDArray[np.float32],
    *,
    row_scale: NDArray[np.float32] | None = None,
    column_scale: NDArray[np.float32] | None = None,
    threads: int = 1,
) -> NDArray[np.float32]:
    """Multiply: ``diag(r) E diag(c) dense``, (rows, width) float32.

    Parameters
    ----------
    indptr, indices, data
        E in CSR: (rows + 1,), (nonzeros,), (nonzeros,). Within a row the indices ascend (duplicates
        are added). int32 and float32 values are read as they are, other types converted first;
        int32 values are rounded to float32 (exact up to 2^24).
    dense
        X (columns, width) float32. Columns of padding and layout other than C order cost a copy.
    row_scale, column_scale
        r (rows,) and c (columns,); 1 where left out.
    threads
        Threads to use; the result is the same to the last bit for any number.

    Returns
    -------
    Sums run over a row's nonzeros in order, in float32, so the relative error grows like
    the square root of their number. NaN and infinity propagate. Re-entrant; releases the GIL.

    Raises
    ------
    KernelError
        Shapes do not agree, or an index is out of range or, on the CPU, out of order.
    """
    if threads < 1:
        raise KernelError(f"threads must be at least 1, not {threads}")
    indptr, indices, data, dense = map(given, (indptr, indices, data, dense))
    device = common_device(dense=dense, row_scale=row_scale, column_scale=column_scale)
    if indptr.ndim != 1 or len(indptr) == 0 or indices.ndim != 1 or dense.ndim != 2:
        raise KernelError(
            "indptr (rows + 1,) and indices (nonzeros,) must be vectors and dense a matrix, not of "
            f"shapes {indptr.shape}, {indices.shape} and {dense.shape}"
        )
    rows, columns = len(indptr) - 1, len(dense)
    if data.shape != indices.shape or indptr[0] < 0 or indptr[-1] > len(indices):
        raise KernelError(
            f"a CSR matrix of {rows} rows has {len(indices)} indices, {len(data)} values and an "
            f"indptr from {indptr[0]} to {indptr[-1]}: they must agree"
        )
    scales = {"row_scale": (row_scale, rows), "column_scale": (column_scale, columns)}
    for name, (scale, length) in scales.items():
        if scale is not None and len(scale) != length:
            raise KernelError(
                f"{name} has {len(scale)} rows where the sparse operand needs {length}"
            )
    result: NDArray[np.float32] = resolve("sparse_product", device)(
        indptr, indices, data, dense, row_scale, column_scale, threads
    )
    return result
