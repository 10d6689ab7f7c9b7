"""Contrastive divergence on the CPU: one thread, reading the weights of a case's units as they come."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.vectors import prefetch
from tacenda.kernels.ratings import xorshift
from tacenda.kernels.ratings.boltzmann import Divergence, Expected

__all__ = ["divergence", "expect"]

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
def _divergence(  # type: ignore[no-untyped-def]
    offsets, ids, levels, cases, W, b, d, U, s, o, steps, seed, side_offsets, side_ids, chains,
    tied, d_W, d_b, d_d, d_U,
):  # fmt: skip
    """Add the cases' gradients to d_W, d_b, d_d and d_U; return the error. Tied weights are scaled by the score."""
    hidden, K = len(d), len(s)
    bias, data, p, h = np.empty_like(d), np.empty_like(d), np.empty_like(d), np.empty_like(d)
    longest = 0
    for c in cases:
        longest = max(longest, offsets[c + 1] - offsets[c])
    recalled, parts = np.empty(longest, np.int64), np.empty((longest, K), np.float32)
    error = 0.0
    for c in cases:
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
            for j in range(hidden):
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
        # The gradients: what the data say less what is recalled, with probabilities for the last hidden states.
        for i in range(n):
            m, r, k = ids[start + i], levels[start + i], recalled[i]
            d_b[m, r] += 1
            d_b[m, k] -= 1
            if tied:
                _add_both(s[r], data, -s[k], p, d_W[m, 0])
            else:
                _add(np.float32(1), data, d_W[m, r])
                _add(np.float32(-1), p, d_W[m, k])
        for j in range(hidden):
            data[j] -= p[j]
        _add(np.float32(1), data, d_d)
        for q in range(side_offsets[c], side_offsets[c + 1]):
            _add(np.float32(1), data, d_U[side_ids[q]])
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
