"""The tree softmax on the CPU: token after token, and in a step then node after node.

    -log prod_i sigma(x_i) = sum_i max(-x_i, 0) + log prod_i (1 + exp(-|x_i|))

The factors on the right lie between 1 and 2, so that their product in float64 overflows for no depth below a thousand.
The exponentials of all nodes of a word are one polynomial, computed in vectors (`decay`).
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.log_bilinear.tree_softmax import Codes, Gradients, Step
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.rows import add_rows, multiply_rows
from tacenda.kernels.machinery.threads import in_parts
from tacenda.kernels.machinery.vectors import prefetch
from tacenda.kernels.shared.row_steps import EPSILON

_Array = NDArray[Any]
_NEAR = 1 << 17  # elements of rows, from the root down, that are taken to be in the cache
_HEAD = 64  # elements of a row that are asked for; the processor sees where it is going and fetches the rest
_AHEAD = 4  # nodes
_FAINT = 1e-30  # of probabilities: less is computed in logarithms, as products of float32 may have become zero
_OWN = 16  # visits that the work on a node itself is worth
_CELLS = 1 << 21  # activations of a block of whole distributions: 8 MB


@njit
def _ask_for_nodes(word, heads, steps, nodes, q):  # type: ignore[no-untyped-def]
    """Prefetch the nodes of the next token while this one is worked on, but for those near the root."""
    width = q.shape[1]
    for j in range(steps[heads[word]], steps[heads[word + 1]]):
        if np.int64(nodes[j]) * width >= _NEAR:
            prefetch(q, np.int64(nodes[j]) * width, min(width, _HEAD))


@njit
def _activate(vectors, t, q, b, nodes, first, last, x, powers, e):  # type: ignore[no-untyped-def]
    """Fill x[j] = r_t . q_i + b_i for the nodes i of the steps first .. last, and e with their `decay`."""
    n = last - first
    multiply_rows(vectors, t, q, nodes, first, n, x, 0)
    for j in range(n):
        x[j] += b[nodes[first + j]]
    decay(x[:n], powers[:n], e[:n])


@njit(fastmath={"contract"})
def decay(x, powers, out):  # type: ignore[no-untyped-def]
    """Out = exp(-|x|), NaN for NaN, as 2^n 2^f with a whole number n and |f| <= 1/2.

    A float32 near 1.5 * 2^23 holds whole numbers, in its last bits: adding that constant rounds to n, and leaves n to
    be shifted to where an exponent is. Every loop names one view of ``powers``, int32 like the bits of a float32, so
    that LLVM can do it in vectors.
    """
    scale = powers.view(np.float32)
    for j in range(len(x)):
        t = np.float32(-1.44269504) * abs(x[j])  # to the base 2
        # the least exponent of a normal float32
        t = t if t > np.float32(-126) else np.float32(-126)
        scale[j] = t + np.float32(12582912)
        f = t - (scale[j] - np.float32(12582912))
        p = np.float32(1.535336188319500e-4)  # the expansion of 2^f
        p = p * f + np.float32(1.339887440266574e-3)
        p = p * f + np.float32(9.618437357674640e-3)
        p = p * f + np.float32(5.550332471162809e-2)
        p = p * f + np.float32(2.402264791363012e-1)
        p = p * f + np.float32(6.931472028550421e-1)
        out[j] = p * f + np.float32(1) + np.float32(0) * x[j]  # the last term keeps NaN
    for j in range(len(x)):
        powers[j] = (powers[j] << np.int32(23)) + np.int32(1065353216)  # the bits of 2^n
    for j in range(len(x)):
        out[j] *= scale[j]


@njit
def _log_prob_of(c0, c1, steps, signs, x, e, negatives, products):  # type: ignore[no-untyped-def]
    """Log P of the codes c0 .. c1 together; leaves the two parts of each code's logarithm.

    ``x`` are the activations of the codes' nodes and ``e`` what `decay` makes of them.
    """
    first, least = steps[c0], np.inf
    for c in range(c0, c1):
        s, p = np.float32(0), 1.0
        for j in range(steps[c], steps[c + 1]):
            v = np.float32(signs[j]) * x[j - first]
            s += abs(v) - v  # twice max(-v, 0)
            p *= np.float64(np.float32(1) + e[j - first])
        negatives[c - c0], products[c - c0] = 0.5 * s, p
        least = min(least, negatives[c - c0])
    if c1 - c0 == 1:
        return -least - math.log(products[0])
    # The likeliest code's part is taken out of the sum, so that no exponential overflows.
    total = 0.0
    for c in range(c1 - c0):
        total += math.exp(least - negatives[c]) / products[c]
    return math.log(total) - least


@njit
def _slopes_of(c0, c1, steps, signs, e, negatives, products, log_prob, grad, x):  # type: ignore[no-untyped-def]
    """Turn the activations x into the gradients of ``grad`` log P with respect to them.

    The other arguments are as `_log_prob_of` left them.
    """
    j = 0
    for c in range(c1 - c0):
        share = grad  # of this code in the probability of the word
        if c1 - c0 > 1:
            share *= np.float32(math.exp(-negatives[c] - log_prob) / products[c])
        for i in range(steps[c0 + c], steps[c0 + c + 1]):
            s = np.float32(signs[i])
            above = np.float32(1) if s * x[j] < 0 else e[j]
            x[j] = share * s * above / (np.float32(1) + e[j])
            j += 1


@njit
def _turns(signs, first, n, x, e, right, wrong):  # type: ignore[no-untyped-def]
    """Fill the probabilities of the turns of a word, and those of the other way with the sign of the turn."""
    for j in range(n):
        s = np.float32(signs[first + j])
        likely = np.float32(1) / (np.float32(1) + e[j])
        unlikely = e[j] * likely
        right[j] = likely if s * x[j] > 0 else unlikely
        wrong[j] = s * (unlikely if s * x[j] > 0 else likely)


@njit
def _multiply_turns(c0, c1, steps, right, products):  # type: ignore[no-untyped-def]
    """Fill the probability of each of the codes c0 .. c1; return their sum."""
    total = 0.0
    for c in range(c0, c1):
        product = 1.0
        for j in range(steps[c] - steps[c0], steps[c + 1] - steps[c0]):
            product *= np.float64(right[j])
        products[c - c0] = product
        total += product
    return total


@njit
def _forward(vectors, words, heads, steps, nodes, signs, q, b, most, longest, log_probs):  # type: ignore[no-untyped-def]
    """Fill the log-probabilities, one token after another."""
    x, e = np.empty(longest, np.float32), np.empty(longest, np.float32)
    powers = np.empty(longest, np.int32)
    negatives, products = np.empty(most), np.empty(most)
    for t in range(len(words)):
        if t + 1 < len(words):
            _ask_for_nodes(words[t + 1], heads, steps, nodes, q)
        c0, c1 = heads[words[t]], heads[words[t] + 1]
        _activate(vectors, t, q, b, nodes, steps[c0], steps[c1], x, powers, e)
        log_probs[t] = _log_prob_of(c0, c1, steps, signs, x, e, negatives, products)


@njit
def _visits_of(words, heads, steps, nodes, n_nodes, n_visits):  # type: ignore[no-untyped-def]
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
def _token_steps(  # type: ignore[no-untyped-def]
    vectors, words, heads, steps, nodes, signs, q, b, starts, grad, most, longest, slopes, log_probs, d_r, first, last
):  # fmt: skip
    """Forward and backward of the tokens first .. last in one: ``slopes`` are the gradients of the activations."""
    x, e = np.empty(longest, np.float32), np.empty(longest, np.float32)
    powers = np.empty(longest, np.int32)
    right, wrong = np.empty_like(e), np.empty_like(e)
    negatives, products = np.empty(most), np.empty(most)
    for t in range(first, last):
        if t + 1 < last:
            _ask_for_nodes(words[t + 1], heads, steps, nodes, q)
        c0, c1, place = heads[words[t]], heads[words[t] + 1], starts[t]
        begin, n = steps[c0], starts[t + 1] - place
        _activate(vectors, t, q, b, nodes, begin, begin + n, x, powers, e)
        # P(word) is a sum of products of probabilities, unless these are so small that float32 has lost them.
        _turns(signs, begin, n, x, e, right, wrong)
        total = _multiply_turns(c0, c1, steps, right, products)
        if total < _FAINT:
            log_probs[t] = _log_prob_of(c0, c1, steps, signs, x, e, negatives, products)
            _slopes_of(c0, c1, steps, signs, e, negatives, products, log_probs[t], grad[t], x)
            slopes[place : place + n] = x[:n]
        else:
            log_probs[t] = math.log(total)
            for c in range(c0, c1):
                share = grad[t] * np.float32(products[c - c0] / total)
                for j in range(steps[c] - begin, steps[c + 1] - begin):
                    slopes[place + j] = share * wrong[j]
        # The gradient of the vector, while its nodes are still in the cache.
        d_r[t] = 0
        add_rows(q, nodes, begin, slopes, place, n, d_r, t)


@njit
def _sum_of_node(k, slopes, vectors, begins, tokens, places, weights, gradient):  # type: ignore[no-untyped-def]
    """Fill the gradient of the k-th visited node's vector; return that of its bias."""
    total, n = np.float32(0), begins[k + 1] - begins[k]
    for i in range(n):
        weights[i] = slopes[places[begins[k] + i]]
        total += weights[i]
    gradient[:] = 0
    add_rows(vectors, tokens, begins[k], weights, 0, n, gradient, 0)
    return total


@njit
def _node_gradients(  # type: ignore[no-untyped-def]
    slopes, vectors, visited, begins, tokens, places, longest, d_q, d_b, first, last
):  # fmt: skip
    """Fill the gradients of the visited nodes first .. last."""
    weights, gradient = np.empty(longest, np.float32), np.empty((1, d_q.shape[1]), np.float32)
    for k in range(first, last):
        d_b[k] = _sum_of_node(k, slopes, vectors, begins, tokens, places, weights, gradient)
        d_q[k] = gradient[0]


@njit(fastmath={"contract", "reassoc"})
def _node_steps(  # type: ignore[no-untyped-def]
    slopes, vectors, visited, begins, tokens, places, longest, q, b, sums, bias_sums, rate, epsilon, first, last
):  # fmt: skip
    """AdaGrad on the visited nodes first .. last, each as soon as its gradient is known."""
    width = q.shape[1]
    weights, gradient = np.empty(longest, np.float32), np.empty((1, width), np.float32)
    for k in range(first, last):
        if k + _AHEAD < last:
            prefetch(q, np.int64(visited[k + _AHEAD]) * width, width)
        node = visited[k]
        total = _sum_of_node(k, slopes, vectors, begins, tokens, places, weights, gradient)
        square = np.float32(0)
        for d in range(width):
            square += gradient[0, d] * gradient[0, d]
        sums[node] += square / np.float32(width)
        step = rate / (math.sqrt(sums[node]) + epsilon)
        for d in range(width):
            q[node, d] -= step * gradient[0, d]
        bias_sums[node] += total * total
        b[node] -= rate / (math.sqrt(bias_sums[node]) + epsilon) * total


@njit
def _descend(x, root, children, leaves, found):  # type: ignore[no-untyped-def]
    """found[t, word] = log of the summed probabilities of the word's leaves, from the root down."""
    stack, down = np.empty(len(children) + 1, np.int64), np.empty(len(children))
    for t in range(len(x)):
        total = found[t]
        total[:] = 0
        top, stack[0], down[root] = 1, root, 0.0
        while top:
            top -= 1
            node = stack[top]
            v = np.float64(x[t, node])
            small = math.log1p(math.exp(-abs(v)))
            for side in range(2):
                turned = v if side == 0 else -v
                log_prob = down[node] - small + min(turned, 0.0)
                child = children[node, side]
                if child >= 0:
                    down[child] = log_prob
                    stack[top] = child
                    top += 1
                else:
                    word = leaves[-1 - child]
                    before = total[word]  # 0 where none came before: a log-probability is below
                    if before == 0:
                        total[word] = min(log_prob, -1e-300)
                    else:
                        high, low = max(before, log_prob), min(before, log_prob)
                        total[word] = high + math.log1p(math.exp(low - high))


def _require_single(vectors: _Array) -> None:
    """Leave other dtypes to the reference."""
    if vectors.dtype != np.float32:
        raise UnsupportedShape(f"{vectors.dtype} vectors; float32 is what is compiled")


def forward(
    vectors: _Array, words: _Array, codes: Codes, node_vectors: _Array, node_biases: _Array
) -> NDArray[np.float64]:
    """See `tacenda.kernels.log_bilinear.tree_softmax.forward`."""
    _require_single(vectors)
    log_probs = np.empty(len(words))
    _forward(vectors, words, *codes, node_vectors, node_biases, *codes.most, log_probs)
    return log_probs


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
    """See `tacenda.kernels.log_bilinear.tree_softmax.step`.

    A token's nodes are read once, for its probability and its gradient; then every visited node's gradient is summed
    up beside its vector and taken off at once.
    """
    found, visits = _by_token(vectors, words, codes, node_vectors, node_biases, grad, threads)
    moved = node_vectors, node_biases, sums, bias_sums, np.float32(rate), np.float32(EPSILON)
    _by_node(lambda *span: _node_steps(*visits, *moved, *span), visits, threads)
    return found


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
    found, visits = _by_token(vectors, words, codes, node_vectors, node_biases, grad, threads)
    nodes = visits[2]
    d_q, d_b = (
        np.empty((len(nodes), vectors.shape[1]), np.float32),
        np.empty(len(nodes), np.float32),
    )
    _by_node(lambda *span: _node_gradients(*visits, d_q, d_b, *span), visits, threads)
    order = np.argsort(nodes)
    return Gradients(*found, nodes[order], d_q[order], d_b[order])


def _by_token(
    vectors: _Array, words: _Array, codes: Codes, q: _Array, b: _Array, grad: _Array, threads: int
) -> tuple[Step, tuple[Any, ...]]:
    """Work on all tokens; return what they have found, and the visits of nodes as `_node_steps` takes them."""
    _require_single(vectors)
    # where the steps of each token begin among those of all tokens
    bounds = codes.code_steps[codes.word_codes]
    starts = np.concatenate([[0], np.cumsum(np.diff(bounds)[words])]).astype(np.int64)
    slopes, log_probs = np.empty(starts[-1], np.float32), np.empty(len(words))
    d_r = np.empty_like(vectors)

    def work(first: int, last: int) -> None:
        _token_steps(
            vectors, words, *codes, q, b, starts, grad, *codes.most, slopes, log_probs, d_r, first, last
        )  # fmt: skip

    in_parts(work, len(words), threads)
    visited, *visits = _visits_of(words, *codes[:3], len(q), len(slopes))
    longest = int(np.diff(visits[0]).max(initial=0))
    return Step(log_probs, d_r), (slopes, vectors, visited, *visits, longest)


def _by_node(work: Callable[[int, int], None], visits: tuple[Any, ...], threads: int) -> None:
    """Work on all visited nodes, those from one number to another at a time."""
    begins = visits[3]
    done = begins + _OWN * np.arange(len(begins))
    in_parts(
        lambda first, last: work(*np.searchsorted(done, (first, last))), int(done[-1]), threads
    )


def distribution(
    vectors: _Array, codes: Codes, node_vectors: _Array, node_biases: _Array
) -> _Array:
    """See `tacenda.kernels.log_bilinear.tree_softmax.distribution`.

    One product with all nodes, then down the tree, every node's probability from its parent's.
    """
    _require_single(vectors)
    found = np.empty((len(vectors), codes.n_words), np.float32)
    if not len(codes.nodes):
        found[:] = 0
        return found
    leaves = np.repeat(np.arange(codes.n_words), np.diff(codes.word_codes))
    size = max(1, _CELLS // max(len(node_vectors), 1))
    for i in range(0, len(vectors), size):
        rows = vectors[i : i + size]
        block = np.empty((len(rows), codes.n_words))
        _descend(rows @ node_vectors.T + node_biases, codes.root, codes.children, leaves, block)
        found[i : i + size] = block
    return found
