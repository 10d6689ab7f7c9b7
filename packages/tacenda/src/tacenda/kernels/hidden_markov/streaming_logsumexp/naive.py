"""The log-sum-exp, the specification: the whole matrix of scores."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.hidden_markov.streaming_logsumexp import Gradients

_Array = NDArray[Any]


def forward(rows: _Array, columns: _Array, bias: _Array, kept: _Array | None) -> _Array:
    """l_i = log sum_j exp(x_i . y_j + b_j), -inf where every score is."""
    scores = _scores(rows, columns, bias)
    largest = scores.max(axis=1, keepdims=True)
    shift = np.where(np.isneginf(largest), 0, largest)  # -inf - -inf is no number
    with np.errstate(divide="ignore"):
        found = shift[:, 0] + np.log(np.exp(scores - shift).sum(axis=1))
    if kept is not None:
        n = len(kept)
        kept[...] = np.exp(scores[:n] - np.where(np.isneginf(found), 0, found)[:n, None])
    return np.asarray(found, rows.dtype)


def backward(
    rows: _Array,
    columns: _Array,
    bias: _Array,
    found: _Array,
    gradient: _Array,
    kept: _Array | None,
) -> Gradients:
    """dx_i = g_i sum_j p_ij y_j, dy_j = sum_i g_i p_ij x_i, db_j = sum_i g_i p_ij, with p_ij the softmax."""
    p = np.exp(_scores(rows, columns, bias) - found.astype(np.float64)[:, None])
    weighted = p * gradient.astype(np.float64)[:, None]
    grads = (weighted @ columns, weighted.T @ rows, weighted.sum(axis=0))
    return Gradients(*(grad.astype(rows.dtype) for grad in grads))


def _scores(rows: _Array, columns: _Array, bias: _Array) -> _Array:
    """x_i . y_j + b_j, in float64."""
    return np.asarray(rows.astype(np.float64) @ columns.astype(np.float64).T + bias)
