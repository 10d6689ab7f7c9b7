"""The log-sum-exp of the whole matrix, in float64: the specification."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.hidden_markov.streaming_logsumexp import Gradients
from tacenda.kernels.hidden_markov.streaming_logsumexp.arguments import check, check_kept

__all__ = ["backward", "forward"]

_Array = NDArray[Any]


def forward(rows: _Array, columns: _Array, bias: _Array, kept: _Array | None = None) -> _Array:
    """See `tacenda.kernels.hidden_markov.streaming_logsumexp.forward`."""
    check(rows, columns, bias)
    n = check_kept(rows, columns, kept)
    scores = _scores(rows, columns, bias)
    largest = scores.max(axis=1, keepdims=True)
    shift = np.where(np.isneginf(largest), 0, largest)  # -inf - -inf is no number
    with np.errstate(divide="ignore"):
        found = shift[:, 0] + np.log(np.exp(scores - shift).sum(axis=1))
    if kept is not None:
        kept[...] = np.exp(scores[:n] - np.where(np.isneginf(found), 0, found)[:n, None])
    return np.asarray(found, rows.dtype)


def backward(
    rows: _Array,
    columns: _Array,
    bias: _Array,
    found: _Array,
    gradient: _Array,
    kept: _Array | None = None,
) -> Gradients:
    """See `tacenda.kernels.hidden_markov.streaming_logsumexp.backward`."""
    check(rows, columns, bias, found, gradient)
    check_kept(rows, columns, kept)
    p = np.exp(_scores(rows, columns, bias) - found.astype(np.float64)[:, None])
    weighted = p * gradient.astype(np.float64)[:, None]
    grads = (weighted @ columns, weighted.T @ rows, weighted.sum(axis=0))
    return Gradients(*(grad.astype(rows.dtype) for grad in grads))


def _scores(rows: _Array, columns: _Array, bias: _Array) -> _Array:
    return np.asarray(rows.astype(np.float64) @ columns.astype(np.float64).T + bias)
