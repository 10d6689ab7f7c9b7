"""Contrastive divergence on the CPU: one thread, reading the weights of a case's units as they come.

A step of `descend` makes the parameters of all units smaller. Those of a unit that the case does not have are left
alone until they are needed, when the steps they have missed are made up for together.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.vectors import prefetch
from tacenda.kernels.ratings import xorshift
from tacenda.kernels.ratings.boltzmann import Descent, Divergence, Expected

_Array = NDArray[Any]
_REORDERED = {"contract", "reassoc", "nsz"}
_AHEAD = 4  # pairs whose rows are asked for beforehand

_seeded, _next = njit(xorshift.seeded), njit(xorshift.advanced)
_uniform = njit(xorshift.uniform)


def divergence(
    offsets: _Array,
    ids: _Array,
    levels: _Array,
    cases: _Array,
    weights: _Array,
    b: _Array,
    d: _Array,
    U: _Array,
    s: _Array,
    o: _Array,
    steps: int,
    seed: int,
    side_offsets: _Array,
    side_ids: _Array,
    chains: _Array | None,
) -> Divergence:
    """See `tacenda.kernels.ratings.boltzmann.divergence`."""
    W = weights.reshape(len(weights), -1, len(d))  # tied weights have one level
    gradients = [np.zeros_like(part) for part in (W, b, d, U)]
    own = np.empty((0, len(d)), np.float32) if chains is None else chains
    error = _divergence(
        offsets, ids, levels, cases, W, b, d, U, s, o, steps, np.uint64(seed), side_offsets,
        side_ids, own, weights.ndim == 2, *gradients,
    )  # fmt: skip
    return Divergence(float(error), gradients[0].reshape(weights.shape), *gradients[1:])


def descend(
    offsets: _Array,
    ids: _Array,
    levels: _Array,
    cases: _Array,
    weights: _Array,
    b: _Array,
    d: _Array,
    U: _Array,
    s: _Array,
    o: _Array,
    steps: int,
    seed: int,
    descent: Descent,
    side_offsets: _Array,
    side_ids: _Array,
    chains: _Array | None,
) -> float:
    """See `tacenda.kernels.ratings.boltzmann.descend`."""
    W = weights.reshape(len(weights), -1, len(d))
    own = np.empty((0, len(d)), np.float32) if chains is None else chains
    error = _descend(
        offsets, ids, levels, cases, W, b, d, U, s, o, steps, np.uint64(seed), side_offsets,
        side_ids, own, weights.ndim == 2, *map(float, descent),
    )  # fmt: skip
    return float(error)


def expect(
    visible: _Array, cases: _Array, weights: _Array, b: _Array, p: _Array, s: _Array, o: _Array
) -> Expected:
    """See `tacenda.kernels.ratings.boltzmann.expect`."""
    W = weights.reshape(len(weights), -1, p.shape[1])
    chances = np.empty((len(visible), len(s)), np.float32)
    means = np.empty(len(visible), np.float32)
    _expect(visible, cases, W, b, p, s, o, weights.ndim == 2, chances, means)
    return Expected(chances, means)


@njit(fastmath=_REORDERED)
def _dot(x, y):  # type: ignore[no-untyped-def]
    """The inner product, in float32."""
    total = np.float32(0)
    for j in range(len(x)):
        total += x[j] * y[j]
    return total


@njit
def _add(scale, x, y):  # type: ignore[no-untyped-def]
    """Add scale x to y."""
    for j in range(len(x)):
        y[j] += scale * x[j]


@njit
def _add_both(scale, x, other_scale, other, y):  # type: ignore[no-untyped-def]
    """Add scale x and other_scale other to y."""
    for j in range(len(x)):
        y[j] += scale * x[j] + other_scale * other[j]


@njit
def _squash(x):  # type: ignore[no-untyped-def]
    """Replace x by the logistic function of it."""
    for j in range(len(x)):
        x[j] = np.float32(1) / (np.float32(1) + np.exp(-x[j]))


@njit
def _logits(tied, W, b, s, slope, h, logits):  # type: ignore[no-untyped-def]
    """Fill the logits of the levels of one visible unit."""
    along = slope + _dot(W[0], h) if tied else slope
    for k in range(len(s)):
        logits[k] = b[k] + s[k] * along
        if not tied:
            logits[k] += _dot(W[k], h)


@njit
def _exponentials(x, s):  # type: ignore[no-untyped-def]
    """Replace logits by what the probabilities are proportional to; return their sum, and their mean score."""
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
def _draw(u, parts):  # type: ignore[no-untyped-def]
    """The level that the number u falls on, in [0, sum of parts); without a branch that could not be foreseen."""
    k, reached = 0, np.float32(0)
    for at in range(len(parts) - 1):
        reached += parts[at]
        k += u > reached
    return k


@njit
def _scratch(offsets, cases, hidden, K):  # type: ignore[no-untyped-def]
    """What `_recall` works with: four vectors of hidden units, and levels and their chances of the longest case."""
    longest = 0
    for c in cases:
        longest = max(longest, offsets[c + 1] - offsets[c])
    units = np.empty((4, hidden), np.float32)
    return units, np.empty(longest, np.int64), np.empty((longest, K), np.float32)


@njit
def _recall(  # type: ignore[no-untyped-def]
    c, offsets, ids, levels, W, b, d, U, s, o, steps, seed, side_offsets, side_ids, chains, tied, scratch,
    error,
):  # fmt: skip
    """Run the Gibbs chain of case c; return ``error`` with its own added.

    Leaves in ``scratch`` what the data say of the hidden units, what is recalled of them, and the levels recalled.
    """
    units, recalled, parts = scratch
    data, p, bias, h = units[0], units[1], units[2], units[3]
    start, n = offsets[c], offsets[c + 1] - offsets[c]
    state = _seeded(seed, np.uint64(c))
    # The hidden units' biases, with those of the case's identities.
    bias[:] = d
    for q in range(side_offsets[c], side_offsets[c + 1]):
        _add(np.float32(1), U[side_ids[q]], bias)
    # The positive phase: probabilities of the hidden units, given the ratings.
    p[:] = bias
    for i in range(n):
        r = levels[start + i]
        _add(s[r] if tied else np.float32(1), W[ids[start + i], 0 if tied else r], p)
    _squash(p)
    data[:] = p
    # The negative phase: steps of Gibbs sampling, from the data or from where the case's chain stands.
    if len(chains):
        p[:] = chains[c]
    for t in range(steps):
        for j in range(len(d)):
            state = _next(state)
            h[j] = np.float32(1) if _uniform(state) < p[j] else np.float32(0)
        # Draw a level for every unit, given the hidden states. Loops that read the rows of all units, and one that
        # draws, are faster than a single one: the processor reads ahead where no draw decides how it goes on.
        for i in range(n):
            m = ids[start + i]
            _logits(tied, W[m], b[m], s, o[c], h, parts[i])
        for i in range(n):
            total, mean = _exponentials(parts[i], s)
            if t == 0:
                error += np.float64(mean - s[levels[start + i]]) ** 2
            state = _next(state)
            recalled[i] = _draw(_uniform(state) * total, parts[i])
        p[:] = bias
        for i in range(n):
            k = recalled[i]
            _add(s[k] if tied else np.float32(1), W[ids[start + i], 0 if tied else k], p)
        _squash(p)
    if len(chains):
        chains[c] = p
    return error


@njit
def _follow(  # type: ignore[no-untyped-def]
    c, offsets, ids, levels, s, side_offsets, side_ids, tied, scratch, rate, bias_rate, side_rate, W, b, U
):  # fmt: skip
    """Add to W, b and U, times the rates, what the data say less what is recalled.

    Probabilities stand for the last hidden states; leaves in ``scratch`` what the hidden units differ by. Tied
    weights are scaled by the score.
    """
    units, recalled, _ = scratch
    data, p = units[0], units[1]
    start = offsets[c]
    for i in range(offsets[c + 1] - start):
        m, r, k = ids[start + i], levels[start + i], recalled[i]
        b[m, r] += bias_rate
        b[m, k] -= bias_rate
        if tied:
            _add_both(rate * s[r], data, -rate * s[k], p, W[m, 0])
        else:
            _add(rate, data, W[m, r])
            _add(-rate, p, W[m, k])
    for j in range(len(data)):
        data[j] -= p[j]
    for q in range(side_offsets[c], side_offsets[c + 1]):
        _add(side_rate, data, U[side_ids[q]])


@njit
def _divergence(  # type: ignore[no-untyped-def]
    offsets, ids, levels, cases, W, b, d, U, s, o, steps, seed, side_offsets, side_ids, chains,
    tied, d_W, d_b, d_d, d_U,
):  # fmt: skip
    """Add the cases' gradients to d_W, d_b, d_d and d_U; return the error."""
    scratch, one = _scratch(offsets, cases, len(d), len(s)), np.float32(1)
    error = 0.0
    for c in cases:
        error = _recall(
            c, offsets, ids, levels, W, b, d, U, s, o, steps, seed, side_offsets, side_ids, chains,
            tied, scratch, error,
        )  # fmt: skip
        _follow(
            c, offsets, ids, levels, s, side_offsets, side_ids, tied, scratch, one, one, one, d_W, d_b, d_U
        )  # fmt: skip
        _add(one, scratch[0][0], d_d)
    return error


@njit
def _shrink(keep, step, m, made, x):  # type: ignore[no-untyped-def]
    """Bring row m of x, of which ``made[m]`` steps have been made, to where the penalties of all steps leave it."""
    missed = step - made[m]
    if missed:
        row, factor = x[m].ravel(), keep**missed
        for j in range(len(row)):
            row[j] = np.float32(factor * row[j])
        made[m] = step


@njit
def _descend(  # type: ignore[no-untyped-def]
    offsets, ids, levels, cases, W, b, d, U, s, o, steps, seed, side_offsets, side_ids, chains, tied,
    rate, bias_rate, penalty, bias_penalty, side_penalty,
):  # fmt: skip
    """Step after every case; return the error."""
    scratch = _scratch(offsets, cases, len(d), len(s))
    keep = 1 - rate * penalty
    keep_biases = 1 - bias_rate * bias_penalty
    keep_sides = 1 - rate * side_penalty
    # The penalty of a step comes when a row is needed next, and must not make what the step has added smaller.
    added, added_biases = np.float32(rate / keep), np.float32(bias_rate / keep_biases)
    added_sides = np.float32(rate / keep_sides)
    made_W, made_b = np.zeros(len(W), np.int64), np.zeros(len(b), np.int64)
    made_U = np.zeros(len(U), np.int64)
    exact = d.astype(np.float64)  # in which penalties count that are below the rounding of float32
    error = 0.0
    for step in range(len(cases)):
        c = cases[step]
        for i in range(offsets[c], offsets[c + 1]):
            _shrink(keep, step, ids[i], made_W, W)
            _shrink(keep_biases, step, ids[i], made_b, b)
        for q in range(side_offsets[c], side_offsets[c + 1]):
            _shrink(keep_sides, step, side_ids[q], made_U, U)
        error = _recall(
            c, offsets, ids, levels, W, b, d, U, s, o, steps, seed, side_offsets, side_ids, chains,
            tied, scratch, error,
        )  # fmt: skip
        _follow(
            c, offsets, ids, levels, s, side_offsets, side_ids, tied, scratch, added, added_biases,
            added_sides, W, b, U,
        )  # fmt: skip
        for j in range(len(d)):
            exact[j] = keep_biases * exact[j] + bias_rate * scratch[0][0, j]
            d[j] = np.float32(exact[j])
    for m in range(len(W)):
        _shrink(keep, len(cases), m, made_W, W)
        _shrink(keep_biases, len(cases), m, made_b, b)
    for m in range(len(U)):
        _shrink(keep_sides, len(cases), m, made_U, U)
    return error


@njit
def _expect(visible, cases, W, b, p, s, o, tied, chances, means):  # type: ignore[no-untyped-def]
    """Fill chances and means; a negative number means the last row of its table."""
    w_size, p_size = W.shape[1] * W.shape[2], p.shape[1]
    for n in range(len(visible)):
        if n + _AHEAD < len(visible):
            m, c = visible[n + _AHEAD], cases[n + _AHEAD]
            prefetch(W, np.int64(m if m >= 0 else len(W) - 1) * w_size, w_size)
            prefetch(p, np.int64(c if c >= 0 else len(p) - 1) * p_size, p_size)
        m, c = visible[n], cases[n]
        m = m if m >= 0 else len(W) - 1
        c = c if c >= 0 else len(p) - 1
        _logits(tied, W[m], b[m], s, o[c], p[c], chances[n])
        total, means[n] = _exponentials(chances[n], s)
        chances[n] /= total
