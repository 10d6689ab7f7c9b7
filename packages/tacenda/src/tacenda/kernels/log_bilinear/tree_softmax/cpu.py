"""The tree softmax on the CPU: word after word, and backward then node after node."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.log_bilinear.tree_softmax import Forward, Gradients
from tacenda.kernels.log_bilinear.tree_softmax.arguments import (
    Checked,
    check,
    check_grad,
    check_pairs,
    starts,
)
from tacenda.kernels.log_bilinear.tree_softmax.codes import Codes
from tacenda.kernels.log_bilinear.tree_softmax.cpu_word import (
    activations,
    decay,
    log_prob_of,
    slopes_of,
)
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.rows import mix
from tacenda.kernels.machinery.threads import in_parts

_Array = NDArray[Any]


@njit
def _forward(  # type: ignore[no-untyped-def]
    vectors,
    words,
    heads,
    steps,
    nodes,
    signs,
    q,
    b,
    starts,
    x,
    log_probs,
    most,
    longest,
    first,
    last,
):
    e, powers = np.empty(longest, np.float32), np.empty(longest, np.int32)
    negatives, products, found = np.empty(most), np.empty(most), np.empty(longest + 4, np.float32)
    for t in range(first, last):
        c0, c1 = heads[words[t]], heads[words[t] + 1]
        n = starts[t + 1] - starts[t]
        of_word = x[starts[t] : starts[t + 1]]
        activations(
            vectors.ctypes.data + 4 * q.shape[1] * t, q, b, nodes, steps[c0], steps[c1], found
        )
        of_word[:] = found[:n]
        decay(of_word, powers[:n], e[:n])
        log_probs[t] = log_prob_of(c0, c1, steps, signs, of_word, e, negatives, products)


@njit
def _backward(  # type: ignore[no-untyped-def]
    words,
    heads,
    steps,
    nodes,
    signs,
    q,
    starts,
    x,
    log_probs,
    grad,
    most,
    longest,
    d_x,
    d_r,
    first,
    last,
):
    """d_x = the gradient by every activation, d_r by every vector."""
    e, powers = np.empty(longest, np.float32), np.empty(longest, np.int32)
    negatives, products = np.empty(most), np.empty(most)
    for t in range(first, last):
        c0, c1 = heads[words[t]], heads[words[t] + 1]
        n = starts[t + 1] - starts[t]
        found = d_x[starts[t] : starts[t + 1]]
        found[:] = x[starts[t] : starts[t + 1]]
        decay(found, powers[:n], e[:n])
        log_prob = log_prob_of(c0, c1, steps, signs, found, e, negatives, products)
        slopes_of(c0, c1, steps, signs, e, negatives, products, log_prob, grad[t], found)
        mix(
            d_r.ctypes.data + 4 * d_r.shape[1] * t, d_x.ctypes.data + 4 * starts[t], q.ctypes.data,
            nodes.ctypes.data + 4 * steps[c0], n, q.shape[1],
        )  # fmt: skip


@njit
def visits_of(words, heads, steps, nodes, n_nodes, n_visits):  # type: ignore[no-untyped-def]
    """Visited nodes in the order of first visit; of each the tokens and places of d_x, in order."""
    slot = np.full(n_nodes, -1, np.int32)
    visited, counts = np.empty(n_nodes, np.int32), np.zeros(n_nodes + 1, np.int64)
    n = 0
    for t in range(len(words)):
        for i in range(steps[heads[words[t]]], steps[heads[words[t] + 1]]):
            node = nodes[i]
            if slot[node] < 0:
                slot[node] = n
                visited[n] = node
                n += 1
            counts[slot[node] + 1] += 1
    begins = np.cumsum(counts[: n + 1])
    following = begins[:n].copy()
    tokens, places = np.empty(n_visits, np.int32), np.empty(n_visits, np.int32)
    place = 0
    for t in range(len(words)):
        for i in range(steps[heads[words[t]]], steps[heads[words[t] + 1]]):
            k = slot[nodes[i]]
            tokens[following[k]], places[following[k]] = t, place
            following[k] += 1
            place += 1
    return visited[:n].copy(), begins, tokens, places


@njit
def _gather(d_x, vectors, begins, tokens, places, d_q, d_b, longest, first, last):  # type: ignore[no-untyped-def]
    """d_q, d_b of the visited nodes first .. last."""
    weights = np.empty(longest, np.float32)
    for k in range(first, last):
        total = np.float32(0)
        for i in range(begins[k], begins[k + 1]):
            weights[i - begins[k]] = d_x[places[i]]
            total += d_x[places[i]]
        d_b[k] = total
        mix(
            d_q.ctypes.data + 4 * d_q.shape[1] * k, weights.ctypes.data, vectors.ctypes.data,
            tokens.ctypes.data + 4 * begins[k], begins[k + 1] - begins[k], vectors.shape[1],
        )  # fmt: skip


def forward(
    vectors: _Array,
    words: _Array,
    codes: Codes,
    node_vectors: _Array,
    node_biases: _Array,
    threads: int = 1,
) -> Forward:
    """See `tacenda.kernels.log_bilinear.tree_softmax.forward`."""
    r, words, q, b = single_precision(check(vectors, words, codes, node_vectors, node_biases))
    check_pairs(r, words)
    begins = starts(words, codes)
    x, log_probs = np.empty(begins[-1], np.float32), np.empty(len(words))

    def work(first: int, last: int) -> None:
        _forward(r, words, *codes, q, b, begins, x, log_probs, *codes.most, first, last)

    in_parts(work, len(words), threads)
    return Forward(log_probs, begins, x)


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
    r, words, q, _ = single_precision(check(vectors, words, codes, node_vectors, node_biases))
    check_pairs(r, words)
    grad = check_grad(grad, r)
    d_x, d_r = np.empty_like(found.activations), np.empty_like(r)

    def by_token(first: int, last: int) -> None:
        _backward(
            words, *codes, q, found.starts, found.activations, found.log_probs, grad, *codes.most,
            d_x, d_r, first, last,
        )  # fmt: skip

    in_parts(by_token, len(words), threads)
    heads, steps, nodes, _ = codes
    visited, *visits = visits_of(words, heads, steps, nodes, len(q), len(d_x))
    d_q, d_b = np.empty((len(visited), r.shape[1]), np.float32), np.empty(len(visited), np.float32)
    longest = int(np.diff(visits[0]).max(initial=0))

    def by_node(first: int, last: int) -> None:
        _gather(d_x, r, *visits, d_q, d_b, longest, first, last)

    in_parts(by_node, len(visited), threads)
    return Gradients(d_r, visited, d_q, d_b)


def single_precision(checked: Checked) -> Checked:
    """The arguments, if they are float32."""
    if checked.vectors.dtype != np.float32:
        raise UnsupportedShape(f"{checked.vectors.dtype} vectors; float32 is what is compiled")
    return checked
