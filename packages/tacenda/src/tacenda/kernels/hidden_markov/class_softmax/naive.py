"""The softmax by class in float64: the specification."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.hidden_markov.class_softmax import Gradients
from tacenda.kernels.hidden_markov.class_softmax.arguments import check

__all__ = ["backward", "forward"]

_Array = NDArray[Any]


def forward(words: _Array, bias: _Array, states: _Array, offsets: _Array) -> _Array:
    """See `tacenda.kernels.hidden_markov.class_softmax.forward`."""
    cuts = check(words, bias, states, offsets)
    o = np.empty((len(words), states.shape[1]))
    for c, x in enumerate(states.astype(np.float64)):
        own = slice(cuts[c], cuts[c + 1])
        scores = words[own].astype(np.float64) @ x.T + bias[own, None]
        p = np.exp(scores - scores.max(axis=0, initial=-np.inf))
        o[own] = p / p.sum(axis=0)
    return o.astype(words.dtype)


def backward(
    words: _Array, bias: _Array, states: _Array, offsets: _Array, found: _Array, counts: _Array
) -> Gradients:
    """See `tacenda.kernels.hidden_markov.class_softmax.backward`."""
    cuts = check(words, bias, states, offsets, found, counts)
    y, x, E, o = (array.astype(np.float64) for array in (words, states, counts, found))
    D, dx = np.empty_like(E), np.empty_like(x)
    dy = np.empty_like(y)
    for c in range(len(states)):
        own = slice(cuts[c], cuts[c + 1])
        D[own] = E[own] - o[own] * E[own].sum(axis=0)
        dy[own], dx[c] = D[own] @ x[c], D[own].T @ y[own]
    return Gradients(*(array.astype(words.dtype) for array in (dy, D.sum(axis=1), dx)))
