"""Contrastive divergence, the specification: one case after another (Mnih 2010, eqs 5.4 to 5.15)."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.ratings.boltzmann import Descent, Divergence, Expected
from tacenda.kernels.ratings.xorshift import uniforms

_Array = NDArray[Any]


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
    """The gradients of all cases, added up (eqs 5.4 to 5.6 and 5.15)."""
    s = s.astype(np.float64)
    W = _untied(weights, s)
    d_W, d_b, d_d, d_U = np.zeros(W.shape), np.zeros(b.shape), np.zeros(d.shape), np.zeros(U.shape)
    error = 0.0
    for c in cases:
        m, r = (array[offsets[c] : offsets[c + 1]] for array in (ids, levels))
        f = side_ids[side_offsets[c] : side_offsets[c + 1]]
        bias = d.astype(np.float64) + U[f].sum(axis=0)
        found = _recall(c, m, r, W, b, bias, s, o, steps, seed, chains)
        error += found.error
        _follow(found, m, r, f, 1.0, 1.0, d_W, d_b, d_d, d_U)
    if weights.ndim == 2:
        d_W = np.einsum("mkh,k->mh", d_W, s)
    return Divergence(error, *(part.astype(np.float32) for part in (d_W, d_b, d_d, d_U)))


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
    """All parameters after every case: theta += rate (gradient - penalty theta)."""
    s = s.astype(np.float64)
    a, own_b, own_d, own_U = (part.astype(np.float64) for part in (weights, b, d, U))
    rate, bias_rate, penalty, bias_penalty, side_penalty = descent
    error = 0.0
    for c in cases:
        m, r = (array[offsets[c] : offsets[c + 1]] for array in (ids, levels))
        f = side_ids[side_offsets[c] : side_offsets[c + 1]]
        W = _untied(a, s)
        found = _recall(c, m, r, W, own_b, own_d + own_U[f].sum(axis=0), s, o, steps, seed, chains)
        error += found.error
        a *= 1 - rate * penalty
        own_U *= 1 - rate * side_penalty
        own_b *= 1 - bias_rate * bias_penalty
        own_d *= 1 - bias_rate * bias_penalty
        d_W = np.zeros(W.shape)
        _follow(found, m, r, f, rate, bias_rate, d_W, own_b, own_d, own_U)
        a += np.einsum("mkh,k->mh", d_W, s) if weights.ndim == 2 else d_W
    for part, own in zip((weights, b, d, U), (a, own_b, own_d, own_U), strict=True):
        part[...] = own
    return error


class _Recalled(NamedTuple):
    """What the chain of a case has come to."""

    data: _Array  # probabilities of the hidden units given the ratings
    p: _Array  # and given the levels recalled
    levels: _Array
    error: float


def _recall(
    c: int,
    m: _Array,
    r: _Array,
    W: _Array,
    b: _Array,
    bias: _Array,
    s: _Array,
    o: _Array,
    steps: int,
    seed: int,
    chains: _Array | None,
) -> _Recalled:
    """T steps of Gibbs sampling, h ~ P(h | r) (eq 5.12) and r ~ P(r | h) (eq 5.8)."""
    random, error = uniforms(seed, c), 0.0
    data = p = _sigmoid(bias + W[m, r].sum(axis=0))
    if chains is not None:
        p = chains[c].astype(np.float64)
    recalled = r
    for t in range(steps):
        h = np.array([float(next(random) < chance) for chance in p])
        chances = _softmax(b[m] + s * o[c] + W[m] @ h)
        if t == 0:
            error = float(((chances @ s - s[r]) ** 2).sum())
        recalled = np.array([_draw(next(random), row) for row in chances], int)
        p = _sigmoid(bias + W[m, recalled].sum(axis=0))
    if chains is not None:
        chains[c] = p
    return _Recalled(data, p, recalled, error)


def _follow(
    found: _Recalled,
    m: _Array,
    r: _Array,
    f: _Array,
    rate: float,
    bias_rate: float,
    W: _Array,
    b: _Array,
    d: _Array,
    U: _Array,
) -> None:
    """Add what the data say less what is recalled, times the rates."""
    np.add.at(W, (m, r), rate * found.data)
    np.subtract.at(W, (m, found.levels), rate * found.p)
    np.add.at(b, (m, r), bias_rate)
    np.subtract.at(b, (m, found.levels), bias_rate)
    d += bias_rate * (found.data - found.p)
    U[f] += rate * (found.data - found.p)


def expect(
    visible: _Array, cases: _Array, weights: _Array, b: _Array, p: _Array, s: _Array, o: _Array
) -> Expected:
    """P(r_m = k) ~ exp(b_mk + s_k o_c + W_mk . p_c) (eq 5.11)."""
    s = s.astype(np.float64)
    W = _untied(weights, s)
    chances = np.empty((len(visible), len(s)))
    for n, (m, c) in enumerate(zip(visible, cases, strict=True)):
        chances[n] = _softmax(b[m] + s * o[c] + W[m] @ p[c])
    return Expected(chances.astype(np.float32), (chances @ s).astype(np.float32))


def _untied(weights: _Array, s: _Array) -> _Array:
    """W (visible, K, hidden); tied weights are a_m with W_mk = s_k a_m."""
    return weights[:, None, :] * s[:, None] if weights.ndim == 2 else weights.astype(np.float64)


def _sigmoid(x: _Array) -> _Array:
    """1 / (1 + exp(-x))."""
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def _softmax(x: _Array) -> _Array:
    """exp(x) over its sum, along the last axis."""
    p = np.exp(x - x.max(axis=-1, keepdims=True, initial=-np.inf))
    return np.asarray(p / p.sum(axis=-1, keepdims=True))


def _draw(u: float, chances: _Array) -> int:
    """The level that the number u in [0, 1) falls on."""
    return min(int(np.searchsorted(np.cumsum(chances), u, "left")), len(chances) - 1)
