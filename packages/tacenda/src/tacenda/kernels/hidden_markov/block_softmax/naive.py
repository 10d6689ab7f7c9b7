"""Blocks of transitions in float64, pair by pair: the specification."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.hidden_markov.block_softmax import Gradients, Vectors
from tacenda.kernels.hidden_markov.block_softmax.arguments import check, check_one

__all__ = ["backward", "forward"]

_Array = NDArray[Any]


def forward(
    vectors: Vectors,
    sources: _Array,
    targets: _Array,
    weights: _Array | None = None,
    norms: _Array | None = None,
    threads: int = 1,
) -> _Array:
    """See `tacenda.kernels.hidden_markov.block_softmax.forward`."""
    check_one(weights, norms)
    classes, k, _ = vectors.left.shape
    shapes = {"weights": (weights, (len(sources), k)), "norms": (norms, (classes, k))}
    sources, targets = check(vectors, sources, targets, **shapes)
    x, y, b = (array.astype(np.float64) for array in vectors)
    A = np.empty((len(sources), k, k))
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
    weights: _Array | None = None,
    threads: int = 1,
) -> Gradients:
    """See `tacenda.kernels.hidden_markov.block_softmax.backward`."""
    k = vectors.left.shape[1]
    size = (len(sources), k, k)
    given = {"blocks": (blocks, size), "counts": (counts, size), "weights": (weights, size[:2])}
    sources, targets = check(vectors, sources, targets, **given)
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
