"""The tree softmax as plain loops in float64: the specification."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.log_bilinear.tree_softmax import Codes, Forward, Gradients, Step, starts_of
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
    vectors: _Array,
    words: _Array,
    codes: Codes,
    node_vectors: _Array,
    node_biases: _Array,
    threads: int = 1,
) -> Forward:
    """See `tacenda.kernels.log_bilinear.tree_softmax.forward`."""
    r, q, b = (each.astype(np.float64) for each in (vectors, node_vectors, node_biases))
    log_probs, activations = np.empty(len(words)), [np.empty(0)]
    for t, word in enumerate(words.tolist()):
        of_codes = []
        for steps in _codes_of(word, codes):
            x = q[codes.nodes[steps]] @ r[t] + b[codes.nodes[steps]]
            activations.append(x)
            of_codes.append(_log_sigma(codes.signs[steps] * x).sum())  # eqs 4.4, 4.5
        log_probs[t] = np.logaddexp.reduce(of_codes)  # eq 4.6
    x = np.concatenate(activations).astype(vectors.dtype)
    return Forward(log_probs, starts_of(words, codes), x)


def backward(
    vectors: _Array,
    words: _Array,
    codes: Codes,
    node_vectors: _Array,
    node_biases: _Array,
    found: Forward,
    grad: _Array,
    threads: int = 1,
) -> Gradients:
    """See `tacenda.kernels.log_bilinear.tree_softmax.backward`."""
    r, q = vectors.astype(np.float64), node_vectors.astype(np.float64)
    d_r, d_q, d_b = np.zeros_like(r), np.zeros_like(q), np.zeros(len(q))
    visited: dict[int, None] = {}
    for t, word in enumerate(words.tolist()):
        place = found.starts[t]
        for steps in _codes_of(word, codes):
            nodes, s = codes.nodes[steps], codes.signs[steps].astype(np.float64)
            x = found.activations[place : place + len(nodes)].astype(np.float64)
            place += len(nodes)
            share = np.exp(_log_sigma(s * x).sum() - found.log_probs[t])  # of this code in P(w)
            d_x = grad[t] * share * s * np.exp(_log_sigma(-s * x))
            d_r[t] += d_x @ q[nodes]
            for node, g in zip(nodes.tolist(), d_x, strict=True):
                visited[node] = None
                d_q[node] += g * r[t]
                d_b[node] += g
    nodes = np.array(list(visited), np.int32)
    of_nodes = (each[nodes].astype(vectors.dtype) for each in (d_q, d_b))
    return Gradients(d_r.astype(vectors.dtype), nodes, *of_nodes)


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
    epsilon: float = 1e-8,
    threads: int = 1,
) -> Step:
    """See `tacenda.kernels.log_bilinear.tree_softmax.step`."""
    tree = vectors, words, codes, node_vectors, node_biases
    found = forward(*tree)
    up = backward(*tree, found, grad)
    adagrad(node_vectors, sums, up.nodes, up.node_vectors, rate, epsilon)
    adagrad(node_biases[:, None], bias_sums, up.nodes, up.node_biases[:, None], rate, epsilon)
    return Step(found.log_probs, up.vectors)


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
