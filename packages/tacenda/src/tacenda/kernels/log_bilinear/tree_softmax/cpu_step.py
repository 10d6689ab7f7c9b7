"""A step of training on the CPU: a token's nodes are read once, for its probability and its gradient; then every
visited node's gradient is summed up beside its vector and taken off at once.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.log_bilinear.tree_softmax import Step
from tacenda.kernels.log_bilinear.tree_softmax.arguments import (
    check,
    check_accumulators,
    check_grad,
    check_pairs,
    starts,
)
from tacenda.kernels.log_bilinear.tree_softmax.codes import Codes
from tacenda.kernels.log_bilinear.tree_softmax.cpu import single_precision, visits_of
from tacenda.kernels.log_bilinear.tree_softmax.cpu_word import (
    activations,
    decay,
    log_prob_of,
    slopes_of,
)
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.prefetch import prefetch
from tacenda.kernels.machinery.rows import adagrad, mix
from tacenda.kernels.machinery.threads import in_parts

_Array = NDArray[Any]
_NEAR = 1 << 19  # bytes of rows, from the root down, that are taken to be in the cache
_HEAD = 256  # bytes of a row that are asked for; the processor sees where it is going and fetches the rest
_AHEAD = 4  # nodes
_FAINT = 1e-30  # of probabilities: less is computed in logarithms
_OWN = 16  # visits that the work on a node itself is worth


@njit
def _turns(signs, first, n, x, e, right, wrong):  # type: ignore[no-untyped-def]
    """The probabilities of the turns of a word, and those of the other way with the sign of the turn."""
    for j in range(n):
        s = np.float32(signs[first + j])
        likely = np.float32(1) / (np.float32(1) + e[j])
        unlikely = e[j] * likely
        right[j] = likely if s * x[j] > 0 else unlikely
        wrong[j] = s * (unlikely if s * x[j] > 0 else likely)


@njit
def _tokens(  # type: ignore[no-untyped-def]
    vectors, words, heads, steps, nodes, signs, q, b, starts, grad, most, longest, slopes, log_probs, d_r, first, last
):  # fmt: skip
    """Slopes, the gradient by every activation, and d_r, by every vector."""
    x, e = np.zeros(longest + 4, np.float32), np.empty(longest, np.float32)
    right, wrong, powers = np.empty_like(e), np.empty_like(e), np.empty(longest, np.int32)
    negatives, products = np.empty(most), np.empty(most)
    rows, size, width = q.ctypes.data, 4 * q.shape[1], q.shape[1]
    near, head = _NEAR // size, min(size, _HEAD)
    for t in range(first, last):
        if t + 1 < last:
            for j in range(steps[heads[words[t + 1]]], steps[heads[words[t + 1] + 1]]):
                if nodes[j] >= near:
                    prefetch(rows + nodes[j] * size, head)
        c0, c1 = heads[words[t]], heads[words[t] + 1]
        n, begin, place = starts[t + 1] - starts[t], steps[c0], starts[t]
        activations(vectors.ctypes.data + size * t, q, b, nodes, begin, begin + n, x)
        decay(x[:n], powers[:n], e[:n])
        _turns(signs, begin, n, x, e, right, wrong)
        total = 0.0
        for c in range(c0, c1):
            product = 1.0
            for j in range(steps[c] - begin, steps[c + 1] - begin):
                product *= np.float64(right[j])
            products[c - c0] = product
            total += product
        if total < _FAINT:  # factors may have become as small as float32 can tell: by logarithms
            log_probs[t] = log_prob_of(c0, c1, steps, signs, x, e, negatives, products)
            slopes[place : place + n] = x[:n]
            found = slopes[place : place + n]
            slopes_of(c0, c1, steps, signs, e, negatives, products, log_probs[t], grad[t], found)
        else:
            log_probs[t] = math.log(total)
            for c in range(c0, c1):
                share = grad[t] * np.float32(products[c - c0] / total)
                for j in range(steps[c] - begin, steps[c + 1] - begin):
                    slopes[place + j] = share * wrong[j]
        mix(
            d_r.ctypes.data + size * t,
            slopes.ctypes.data + 4 * place,
            rows,
            nodes.ctypes.data + 4 * begin,
            n,
            width,
        )


@njit
def _nodes(  # type: ignore[no-untyped-def]
    d_x, vectors, visited, begins, tokens, places, longest, q, b, sums, bias_sums, rate, epsilon, first, last
):  # fmt: skip
    """AdaGrad on the visited nodes first .. last."""
    weights, gradient = np.empty(longest, np.float32), np.empty(q.shape[1], np.float32)
    rows, size, width = q.ctypes.data, 4 * q.shape[1], q.shape[1]
    for k in range(first, last):
        if k + _AHEAD < last:
            prefetch(rows + visited[k + _AHEAD] * size, size)
        total, node = np.float32(0), visited[k]
        for i in range(begins[k], begins[k + 1]):
            weights[i - begins[k]] = d_x[places[i]]
            total += d_x[places[i]]
        mix(
            gradient.ctypes.data, weights.ctypes.data, vectors.ctypes.data, tokens.ctypes.data + 4 * begins[k],
            begins[k + 1] - begins[k], width,
        )  # fmt: skip
        place = rows + node * size
        adagrad(place, sums.ctypes.data + 4 * node, gradient.ctypes.data, rate, epsilon, width)
        bias_sums[node] += total * total
        b[node] -= rate / (math.sqrt(bias_sums[node]) + epsilon) * total


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
    r, words, q, b = single_precision(check(vectors, words, codes, node_vectors, node_biases))
    check_pairs(r, words)
    check_accumulators(node_vectors, node_biases, sums, bias_sums)
    grad, begins = check_grad(grad, r), starts(words, codes)
    x, log_probs, d_r = np.empty(begins[-1], np.float32), np.empty(len(words)), np.empty_like(r)

    def by_token(first: int, last: int) -> None:
        _tokens(r, words, *codes, q, b, begins, grad, *codes.most, x, log_probs, d_r, first, last)

    in_parts(by_token, len(words), threads)
    heads, steps, nodes, _ = codes
    visited, *visits = visits_of(words, heads, steps, nodes, len(q), len(x))
    work = visits[0] + _OWN * np.arange(len(visits[0]))
    longest = int(np.diff(visits[0]).max(initial=0))

    def by_node(first: int, last: int) -> None:
        _nodes(
            x, r, visited, *visits, longest, q, b, sums, bias_sums, np.float32(rate), np.float32(epsilon),
            *np.searchsorted(work, (first, last)),
        )  # fmt: skip

    in_parts(by_node, int(work[-1]), threads)
    return Step(log_probs, d_r)
