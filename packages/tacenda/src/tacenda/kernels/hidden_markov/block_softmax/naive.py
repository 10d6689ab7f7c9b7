"""Blocks of transitions, the specification: one softmax for each pair of classes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.hidden_markov.block_softmax import Gradients, Vectors

_Array = NDArray[Any]


def forward(
    vectors: Vectors,
    sources: _Array,
    targets: _Array,
    weights: _Array | None,
    norms: _Array | None,
    threads: int,
) -> _Array:
    """A_u[j, i] = w_u[i] softmax_j (x_i . y_j + b_j), or exp(x_i . y_j + b_j - l_i)."""
    x, y, b = (array.astype(np.float64) for array in vectors)
    A = np.empty((len(sources), x.shape[1], x.shape[1]))
    for u, (c, to) in enumerate(zip(sources, targets, strict=True)):
        scores = y[to] @ x[c].T + b[to][:, None]
        if weights is not None:
            p = np.exp(scores - scores.max(axis=0, initial=-np.inf))
            A[u] = weights[u] * p / p.sum(axis=0)
        elif norms is not None:
            A[u] = np.exp(scores - norms[c])
    return A.astype(vectors.left.dtype)


def backward(
    vectors: Vectors,
    sources: _Array,
    targets: _Array,
    blocks: _Array,
    counts: _Array,
    weights: _Array | None,
    threads: int,
) -> Gradients:
    """D_u = N_u - (A_u / w_u) n_u; dx_c += D_u^T y_c', dy_c' += D_u x_c, db_c' += sum_i D_u."""
    x, y, b = (array.astype(np.float64) for array in vectors)
    dx, dy, db = np.zeros_like(x), np.zeros_like(y), np.zeros_like(b)
    departures = counts.sum(axis=1, dtype=np.float64)
    for u, (c, to) in enumerate(zip(sources, targets, strict=True)):
        D = counts[u].astype(np.float64)
        if weights is not None:
            D = D - blocks[u] * (departures[u] / weights[u])
        dx[c] += D.T @ y[to]
        dy[to] += D @ x[c]
        db[to] += D.sum(axis=1)
    return Gradients(*(array.astype(counts.dtype) for array in (dx, dy, db, departures)))
