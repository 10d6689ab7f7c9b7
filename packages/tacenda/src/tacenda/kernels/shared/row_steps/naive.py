"""The step on rows in float64: the specification."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.shared.row_steps import EPSILON

_Array = NDArray[Any]


def adagrad(
    table: _Array,
    sums: _Array,
    rows: _Array,
    gradient: _Array,
    rate: float,
    threads: int = 1,
) -> tuple[_Array, _Array]:
    """See `tacenda.kernels.shared.row_steps.adagrad`."""
    for j, g in zip(rows.tolist(), gradient.astype(np.float64), strict=True):
        s = float(sums[j]) + (g**2).mean()
        table[j] = table[j] - rate * g / (np.sqrt(s) + EPSILON)
        sums[j] = s
    return table, sums
