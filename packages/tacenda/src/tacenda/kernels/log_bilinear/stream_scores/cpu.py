"""The scores of a text on the CPU: a few tokens at a time, first all predictions, then all products, then all turns.

What later tokens need is asked for beforehand. A turn's probability comes of one exponential and one division, in
vectors; a code's is a product of them, a word's takes one logarithm.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.log_bilinear.context_sum.cpu_positions import (
    fade,
    predictions,
    sequence_of,
    spare_rows,
)
from tacenda.kernels.log_bilinear.stream_scores import Scores
from tacenda.kernels.log_bilinear.stream_scores.arguments import check
from tacenda.kernels.log_bilinear.stream_scores.packed import GROUP, HEAD, Packed
from tacenda.kernels.log_bilinear.tree_softmax.cpu_word import decay
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.memory import CHUNK, LINE, WIDE, aligned
from tacenda.kernels.machinery.prefetch import prefetch
from tacenda.kernels.machinery.rows import four_products, whole

_Array = NDArray[Any]
_BLOCK = 16  # tokens
_AHEAD = 4  # tokens, from asking for nodes to their use
_RECORD = 6 * LINE  # bytes of a word's record that are asked for
_FAINT = (
    1e-30  # less than this is computed in logarithms: a product of float32 may have become zero
)
_LEAST = np.float32(
    1e-30
)  # the largest element of a predicted vector that counts for more than zero
_CERTAIN = np.float32(200)  # the activation of a turn that is none


@njit
def _rounded(rows, most, n, limit, vectors, units):  # type: ignore[no-untyped-def]
    """vectors[i] times units[i] = rows[i], of n rows."""
    largest, width = most.view(np.float32), rows.shape[1]
    for i in range(n):
        units[i] = np.float32(np.nan)
        if largest[i] < np.float32(np.inf):
            units[i] = largest[i] / limit
            factor = limit / largest[i] if largest[i] > _LEAST else np.float32(0)
            place = vectors.ctypes.data + 2 * vectors.shape[1] * i
            whole(rows.ctypes.data + 4 * width * i, factor, place, width)


@njit
def _products(nodes, starts, paths, ids, t0, t1, vectors, units, chunks, x, places):  # type: ignore[no-untyped-def]
    """The activations of all visits of the tokens t0 .. t1, each token's at ``places`` after one of certainty."""
    place, address, stride = 0, nodes.ctypes.data, nodes.shape[1]
    for t in range(t0, t1):
        if t + _AHEAD < len(ids):
            start = starts[ids[t + _AHEAD]]
            for j in range(start + HEAD + paths[start + 1], start + HEAD + paths[start]):
                prefetch(address + paths[j] * stride, stride)
        places[t - t0] = place
        x[place] = _CERTAIN
        place += 1
        start = starts[ids[t]]
        end = start + HEAD + paths[start]
        for j in range(start + HEAD, end, 4):
            four_products(
                vectors.ctypes.data + 2 * vectors.shape[1] * (t - t0), chunks, units[t - t0],
                address + paths[j] * stride, address + paths[min(j + 1, end - 1)] * stride,
                address + paths[min(j + 2, end - 1)] * stride, address + paths[min(j + 3, end - 1)] * stride,
                x.ctypes.data + 4 * (place + j - start - HEAD),
            )  # fmt: skip
        place += paths[start]
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
    words, far, weights, bias, rates, tail_weights, nodes, starts, paths, turns, limit, chunks, ids, offsets, first,
    given, u, rows, spare, vectors, x, out,
):  # fmt: skip
    n, tokens, size = len(weights), len(ids), 4 * words.shape[1]
    most, units, places = (
        np.zeros(_BLOCK, np.int32),
        np.zeros(_BLOCK, np.float32),
        np.zeros(_BLOCK, np.int64),
    )
    p, e, powers = (
        np.empty(2 * len(x), np.float32),
        np.empty(len(x), np.float32),
        np.empty(len(x), np.int32),
    )
    at = sequence_of(offsets, first)
    if not given:
        fade(far, bias, rates, tail_weights, ids, offsets[at], first - n, u, spare)
    t0 = first
    while t0 < tokens:
        while t0 >= offsets[at + 1]:
            at += 1
            u[:] = 0
        t1 = min(t0 + _BLOCK, offsets[at + 1])
        for t in range(t0, t1):
            if t + _BLOCK < tokens:
                word = ids[t + _BLOCK]
                prefetch(words.ctypes.data + word * size, size)
                prefetch(paths.ctypes.data + 4 * starts[word], _RECORD)
        still = t0 == first or t0 == offsets[at]
        predictions(
            words, far, weights, bias, rates, tail_weights, ids, t0, t1, offsets[at], still, u, spare,
            rows.ctypes.data, most,
        )  # fmt: skip
        _rounded(rows, most, t1 - t0, limit, vectors, units)
        place = _products(nodes, starts, paths, ids, t0, t1, vectors, units, chunks, x, places)
        _turns(x, -(-place // LINE) * LINE, powers, e, p)
        _words(ids, t0, t1, starts, paths, turns, places, x, p, out[t0 - first :])
        t0 = t1
    if tokens > first and tokens - 1 - n >= offsets[at]:
        fade(far, bias, rates, tail_weights, ids, tokens - 1 - n, tokens - n, u, spare)


def scores(
    packed: Packed,
    ids: _Array,
    offsets: _Array,
    first: int = 0,
    tails: _Array | None = None,
) -> Scores:
    """See `tacenda.kernels.log_bilinear.stream_scores.scores`."""
    ids, offsets, u = check(packed, ids, offsets, first, tails)
    log_probs = np.empty(len(ids) - first)
    if len(ids):
        *model, _, width, most = packed
        u = aligned(u, WIDE)
        rows = aligned(np.zeros((_BLOCK, width), np.float32), WIDE)
        spare = spare_rows(rows.shape[1], len(u))
        vectors = aligned(np.zeros((_BLOCK, width), np.int16), CHUNK)
        x = np.zeros(_BLOCK * (most + 1) + 2 * LINE, np.float32)
        limit = np.float32(packed.limit)
        _scores(
            *model, limit, packed.chunks, ids, offsets, first, tails is not None, u, rows, spare, vectors, x,
            log_probs,
        )  # fmt: skip
    return Scores(log_probs, u[:, : packed.width].copy())
