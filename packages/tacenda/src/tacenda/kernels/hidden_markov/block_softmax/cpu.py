"""Blocks of transitions on the CPU: the scores of a few pairs by BLAS, then their softmax while they are in cache."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.hidden_markov.block_softmax import Gradients, Vectors
from tacenda.kernels.hidden_markov.column_softmax import column_softmax, exponentials
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.threads import in_parts

_Array = NDArray[Any]
_CELLS = 1 << 16  # scores at a time: 256 KB in float32
_FAST = {"contract", "reassoc"}


@njit(fastmath=_FAST)
def _gather(table, rows, out):  # type: ignore[no-untyped-def]
    """Copy the matrices ``rows`` of a table one after another."""
    for n in range(len(rows)):
        source, place = table[rows[n]], out[n]
        for j in range(source.shape[0]):
            for d in range(source.shape[1]):
                place[j, d] = source[j, d]


@njit(fastmath=_FAST)
def _forward(x, y, b, sources, targets, w, norms, A, A_bits, begin, end):  # type: ignore[no-untyped-def]
    """Fill the blocks of the pairs begin .. end; exactly one of w and norms has rows."""
    k, width = x.shape[1], x.shape[2]
    most = max(1, _CELLS // (k * k))
    near = np.empty((most, k, width), x.dtype)
    powers, shift = np.empty((k, k), np.int32), np.empty(k, x.dtype)
    u = begin
    while u < end:
        # As many pairs of one source as fit the cache make one product: their targets are laid side by side.
        c, last = sources[u], u + 1
        while last < end and last - u < most and sources[last] == c:
            last += 1
        n = last - u
        _gather(y, targets[u:last], near)
        np.dot(near[:n].reshape(n * k, width), x[c].T, A[u:last].reshape(n * k, k))
        for v in range(u, last):
            block, bias = A[v], b[targets[v]]
            for j in range(k):
                row = block[j]
                for i in range(k):
                    row[i] += bias[j]
            if len(w):
                column_softmax(block, A_bits[v], powers, shift, w[v])
            else:
                exponentials(block, A_bits[v], powers, norms[c])
        u = last


@njit(fastmath=_FAST)
def _backward(x, y, sources, targets, A, N, w, dx, db, moved, departures, begin, end):  # type: ignore[no-untyped-def]
    """Fill what the pairs begin .. end move: dx is summed here, since the sources are sorted.

    ``moved`` is D_u x_c and ``db`` its bias, pair by pair, for `_sum_by_target`.
    """
    k, width = x.shape[1], x.shape[2]
    most = max(1, _CELLS // (k * k))
    near, D = np.empty((most, k, width), x.dtype), np.empty((most, k, k), x.dtype)
    u = begin
    while u < end:
        c, last = sources[u], u + 1
        while last < end and last - u < most and sources[last] == c:
            last += 1
        n = last - u
        _gather(y, targets[u:last], near)
        for v in range(n):
            leaving, counts, block, slope = departures[u + v], N[u + v], A[u + v], D[v]
            # n_u: the counts of leaving each state of the source.
            leaving[:] = 0
            for j in range(k):
                row = counts[j]
                for i in range(k):
                    leaving[i] += row[i]
            # D_u = N_u - (A_u / w_u) n_u, or N_u where the blocks were made with norms.
            if len(w):
                own = w[u + v]
                for j in range(k):
                    row, probabilities, out = counts[j], block[j], slope[j]
                    for i in range(k):
                        out[i] = row[i] - probabilities[i] * (leaving[i] / own[i])
            else:
                slope[:] = counts
            for j in range(k):
                row, total = slope[j], x.dtype.type(0)
                for i in range(k):
                    total += row[i]
                db[u + v, j] = total
        # Both products over all pairs at hand: dx_c += sum_u D_u^T y_c', and D_u x_c.
        flat = D[:n].reshape(n * k, k)
        dx[c] += np.dot(flat.T, near[:n].reshape(n * k, width))
        np.dot(flat, x[c], moved[u:last].reshape(n * k, width))
        u = last


@njit(fastmath=_FAST)
def _sum_by_target(moved, biases, order, borders, dy, db, begin, end):  # type: ignore[no-untyped-def]
    """Sum what the pairs move for the targets begin .. end; ``order`` has the pairs sorted by target."""
    for to in range(begin, end):
        table, bias = dy[to], db[to]
        for place in range(borders[to], borders[to + 1]):
            added, added_bias = moved[order[place]], biases[order[place]]
            for j in range(table.shape[0]):
                bias[j] += added_bias[j]
                for d in range(table.shape[1]):
                    table[j, d] += added[j, d]


def forward(
    vectors: Vectors,
    sources: _Array,
    targets: _Array,
    weights: _Array | None,
    norms: _Array | None,
    threads: int,
) -> _Array:
    """See `tacenda.kernels.hidden_markov.block_softmax.forward`."""
    classes, k, _ = vectors.left.shape
    A = np.empty((len(sources), k, k), vectors.left.dtype)
    none = np.empty((0, k), A.dtype)
    w, norm = (none if array is None else array for array in (weights, norms))
    borders = _borders(sources, classes)

    def work(first: int, last: int) -> None:
        begin, end = borders[first], borders[last]
        _forward(*vectors, sources, targets, w, norm, A, A.view(np.int32), begin, end)

    in_parts(work, classes, threads)
    return A


def backward(
    vectors: Vectors,
    sources: _Array,
    targets: _Array,
    blocks: _Array,
    counts: _Array,
    weights: _Array | None,
    threads: int,
) -> Gradients:
    """See `tacenda.kernels.hidden_markov.block_softmax.backward`."""
    x, y, b = vectors
    classes, k, width = x.shape
    pairs = len(sources)
    w = np.empty((0, k), x.dtype) if weights is None else weights
    dx, dy, db = np.zeros_like(x), np.zeros_like(y), np.zeros_like(b)
    moved = np.empty((pairs, k, width), x.dtype)
    biases, departures = (np.empty((pairs, k), x.dtype) for _ in range(2))
    borders = _borders(sources, classes)

    def by_source(first: int, last: int) -> None:
        span = borders[first], borders[last]
        _backward(
            x, y, sources, targets, blocks, counts, w, dx, biases, moved, departures, *span
        )  # fmt: skip

    in_parts(by_source, classes, threads)
    # Targets are in no order, so what each pair moves is kept and summed afterwards, target by target.
    order = np.argsort(targets, kind="stable")
    ends = _borders(targets[order], classes)

    def by_target(first: int, last: int) -> None:
        _sum_by_target(moved, biases, order, ends, dy, db, first, last)

    in_parts(by_target, classes, threads)
    return Gradients(dx, dy, db, departures)


def _borders(classes: _Array, n: int) -> NDArray[np.int64]:
    """Where each of ``n`` classes begins among sorted ones, and the end."""
    return np.searchsorted(classes, np.arange(n + 1))
