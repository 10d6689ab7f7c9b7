"""The sums over hidden units on the CPU: products for sixteen words and four contexts at a time.

The factor of a unit is scaled by exp(-m), where m is the middle of the range of log(1 + exp(a + b)) over the words:

    exp(-m) (1 + exp(a + b)) = g + x y,    x = exp(a - c),  y = exp(b + c - m),  g = exp(-m),

with c the middle of the range of a. It then lies between exp(-r) and exp(r), where r, half the range of the
logarithm, is at most half the range of a, whatever b is. As many factors are multiplied as keep their product normal;
then its exponent is added to a sum of integers, and multiplication continues from its mantissa.
"""

import numpy as np

from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.vectors import (
    LANES,
    add,
    add_exponents,
    as_floats,
    load,
    mantissas,
    multiply,
    multiply_add,
    no_sums,
    spread,
    store,
)

_CONTEXTS_AT_ONCE = 4
_LARGEST_NORMAL_LOG = 85.0  # exp of it and of its negative, times a mantissa, is normal in float32
_LN2 = np.float32(np.log(2))
# log of 1 .. 2 as a polynomial of u = 2 mantissa - 3, from -1 to 1: right to one unit in the last place of float32
_LOGARITHM = (
    np.polynomial.chebyshev.Chebyshev.interpolate(lambda u: np.log((u + 3) / 2), 9)
    .convert(kind=np.polynomial.Polynomial)
    .coef[::-1]
    .astype(np.float32)
)


@njit
def _finish(product, exponents, polynomial, ln2, middle, out, place):
    """Write the logarithms of the products to ``out``, plus ``middle``, the logarithm of their scale."""
    exponents = add_exponents(exponents, product)
    u = multiply_add(mantissas(product), spread(np.float32(2)), spread(np.float32(-3)))
    total = spread(polynomial[0])
    for k in range(1, len(polynomial)):
        total = multiply_add(total, u, spread(polynomial[k]))
    total = multiply_add(as_floats(exponents), spread(ln2), total)
    store(add(total, spread(middle)), out, place, LANES)


@njit
def _hidden_sums(panels, y, g, middles, every, polynomial, ln2, out):
    """Fill ``out`` (contexts, words of all panels); the number of rows of y, g and out is a multiple of four."""
    hidden, width = panels.shape[1], out.shape[1]
    for panel in range(len(panels)):
        first = panel * hidden * LANES
        for t in range(0, len(out), _CONTEXTS_AT_ONCE):
            p0 = p1 = p2 = p3 = spread(np.float32(1))
            e0 = e1 = e2 = e3 = no_sums()
            for start in range(0, hidden, every):
                for j in range(start, min(start + every, hidden)):
                    x = load(panels, first + j * LANES, LANES)
                    p0 = multiply(p0, multiply_add(x, spread(y[t, j]), spread(g[t, j])))
                    p1 = multiply(p1, multiply_add(x, spread(y[t + 1, j]), spread(g[t + 1, j])))
                    p2 = multiply(p2, multiply_add(x, spread(y[t + 2, j]), spread(g[t + 2, j])))
                    p3 = multiply(p3, multiply_add(x, spread(y[t + 3, j]), spread(g[t + 3, j])))
                e0, e1 = add_exponents(e0, p0), add_exponents(e1, p1)
                e2, e3 = add_exponents(e2, p2), add_exponents(e3, p3)
                p0, p1, p2, p3 = mantissas(p0), mantissas(p1), mantissas(p2), mantissas(p3)
            place = t * width + panel * LANES
            _finish(p0, e0, polynomial, ln2, middles[t], out, place)
            _finish(p1, e1, polynomial, ln2, middles[t + 1], out, place + width)
            _finish(p2, e2, polynomial, ln2, middles[t + 2], out, place + 2 * width)
            _finish(p3, e3, polynomial, ln2, middles[t + 3], out, place + 3 * width)


def hidden_sums(words, contexts):
    types, (rows, hidden) = len(words.inputs), contexts.shape
    if not len(words.panels):
        raise UnsupportedShape(
            f"{words.inputs.dtype} inputs, or inputs of a hidden unit that are too far apart"
        )
    padded = -(-rows // _CONTEXTS_AT_ONCE) * _CONTEXTS_AT_ONCE
    y, g = np.zeros((padded, hidden), np.float32), np.ones((padded, hidden), np.float32)
    with np.errstate(invalid="ignore"):  # a context that is not finite: its middle has the result
        ends = words.lows, words.highs
        low, high = (np.logaddexp(np.float32(0), contexts + end) for end in ends)
        middle, center = (low + high) / 2, (words.lows + words.highs) / 2
        half_range = float(np.fmax.reduce(high - low, axis=None, initial=0)) / 2
        np.exp(contexts + center - middle, out=y[:rows])
    np.exp(-middle, out=g[:rows])
    middles = np.zeros(padded, np.float32)
    middles[:rows] = middle.sum(axis=1, dtype=np.float64)
    out = np.empty((padded, len(words.panels) * LANES), np.float32)
    # the number of factors whose product is normal
    every = max(1, int(min(_LARGEST_NORMAL_LOG / max(half_range, 1e-3), hidden)))
    _hidden_sums(words.panels, y, g, middles, every, _LOGARITHM, _LN2, out)
    return out[:rows, :types]
