"""The linear recurrence, the specification: one product of a matrix and a vector for each token."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[Any]


def forward(F: _Array, u: _Array, offsets: NDArray[np.int64], reverse: bool) -> _Array:
    """a_t = F a_{t-1} + u_t, or a_t = F a_{t+1} + u_t in reverse."""
    out = np.empty_like(u)
    F = F.astype(np.float64)
    for s in range(len(offsets) - 1):
        a = np.zeros(len(F))
        tokens = range(offsets[s], offsets[s + 1])
        for t in reversed(tokens) if reverse else tokens:
            a = F @ a + u[t]
            out[t] = a
    return out
