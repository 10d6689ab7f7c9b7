"""Scores on the CPU, one thread, rows prefetched."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.prefetch import prefetch
from tacenda.kernels.ratings.scores.naive import check

_Array = NDArray[Any]
_AHEAD = 4


@njit(fastmath={"contract", "reassoc", "nsz"})
def _scores(users, items, x, q, b, c, mean, out):  # type: ignore[no-untyped-def]
    width = x.shape[1]
    for k in range(len(users)):
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


def scores(
    users: _Array, items: _Array, x: _Array, q: _Array, b: _Array, c: _Array, mean: float
) -> NDArray[np.float32]:
    """See `tacenda.kernels.ratings.scores.scores`."""
    users, items = np.ascontiguousarray(users), np.ascontiguousarray(items)
    tables = [np.ascontiguousarray(table) for table in (x, q, b, c)]
    check(users, items, *tables)
    out = np.empty(len(users), np.float32)
    _scores(
        users.astype(np.int64, copy=False), items.astype(np.int64, copy=False), *tables,
        np.float32(mean), out,
    )  # fmt: skip
    return out
