"""The softmax by class on the CPU: products by BLAS, the rest while a class is in cache."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.hidden_markov.class_softmax import Gradients
from tacenda.kernels.hidden_markov.column_softmax import column_softmax
from tacenda.kernels.machinery.compiled import njit

_Array = NDArray[Any]
_FAST = {"contract", "reassoc"}


@njit(fastmath=_FAST)
def _forward(y, b, x, offsets, o, bits):  # type: ignore[no-untyped-def]
    """Fill o, one class after another: the product of its words and states, then the softmax of each state."""
    k = x.shape[1]
    shift, ones = np.empty(k, o.dtype), np.ones(k, o.dtype)
    for c in range(len(x)):
        begin, end = offsets[c], offsets[c + 1]
        if begin == end:
            continue
        block = o[begin:end]
        np.dot(y[begin:end], x[c].T, block)
        for w in range(end - begin):
            row, bias = block[w], b[begin + w]
            for j in range(k):
                row[j] += bias
        powers = np.empty((end - begin, k), np.int32)
        column_softmax(block, bits[begin:end], powers, shift, ones)


@njit(fastmath=_FAST)
def _backward(y, x, offsets, o, E, dy, db, dx):  # type: ignore[no-untyped-def]
    """Fill the gradients, one class after another: D = E - o sum E, then its products with states and words."""
    k = x.shape[1]
    total = np.empty(k, o.dtype)
    for c in range(len(x)):
        begin, end = offsets[c], offsets[c + 1]
        if begin == end:
            continue
        # The counts of each state of the class, then what is left of every count beyond its share of them.
        D = E[begin:end].copy()
        total[:] = 0
        for w in range(end - begin):
            for j in range(k):
                total[j] += D[w, j]
        for w in range(end - begin):
            row, found, bias = D[w], o[begin + w], o.dtype.type(0)
            for j in range(k):
                row[j] -= found[j] * total[j]
            # Summed in a loop of its own: where a loop also writes, the order in which the compiler sums depends on
            # where the arrays lie.
            for j in range(k):
                bias += row[j]
            db[begin + w] = bias
        np.dot(D, x[c], dy[begin:end])
        np.dot(D.T, y[begin:end], dx[c])


def forward(words: _Array, bias: _Array, states: _Array, offsets: _Array) -> _Array:
    """See `tacenda.kernels.hidden_markov.class_softmax.forward`."""
    o = np.empty((len(words), states.shape[1]), words.dtype)
    _forward(words, bias, states, offsets, o, o.view(np.int32))
    return o


def backward(
    words: _Array, bias: _Array, states: _Array, offsets: _Array, found: _Array, counts: _Array
) -> Gradients:
    """See `tacenda.kernels.hidden_markov.class_softmax.backward`."""
    dy, db, dx = np.zeros_like(words), np.zeros_like(bias), np.zeros_like(states)
    _backward(words, states, offsets, found, counts, dy, db, dx)
    return Gradients(dy, db, dx)
