"""Contrastive divergence on the CPU: one thread, the weights of a case's units gathered as they come."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.prefetch import prefetch
from tacenda.kernels.ratings.boltzmann.naive import check, check_pairs

if TYPE_CHECKING:
    from tacenda.kernels.ratings.boltzmann import Divergence, Expected

_Array = NDArray[Any]
_REORDERED = {"contract", "reassoc", "nsz"}
_AHEAD = 4


@njit
def _next(state):  # type: ignore[no-untyped-def]
    """See `naive.uniforms`."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    return state


@njit
def _uniform(state):  # type: ignore[no-untyped-def]
    return np.float32(state >> np.uint64(40)) / np.float32(1 << 24)


@njit
def _seeded(seed, case):  # type: ignore[no-untyped-def]
    state = seed * np.uint64(0x9E3779B97F4A7C15)
    state += np.uint64(case + 1) * np.uint64(0xBF58476D1CE4E5B9)
    return ((state ^ (state >> np.uint64(30))) * np.uint64(0x94D049BB133111EB)) | np.uint64(1)


@njit(fastmath=_REORDERED)
def _dot(x, y):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for j in range(len(x)):
        total += x[j] * y[j]
    return total


@njit
def _add(scale, x, y):  # type: ignore[no-untyped-def]
    for j in range(len(x)):
        y[j] += scale * x[j]


@njit
def _squash(x):  # type: ignore[no-untyped-def]
    for j in range(len(x)):
        x[j] = np.float32(1) / (np.float32(1) + np.exp(-x[j]))


@njit
def _chances(tied, W, b, s, slope, h, chances):  # type: ignore[no-untyped-def]
    """Probabilities of the levels of one visible unit; returns their mean score."""
    along = slope + _dot(W[0], h) if tied else slope
    highest = np.float32(-np.inf)
    for k in range(len(s)):
        chances[k] = b[k] + s[k] * along
        if not tied:
            chances[k] += _dot(W[k], h)
        highest = max(highest, chances[k])
    total, mean = np.float32(0), np.float32(0)
    for k in range(len(s)):
        chances[k] = np.exp(chances[k] - highest)
        total += chances[k]
        mean += s[k] * chances[k]
    for k in range(len(s)):
        chances[k] /= total
    return mean / total


@njit
def _draw(u, chances):  # type: ignore[no-untyped-def]
    k, reached = 0, chances[0]
    while u > reached and k < len(chances) - 1:
        k += 1
        reached += chances[k]
    return k


@njit
def _divergence(  # type: ignore[no-untyped-def]
    offsets, ids, levels, cases, W, b, d, U, s, o, steps, seed, side_offsets, side_ids, chains,
    tied, d_W, d_b, d_d, d_U,
):  # fmt: skip
    hidden, K = len(d), len(s)
    bias, data, p, h = np.empty_like(d), np.empty_like(d), np.empty_like(d), np.empty_like(d)
    chances = np.empty(K, np.float32)
    longest = 0
    for c in cases:
        longest = max(longest, offsets[c + 1] - offsets[c])
    recalled = np.empty(longest, np.int64)
    error = 0.0
    for c in cases:
        start, n = offsets[c], offsets[c + 1] - offsets[c]
        state = _seeded(seed, c)
        bias[:] = d
        for q in range(side_offsets[c], side_offsets[c + 1]):
            _add(np.float32(1), U[side_ids[q]], bias)
        p[:] = bias
        for i in range(n):
            r = levels[start + i]
            _add(s[r] if tied else np.float32(1), W[ids[start + i], 0 if tied else r], p)
        _squash(p)
        data[:] = p
        if len(chains):
            p[:] = chains[c]
        for t in range(steps):
            for j in range(hidden):
                state = _next(state)
                h[j] = np.float32(1) if _uniform(state) < p[j] else np.float32(0)
            p[:] = bias
            for i in range(n):
                m = ids[start + i]
                mean = _chances(tied, W[m], b[m], s, o[c], h, chances)
                if t == 0:
                    error += np.float64(mean - s[levels[start + i]]) ** 2
                state = _next(state)
                k = _draw(_uniform(state), chances)
                recalled[i] = k
                _add(s[k] if tied else np.float32(1), W[m, 0 if tied else k], p)
            _squash(p)
        if len(chains):
            chains[c] = p
        for i in range(n):
            m, r, k = ids[start + i], levels[start + i], recalled[i]
            d_b[m, r] += 1
            d_b[m, k] -= 1
            _add(s[r] if tied else np.float32(1), data, d_W[m, 0 if tied else r])
            _add(-s[k] if tied else np.float32(-1), p, d_W[m, 0 if tied else k])
        for j in range(hidden):
            data[j] -= p[j]
        _add(np.float32(1), data, d_d)
        for q in range(side_offsets[c], side_offsets[c + 1]):
            _add(np.float32(1), data, d_U[side_ids[q]])
    return error


def divergence(
    offsets: _Array,
    ids: _Array,
    levels: _Array,
    cases: _Array,
    weights: _Array,
    visible_biases: _Array,
    hidden_biases: _Array,
    side_weights: _Array,
    scores: _Array,
    slopes: _Array,
    steps: int,
    seed: int,
    side_offsets: _Array | None = None,
    side_ids: _Array | None = None,
    chains: _Array | None = None,
) -> "Divergence":
    """See `tacenda.kernels.ratings.boltzmann.divergence`."""
    from tacenda.kernels.ratings.boltzmann import Divergence

    given = check(
        offsets, ids, levels, cases, weights, visible_biases, hidden_biases, side_weights, scores,
        slopes, steps, side_offsets, side_ids, chains,
    )  # fmt: skip
    parameters = given[3:7]
    gradients = [np.zeros_like(part) for part in parameters]
    own = np.empty((0, len(hidden_biases)), np.float32) if given.chains is None else given.chains
    error = _divergence(
        *given.packed, given.levels, given.cases, *parameters, given.scores, given.slopes,
        int(steps), np.uint64(seed % (1 << 64)), *given.side, own, np.ndim(weights) == 2, *gradients,
    )  # fmt: skip
    gradients[0] = gradients[0].reshape(np.shape(weights))
    return Divergence(float(error), *gradients)


@njit
def _expect(visible, cases, W, b, p, s, o, tied, chances, means):  # type: ignore[no-untyped-def]
    w_size, p_size = W.shape[1] * W.shape[2], p.shape[1]
    for n in range(len(visible)):
        if n + _AHEAD < len(visible):
            m, c = visible[n + _AHEAD], cases[n + _AHEAD]
            prefetch(W, np.int64(m if m >= 0 else len(W) - 1) * w_size, w_size)
            prefetch(p, np.int64(c if c >= 0 else len(p) - 1) * p_size, p_size)
        m, c = visible[n], cases[n]
        m = m if m >= 0 else len(W) - 1
        c = c if c >= 0 else len(p) - 1
        means[n] = _chances(tied, W[m], b[m], s, o[c], p[c], chances[n])


def expect(
    visible: _Array,
    cases: _Array,
    weights: _Array,
    visible_biases: _Array,
    activations: _Array,
    scores: _Array,
    slopes: _Array,
) -> "Expected":
    """See `tacenda.kernels.ratings.boltzmann.expect`."""
    from tacenda.kernels.ratings.boltzmann import Expected

    visible, cases = np.ascontiguousarray(visible), np.ascontiguousarray(cases)
    tables = [
        np.ascontiguousarray(table)
        for table in (weights, visible_biases, activations, scores, slopes)
    ]
    check_pairs(visible, cases, *tables)
    W, b, p, s, o = tables
    chances = np.empty((len(visible), len(s)), np.float32)
    means = np.empty(len(visible), np.float32)
    _expect(
        visible.astype(np.int64, copy=False), cases.astype(np.int64, copy=False),
        W.reshape(len(W), -1, p.shape[1]), b, p, s, o, W.ndim == 2, chances, means,
    )  # fmt: skip
    return Expected(chances, means)
