"""The scores of a text on the CPU: a few tokens at a time, first all predictions, then all products, then all turns.

What later tokens need is asked for beforehand. A turn's probability comes of one exponential and one division, in
vectors; a code's is a product of them, a word's takes one logarithm.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.log_bilinear.context_sum.cpu import fade, predict, sequence_of
from tacenda.kernels.log_bilinear.stream_scores import Scores
from tacenda.kernels.log_bilinear.stream_scores.packed import GROUP, HEAD, Packed
from tacenda.kernels.log_bilinear.tree_softmax.cpu import decay
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.memory import LINE, aligned_zeros
from tacenda.kernels.machinery.vectors import PAIRS, add_pairs, add_up_whole, no_sums, prefetch

_Array = NDArray[Any]
_BLOCK = 16  # tokens
_AHEAD = 4  # tokens, from asking for nodes to their use
_RECORD = 96  # numbers of a word's record that are asked for
_FAINT = (
    1e-30  # less than this is computed in logarithms: a product of float32 may have become zero
)
_LEAST = np.float32(
    1e-30
)  # the largest element of a predicted vector that counts for more than zero
_CERTAIN = np.float32(200)  # the activation of a turn that is none


@njit
def _round(rows, n, limit, vectors, units):  # type: ignore[no-untyped-def]
    """vectors[i] times units[i] = rows[i], for the first n rows: ``limit`` stands for the largest element of each."""
    bits, width = rows.view(np.int32), rows.shape[1]
    largest = np.empty(1, np.int32)
    for i in range(n):
        # magnitudes are compared as whole numbers, which is their order, with NaN above all others
        most = np.int32(0)
        for d in range(width):
            most = max(most, bits[i, d] & np.int32(0x7FFFFFFF))
        largest[0] = most
        size = largest.view(np.float32)[0]
        units[i] = np.float32(np.nan)
        if size < np.float32(np.inf):
            units[i] = size / limit
            factor = limit / size if size > _LEAST else np.float32(0)
            for d in range(width):
                vectors[i, d] = np.int16(np.rint(rows[i, d] * factor))


@njit
def _activations(vectors, i, unit, nodes, numbers, width, paths, first, n, x, place):  # type: ignore[no-untyped-def]
    """x[place + j] = r . q + b for the nodes ``paths[first + j]``, j = 0 .. n - 1 and up to three more."""
    stride, scale = (
        nodes.shape[1],
        width // 4,
    )  # behind a row lie its scale and its bias, as ``numbers`` has them
    for j in range(0, n, 4):
        last = first + n - 1
        n0, n1 = np.int64(paths[first + j]), np.int64(paths[min(first + j + 1, last)])
        n2, n3 = (
            np.int64(paths[min(first + j + 2, last)]),
            np.int64(paths[min(first + j + 3, last)]),
        )
        s0, s1, s2, s3 = no_sums(), no_sums(), no_sums(), no_sums()
        for d in range(0, width, PAIRS):
            at = i * vectors.shape[1] + d
            s0 = add_pairs(s0, vectors, at, nodes, n0 * stride + d)
            s1 = add_pairs(s1, vectors, at, nodes, n1 * stride + d)
            s2 = add_pairs(s2, vectors, at, nodes, n2 * stride + d)
            s3 = add_pairs(s3, vectors, at, nodes, n3 * stride + d)
        p = place + j
        x[p] = np.float32(add_up_whole(s0)) * (unit * numbers[n0, scale]) + numbers[n0, scale + 1]
        x[p + 1] = (
            np.float32(add_up_whole(s1)) * (unit * numbers[n1, scale]) + numbers[n1, scale + 1]
        )
        x[p + 2] = (
            np.float32(add_up_whole(s2)) * (unit * numbers[n2, scale]) + numbers[n2, scale + 1]
        )
        x[p + 3] = (
            np.float32(add_up_whole(s3)) * (unit * numbers[n3, scale]) + numbers[n3, scale + 1]
        )


@njit
def _products(nodes, numbers, width, starts, paths, ids, t0, t1, vectors, units, x, places):  # type: ignore[no-untyped-def]
    """The activations of all visits of the tokens t0 .. t1, each token's at ``places`` after one of certainty."""
    place, stride = 0, nodes.shape[1]
    for t in range(t0, t1):
        if t + _AHEAD < len(ids):  # ask for the nodes of a later token, but for those near the root
            start = starts[ids[t + _AHEAD]]
            for j in range(start + HEAD + paths[start + 1], start + HEAD + paths[start]):
                prefetch(nodes, np.int64(paths[j]) * stride, stride)
        places[t - t0] = place
        x[place] = _CERTAIN
        place += 1
        start = starts[ids[t]]
        n = paths[start]
        _activations(
            vectors, t - t0, units[t - t0], nodes, numbers, width, paths, start + HEAD, n, x, place
        )
        place += n
    return place


@njit(fastmath={"contract"})
def _turns(x, n, powers, e, p):  # type: ignore[no-untyped-def]
    """p[2 j], p[2 j + 1] = the probabilities of left and right at activation x[j]."""
    decay(x[:n], powers[:n], e[:n])
    for j in range(n):
        likely = np.float32(1) / (np.float32(1) + e[j])
        unlikely = e[j] * likely
        p[2 * j] = likely if x[j] > 0 else unlikely
        p[2 * j + 1] = unlikely if x[j] > 0 else likely


@njit
def _log_word(x, groups, turns):  # type: ignore[no-untyped-def]
    """Log P of a word, however improbable, from the activations of its visits and the turns of its codes."""
    total, j = -np.inf, 0
    for n in groups:
        s = 0.0
        for turn in turns[j : j + GROUP * n]:
            v = np.float64(x[turn >> 1])
            s += min(-v if turn & 1 else v, 0.0) - math.log1p(math.exp(-abs(v)))
        high, low = max(total, s), min(total, s)
        total = high if low == -np.inf else high + math.log1p(math.exp(low - high))
        j += GROUP * n
    return total


@njit
def _words(ids, t0, t1, starts, paths, turns, places, x, p, out):  # type: ignore[no-untyped-def]
    """out[t - t0] = log P of the tokens t0 .. t1."""
    per_number = paths.itemsize // turns.itemsize
    for t in range(t0, t1):
        start = starts[ids[t]]
        codes = start + HEAD + paths[start]
        first = codes + paths[start + 2]
        at, j, total = 2 * places[t - t0], first * per_number, 0.0
        for c in range(codes, first):
            product = 1.0
            for _ in range(paths[c]):
                a = p[at + turns[j]] * p[at + turns[j + 1]]
                b = p[at + turns[j + 2]] * p[at + turns[j + 3]]
                product *= np.float64(a * b)
                j += GROUP
            total += product
        if total < _FAINT:
            out[t - t0] = _log_word(x[at // 2 :], paths[codes:first], turns[first * per_number :])
        else:
            out[t - t0] = math.log(total)


@njit
def _scores(  # type: ignore[no-untyped-def]
    words, far, weights, bias, rates, tail_weights, nodes, numbers, starts, paths, turns, limit, ids, offsets, first,
    given, u, rows, vectors, x, out,
):  # fmt: skip
    """out[t - first] = log P(w_t | the words before it), a block of tokens at a time."""
    n, tokens, width = len(weights), len(ids), words.shape[1]
    units, places = np.zeros(_BLOCK, np.float32), np.zeros(_BLOCK, np.int64)
    p, e = np.empty(2 * len(x), np.float32), np.empty(len(x), np.float32)
    powers = np.empty(len(x), np.int32)
    at = sequence_of(offsets, first)
    if not given:
        fade(far, rates, ids, offsets[at], first - n, u)
    t0 = first
    while t0 < tokens:
        while t0 >= offsets[at + 1]:
            at += 1
            u[:] = 0
        t1 = min(t0 + _BLOCK, offsets[at + 1])
        for t in range(
            t0 + _BLOCK, min(t1 + _BLOCK, tokens)
        ):  # ask for what the next block reads first
            prefetch(words, np.int64(ids[t]) * width, width)
            prefetch(paths, starts[ids[t]], _RECORD)
        current = t0 == first or t0 == offsets[at]
        predict(
            words,
            far,
            weights,
            bias,
            rates,
            tail_weights,
            ids,
            t0,
            t1,
            offsets[at],
            current,
            u,
            rows,
            0,
        )
        _round(rows, t1 - t0, limit, vectors, units)
        place = _products(
            nodes, numbers, vectors.shape[1], starts, paths, ids, t0, t1, vectors, units, x, places
        )
        _turns(x, -(-place // LINE) * LINE, powers, e, p)
        _words(ids, t0, t1, starts, paths, turns, places, x, p, out[t0 - first :])
        t0 = t1
    if tokens > first and tokens - 1 - n >= offsets[at]:
        fade(far, rates, ids, tokens - 1 - n, tokens - n, u)


def scores(
    packed: Packed, ids: _Array, offsets: _Array, first: int = 0, tails: _Array | None = None
) -> Scores:
    """See `tacenda.kernels.log_bilinear.stream_scores.scores`."""
    u = np.zeros_like(packed.tail_weights)
    if tails is not None:
        u[:, : packed.width] = tails
    log_probs = np.empty(len(ids) - first)
    if len(ids):
        rows = aligned_zeros(_BLOCK, packed.words.shape[1])
        vectors = aligned_zeros(_BLOCK, packed.stride, np.int16)
        x = np.zeros(_BLOCK * (packed.most + 1) + 2 * LINE, np.float32)
        _scores(
            packed.words, packed.far, packed.weights, packed.bias[0], packed.rates, packed.tail_weights, packed.rows,
            packed.rows.view(np.float32), packed.starts, packed.paths, packed.turns, np.float32(packed.limit), ids,
            offsets, first, tails is not None, u, rows, vectors, x, log_probs,
        )  # fmt: skip
    return Scores(log_probs, u[:, : packed.width].copy())
