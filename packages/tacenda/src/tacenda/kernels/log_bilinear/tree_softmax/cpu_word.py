"""One word of the tree softmax on the CPU: the activations of its nodes, its probability, the slopes.

    -log prod_i sigma(x_i) = sum_i max(-x_i, 0) + log prod_i (1 + exp(-|x_i|))

whose factors lie between 1 and 2, so that their product in float64 overflows for no depth below a thousand. The
exponentials of a word's nodes are a polynomial, computed side by side.
"""

import math

import numpy as np

from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.rows import four_dots


@njit
def activations(x, q, b, nodes, first, last, out):  # type: ignore[no-untyped-def]
    """out[j] = x . q[node] + b[node] for the steps first .. last and up to three more; x is an address."""
    size, width, table, place = 4 * q.shape[1], q.shape[1], q.ctypes.data, out.ctypes.data
    for j in range(first, last, 4):
        j1, j2, j3 = min(j + 1, last - 1), min(j + 2, last - 1), min(j + 3, last - 1)
        four_dots(
            x, width, table + nodes[j] * size, table + nodes[j1] * size, table + nodes[j2] * size,
            table + nodes[j3] * size, place + 4 * (j - first),
        )  # fmt: skip
    for j in range(first, last):
        out[j - first] += b[nodes[j]]


@njit(fastmath={"contract"})
def decay(x, powers, out):  # type: ignore[no-untyped-def]
    """Out = exp(-|x|), NaN for NaN: 2^f by its expansion, 2^n by its bits.

    A float32 near 1.5 * 2^23 holds whole numbers, in its last bits: that rounds, and gives n to be shifted to
    where an exponent is. Every loop names one view of ``powers``, so that it can be done in vectors.
    """
    scale = powers.view(np.float32)
    for j in range(len(x)):
        t = np.float32(-1.44269504) * abs(x[j])
        t = t if t > np.float32(-126) else np.float32(-126)
        scale[j] = t + np.float32(12582912)
        f = t - (scale[j] - np.float32(12582912))
        p = np.float32(1.535336188319500e-4)
        p = p * f + np.float32(1.339887440266574e-3)
        p = p * f + np.float32(9.618437357674640e-3)
        p = p * f + np.float32(5.550332471162809e-2)
        p = p * f + np.float32(2.402264791363012e-1)
        p = p * f + np.float32(6.931472028550421e-1)
        out[j] = p * f + np.float32(1) + np.float32(0) * x[j]
    for j in range(len(x)):
        powers[j] = (powers[j] << np.int32(23)) + np.int32(1065353216)
    for j in range(len(x)):
        out[j] *= scale[j]


@njit
def log_prob_of(c0, c1, steps, signs, x, e, negatives, products):  # type: ignore[no-untyped-def]
    """Log P of the codes c0 .. c1 together; leaves the two parts of each code's logarithm."""
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
    total = 0.0
    for c in range(c1 - c0):
        total += math.exp(least - negatives[c]) / products[c]
    return math.log(total) - least


@njit
def slopes_of(c0, c1, steps, signs, e, negatives, products, log_prob, grad, x):  # type: ignore[no-untyped-def]
    """X, the activations, become gradients by them of ``grad`` times log P; the others as `log_prob_of` left them."""
    j = 0
    for c in range(c1 - c0):
        share = grad
        if c1 - c0 > 1:
            share *= np.float32(math.exp(-negatives[c] - log_prob) / products[c])
        for i in range(steps[c0 + c], steps[c0 + c + 1]):
            s = np.float32(signs[i])
            above = np.float32(1) if s * x[j] < 0 else e[j]
            x[j] = share * s * above / (np.float32(1) + e[j])
            j += 1
