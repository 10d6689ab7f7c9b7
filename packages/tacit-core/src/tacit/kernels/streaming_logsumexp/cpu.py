"""The streaming log-sum-exp on the CPU: products of tiles by BLAS, the rest in one pass while they are in cache."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.kernels.streaming_logsumexp import Gradients
from tacit.kernels.streaming_logsumexp.arguments import check

__all__ = ["backward", "forward"]

_Array = NDArray[Any]
_ROWS, _COLUMNS = 512, 1024  # of a tile: 2 MB in float32


def forward(rows: _Array, columns: _Array, bias: _Array) -> _Array:
    """See `tacit.kernels.streaming_logsumexp.forward`."""
    check(rows, columns, bias)
    found = np.empty(len(rows), rows.dtype)
    for i in range(0, len(rows), _ROWS):
        x = rows[i : i + _ROWS]
        largest = np.full(len(x), -np.inf, rows.dtype)
        total = np.zeros(len(x), rows.dtype)
        for j in range(0, len(columns), _COLUMNS):
            tile = x @ columns[j : j + _COLUMNS].T
            tile += bias[j : j + _COLUMNS]
            raised = np.maximum(largest, tile.max(axis=1))
            # where all so far is -inf there is nothing to rescale, and -inf - -inf is no number
            shift = np.where(np.isneginf(raised), 0, raised).astype(rows.dtype)
            tile -= shift[:, None]
            total = total * np.exp(largest - shift) + np.exp(tile, out=tile).sum(axis=1)
            largest = raised
        with np.errstate(divide="ignore"):
            found[i : i + _ROWS] = largest + np.log(total)
    return found


def backward(
    rows: _Array, columns: _Array, bias: _Array, found: _Array, gradient: _Array
) -> Gradients:
    """See `tacit.kernels.streaming_logsumexp.backward`."""
    check(rows, columns, bias, found, gradient)
    grads = Gradients(np.zeros_like(rows), np.zeros_like(columns), np.zeros_like(bias))
    for i in range(0, len(rows), _ROWS):
        own = slice(i, i + _ROWS)
        for j in range(0, len(columns), _COLUMNS):
            theirs = slice(j, j + _COLUMNS)
            tile = rows[own] @ columns[theirs].T
            tile += bias[theirs]
            tile -= found[own, None]
            np.exp(tile, out=tile)
            tile *= gradient[own, None]
            grads.rows[own] += tile @ columns[theirs]
            grads.columns[theirs] += tile.T @ rows[own]
            grads.bias[theirs] += tile.sum(axis=0)
    return grads
