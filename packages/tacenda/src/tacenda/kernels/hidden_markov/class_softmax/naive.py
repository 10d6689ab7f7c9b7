"""The softmax over the words of each class, the specification: one class after another."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.hidden_markov.class_softmax import Gradients

_Array = NDArray[Any]


def forward(words: _Array, bias: _Array, states: _Array, offsets: _Array) -> _Array:
    """o_w[j] = exp(y_w . x_{c,j} + b_w) / the sum of the same over the words of class c."""
    o = np.empty((len(words), states.shape[1]))
    for c, x in enumerate(states.astype(np.float64)):
        own = slice(offsets[c], offsets[c + 1])
        scores = words[own].astype(np.float64) @ x.T + bias[own, None]
        p = np.exp(scores - scores.max(axis=0, initial=-np.inf))
        o[own] = p / p.sum(axis=0)
    return o.astype(words.dtype)


def backward(
    words: _Array, bias: _Array, states: _Array, offsets: _Array, found: _Array, counts: _Array
) -> Gradients:
    """D = E - o sum_{w in c} E; dy_w = D_w x_c, dx_c = D^T y, db_w = sum_j D_w[j]."""
    y, x, E, o = (array.astype(np.float64) for array in (words, states, counts, found))
    D, dx = np.empty_like(E), np.empty_like(x)
    dy = np.empty_like(y)
    for c in range(len(states)):
        own = slice(offsets[c], offsets[c + 1])
        D[own] = E[own] - o[own] * E[own].sum(axis=0)
        dy[own], dx[c] = D[own] @ x[c], D[own].T @ y[own]
    return Gradients(*(array.astype(words.dtype) for array in (dy, D.sum(axis=1), dx)))
