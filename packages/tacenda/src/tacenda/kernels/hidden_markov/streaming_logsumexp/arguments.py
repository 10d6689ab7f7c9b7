"""The checks of what a streaming log-sum-exp is given, once for every backend."""

from typing import Any

from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.machinery.arrays import is_floating

__all__ = ["check", "check_kept"]

_Array = NDArray[Any]


def check(rows: _Array, columns: _Array, bias: _Array, *of_rows: _Array) -> None:
    """Raise KernelError unless the arrays fit together; ``of_rows`` have a number for each row."""
    if not is_floating(rows):
        raise KernelError(f"rows must be float32 or float64, not {rows.dtype}")
    if rows.ndim != 2 or columns.ndim != 2 or rows.shape[1] != columns.shape[1]:
        raise KernelError(
            f"rows {tuple(rows.shape)} and columns {tuple(columns.shape)} must be of one width"
        )
    if not len(columns) or bias.shape != columns.shape[:1]:
        raise KernelError(
            f"bias {tuple(bias.shape)} must be one number a column, of {len(columns)}"
        )
    if any(array.shape != rows.shape[:1] for array in of_rows):
        raise KernelError(f"there must be one number a row, of {len(rows)}")
    if any(array.dtype != rows.dtype for array in (columns, bias, *of_rows)):
        raise KernelError(f"all arrays must be {rows.dtype}, as rows is")


def check_kept(rows: _Array, columns: _Array, kept: _Array | None) -> int:
    """How many rows it is of. Raises KernelError unless it is the place of the softmax of some of them."""
    if kept is None:
        return 0
    fits = kept.ndim == 2 and kept.shape[1] == len(columns) and len(kept) <= len(rows)
    if not fits or kept.dtype != rows.dtype or not kept.flags.c_contiguous:
        raise KernelError(
            f"kept must be {rows.dtype} in C order of up to {len(rows)} rows and {len(columns)} columns, "
            f"not {kept.dtype} {kept.shape}"
        )
    return len(kept)
