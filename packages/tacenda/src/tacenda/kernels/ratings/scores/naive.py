"""Scores, the specification: one pair after another."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[Any]


def scores(
    users: _Array, items: _Array, x: _Array, q: _Array, b: _Array, c: _Array, mean: float
) -> NDArray[np.float32]:
    """Score = mean + b_u + c_i + x_u . q_i, without the terms of what is unknown."""
    out = np.empty(len(users), np.float32)
    for k, (u, i) in enumerate(zip(users, items, strict=True)):
        score = float(mean)
        if u >= 0:
            score += float(b[u])
        if i >= 0:
            score += float(c[i])
        if u >= 0 and i >= 0:
            score += float(x[u].astype(np.float64) @ q[i])
        out[k] = score
    return out
