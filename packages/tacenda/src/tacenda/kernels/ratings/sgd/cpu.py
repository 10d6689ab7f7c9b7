"""The epoch on the CPU: one thread, a user's factors in the first-level cache, items prefetched."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.prefetch import prefetch
from tacenda.kernels.ratings.sgd import vectors
from tacenda.kernels.ratings.sgd.arguments import (
    Packed,
    check_ids,
    check_offsets,
    check_tables,
    check_users,
    check_values,
)
from tacenda.kernels.ratings.sgd.vectors import LANES

if TYPE_CHECKING:
    from tacenda.kernels.ratings.sgd import Coefficients, Tables

_Array = NDArray[Any]
_REORDERED = {"contract", "reassoc", "nsz"}  # sums in any order, so that they are vectorised
_AHEAD = 16  # rows that are asked for before they are needed


@njit
def _ends(offsets, ids, users):  # type: ignore[no-untyped-def]
    """The lowest and the highest id of these users: an epoch in many batches looks at every id once."""
    low, high = np.int32(0), np.int32(-1)
    for u in users:
        for k in range(offsets[u], offsets[u + 1]):
            low, high = min(low, ids[k]), max(high, ids[k])
    return low, high


@njit
def _shuffle(places, n, seed, user):  # type: ignore[no-untyped-def]
    """See `naive.order`."""
    state = seed * np.uint64(0x9E3779B97F4A7C15)
    state += np.uint64(user + 1) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0x94D049BB133111EB)
    state |= np.uint64(1)
    for k in range(n):
        places[k] = k
    for k in range(n - 1, 0, -1):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        j = np.int64((state >> np.uint64(33)) % np.uint64(k + 1))
        places[k], places[j] = places[j], places[k]


@njit(fastmath=_REORDERED)
def _update(e, rate, penalty, x, q, s, g):  # type: ignore[no-untyped-def]
    """Both factors of one rating, from their old values: for rows too narrow for `vectors`."""
    for d in range(len(x)):
        old = q[d]
        g[d] += e * old
        q[d] = old + rate * (e * x[d] - penalty * old)
        x[d] += rate * (e * old - penalty * (x[d] - s[d]))


@njit(fastmath=_REORDERED)
def _dot(x, q):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for d in range(len(x)):
        total += x[d] * q[d]
    return total


@njit(fastmath=_REORDERED)
def _combine(a, b, keep, step):  # type: ignore[no-untyped-def]
    for d in range(len(a)):
        a[d] = keep * a[d] + step * b[d]


@njit
def _side_mean(w, ids, s):  # type: ignore[no-untyped-def]
    s[:] = 0
    width, size, rows = w.shape[1], w.shape[1] * w.itemsize, w.ctypes.data
    one, scale = np.float32(1), np.float32(1.0 / max(len(ids), 1))
    for k in range(min(_AHEAD, len(ids))):
        prefetch(rows + ids[k] * size, size)
    for k in range(len(ids)):
        if k + _AHEAD < len(ids):
            prefetch(rows + ids[k + _AHEAD] * size, size)
        if width >= LANES:
            vectors.combine(s.ctypes.data, rows + ids[k] * size, width, one, one)
        else:
            _combine(s, w[ids[k]], one, one)
    for d in range(width):
        s[d] *= scale


@njit
def _side_step(w, ids, g, rate, penalty):  # type: ignore[no-untyped-def]
    width, size, rows = w.shape[1], w.shape[1] * w.itemsize, w.ctypes.data
    step = np.float32(rate / max(len(ids), 1))
    keep = np.float32(1) - step * penalty
    for k in range(len(ids)):
        if k + _AHEAD < len(ids):
            prefetch(rows + ids[k + _AHEAD] * size, size)
        if width >= LANES:
            vectors.combine(rows + ids[k] * size, g.ctypes.data, width, keep, step)
        else:
            _combine(w[ids[k]], g, keep, step)


@njit
def _epoch(offsets, item_ids, values, users, tables, mean, rates, penalties, seed, side, packed):  # type: ignore[no-untyped-def]
    p, q, b, c, w = tables
    alpha, beta, gamma = rates
    lambda_factors, lambda_biases, lambda_side = penalties
    longest = 0
    for u in users:
        longest = max(longest, offsets[u + 1] - offsets[u])
    places = np.empty(longest, np.int64)
    x, s, g = np.zeros_like(p[:1])[0], np.zeros_like(p[:1])[0], np.zeros_like(p[:1])[0]
    rows, size, width = q.ctypes.data, q.shape[1] * q.itemsize, q.shape[1]
    wide = width >= LANES
    back = np.zeros_like(s)
    keep = np.float32(1) - alpha * lambda_factors
    total = 0.0
    for u in users:
        start, n = offsets[u], offsets[u + 1] - offsets[u]
        if n == 0:
            continue
        _shuffle(places, n, seed, u)
        for k in range(min(_AHEAD, n)):
            prefetch(rows + item_ids[start + places[k]] * size, size)
        ids = packed[1][packed[0][u] : packed[0][u + 1]]
        if side:
            _side_mean(w, ids, s)
            g[:] = 0
        for d in range(width):
            x[d] = p[u, d] + s[d]
            back[d] = alpha * lambda_factors * s[d]
        bias, product = b[u], np.float32(0)
        following = np.int64(item_ids[start + places[0]])
        if wide:
            product = vectors.product(x.ctypes.data, rows + following * size, width)
        for k in range(n):
            i, value = following, values[start + places[k]]
            if k + 1 < n:
                following = np.int64(item_ids[start + places[k + 1]])
            if k + _AHEAD < n:
                prefetch(rows + item_ids[start + places[k + _AHEAD]] * size, size)
            if not wide:
                product = _dot(x, q[i])
            e = value - mean - bias - c[i] - product
            total += np.float64(e) * np.float64(e)
            bias += beta * (e - lambda_biases * bias)
            c[i] += beta * (e - lambda_biases * c[i])
            if wide and side:
                product = vectors.update_with_side(
                    x.ctypes.data, rows + i * size, rows + following * size, back.ctypes.data,
                    g.ctypes.data, width, keep, alpha * e, e,
                )  # fmt: skip
            elif wide:
                product = vectors.update(
                    x.ctypes.data, rows + i * size, rows + following * size, width, keep, alpha * e
                )
            else:
                _update(e, alpha, lambda_factors, x, q[i], s, g)
        b[u] = bias
        for d in range(len(x)):
            p[u, d] = x[d] - s[d]
        if side:
            _side_step(w, ids, g, gamma, lambda_side)
    return total


def epoch(
    offsets: _Array,
    item_ids: _Array,
    values: _Array,
    users: _Array,
    tables: "Tables",
    mean: float,
    rates: "Coefficients",
    penalties: "Coefficients",
    seed: int,
    side_offsets: _Array | None = None,
    side_ids: _Array | None = None,
) -> "tuple[float, Tables]":
    """See `tacenda.kernels.ratings.sgd.epoch`."""
    n_users, n_items = check_tables(tables)
    visited = check_users(users, n_users)
    packed = check_offsets(offsets, item_ids, n_users, "item")
    low, high = _ends(*packed, visited)
    check_ids(low, high, n_items, "item")
    side = side_offsets is not None and side_ids is not None and len(tables.side_factors) > 0
    known = Packed(np.zeros(n_users + 1, np.int64), np.empty(0, np.int32))
    if side_offsets is not None and side_ids is not None:
        known = check_offsets(side_offsets, side_ids, n_users, "side")
        if known.ids is not packed.ids or known.offsets is not packed.offsets:
            low, high = _ends(*known, visited)
            check_ids(low, high, n_items, "side")
    numbers = [tuple(np.float32(n) for n in group) for group in (rates, penalties)]
    total = _epoch(
        *packed, check_values(values, len(item_ids)), visited, tuple(tables), np.float32(mean),
        *numbers, np.uint64(seed), side, tuple(known),
    )  # fmt: skip
    return float(total), tables
