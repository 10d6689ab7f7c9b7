"""Forward-backward in float64, token by token: the specification."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.hidden_markov.block import Backward, Forward, Sequences
from tacenda.kernels.hidden_markov.block.arguments import check

__all__ = ["backward", "forward"]

_Array = NDArray[Any]


def forward(
    blocks: _Array, emissions: _Array, starts: _Array, observed: Sequences, threads: int = 1
) -> Forward:
    """See `tacenda.kernels.hidden_markov.block.forward`."""
    pairs, words, first, offsets = check(blocks, emissions, starts, observed)
    A, o, s = (array.astype(np.float64) for array in (blocks, emissions, starts))
    c = np.empty(len(words))
    a = np.empty((len(words), emissions.shape[1]))
    for n, (begin, end) in enumerate(pairwise(offsets.tolist())):
        for t in range(begin, end):
            reached = s[first[n]] if t == begin else A[pairs[t]] @ a[t - 1]
            a[t] = reached * o[words[t]]
            c[t] = a[t].sum()
            if c[t] != 0:
                a[t] /= c[t]
    with np.errstate(divide="ignore"):
        return Forward(np.log(c), a.astype(blocks.dtype))


def backward(
    blocks: _Array,
    emissions: _Array,
    starts: _Array,
    observed: Sequences,
    found: Forward,
    threads: int = 1,
) -> Backward:
    """See `tacenda.kernels.hidden_markov.block.backward`."""
    pairs, words, first, offsets = check(blocks, emissions, starts, observed)
    A, o, s = (array.astype(np.float64) for array in (blocks, emissions, starts))
    c, a = np.exp(found.log_probs), found.states.astype(np.float64)
    N, E, S = np.zeros_like(A), np.zeros_like(o), np.zeros_like(s)
    posteriors = np.zeros_like(a)
    for n, (begin, end) in enumerate(pairwise(offsets.tolist())):
        b = np.ones(emissions.shape[1])
        for t in range(end - 1, begin - 1, -1):
            posteriors[t] = a[t] * b
            E[words[t]] += posteriors[t]
            v = o[words[t]] * b / c[t] if c[t] != 0 else 0 * b
            if t == begin:
                S[first[n]] += s[first[n]] * v
            else:
                N[pairs[t]] += A[pairs[t]] * np.outer(v, a[t - 1])
                b = A[pairs[t]].T @ v
    return Backward(*(array.astype(blocks.dtype) for array in (N, E, S, posteriors)))
