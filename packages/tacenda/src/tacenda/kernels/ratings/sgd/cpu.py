"""The epoch on the CPU: one thread, a user's factors in the first-level cache, items prefetched."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.vectors import (
    LANES,
    add_up,
    load,
    multiply,
    multiply_add,
    prefetch,
    spread,
    store,
)
from tacenda.kernels.ratings import xorshift
from tacenda.kernels.ratings.sgd import Penalties, Rates, Tables

_Array = NDArray[Any]
_AHEAD = 16  # rows that are asked for before they are needed
_X, _BACK, _SUMS = 0, 1, 2  # rows of what a visit keeps of its user

_seeded, _next = njit(xorshift.seeded), njit(xorshift.advanced)


@njit
def _shuffle(places, n, seed, user):  # type: ignore[no-untyped-def]
    """See `naive.order`."""
    state = _seeded(seed, np.uint64(user))
    for k in range(n):
        places[k] = k
    for k in range(n - 1, 0, -1):
        state = _next(state)
        j = np.int64((state >> np.uint64(33)) % np.uint64(k + 1))
        places[k], places[j] = places[j], places[k]


@njit
def _product(own, q, i):  # type: ignore[no-untyped-def]
    """The scalar product of x and q_i."""
    width, total = q.shape[1], spread(0)
    for d in range(0, width, LANES):
        n = width - d
        total = multiply_add(load(own, d, n), load(q, i * width + d, n), total)
    return add_up(total)


@njit
def _step(own, q, i, following, keep_x, keep_q, step_x, step_q):  # type: ignore[no-untyped-def]
    """Both factors of a rating of item i, from their old values; returns the product for the rating that follows.

        x, q_i = keep_x x + step_x q_i, keep_q q_i + step_q x,     return x . q_following

    with keep_x = 1 - alpha_u lambda_u, step_x = alpha_u e, and likewise of the item.
    """
    width = q.shape[1]
    here, there = i * width, following * width
    keeps_x, keeps_q, total = spread(keep_x), spread(keep_q), spread(0)
    steps_x, steps_q = spread(step_x), spread(step_q)
    for d in range(0, width, LANES):
        n = width - d
        old_x, old_q = load(own, d, n), load(q, here + d, n)
        new_x = multiply_add(steps_x, old_q, multiply(keeps_x, old_x))
        store(new_x, own, d, n)
        store(multiply_add(steps_q, old_x, multiply(keeps_q, old_q)), q, here + d, n)
        # the item that follows may be this one, so its factors are read after they were written
        total = multiply_add(new_x, load(q, there + d, n), total)
    return add_up(total)


@njit(fastmath={"contract", "reassoc", "nsz"})
def _conditioned_step(own, q, i, following, keep_x, keep_q, step_x, step_q, error):  # type: ignore[no-untyped-def]
    """The same with x = keep_x x + step_x q_i + alpha_u lambda_u s, and g += error q_i."""
    width, total = q.shape[1], np.float32(0)
    for d in range(width):
        old_x, old_q = own[_X, d], q[i, d]
        own[_X, d] = keep_x * old_x + step_x * old_q + own[_BACK, d]
        q[i, d] = keep_q * old_q + step_q * old_x
        own[_SUMS, d] += error * old_q
    for d in range(width):
        total += own[_X, d] * q[following, d]
    return total


@njit(fastmath={"contract"})
def _side_mean(w, ids, first, last, s):  # type: ignore[no-untyped-def]
    """S = the mean of w_j over j in ``ids[first:last]``."""
    width = w.shape[1]
    s[:] = 0
    for k in range(first, last):
        if k + _AHEAD < last:
            prefetch(w, np.int64(ids[k + _AHEAD]) * width, width)
        j = ids[k]
        for d in range(width):
            s[d] += w[j, d]
    scale = np.float32(1.0 / max(last - first, 1))
    for d in range(width):
        s[d] *= scale


@njit(fastmath={"contract"})
def _side_step(w, ids, first, last, own, rate, penalty):  # type: ignore[no-untyped-def]
    """w_j += rate / |N(u)| (g - penalty w_j) for j in ``ids[first:last]``."""
    width = w.shape[1]
    step = np.float32(rate / max(last - first, 1))
    keep = np.float32(1) - step * penalty
    for k in range(first, last):
        if k + _AHEAD < last:
            prefetch(w, np.int64(ids[k + _AHEAD]) * width, width)
        j = ids[k]
        for d in range(width):
            w[j, d] = keep * w[j, d] + step * own[_SUMS, d]


@njit
def _epoch(  # type: ignore[no-untyped-def]
    offsets, item_ids, values, users, tables, mean, rates, penalties, seed, side, side_offsets, side_ids,
    weights,
):  # fmt: skip
    """Visit the users; returns the sum of squared errors before each update (visited,)."""
    p, q, b, c, w = tables
    alpha_u, alpha_i, beta_u, beta_i, gamma = rates
    lambda_u, lambda_i, eta_u, eta_i, lambda_w = penalties
    longest, width = 0, q.shape[1]
    for u in users:
        longest = max(longest, offsets[u + 1] - offsets[u])
    places = np.empty(longest, np.int64)
    own, s = np.zeros((3, width), np.float32), np.zeros(width, np.float32)
    errors = np.zeros(len(users))
    for v in range(len(users)):
        u = users[v]
        start, n = offsets[u], offsets[u + 1] - offsets[u]
        if n == 0:
            continue
        pull = alpha_u * lambda_u[u]
        keep_x = np.float32(1) - pull
        _shuffle(places, n, seed, u)
        for k in range(min(_AHEAD, n)):
            prefetch(q, np.int64(item_ids[start + places[k]]) * width, width)
        if side:
            _side_mean(w, side_ids, side_offsets[u], side_offsets[u + 1], s)
        for d in range(width):
            own[_X, d] = p[u, d] + s[d]
            own[_BACK, d] = pull * s[d]
            own[_SUMS, d] = 0
        bias, total = b[u], 0.0
        following = np.int64(item_ids[start + places[0]])
        product = _product(own, q, following)
        for k in range(n):
            i, value = following, values[start + places[k]]
            if k + 1 < n:
                following = np.int64(item_ids[start + places[k + 1]])
            if k + _AHEAD < n:
                prefetch(q, np.int64(item_ids[start + places[k + _AHEAD]]) * width, width)
            e = value - mean - bias - c[i] - product
            total += np.float64(e) * np.float64(e)
            e *= weights[u]
            bias += beta_u * (e - eta_u[u] * bias)
            c[i] += beta_i * (e - eta_i[i] * c[i])
            keep_q = np.float32(1) - alpha_i * lambda_i[i]
            if side:
                product = _conditioned_step(
                    own, q, i, following, keep_x, keep_q, alpha_u * e, alpha_i * e, e
                )
            else:
                product = _step(own, q, i, following, keep_x, keep_q, alpha_u * e, alpha_i * e)
        b[u], errors[v] = bias, total
        for d in range(width):
            p[u, d] = own[_X, d] - s[d]
        if side:
            _side_step(w, side_ids, side_offsets[u], side_offsets[u + 1], own, gamma, lambda_w)
    return errors


def epoch(
    offsets: _Array,
    item_ids: _Array,
    values: _Array,
    users: _Array,
    tables: Tables,
    mean: float,
    rates: Rates,
    penalties: Penalties,
    seed: int,
    side_offsets: _Array | None,
    side_ids: _Array | None,
    weights: _Array,
) -> tuple[NDArray[np.float64], Tables]:
    """See `tacenda.kernels.ratings.sgd.epoch`."""
    side = side_ids is not None
    numbers = tuple(np.float32(n) for n in rates), (*penalties[:4], np.float32(penalties.side))
    errors = _epoch(
        offsets, item_ids, values, users, tuple(tables), np.float32(mean), *numbers, np.uint64(seed), side,
        side_offsets if side else offsets, side_ids if side else item_ids, weights,
    )  # fmt: skip
    return errors, tables
