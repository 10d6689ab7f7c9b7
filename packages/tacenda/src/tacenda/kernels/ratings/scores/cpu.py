"""Scores on the CPU: one thread, with rows fetched ahead."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.vectors import prefetch

_Array = NDArray[Any]
_AHEAD = 4  # pairs whose rows are asked for beforehand


def scores(
    users: _Array, items: _Array, x: _Array, q: _Array, b: _Array, c: _Array, mean: float
) -> NDArray[np.float32]:
    """See `tacenda.kernels.ratings.scores.scores`."""
    out = np.empty(len(users), np.float32)
    _scores(users, items, x, q, b, c, np.float32(mean), out)
    return out


@njit(fastmath={"contract", "reassoc", "nsz"})
def _scores(users, items, x, q, b, c, mean, out):  # type: ignore[no-untyped-def]
    """Fill out; -1 stands for what is unknown."""
    width = x.shape[1]
    for k in range(len(users)):
        # Users and items come in any order: without this each row would be waited for.
        if k + _AHEAD < len(users):
            prefetch(x, max(np.int64(users[k + _AHEAD]), 0) * width, width)
            prefetch(q, max(np.int64(items[k + _AHEAD]), 0) * width, width)
        u, i = users[k], items[k]
        score = mean
        if u >= 0:
            score += b[u]
        if i >= 0:
            score += c[i]
        if u >= 0 and i >= 0:
            for d in range(x.shape[1]):
                score += x[u, d] * q[i, d]
        out[k] = score
