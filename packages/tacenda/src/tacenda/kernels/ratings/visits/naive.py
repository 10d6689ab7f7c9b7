"""The visits as a plain loop in float64: the specification."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.ratings.visits import Side, Visited
from tacenda.kernels.ratings.xorshift import states

_Array = NDArray[Any]


def visit(
    offsets: _Array,
    ids: _Array,
    values: _Array,
    rows: _Array,
    side: Side,
    others: _Array,
    other_biases: _Array,
    other_weights: _Array,
    mean: float,
    rates: tuple[float, float],
    seed: int,
    prior: _Array | None,
) -> Visited:
    """See `tacenda.kernels.ratings.visits.visit`."""
    y, b = side.factors.astype(np.float64), side.biases.astype(np.float64)
    z, c = others.astype(np.float64), other_biases.astype(np.float64)
    alpha, beta = rates
    errors, sums = np.zeros(len(rows)), np.zeros((len(rows), y.shape[1]))
    for k, u in enumerate(rows):
        start, n = int(offsets[k]), int(offsets[k + 1] - offsets[k])
        s = np.zeros(y.shape[1]) if prior is None else prior[k].astype(np.float64)
        first = (int(next(states(seed, int(u)))) >> 33) % max(n, 1)
        for place in range(first, first + n):
            i, r = ids[start + place % n], values[start + place % n]
            e = r - mean - b[u] - c[i] - (y[u] + s) @ z[i]
            errors[k] += e * e
            e *= float(side.weights[u]) * float(other_weights[i])
            sums[k] += e * z[i]
            y[u] += alpha * (e * z[i] - side.factor_penalties[u] * y[u])
            b[u] += beta * (e - side.bias_penalties[u] * b[u])
    side.factors[...], side.biases[...] = y, b
    found = sums if prior is not None else sums[:0]
    return Visited(side.factors, side.biases, errors.astype(np.float32), found.astype(np.float32))
