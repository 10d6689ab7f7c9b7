"""The shape checks that every implementation of the sparse product shares."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError

_Array = NDArray[Any]


class Product(NamedTuple):
    """Checked arguments: a CSR matrix E (rows, columns), a dense operand and the result's array."""

    indptr: _Array
    indices: _Array
    data: _Array
    dense: _Array
    out: _Array
    row_scale: _Array | None
    column_scale: _Array | None


def check(
    indptr: _Array,
    indices: _Array,
    data: _Array,
    dense: _Array,
    out: _Array | None,
    transpose: bool,
    row_scale: _Array | None,
    column_scale: _Array | None,
    columns: int | None,
) -> Product:
    """Arrays of agreeing shapes; ``out`` is allocated (float32) if it was not given."""
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
    return Product(indptr, indices, data, dense, out, row_scale, column_scale)


def _agree(name: str, length: int, wanted: int) -> None:
    if length != wanted:
        raise KernelError(f"{name} has {length} rows where the sparse operand needs {wanted}")
