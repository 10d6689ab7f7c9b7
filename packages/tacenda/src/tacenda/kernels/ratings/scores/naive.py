"""Scores as a plain loop in float64: the specification."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError

_Array = NDArray[Any]


def check(users: _Array, items: _Array, x: _Array, q: _Array, b: _Array, c: _Array) -> None:
    """Raises KernelError where shapes, dtypes or numbers do not fit."""
    if np.shape(users) != np.shape(items) or np.ndim(users) != 1:
        raise KernelError(
            f"users and items must be (pairs,), not {np.shape(users)} and {np.shape(items)}"
        )
    if x.ndim != 2 or q.ndim != 2 or x.shape[1] != q.shape[1]:
        raise KernelError(f"factors must have as many columns, not {x.shape} and {q.shape}")
    if b.shape != x.shape[:1] or c.shape != q.shape[:1]:
        raise KernelError(f"biases must be as many as factors, not {b.shape} and {c.shape}")
    if any(table.dtype != np.float32 for table in (x, q, b, c)):
        raise KernelError("factors and biases must be float32")
    for name, ids, n in (("user", users, len(x)), ("item", items, len(q))):
        if len(ids) and (ids.min() < -1 or ids.max() >= n):
            raise KernelError(f"{name} numbers run from {ids.min()} to {ids.max()}, of {n}")


def scores(
    users: _Array, items: _Array, x: _Array, q: _Array, b: _Array, c: _Array, mean: float
) -> NDArray[np.float32]:
    """See `tacenda.kernels.ratings.scores.scores`."""
    users, items = np.asarray(users), np.asarray(items)
    check(users, items, x, q, b, c)
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
