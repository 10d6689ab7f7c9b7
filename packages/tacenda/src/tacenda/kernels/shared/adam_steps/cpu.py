"""The step of Adam on the CPU: numpy, with one array beside those that it is given."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.shared.adam_steps import BETA_1, BETA_2, EPSILON

__all__ = ["step"]

_Array = NDArray[Any]


def step(
    table: _Array, mean: _Array, square: _Array, gradient: _Array, rate: float, t: int
) -> tuple[_Array, _Array, _Array]:
    """See `tacenda.kernels.shared.adam_steps.step`."""
    mean += (1.0 - BETA_1) * (gradient - mean)
    square *= BETA_2
    square += (1.0 - BETA_2) * (gradient * gradient)
    denominator = np.sqrt(square)
    denominator *= 1.0 / (1.0 - BETA_2**t) ** 0.5
    denominator += EPSILON
    np.divide(mean, denominator, out=denominator)
    denominator *= rate / (1.0 - BETA_1**t)
    table -= denominator
    return table, mean, square
