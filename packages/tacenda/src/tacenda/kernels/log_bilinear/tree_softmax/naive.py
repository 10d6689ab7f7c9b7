"""The tree softmax as plain loops in float64: the specification."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.log_bilinear.tree_softmax import Codes, Gradients, Step
from tacenda.kernels.shared.row_steps.naive import adagrad

_Array = NDArray[Any]


def _log_sigma(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log 1 / (1 + exp(-x)), eq 4.3."""
    return -np.logaddexp(0, -x)


def _codes_of(word: int, codes: Codes) -> list[slice]:
    """The steps of each code of a word."""
    found = range(codes.word_codes[word], codes.word_codes[word + 1])
    return [slice(codes.code_steps[c], codes.code_steps[c + 1]) for c in found]


def forward(
    vectors: _Array, words: _Array, codes: Codes, node_vectors: _Array, node_biases: _Array
) -> NDArray[np.float64]:
    """See `tacenda.kernels.log_bilinear.tree_softmax.forward`."""
    r, q, b = (each.astype(np.float64) for each in (vectors, node_vectors, node_biases))
    log_probs = np.empty(len(words))
    for t, word in enumerate(words.tolist()):
        of_codes = []
        for steps in _codes_of(word, codes):
            x = q[codes.nodes[steps]] @ r[t] + b[codes.nodes[steps]]
            of_codes.append(_log_sigma(codes.signs[steps] * x).sum())  # eqs 4.4, 4.5
        log_probs[t] = np.logaddexp.reduce(of_codes)  # eq 4.6
    return log_probs


def backward(
    vectors: _Array,
    words: _Array,
    codes: Codes,
    node_vectors: _Array,
    node_biases: _Array,
    grad: _Array,
    threads: int = 1,
) -> Gradients:
    """See `tacenda.kernels.log_bilinear.tree_softmax.backward`."""
    log_probs = forward(vectors, words, codes, node_vectors, node_biases)
    r, q, b = (each.astype(np.float64) for each in (vectors, node_vectors, node_biases))
    d_r, d_q, d_b = np.zeros_like(r), np.zeros_like(q), np.zeros(len(q))
    visited: set[int] = set()
    for t, word in enumerate(words.tolist()):
        for steps in _codes_of(word, codes):
            nodes, s = codes.nodes[steps], codes.signs[steps].astype(np.float64)
            x = q[nodes] @ r[t] + b[nodes]
            share = np.exp(_log_sigma(s * x).sum() - log_probs[t])  # of this code in P(w)
            d_x = grad[t] * share * s * np.exp(_log_sigma(-s * x))
            d_r[t] += d_x @ q[nodes]
            for node, g in zip(nodes.tolist(), d_x, strict=True):
                visited.add(node)
                d_q[node] += g * r[t]
                d_b[node] += g
    rows = np.array(sorted(visited), np.int32)
    gradients = (each.astype(vectors.dtype) for each in (d_q[rows], d_b[rows]))
    return Gradients(log_probs, d_r.astype(vectors.dtype), rows, *gradients)


def step(
    vectors: _Array,
    words: _Array,
    codes: Codes,
    node_vectors: _Array,
    node_biases: _Array,
    grad: _Array,
    sums: _Array,
    bias_sums: _Array,
    rate: float,
    threads: int = 1,
) -> Step:
    """See `tacenda.kernels.log_bilinear.tree_softmax.step`."""
    found = backward(vectors, words, codes, node_vectors, node_biases, grad)
    adagrad(node_vectors, sums, found.nodes, found.node_vectors, rate)
    adagrad(node_biases[:, None], bias_sums, found.nodes, found.node_biases[:, None], rate)
    return Step(found.log_probs, found.vectors)


def distribution(
    vectors: _Array, codes: Codes, node_vectors: _Array, node_biases: _Array
) -> _Array:
    """See `tacenda.kernels.log_bilinear.tree_softmax.distribution`."""
    x = vectors.astype(np.float64) @ node_vectors.astype(np.float64).T + node_biases
    found = np.empty((len(vectors), codes.n_words))
    for word in range(codes.n_words):
        of_codes = [
            _log_sigma(codes.signs[steps] * x[:, codes.nodes[steps]]).sum(axis=1)
            for steps in _codes_of(word, codes)
        ]
        found[:, word] = np.logaddexp.reduce(of_codes, axis=0)
    return found.astype(vectors.dtype)
