"""The step on rows on the CPU: one pass over each row."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.machinery import rows as row_loops
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.threads import in_parts
from tacenda.kernels.shared.row_steps.arguments import check

_Array = NDArray[Any]
_SHARED = 1 << 20  # elements that are worth another thread


@njit(fastmath={"contract", "reassoc"})
def _steps(table, sums, rows, gradient, rate, epsilon, first, last):  # type: ignore[no-untyped-def]
    for k in range(first, last):
        g, row = gradient[k], table[rows[k]]
        square = sums[rows[k]] * 0
        for d in range(len(row)):
            square += g[d] * g[d]
        total = sums[rows[k]] + square / len(row)
        sums[rows[k]] = total
        step = rate / (math.sqrt(total) + epsilon)
        for d in range(len(row)):
            row[d] -= step * g[d]


@njit
def _single_steps(table, sums, rows, gradient, rate, epsilon, first, last):  # type: ignore[no-untyped-def]
    """The same in float32."""
    size = 4 * table.shape[1]
    for k in range(first, last):
        row_loops.adagrad(
            table.ctypes.data + rows[k] * size, sums.ctypes.data + 4 * rows[k],
            gradient.ctypes.data + k * size, rate, epsilon, table.shape[1],
        )  # fmt: skip


def adagrad(
    table: _Array,
    sums: _Array,
    rows: _Array,
    gradient: _Array,
    rate: float,
    epsilon: float = 1e-8,
    threads: int = 1,
) -> tuple[_Array, _Array]:
    """See `tacenda.kernels.shared.row_steps.adagrad`."""
    rows, gradient = check(table, sums, rows, gradient)
    if table.shape[1]:
        real = table.dtype.type
        numbers = real(rate), real(epsilon)

        steps = _single_steps if real is np.float32 else _steps

        def work(first: int, last: int) -> None:
            steps(table, sums, rows, gradient, *numbers, first, last)

        in_parts(work, len(rows), threads if gradient.size >= _SHARED else 1)
    return table, sums
