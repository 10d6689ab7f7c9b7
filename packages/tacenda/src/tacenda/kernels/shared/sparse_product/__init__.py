"""Sparse counts times a dense matrix, with the diagonal whitening folded in: W E W X without W E W.

    out = diag(r) E diag(c) X            (rows, width), E (rows, columns) in CSR, X (columns, width)
    out = diag(c) E^T diag(r) X          (columns, width) with transpose=True, X (rows, width)

This is where fitting an LDS to text spends its time: every EM iteration and every step of the
randomised SVD multiplies the lagged counts Psi_k = W E_k W - u u^T by a few hundred dense columns.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve

__all__ = ["multiply"]


def multiply(
    indptr: NDArray[np.integer[Any]],
    indices: NDArray[np.integer[Any]],
    data: NDArray[Any],
    dense: NDArray[np.float32],
    out: NDArray[np.float32] | None = None,
    transpose: bool = False,
    *,
    row_scale: NDArray[np.float32] | None = None,
    column_scale: NDArray[np.float32] | None = None,
    columns: int | None = None,
    threads: int = 1,
) -> NDArray[np.float32]:
    """``diag(r) E diag(c) dense``, or its transpose's product, in float32.

    Parameters
    ----------
    indptr, indices, data
        E in CSR: (rows + 1,), (nonzeros,), (nonzeros,). Within a row the indices ascend (duplicates
        are added). int32 and float32 values are read as they are, other types converted first;
        int32 values are rounded to float32 (exact up to 2^24).
    dense
        (columns, width) float32, or (rows, width) with ``transpose``. Columns of padding and
        layout other than C order cost a copy.
    out
        (rows, width), or (columns, width) with ``transpose``; float32, overwritten, not overlapping
        ``dense``. Its contents are undefined after an error.
    transpose
        Multiply by the transpose. It scatters instead of gathering and takes about one and a half
        times as long; where the same E is used often and memory allows, store the transposed CSR.
    row_scale, column_scale
        r (rows,) and c (columns,); 1 where left out.
    columns
        The number of columns of E; needed with ``transpose`` where neither ``out`` nor
        ``column_scale`` tells.
    threads
        Threads to use; the result is the same to the last bit for any number.

    Returns
    -------
    ``out``. Sums run over a row's nonzeros in order, in float32, so the relative error grows like
    the square root of their number. NaN and infinity propagate.

    Raises
    ------
    KernelError
        Where shapes do not agree or an index is out of range or out of order.

    Notes
    -----
    Re-entrant, and releases the GIL. The product is linear: its gradient with respect to ``dense``
    is the product with ``transpose`` flipped.
    """
    if threads < 1:
        raise KernelError(f"threads must be at least 1, not {threads}")
    indptr, indices, data, dense = map(np.asarray, (indptr, indices, data, dense))
    if indptr.ndim != 1 or len(indptr) == 0 or indices.ndim != 1 or dense.ndim != 2:
        raise KernelError(
            "indptr (rows + 1,) and indices (nonzeros,) must be vectors and dense a matrix, not of "
            f"shapes {indptr.shape}, {indices.shape} and {dense.shape}"
        )
    rows = len(indptr) - 1
    if data.shape != indices.shape or indptr[0] < 0 or indptr[-1] > len(indices):
        raise KernelError(
            f"a CSR matrix of {rows} rows has {len(indices)} indices, {len(data)} values and an "
            f"indptr from {indptr[0]} to {indptr[-1]}: they must agree"
        )
    if transpose:
        for known in (out, column_scale):
            if columns is None and known is not None:
                columns = len(known)
        if columns is None:
            raise KernelError(
                "a transposed product cannot know its number of rows: give columns, column_scale "
                "or out"
            )
        shape = (columns, dense.shape[1])
    else:
        columns = len(dense) if columns is None else columns
        shape = (rows, dense.shape[1])
    _agree("dense", len(dense), rows if transpose else columns)
    if row_scale is not None:
        _agree("row_scale", len(row_scale), rows)
    if column_scale is not None:
        _agree("column_scale", len(column_scale), columns)
    out = np.empty(shape, np.float32) if out is None else out
    if out.shape != shape or out.dtype != np.float32:
        raise KernelError(f"out must be float32 {shape}, not {out.dtype} {out.shape}")
    if np.may_share_memory(out, dense):
        raise KernelError("out overlaps dense: give the product an array of its own")
    resolve("sparse_product")(
        indptr, indices, data, dense, out, transpose,
        row_scale, column_scale, columns, threads,
    )  # fmt: skip
    return out


def _agree(name: str, length: int, wanted: int) -> None:
    """Raise `KernelError` unless both lengths are the same."""
    if length != wanted:
        raise KernelError(f"{name} has {length} rows where the sparse operand needs {wanted}")
