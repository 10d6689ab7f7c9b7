"""The epoch as a plain loop in float64: the specification."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.ratings.sgd import Penalties, Rates, Tables
from tacenda.kernels.ratings.xorshift import states

_Array = NDArray[Any]


def order(n: int, seed: int, user: int) -> list[int]:
    """A permutation of 0 .. n - 1, which depends on both numbers: Fisher-Yates."""
    random, places = states(seed, user), list(range(n))
    for k in range(n - 1, 0, -1):
        j = (int(next(random)) >> 33) % (k + 1)
        places[k], places[j] = places[j], places[k]
    return places


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
    p, q, b, c, w = (table.astype(np.float64) for table in tables)
    lambda_u, lambda_i, eta_u, eta_i = (np.asarray(each) for each in penalties[:4])
    lambda_w = penalties.side
    errors = np.zeros(len(users))
    for k, u in enumerate(users):
        start, stop = offsets[u], offsets[u + 1]
        if start == stop:
            continue
        side = np.empty(0, int)
        if side_offsets is not None and side_ids is not None:
            side = side_ids[side_offsets[u] : side_offsets[u + 1]]
        s = w[side].sum(axis=0) / max(len(side), 1)
        x, g = p[u] + s, np.zeros_like(s)
        for place in order(int(stop - start), seed, int(u)):
            i = item_ids[start + place]
            e = values[start + place] - mean - b[u] - c[i] - x @ q[i]
            errors[k] += e * e
            e *= float(weights[u])
            g += e * q[i]
            b[u] += rates.user_biases * (e - eta_u[u] * b[u])
            c[i] += rates.item_biases * (e - eta_i[i] * c[i])
            old_q, old_x = q[i].copy(), x.copy()
            q[i] += rates.item_factors * (e * old_x - lambda_i[i] * old_q)
            x += rates.user_factors * (e * old_q - lambda_u[u] * (old_x - s))
        p[u] = x - s
        for j in side:
            w[j] += rates.side / len(side) * (g - lambda_w * w[j])
    for table, found in zip(tables, (p, q, b, c, w), strict=True):
        table[...] = found
    return errors, tables
