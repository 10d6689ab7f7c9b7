"""Restricted Boltzmann machines on the CPU, on one thread.

Contrastive divergence, case by case: a step of `boltzmann_descent` shrinks the parameters of all units. Those of units
that the case has not rated are shrunk later, when they are needed, for all steps since then at once.

Free energies: products for sixteen words and four contexts at a time. The factor of a unit is scaled by exp(-m), where
m is the middle of the range of log(1 + exp(a + b)) over the words:

    exp(-m) (1 + exp(a + b)) = g + x y,    x = exp(a - c),  y = exp(b + c - m),  g = exp(-m),

with c the middle of the range of a. It then lies between exp(-r) and exp(r), where r, half the range of the
logarithm, is at most half the range of a, whatever b is. As many factors are multiplied as keep their product normal;
then its exponent is added to a sum of integers, and multiplication continues from its mantissa.
"""

import numpy as np

from tacenda.kernels.boltzmann import Divergence, Expected
from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.machinery import xorshift
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.rows import add_scaled, dot
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
    prefetch,
    spread,
    store,
)

_seed_state, _advance = njit(xorshift.seed_state), njit(xorshift.advance)
_to_uniform = njit(xorshift.to_uniform)
_PAIRS_AHEAD = 4  # rows are prefetched so many pairs earlier

# -- contrastive divergence --------------------------------------------------------------------------


def boltzmann_divergence(cases, chosen, machine, seed):
    parts, tied = _split_levels(machine), machine.weights.ndim == 2
    gradients = tuple(np.zeros_like(part) for part in parts[:4])
    error = _sum_gradients(tuple(cases), chosen, parts, xorshift.wrap_seed(seed), tied, gradients)
    return Divergence(float(error), gradients[0].reshape(machine.weights.shape), *gradients[1:])


def boltzmann_descent(cases, chosen, machine, seed, descent):
    parts, tied = _split_levels(machine), machine.weights.ndim == 2
    numbers = xorshift.wrap_seed(seed), tied, tuple(descent)
    return float(_descend(tuple(cases), chosen, parts, *numbers))


def _split_levels(machine):
    """Return the parts of a machine, with weights (visible, levels, hidden); tied weights have one level."""
    W = machine.weights
    return W[:, None] if W.ndim == 2 else W, *machine[1:]


def boltzmann_expectations(visible, cases, weights, b, p, s, o):
    W = weights[:, None] if weights.ndim == 2 else weights
    chances = np.empty((len(visible), len(s)), np.float32)
    means = np.empty(len(visible), np.float32)
    _expect(visible, cases, (W, b, p, s, o), weights.ndim == 2, chances, means)
    return Expected(chances, means)


@njit
def _add_both(scale, x, other_scale, other, y):
    """Add scale x and other_scale other to y."""
    for j in range(len(x)):
        y[j] += scale * x[j] + other_scale * other[j]


@njit
def _squash(x):
    """Replace x by the logistic function of x."""
    for j in range(len(x)):
        x[j] = np.float32(1) / (np.float32(1) + np.exp(-x[j]))


@njit
def _fill_logits(tied, W, b, s, slope, h, logits):
    """Fill the logits of the levels of one visible unit."""
    along = slope + dot(W[0], h) if tied else slope
    for k in range(len(s)):
        logits[k] = b[k] + s[k] * along
        if not tied:
            logits[k] += dot(W[k], h)


@njit
def _exponentiate(x, s):
    """Replace logits by unnormalized probabilities; return their sum, and the mean score."""
    highest = np.float32(-np.inf)
    for k in range(len(x)):
        highest = max(highest, x[k])
    total, mean = np.float32(0), np.float32(0)
    for k in range(len(x)):
        x[k] = np.exp(x[k] - highest)
        total += x[k]
        mean += s[k] * x[k]
    return total, mean / total


@njit
def _draw_level(u, parts):
    """Return the level whose part of [0, sum of parts) contains u, without a branch that cannot be predicted."""
    k, reached = 0, np.float32(0)
    for at in range(len(parts) - 1):
        reached += parts[at]
        k += u > reached
    return k


@njit
def _make_scratch(offsets, cases, hidden, K):
    """Make the buffers of `_sample`: four vectors of hidden units, and levels and chances for the longest case."""
    longest = 0
    for c in cases:
        longest = max(longest, offsets[c + 1] - offsets[c])
    units = np.empty((4, hidden), np.float32)
    return units, np.empty(longest, np.int64), np.empty((longest, K), np.float32)


@njit
def _sample(c, cases, machine, seed, tied, scratch):
    """Take a step of Gibbs sampling for case c; return its error.

    Leaves in ``scratch`` the probabilities of the hidden units given the ratings and given the sampled levels, and
    these levels.
    """
    units, sampled, parts = scratch
    data, p, bias, h = units[0], units[1], units[2], units[3]
    offsets, ids, levels, slopes, side_offsets, side_ids = cases
    W, b, d, U, s = machine
    start, n = offsets[c], offsets[c + 1] - offsets[c]
    state, error = _seed_state(seed, np.uint64(c)), 0.0
    # The hidden units' biases, with those of the case's identities.
    bias[:] = d
    for q in range(side_offsets[c], side_offsets[c + 1]):
        add_scaled(np.float32(1), U[side_ids[q]], bias)
    # The positive phase: probabilities of the hidden units, given the ratings.
    data[:] = bias
    for i in range(n):
        r = levels[start + i]
        add_scaled(s[r] if tied else np.float32(1), W[ids[start + i], 0 if tied else r], data)
    _squash(data)
    # The negative phase: hidden states, levels given these, and probabilities given the levels.
    for j in range(len(h)):
        state = _advance(state)
        h[j] = np.float32(1) if _to_uniform(state) < data[j] else np.float32(0)
    # Separate loops are faster: in the first, no draw keeps the processor from reading the rows of later units.
    for i in range(n):
        m = ids[start + i]
        _fill_logits(tied, W[m], b[m], s, slopes[c], h, parts[i])
    for i in range(n):
        total, mean = _exponentiate(parts[i], s)
        error += np.float64(mean - s[levels[start + i]]) ** 2
        state = _advance(state)
        sampled[i] = _draw_level(_to_uniform(state) * total, parts[i])
    p[:] = bias
    for i in range(n):
        k = sampled[i]
        add_scaled(s[k] if tied else np.float32(1), W[ids[start + i], 0 if tied else k], p)
    _squash(p)
    return error


@njit
def _add_gradients(c, cases, s, tied, scratch, rates, tables):
    """Add to W, b and U their gradients, the positive phase minus the negative phase, times the rates.

    Leaves the difference of the hidden units' probabilities in ``scratch``. Tied weights are scaled by the score.
    """
    units, sampled, _ = scratch
    data, p = units[0], units[1]
    offsets, ids, levels, _, side_offsets, side_ids = cases
    rate, bias_rate, side_rate = rates
    W, b, U = tables
    start = offsets[c]
    for i in range(offsets[c + 1] - start):
        m, r, k = ids[start + i], levels[start + i], sampled[i]
        b[m, r] += bias_rate
        b[m, k] -= bias_rate
        if tied:
            _add_both(rate * s[r], data, -rate * s[k], p, W[m, 0])
        else:
            add_scaled(rate, data, W[m, r])
            add_scaled(-rate, p, W[m, k])
    for j in range(len(data)):
        data[j] -= p[j]
    for q in range(side_offsets[c], side_offsets[c + 1]):
        add_scaled(side_rate, data, U[side_ids[q]])


@njit
def _sum_gradients(cases, chosen, machine, seed, tied, gradients):
    """Add the cases' gradients to those of W, b, d and U; return the error."""
    d_W, d_b, d_d, d_U = gradients
    s, one = machine[4], np.float32(1)
    scratch = _make_scratch(cases[0], chosen, len(d_d), len(s))
    error = 0.0
    for c in chosen:
        error += _sample(c, cases, machine, seed, tied, scratch)
        _add_gradients(c, cases, s, tied, scratch, (one, one, one), (d_W, d_b, d_U))
        add_scaled(one, scratch[0][0], d_d)
    return error


@njit
def _shrink(keep, step, m, done, x):
    """Apply to row m of x the penalties of the steps from ``done[m]`` to ``step``."""
    missed = step - done[m]
    if missed:
        row, factor = x[m].ravel(), keep**missed
        for j in range(len(row)):
            row[j] = np.float32(factor * row[j])
        done[m] = step


@njit
def _descend(cases, chosen, machine, seed, tied, descent):
    """Step after every case; return the error."""
    W, b, d, U, s = machine
    offsets, ids, _, _, side_offsets, side_ids = cases
    rate, bias_rate, penalty, bias_penalty, side_penalty = descent
    scratch = _make_scratch(offsets, chosen, len(d), len(s))
    keep = 1 - rate * penalty
    keep_biases = 1 - bias_rate * bias_penalty
    keep_sides = 1 - rate * side_penalty
    # The penalty of a step is applied when a row is needed next, and must not shrink the gradient added in the step.
    rates = (
        np.float32(rate / keep),
        np.float32(bias_rate / keep_biases),
        np.float32(rate / keep_sides),
    )
    done_W, done_b = np.zeros(len(W), np.int64), np.zeros(len(b), np.int64)
    done_U = np.zeros(len(U), np.int64)
    exact = d.astype(np.float64)  # penalties may be below the rounding of float32
    error = 0.0
    for step in range(len(chosen)):
        c = chosen[step]
        for i in range(offsets[c], offsets[c + 1]):
            _shrink(keep, step, ids[i], done_W, W)
            _shrink(keep_biases, step, ids[i], done_b, b)
        for q in range(side_offsets[c], side_offsets[c + 1]):
            _shrink(keep_sides, step, side_ids[q], done_U, U)
        error += _sample(c, cases, machine, seed, tied, scratch)
        _add_gradients(c, cases, s, tied, scratch, rates, (W, b, U))
        for j in range(len(d)):
            exact[j] = keep_biases * exact[j] + bias_rate * scratch[0][0, j]
            d[j] = np.float32(exact[j])
    for m in range(len(W)):
        _shrink(keep, len(chosen), m, done_W, W)
        _shrink(keep_biases, len(chosen), m, done_b, b)
    for m in range(len(U)):
        _shrink(keep_sides, len(chosen), m, done_U, U)
    return error


@njit
def _expect(visible, cases, machine, tied, chances, means):
    """Fill chances and means; -1 is the last row of a table."""
    W, b, p, s, o = machine
    w_size, p_size = W.shape[1] * W.shape[2], p.shape[1]
    for n in range(len(visible)):
        if n + _PAIRS_AHEAD < len(visible):
            m, c = visible[n + _PAIRS_AHEAD], cases[n + _PAIRS_AHEAD]
            prefetch(W, np.int64(m if m >= 0 else len(W) - 1) * w_size, w_size)
            prefetch(p, np.int64(c if c >= 0 else len(p) - 1) * p_size, p_size)
        m, c = visible[n], cases[n]
        m = m if m >= 0 else len(W) - 1
        c = c if c >= 0 else len(p) - 1
        _fill_logits(tied, W[m], b[m], s, o[c], p[c], chances[n])
        total, means[n] = _exponentiate(chances[n], s)
        chances[n] /= total


# -- free energies -----------------------------------------------------------------------------------

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
