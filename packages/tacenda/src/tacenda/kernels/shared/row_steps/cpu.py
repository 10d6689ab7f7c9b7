"""The step on rows on the CPU: one pass over each row."""

import math
from typing import Any

from numpy.typing import NDArray

from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.threads import in_parts
from tacenda.kernels.shared.row_steps import EPSILON

_Array = NDArray[Any]
_SHARED = 1 << 20  # elements that are worth another thread


@njit(fastmath={"contract", "reassoc"})
def _steps(table, sums, rows, gradient, rate, epsilon, first, last):  # type: ignore[no-untyped-def]
    for k in range(first, last):
        j, square = rows[k], rate - rate  # zero in the dtype of the table
        for d in range(table.shape[1]):
            square += gradient[k, d] * gradient[k, d]
        sums[j] += square / table.shape[1]
        step = rate / (math.sqrt(sums[j]) + epsilon)
        for d in range(table.shape[1]):
            table[j, d] -= step * gradient[k, d]


def adagrad(
    table: _Array,
    sums: _Array,
    rows: _Array,
    gradient: _Array,
    rate: float,
    threads: int = 1,
) -> tuple[_Array, _Array]:
    """See `tacenda.kernels.shared.row_steps.adagrad`."""
    if table.shape[1]:
        real = table.dtype.type
        numbers = real(rate), real(EPSILON)

        def work(first: int, last: int) -> None:
            _steps(table, sums, rows, gradient, *numbers, first, last)

        in_parts(work, len(rows), threads if gradient.size >= _SHARED else 1)
    return table, sums
