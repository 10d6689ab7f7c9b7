"""Forward-backward, the specification: token by token (Rabiner 1989, section V.A)."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.hidden_markov.block import Backward, Forward, Sequences

_Array = NDArray[Any]


def forward(
    blocks: _Array, emissions: _Array, starts: _Array, observed: Sequences, threads: int
) -> Forward:
    """a_t = A_u a_{t-1} o o_t / c_t, where c_t makes a_t sum to one."""
    pairs, words, first, offsets = observed
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
    threads: int,
) -> Backward:
    """v_t = o_t o b_t / c_t, b_{t-1} = A_u^T v_t, N_u = sum_t A_u o (v_t a_{t-1}^T)."""
    pairs, words, first, offsets = observed
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
