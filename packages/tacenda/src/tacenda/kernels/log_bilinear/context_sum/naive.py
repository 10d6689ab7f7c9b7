"""The context sum as a plain loop in float64: the specification."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.log_bilinear.context_sum import Context, Forward, Gradients, places_of

_Array = NDArray[Any]


def _beginning(offsets: NDArray[np.int64], t: int) -> int:
    """Where the sequence of position t begins; position ``tokens`` goes on from the last word."""
    if t == offsets[-1]:
        filled = offsets[:-1][np.diff(offsets) > 0]
        return int(filled[-1]) if len(filled) else 0
    return int(offsets[np.searchsorted(offsets, t, side="right") - 1])


def forward(
    table: _Array,
    ids: _Array,
    offsets: _Array,
    starts: _Array,
    ends: _Array,
    context: Context,
    tails: _Array | None = None,
    far: _Array | None = None,
    threads: int = 1,
) -> Forward:
    """See `tacenda.kernels.log_bilinear.context_sum.forward`."""
    R, F, places = table, table if far is None else far, places_of(starts, ends)
    c, b, rates, a = (part.astype(np.float64) for part in context)
    n, spans = len(c), len(starts)
    vectors = np.empty((places[-1], len(b)))
    before, after = np.zeros((spans, *a.shape)), np.zeros((spans, *a.shape))
    if tails is not None:
        before[:] = tails
    for s in range(spans):
        start = int(starts[s])
        begin = _beginning(offsets, start)
        if tails is None:
            for p in range(begin, start - n):
                before[s] = rates[:, None] * before[s] + F[ids[p]]
        u = before[s].copy()
        for t in range(start, int(ends[s])):
            if _beginning(offsets, t) != begin:
                begin, u = _beginning(offsets, t), np.zeros_like(u)
            row = b + (a * u).sum(axis=0)
            for i in range(1, min(n, t - begin) + 1):
                row += c[i - 1] * R[ids[t - i]]  # eq 4.7
            vectors[places[s] + t - start] = row
            if t - n >= begin and t < len(ids):
                u = rates[:, None] * u + F[ids[t - n]]
        after[s] = u
    return Forward(*(part.astype(R.dtype) for part in (vectors, before, after)))


def backward(
    table: _Array,
    ids: _Array,
    offsets: _Array,
    starts: _Array,
    ends: _Array,
    context: Context,
    before: _Array,
    grad: _Array,
    far: _Array | None = None,
    threads: int = 1,
) -> Gradients:
    """See `tacenda.kernels.log_bilinear.context_sum.backward`."""
    R, F, places = table, table if far is None else far, places_of(starts, ends)
    c, b, rates, a = (part.astype(np.float64) for part in context)
    grad, n = grad.astype(np.float64), len(c)
    d_R, d_c, d_a = np.zeros(R.shape), np.zeros_like(c), np.zeros_like(a)
    d_F = d_R if far is None else np.zeros(R.shape)
    touched: set[int] = set()
    for s in range(len(starts)):
        start = int(starts[s])
        first = begin = _beginning(offsets, start)
        touched.update(ids[max(start - n, 0) : max(int(ends[s]) - 1, 0)].tolist())
        age: dict[int, int] = {}  # position -> steps since it came into the tails
        for t in range(start, int(ends[s])):
            if _beginning(offsets, t) != begin:
                begin, age = _beginning(offsets, t), {}
            g = grad[places[s] + t - start]
            if begin == first:
                d_a += g * rates[:, None] ** (t - start) * before[s]
            for p, steps in age.items():
                d_a += g * rates[:, None] ** steps * F[ids[p]]
                d_F[ids[p]] += (a * rates[:, None] ** steps).sum(axis=0) * g
            for i in range(1, min(n, t - begin) + 1):
                d_c[i - 1] += g * R[ids[t - i]]
                d_R[ids[t - i]] += g * c[i - 1]
            age = {p: steps + 1 for p, steps in age.items()}
            if t - n >= begin and t < len(ids):
                age[t - n] = 0
    words = np.array(sorted(touched), np.int32)
    of_far = d_F[words] if far is not None else np.empty((0, len(b)))
    parts = (d_R[words], of_far, d_c, grad.sum(axis=0), d_a)
    return Gradients(words, *(part.astype(R.dtype) for part in parts))
