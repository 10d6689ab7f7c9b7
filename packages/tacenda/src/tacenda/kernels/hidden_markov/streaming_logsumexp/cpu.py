"""The streaming log-sum-exp on the CPU: products of tiles by BLAS, the rest while they are in cache."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.hidden_markov.streaming_logsumexp import Gradients

_Array = NDArray[Any]
_ROWS, _COLUMNS = 512, 1024  # of a tile: 2 MB in float32
_WHOLE = 32  # rows of all scores that are worked on while they are in cache


def forward(rows: _Array, columns: _Array, bias: _Array, kept: _Array | None) -> _Array:
    """See `tacenda.kernels.hidden_markov.streaming_logsumexp.forward`."""
    n = 0 if kept is None else len(kept)
    found = np.empty(len(rows), rows.dtype)
    for i in range(0, n, _ROWS):
        own = slice(i, min(i + _ROWS, n))
        found[own] = _softmax(rows[own], columns, bias, kept[own])  # type: ignore[index]
    for i in range(n, len(rows), _ROWS):
        found[i : i + _ROWS] = _streamed(rows[i : i + _ROWS], columns, bias)
    return found


def _softmax(rows: _Array, columns: _Array, bias: _Array, out: _Array) -> _Array:
    """The logarithms of the sums, with all scores at hand; ``out`` (rows, columns) becomes the softmax."""
    np.dot(rows, columns.T, out=out)
    found = np.empty(len(rows), rows.dtype)
    # One product of all rows, then a few rows at a time, which stay in cache from the bias to the final scaling.
    for i in range(0, len(rows), _WHOLE):
        tile = out[i : i + _WHOLE]
        tile += bias
        shift = _finite(tile.max(axis=1))
        tile -= shift[:, None]
        total = np.exp(tile, out=tile).sum(axis=1)
        with np.errstate(divide="ignore"):
            found[i : i + _WHOLE] = shift + np.log(total)
        tile *= (1 / np.where(total == 0, 1, total))[:, None]
    return found


def _streamed(rows: _Array, columns: _Array, bias: _Array) -> _Array:
    """The logarithms of the sums, tile by tile: no more than one tile of scores is ever in memory."""
    largest = np.full(len(rows), -np.inf, rows.dtype)
    total = np.zeros(len(rows), rows.dtype)
    for j in range(0, len(columns), _COLUMNS):
        tile = rows @ columns[j : j + _COLUMNS].T
        tile += bias[j : j + _COLUMNS]
        # The largest score so far is taken from every exponent; where it rises, the total so far is scaled down.
        raised = np.maximum(largest, tile.max(axis=1))
        shift = _finite(raised)
        tile -= shift[:, None]
        total = total * np.exp(largest - shift) + np.exp(tile, out=tile).sum(axis=1)
        largest = raised
    with np.errstate(divide="ignore"):
        return np.asarray(largest + np.log(total))


def _finite(largest: _Array) -> _Array:
    """What is subtracted from scores: nothing where all are -inf, since -inf - -inf is no number."""
    return np.where(np.isneginf(largest), 0, largest).astype(largest.dtype)


def backward(
    rows: _Array,
    columns: _Array,
    bias: _Array,
    found: _Array,
    gradient: _Array,
    kept: _Array | None,
) -> Gradients:
    """See `tacenda.kernels.hidden_markov.streaming_logsumexp.backward`."""
    n = 0 if kept is None else len(kept)
    weighted = rows * gradient[:, None]
    grads = Gradients(np.zeros_like(rows), np.zeros_like(columns), np.zeros_like(bias))
    # Where p was kept, it is used as it is; p of the other rows is made again, tile by tile.
    if n and kept is not None:
        np.dot(kept, columns, out=grads.rows[:n])
        np.dot(kept.T, weighted[:n], out=grads.columns)
        np.dot(gradient[:n], kept, out=grads.bias)
    for i in range(n, len(rows), _ROWS):
        own = slice(i, i + _ROWS)
        for j in range(0, len(columns), _COLUMNS):
            theirs = slice(j, j + _COLUMNS)
            tile = rows[own] @ columns[theirs].T
            tile += bias[theirs]
            tile -= found[own, None]  # log p: the sum over all columns is known already
            np.exp(tile, out=tile)
            grads.rows[own] += tile @ columns[theirs]
            grads.columns[theirs] += tile.T @ weighted[own]
            grads.bias[theirs] += gradient[own] @ tile
    grads.rows[...] *= gradient[:, None]
    return grads
