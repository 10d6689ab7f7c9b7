"""The checks of the modal recurrence's own arguments: eigenvalues, and the inputs of a scan."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dynamics.linear_recurrence.arguments import check_like, check_offsets

_Array = NDArray[Any]


def check_eigenvalues(real: _Array, complex: _Array, states: int) -> None:
    """Accept real (n_real,) and complex (n_pairs, 2) if n_real + 2 n_pairs = ``states``."""
    shapes = np.shape(real), np.shape(complex)
    if len(shapes[0]) != 1 or len(shapes[1]) != 2 or shapes[1][1] != 2:
        raise KernelError(
            f"real must be (n_real,) and complex (n_pairs, 2), not {shapes[0]} and {shapes[1]}"
        )
    if shapes[0][0] + 2 * shapes[1][0] != states:
        raise KernelError(
            f"{shapes[0][0]} real eigenvalues and {shapes[1][0]} pairs make "
            f"{shapes[0][0] + 2 * shapes[1][0]} states, and the sequences have {states}"
        )


def check_scan(
    table: _Array,
    ids: _Array,
    offsets: _Array,
    initial: _Array | None,
    out: _Array | None,
    column: int,
) -> tuple[_Array, _Array, NDArray[np.int64], _Array]:
    """``table``, ``ids``, ``offsets`` and ``initial`` as the loops need them."""
    table, ids = np.ascontiguousarray(table), np.ascontiguousarray(ids)
    if table.ndim != 2 or table.dtype not in (np.float32, np.float64):
        raise KernelError(
            f"table must be (rows, states) in float32 or float64, not {table.dtype} {table.shape}"
        )
    if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
        raise KernelError(f"ids must be (tokens,) integers, not {ids.dtype} {ids.shape}")
    if len(ids) and (ids.min() < 0 or ids.max() >= len(table)):
        raise KernelError(
            f"ids run from {ids.min()} to {ids.max()}, and the table has {len(table)} rows"
        )
    offsets = check_offsets(offsets, len(ids), "ids")
    initial = check_like(initial, (len(offsets) - 1, table.shape[1]), table, "initial")
    if out is not None and (
        out.ndim != 2
        or len(out) < len(ids)
        or not 0 <= column <= out.shape[1] - table.shape[1]
        or out.dtype != table.dtype
        or not out.flags.c_contiguous
    ):
        raise KernelError(
            f"out must be {table.dtype} in C order with {len(ids)} rows and {table.shape[1]} "
            f"columns from column {column} on, not {out.dtype} {out.shape}"
        )
    return table, ids, offsets, initial
