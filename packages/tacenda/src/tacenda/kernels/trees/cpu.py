"""The tree softmax on the CPU: token after token, and in a step then node after node.

    -log prod_i sigma(x_i) = sum_i max(-x_i, 0) + log prod_i (1 + exp(-|x_i|))

The factors on the right are between 1 and 2, so that their product in float64 is finite for codes of 1000 steps.
The exponentials of all nodes of a word are one polynomial, computed in vectors (`_fill_decay`).
"""

import math

import numpy as np

from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.rows import add_rows, exp2_of_fraction, multiply_rows
from tacenda.kernels.machinery.threads import in_parts
from tacenda.kernels.machinery.vectors import prefetch
from tacenda.kernels.shared import EPSILON
from tacenda.kernels.trees import Step

_DEEPEST = 1000  # steps of a code: the product of so many factors between 1 and 2 is finite
_DECLINED = f"only float32 and codes of at most {_DEEPEST} steps are compiled"
#: Of the first rows, those near the root, which are assumed to be in the cache.
_CACHED_NUMBERS = 1 << 17
#: Of a row; then the processor recognizes the sequence and fetches the rest itself.
_PREFETCHED_NUMBERS = 64
_NODES_AHEAD = 4  # rows are prefetched so many nodes earlier
#: Smaller probabilities are computed as logarithms, since their float32 factors may be zero.
_LEAST_PRODUCT = 1e-30
_VISITS_PER_NODE = 16  # the work on a node itself, in visits
_BLOCK_ACTIVATIONS = 1 << 21  # of a block of whole distributions: 8 MB


@njit
def _prefetch_nodes(word, codes, q):
    """Prefetch the nodes of a word that are not near the root."""
    heads, steps, nodes, _ = codes
    width = q.shape[1]
    for j in range(steps[heads[word]], steps[heads[word + 1]]):
        if np.int64(nodes[j]) * width >= _CACHED_NUMBERS:
            prefetch(q, np.int64(nodes[j]) * width, min(width, _PREFETCHED_NUMBERS))


@njit
def _activate(vectors, t, tree, nodes, first, n, scratch):
    """Fill x[j] = r_t . q_i + b_i for the nodes i of n steps from ``first`` on, and e with exp(-|x|)."""
    (q, b), (x, e, powers) = tree, scratch
    multiply_rows(vectors, t, q, nodes, first, n, x, 0)
    for j in range(n):
        x[j] += b[nodes[first + j]]
    _fill_decay(x[:n], powers[:n], e[:n])


@njit(fastmath={"contract"})
def _fill_decay(x, powers, out):
    """Fill out = exp(-|x|), NaN for NaN, as 2^n 2^f with an integer n and |f| <= 1/2.

    float32 numbers near 1.5 * 2^23 are integers: adding that constant rounds to n, and leaves n in the last bits, to be
    shifted to the bits of the exponent. Every loop uses one view of ``powers``, int32 or float32, so that LLVM can
    vectorize it.
    """
    scale = powers.view(np.float32)
    for j in range(len(x)):
        t = np.float32(-1.44269504) * abs(x[j])  # to the base 2
        # the least exponent of a normal float32
        t = t if t > np.float32(-126) else np.float32(-126)
        scale[j] = t + np.float32(12582912)
        f = t - (scale[j] - np.float32(12582912))
        out[j] = exp2_of_fraction(f) + np.float32(0) * x[j]  # the second term keeps NaN
    for j in range(len(x)):
        powers[j] = (powers[j] << np.int32(23)) + np.int32(1065353216)  # the bits of 2^n
    for j in range(len(x)):
        out[j] *= scale[j]


@njit
def _find_log_prob(c0, c1, codes, x, e, parts):
    """Return log P of the codes c0 .. c1 together, and fill the two parts of each code's logarithm.

    ``x`` are the activations of the codes' nodes, and ``e`` is exp(-|x|) of them.
    """
    (_, steps, _, signs), (negatives, products) = codes, parts
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
    # The largest term is factored out of the sum, so that no exponential overflows.
    total = 0.0
    for c in range(c1 - c0):
        total += math.exp(least - negatives[c]) / products[c]
    return math.log(total) - least


@njit
def _fill_slopes(c0, c1, codes, x, e, parts, log_prob, grad):
    """Replace the activations x by the gradients of ``grad`` log P with respect to them.

    The other arguments are those of `_find_log_prob`, after its call.
    """
    (_, steps, _, signs), (negatives, products) = codes, parts
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
def _fill_turns(signs, first, n, x, e, right, wrong):
    """Fill the probabilities of the turns of a word, and those of the opposite turns with the sign of the turn."""
    for j in range(n):
        s = np.float32(signs[first + j])
        likely = np.float32(1) / (np.float32(1) + e[j])
        unlikely = e[j] * likely
        right[j] = likely if s * x[j] > 0 else unlikely
        wrong[j] = s * (unlikely if s * x[j] > 0 else likely)


@njit
def _multiply_turns(c0, c1, steps, right, products):
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
def _fill_log_probs(vectors, words, codes, tree, most, longest, log_probs):
    """Fill the log-probabilities, one token after another."""
    heads, steps, nodes, _ = codes
    x, e = np.empty(longest, np.float32), np.empty(longest, np.float32)
    powers, parts = np.empty(longest, np.int32), (np.empty(most), np.empty(most))
    for t in range(len(words)):
        if t + 1 < len(words):
            _prefetch_nodes(words[t + 1], codes, tree[0])
        c0, c1 = heads[words[t]], heads[words[t] + 1]
        _activate(vectors, t, tree, nodes, steps[c0], steps[c1] - steps[c0], (x, e, powers))
        log_probs[t] = _find_log_prob(c0, c1, codes, x, e, parts)


@njit
def _list_visits(words, heads, steps, nodes, n_nodes, n_visits):
    """Return the visited nodes, in the order of first visit, and the offsets, tokens and slopes of their visits."""
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
def _score_tokens(tokens, codes, tree, most, longest, results, first, last):
    """Run the forward and backward pass of the tokens first .. last; ``slopes`` are gradients of the activations."""
    vectors, words, starts, grad = tokens
    heads, steps, nodes, signs = codes
    slopes, log_probs, d_r = results
    x, e = np.empty(longest, np.float32), np.empty(longest, np.float32)
    powers = np.empty(longest, np.int32)
    right, wrong = np.empty_like(e), np.empty_like(e)
    parts = np.empty(most), np.empty(most)
    products = parts[1]
    for t in range(first, last):
        if t + 1 < last:
            _prefetch_nodes(words[t + 1], codes, tree[0])
        c0, c1, place = heads[words[t]], heads[words[t] + 1], starts[t]
        begin, n = steps[c0], starts[t + 1] - place
        _activate(vectors, t, tree, nodes, begin, n, (x, e, powers))
        # P(word) is a sum of products of probabilities, unless these are too small for float32.
        _fill_turns(signs, begin, n, x, e, right, wrong)
        total = _multiply_turns(c0, c1, steps, right, products)
        if total < _LEAST_PRODUCT:
            log_probs[t] = _find_log_prob(c0, c1, codes, x, e, parts)
            _fill_slopes(c0, c1, codes, x, e, parts, log_probs[t], grad[t])
            slopes[place : place + n] = x[:n]
        else:
            log_probs[t] = math.log(total)
            for c in range(c0, c1):
                share = grad[t] * np.float32(products[c - c0] / total)
                for j in range(steps[c] - begin, steps[c + 1] - begin):
                    slopes[place + j] = share * wrong[j]
        # The gradient of the vector, while its nodes are still in the cache.
        d_r[t] = 0
        add_rows(tree[0], nodes, begin, slopes, place, n, d_r, t)


@njit
def _sum_gradients(k, visits, weights, gradient):
    """Fill the gradient of the k-th visited node's vector; return the gradient of its bias."""
    slopes, vectors, begins, tokens, places = visits
    total, n = np.float32(0), begins[k + 1] - begins[k]
    for i in range(n):
        weights[i] = slopes[places[begins[k] + i]]
        total += weights[i]
    gradient[:] = 0
    add_rows(vectors, tokens, begins[k], weights, 0, n, gradient, 0)
    return total


@njit(fastmath={"contract", "reassoc"})
def _step_nodes(tree, both_sums, rate, epsilon, shares, visits, first, last):
    """Step the visited nodes of a share of the work by AdaGrad, each as soon as its gradient is known."""
    (q, b), (sums, bias_sums), (visited, longest, work) = tree, both_sums, shares
    first, last = np.searchsorted(work, first), np.searchsorted(work, last)
    width = q.shape[1]
    weights, gradient = np.empty(longest, np.float32), np.empty((1, width), np.float32)
    for k in range(first, last):
        if k + _NODES_AHEAD < last:
            prefetch(q, np.int64(visited[k + _NODES_AHEAD]) * width, width)
        node = visited[k]
        total = _sum_gradients(k, visits, weights, gradient)
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
def _descend(x, root, children, leaves, log_probs):
    """Fill log_probs[t, word] with the logarithm of the probabilities of the word's leaves, from the root down."""
    stack, down = np.empty(len(children) + 1, np.int64), np.empty(len(children))
    for t in range(len(x)):
        total = log_probs[t]
        total[:] = -np.inf
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
                    before = total[word]
                    if before == -np.inf:
                        total[word] = log_prob
                    else:
                        high, low = max(before, log_prob), min(before, log_prob)
                        total[word] = high + math.log1p(math.exp(low - high))


def tree_softmax(vectors, words, codes, nodes):
    if vectors.dtype != np.float32 or codes.most[2] > _DEEPEST:
        raise UnsupportedShape(_DECLINED)
    log_probs = np.empty(len(words))
    _fill_log_probs(vectors, words, codes.arrays, tuple(nodes), *codes.most[:2], log_probs)
    return log_probs


def tree_softmax_step(vectors, words, codes, nodes, grad, sums, rate, threads):
    if vectors.dtype != np.float32 or codes.most[2] > _DEEPEST:
        raise UnsupportedShape(_DECLINED)
    # the first step of each token among the steps of all tokens
    bounds = codes.code_steps[codes.word_codes]
    starts = np.concatenate([[0], np.cumsum(np.diff(bounds)[words])]).astype(np.int64)
    slopes, log_probs = np.empty(starts[-1], np.float32), np.empty(len(words))
    d_r = np.empty_like(vectors)
    tokens, results = (vectors, words, starts, grad), (slopes, log_probs, d_r)
    arguments = tokens, codes.arrays, tuple(nodes), *codes.most[:2], results
    in_parts(_score_tokens, len(words), threads, *arguments)
    visited, begins, owners, places = _list_visits(
        words, *codes.arrays[:3], len(nodes.vectors), len(slopes)
    )
    longest = int(np.diff(begins).max(initial=0))
    work = begins + _VISITS_PER_NODE * np.arange(len(begins))  # on all nodes before each
    shares, visits = (visited, longest, work), (slopes, vectors, begins, owners, places)
    step = tuple(nodes), tuple(sums), np.float32(rate), np.float32(EPSILON)
    in_parts(_step_nodes, work[-1], threads, *step, shares, visits)
    return Step(log_probs, d_r)


def tree_softmax_distribution(vectors, codes, nodes):
    node_vectors, node_biases = nodes
    if vectors.dtype != np.float32:
        raise UnsupportedShape(_DECLINED)
    log_probs = np.empty((len(vectors), codes.n_words), np.float32)
    if not len(codes.nodes):
        log_probs[:] = 0
        return log_probs
    leaves = np.repeat(np.arange(codes.n_words), np.diff(codes.word_codes))
    size = max(1, _BLOCK_ACTIVATIONS // max(len(node_vectors), 1))
    for i in range(0, len(vectors), size):
        rows = vectors[i : i + size]
        block = np.empty((len(rows), codes.n_words))
        _descend(rows @ node_vectors.T + node_biases, codes.root, codes.children, leaves, block)
        log_probs[i : i + size] = block
    return log_probs
