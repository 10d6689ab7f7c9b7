"""The step of Adam in float64, one number after another: the specification."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.shared.adam_steps import BETA_1, BETA_2, EPSILON

_Array = NDArray[Any]


def step(
    table: _Array, mean: _Array, square: _Array, gradient: _Array, rate: float, t: int
) -> tuple[_Array, _Array, _Array]:
    """See `tacenda.kernels.shared.adam_steps.step`."""
    for at in np.ndindex(table.shape):
        g = float(gradient[at])
        m = BETA_1 * float(mean[at]) + (1 - BETA_1) * g
        v = BETA_2 * float(square[at]) + (1 - BETA_2) * g**2
        mean[at], square[at] = m, v
        m, v = m / (1 - BETA_1**t), v / (1 - BETA_2**t)
        table[at] -= rate * m / (v**0.5 + EPSILON)
    return table, mean, square
