"""The tree softmax as plain loops in float64: the specification."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.log_bilinear.tree_softmax.arguments import (
    check,
    check_accumulators,
    check_grad,
    check_pairs,
    starts,
)
from tacenda.kernels.log_bilinear.tree_softmax.codes import Codes
from tacenda.kernels.shared.row_steps.naive import adagrad

if TYPE_CHECKING:
    from tacenda.kernels.log_bilinear.tree_softmax import Forward, Gradients, Step

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
) -> "Forward":
    """See `tacenda.kernels.log_bilinear.tree_softmax.forward`."""
    from tacenda.kernels.log_bilinear.tree_softmax import Forward

    r, words, q, b = check(vectors, words, codes, node_vectors, node_biases)
    check_pairs(r, words)
    r64, q64, b64 = (each.astype(np.float64) for each in (r, q, b))
    log_probs, activations = np.empty(len(words)), [np.empty(0)]
    for t, word in enumerate(words.tolist()):
        of_codes = []
        for steps in _codes_of(word, codes):
            x = q64[codes.nodes[steps]] @ r64[t] + b64[codes.nodes[steps]]
            activations.append(x)
            of_codes.append(_log_sigma(codes.signs[steps] * x).sum())  # eqs 4.4, 4.5
        log_probs[t] = np.logaddexp.reduce(of_codes)  # eq 4.6
    return Forward(log_probs, starts(words, codes), np.concatenate(activations).astype(r.dtype))


def backward(
    vectors: _Array,
    words: _Array,
    codes: Codes,
    node_vectors: _Array,
    node_biases: _Array,
    found: "Forward",
    grad: _Array,
    threads: int = 1,
) -> "Gradients":
    """See `tacenda.kernels.log_bilinear.tree_softmax.backward`."""
    from tacenda.kernels.log_bilinear.tree_softmax import Gradients

    r, words, q, _ = check(vectors, words, codes, node_vectors, node_biases)
    check_pairs(r, words)
    grad = check_grad(grad, r)
    r64, q64 = r.astype(np.float64), q.astype(np.float64)
    d_r, d_q, d_b = np.zeros_like(r64), np.zeros_like(q64), np.zeros(len(q))
    visited: dict[int, None] = {}
    for t, word in enumerate(words.tolist()):
        place = found.starts[t]
        for steps in _codes_of(word, codes):
            nodes, s = codes.nodes[steps], codes.signs[steps].astype(np.float64)
            x = found.activations[place : place + len(nodes)].astype(np.float64)
            place += len(nodes)
            share = np.exp(_log_sigma(s * x).sum() - found.log_probs[t])  # of this code in P(w)
            d_x = grad[t] * share * s * np.exp(_log_sigma(-s * x))
            d_r[t] += d_x @ q64[nodes]
            for node, g in zip(nodes.tolist(), d_x, strict=True):
                visited[node] = None
                d_q[node] += g * r64[t]
                d_b[node] += g
    nodes = np.array(list(visited), np.int32)
    return Gradients(
        d_r.astype(r.dtype), nodes, d_q[nodes].astype(r.dtype), d_b[nodes].astype(r.dtype)
    )


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
) -> "Step":
    """See `tacenda.kernels.log_bilinear.tree_softmax.step`."""
    from tacenda.kernels.log_bilinear.tree_softmax import Step

    check_accumulators(node_vectors, node_biases, sums, bias_sums)
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
    r, _, q, b = check(vectors, None, codes, node_vectors, node_biases)
    _ = codes.children  # refuses what is no tree
    x = r.astype(np.float64) @ q.astype(np.float64).T + b
    found = np.empty((len(r), codes.n_words))
    for word in range(codes.n_words):
        of_codes = [
            _log_sigma(codes.signs[steps] * x[:, codes.nodes[steps]]).sum(axis=1)
            for steps in _codes_of(word, codes)
        ]
        found[:, word] = np.logaddexp.reduce(of_codes, axis=0)
    return found.astype(r.dtype)
