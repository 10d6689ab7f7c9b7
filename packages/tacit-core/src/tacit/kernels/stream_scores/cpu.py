"""The scores of a text on the CPU: a few tokens at a time, first all predictions, then all products, then all turns.

What the next tokens need is asked for beforehand. A turn's probability comes of one exponential and one division, in
vectors; a code's is a product in float64, a word's takes one logarithm.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.kernels.compiled import njit
from tacit.kernels.context_sum.cpu import _sequence_of
from tacit.kernels.memory import CHUNK, LINE, WIDE, aligned
from tacit.kernels.prefetch import prefetch
from tacit.kernels.rows import four_products, predict
from tacit.kernels.stream_scores import Scores
from tacit.kernels.stream_scores.arguments import check
from tacit.kernels.stream_scores.packed import GROUP, Packed
from tacit.kernels.tree_softmax.cpu import _decay

_Array = NDArray[Any]
_BLOCK = 16  # tokens
_FAINT = 1e-30  # probabilities below this are computed as logarithms
_CERTAIN = np.float32(200)  # the activation of a turn that is none


@njit(fastmath={"contract"})
def _whole(row, factor, out, t):  # type: ignore[no-untyped-def]
    """out[t] = row times factor, rounded."""
    for d in range(len(row)):
        v = row[d] * factor
        out[t, d] = np.int16(np.int32(v + (np.float32(0.5) if v > 0 else np.float32(-0.5))))


@njit(fastmath={"contract"})
def _turns(x, n, powers, e, p):  # type: ignore[no-untyped-def]
    """p[2 j], p[2 j + 1] = the probabilities of left and right at activation x[j]."""
    _decay(x[:n], powers[:n], e[:n])
    for j in range(n):
        likely = np.float32(1) / (np.float32(1) + e[j])
        unlikely = e[j] * likely
        p[2 * j] = likely if x[j] > 0 else unlikely
        p[2 * j + 1] = unlikely if x[j] > 0 else likely


@njit
def _log_word(x, c0, c1, code_turns, turns):  # type: ignore[no-untyped-def]
    """Log P of the codes c0 .. c1 together, however improbable; x begins with the activation that fills up."""
    total = -np.inf
    for c in range(c0, c1):
        s = 0.0
        for j in range(code_turns[c], code_turns[c + 1]):
            if turns[j]:
                v = np.float64(x[turns[j] >> 1])
                v = v if not turns[j] & 1 else -v
                s += min(v, 0.0) - math.log1p(math.exp(-abs(v)))
        high, low = max(total, s), min(total, s)
        total = high if low == -np.inf else high + math.log1p(math.exp(low - high))
    return total


@njit
def _words(ids, t0, t1, places, x, p, heads, code_turns, turns, out):  # type: ignore[no-untyped-def]
    """out[t - t0] = log P of the tokens t0 .. t1, whose turns begin at ``places``."""
    for t in range(t0, t1):
        at = places[t - t0]
        c0, c1 = heads[ids[t]], heads[ids[t] + 1]
        total = 0.0
        for c in range(c0, c1):
            product = 1.0
            for j in range(code_turns[c], code_turns[c + 1], GROUP):
                a = np.float64(p[2 * at + turns[j]]) * np.float64(p[2 * at + turns[j + 1]])
                b = np.float64(p[2 * at + turns[j + 2]]) * np.float64(p[2 * at + turns[j + 3]])
                product *= a * b
            total += product
        if total < _FAINT:
            out[t - t0] = _log_word(x[at:], c0, c1, code_turns, turns)
        else:
            out[t - t0] = math.log(total)


@njit
def _scores(  # type: ignore[no-untyped-def]
    words, far, weights, bias, rates, tail_weights, rows, begins, visits, distant, heads, code_turns, turns,
    limit, chunks, ids, offsets, first, given, u, buffers, vectors, activations, out,
):  # fmt: skip
    n, tails, tokens, width, stride = len(weights), len(rates), len(ids), words.shape[1], rows.shape[1]
    row, nothing, still = buffers[0], buffers[1], buffers[2]
    bits = np.empty(1, np.int32)
    magnitude = bits.view(np.float32)
    p, e = np.empty(2 * len(activations), np.float32), np.empty(len(activations), np.float32)
    powers = np.empty(len(activations), np.int32)
    places, units = np.zeros(_BLOCK + 1, np.int64), np.zeros(_BLOCK, np.float32)
    table, of_far, nodes, size = words.ctypes.data, far.ctypes.data, rows.ctypes.data, 4 * width
    listed, turning, text = visits.ctypes.data, turns.ctypes.data, ids.ctypes.data
    at = _sequence_of(offsets, first)
    begin, whole = offsets[at], vectors.shape[1]
    if not given:
        for i in range(begin, first - n):
            predict(
                row.ctypes.data, bias.ctypes.data, tails, u.ctypes.data, tail_weights.ctypes.data,
                rates.ctypes.data, of_far + ids[i] * size, 0, table, weights.ctypes.data, text, width,
            )  # fmt: skip
    for t0 in range(first, tokens, _BLOCK):
        t1 = min(t0 + _BLOCK, tokens)
        for t in range(t0, t1):
            if t + _BLOCK < tokens:
                word = ids[t + _BLOCK]
                prefetch(table + word * size, size)
                prefetch(listed + 4 * begins[word], 3 * LINE)
                prefetch(turning + turns.itemsize * code_turns[heads[word]], LINE)
            if t >= offsets[at + 1]:
                while t >= offsets[at + 1]:
                    at += 1
                begin = offsets[at]
                u[:] = 0
            fading, leaving = rates.ctypes.data, nothing.ctypes.data
            if t == first:
                fading = still.ctypes.data
            elif t - 1 - n >= begin:
                leaving = of_far + ids[t - 1 - n] * size
            bits[0] = predict(
                row.ctypes.data, bias.ctypes.data, tails, u.ctypes.data, tail_weights.ctypes.data, fading,
                leaving, min(n, t - begin), table, weights.ctypes.data, text + 4 * (t - 1), width,
            )  # fmt: skip
            largest = magnitude[0]
            units[t - t0] = largest / limit
            if largest > np.float32(1e-30) and largest < np.float32(np.inf):
                _whole(row, limit / largest, vectors, t - t0)
            else:
                vectors[t - t0, :] = 0
        place = 0
        for t in range(t0, t1):
            if t + 1 < tokens:
                for j in range(distant[ids[t + 1]], begins[ids[t + 1] + 1]):
                    prefetch(nodes + visits[j] * stride, stride)
            activations[place] = _CERTAIN
            places[t - t0] = place
            j0, j1 = begins[ids[t]], begins[ids[t] + 1]
            last = j1 - 1
            for j in range(j0, j1, 4):
                four_products(
                    vectors.ctypes.data + 2 * whole * (t - t0), chunks, units[t - t0],
                    nodes + visits[j] * stride, nodes + visits[min(j + 1, last)] * stride,
                    nodes + visits[min(j + 2, last)] * stride, nodes + visits[min(j + 3, last)] * stride,
                    activations.ctypes.data + 4 * (place + 1 + j - j0),
                )  # fmt: skip
            place += 1 + j1 - j0
        _turns(activations, -(-place // 64) * 64, powers, e, p)
        _words(ids, t0, t1, places, activations, p, heads, code_turns, turns, out[t0 - first :])
    if tokens > first and tokens - 1 - n >= begin:
        predict(
            row.ctypes.data, bias.ctypes.data, tails, u.ctypes.data, tail_weights.ctypes.data,
            rates.ctypes.data, of_far + ids[tokens - 1 - n] * size, 0, table, weights.ctypes.data, text, width,
        )  # fmt: skip


def scores(
    packed: Packed,
    ids: _Array,
    offsets: _Array,
    first: int = 0,
    tails: _Array | None = None,
) -> Scores:
    """See `tacit.kernels.stream_scores.scores`."""
    ids, offsets, u = check(packed, ids, offsets, first, tails)
    log_probs = np.empty(len(ids) - first)
    moving = np.zeros((len(u), packed.words.shape[1]), np.float32)
    moving[:, : packed.width] = u
    if len(ids):
        most = int(np.diff(packed.begins).max(initial=0)) + 1
        buffers = aligned(np.zeros((3, max(packed.words.shape[1], len(u))), np.float32), WIDE)
        buffers[2] = 1
        vectors = aligned(np.zeros((_BLOCK, packed.width), np.int16), CHUNK)
        activations = np.zeros(_BLOCK * most + 2 * LINE, np.float32)
        *model, _, _ = packed
        moving = aligned(moving, WIDE)
        _scores(
            *model, np.float32(packed.limit), packed.chunks, ids, offsets, first, tails is not None, moving,
            buffers, vectors, activations, log_probs,
        )  # fmt: skip
    return Scores(log_probs, moving[:, : packed.width].copy())
