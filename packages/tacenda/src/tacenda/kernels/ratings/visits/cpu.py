"""The visits on the CPU: one thread, one row after another, the rows of the other side fetched ahead."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.vectors import prefetch
from tacenda.kernels.ratings import xorshift
from tacenda.kernels.ratings.visits import Side, Visited

_Array = NDArray[Any]
_AHEAD = 8  # rows that are asked for before they are needed
_seeded, _next = njit(xorshift.seeded), njit(xorshift.advanced)


@njit(fastmath={"contract", "reassoc", "nsz"})
def _visit(  # type: ignore[no-untyped-def]
    offsets, ids, values, rows, y, b, lambdas, etas, v, z, c, w, mean, alpha, beta, seed, prior, errors, sums
):  # fmt: skip
    """Visit the rows; ``prior`` and ``sums`` have no rows where there is no prior."""
    width, known = y.shape[1], len(prior) > 0
    s, g = np.zeros(width, np.float32), np.zeros(width, np.float32)
    for k in range(len(rows)):
        u, start, n = rows[k], offsets[k], offsets[k + 1] - offsets[k]
        if known:
            s[:] = prior[k]
        g[:] = 0
        first = np.int64(0)
        if n > 0:
            drawn = _next(_seeded(seed, np.uint64(u))) >> np.uint64(33)
            first = np.int64(drawn % np.uint64(n))
        keep, bias, total = np.float32(1) - alpha * lambdas[u], b[u], np.float32(0)
        for place in range(first, first + n):
            at = start + (place if place < n else place - n)
            if at + _AHEAD < start + n:
                prefetch(z, np.int64(ids[at + _AHEAD]) * width, width)
            i = ids[at]
            e = values[at] - mean - bias - c[i]
            for d in range(width):
                e -= (y[u, d] + s[d]) * z[i, d]
            total += e * e
            e *= v[u] * w[i]
            bias += beta * (e - etas[u] * bias)
            for d in range(width):
                g[d] += e * z[i, d]
                y[u, d] = keep * y[u, d] + alpha * e * z[i, d]
        b[u], errors[k] = bias, total
        if known:
            sums[k] = g


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
    known = np.zeros((0, others.shape[1]), np.float32) if prior is None else prior
    errors, sums = np.empty(len(rows), np.float32), np.empty_like(known)
    _visit(
        offsets, ids.astype(np.int32, copy=False), values, rows.astype(np.int64, copy=False), *side, others,
        other_biases, other_weights, np.float32(mean), *(np.float32(rate) for rate in rates), np.uint64(seed), known,
        errors, sums,
    )  # fmt: skip
    return Visited(side.factors, side.biases, errors, sums)
