"""The step of Adam on the CPU: one pass over arrays that no cache holds."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.shared.adam_steps import BETA_1, BETA_2, EPSILON

_Array = NDArray[Any]


def step(
    table: _Array, mean: _Array, square: _Array, gradient: _Array, rate: float, t: int
) -> tuple[_Array, _Array, _Array]:
    """See `tacenda.kernels.shared.adam_steps.step`."""
    correction = 1.0 / (1.0 - BETA_2**t) ** 0.5, rate / (1.0 - BETA_1**t)
    numbers = 1.0 - BETA_1, BETA_2, 1.0 - BETA_2, EPSILON, *correction
    changed = [np.ascontiguousarray(array) for array in (table, mean, square)]
    rows = [array.reshape(-1) for array in (*changed, np.ascontiguousarray(gradient))]
    _step(*rows, *(table.dtype.type(number) for number in numbers))
    for given, own in zip((table, mean, square), changed, strict=True):
        if own is not given:  # it was not in C order
            given[...] = own
    return table, mean, square


@njit
def _step(w, m, v, g, fresh, kept, fresh_square, epsilon, of_square, rate):  # type: ignore[no-untyped-def]
    for i in range(len(w)):
        m[i] += fresh * (g[i] - m[i])
        v[i] = v[i] * kept + fresh_square * (g[i] * g[i])
        w[i] -= m[i] / (np.sqrt(v[i]) * of_square + epsilon) * rate
