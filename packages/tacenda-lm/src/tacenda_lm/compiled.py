"""Compiled loops of the caches and of `StateSpaceLM`. Import this only at need: it imports numba."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.kernels.machinery.compiled import njit
from tacenda_lm.sequences import Float64, Ids, Offsets

_FAST = {"contract", "reassoc"}


@njit(fastmath=_FAST)
def recent(ids: Ids, offsets: Offsets, weights: Float64) -> Float64:
    """Return how much each id weighs among those before it in its sequence, float64 (tokens,).

        hit_t = sum_{a = 1 .. window} weights[a - 1] [ids_{t - a} = ids_t]

    ``weights`` (window,) belong to the last word, the word before it, and so on.
    """
    found = np.zeros(len(ids), np.float64)
    for s in range(len(offsets) - 1):
        for t in range(offsets[s], offsets[s + 1]):
            n = min(t - offsets[s], len(weights))
            past, word, total = ids[t - n : t], ids[t], 0.0
            last = weights[:n]
            for i in range(n):
                total += last[n - 1 - i] if past[i] == word else 0.0
            found[t] = total
    return found


@njit(fastmath=_FAST)
def sum_matching_weights(
    weights: npt.NDArray[np.floating[Any]], words: Ids, first: int, window: int
) -> tuple[Float64, Float64]:
    """Return how much the entries with the right word weigh, and all entries, for some rows: float64 (rows,) each.

    Row r belongs to the word at place ``first + r`` of ``words``, and ``weights`` (rows, places) belong to entries
    at all places; it counts the entries at the ``window`` places before its own.
    """
    hits, totals = np.zeros(len(weights)), np.zeros(len(weights))
    for r in range(len(weights)):
        end = first + r
        begin = max(0, end - window)
        row, past, word = weights[r, begin:end], words[begin:end], words[end]
        hit, total = 0.0, 0.0
        for i in range(len(row)):
            total += row[i]
            hit += row[i] if past[i] == word else 0.0
        hits[r], totals[r] = hit, total
    return hits, totals


@njit(fastmath=_FAST)
def read_side_by_side(words, limit, from_inputs, matrices, masks, rows, q, found):
    """Read texts side by side, with one step of ascent from every predicted state (see `state_space.forward`).

    With few types a product of matrices has too few numbers to be worth a call. All arrays are in C order and of one
    dtype but ``words``. ``rows`` (steps, texts, types) hold what inputs and biases give to the scores, and become
    log-probabilities. ``from_inputs`` (steps, texts, internal) is what the columns of B and A for the inputs give. The
    ``matrices`` are those for the internal state, of B (types, internal) and A (internal, internal), and Lambda B A'
    (types, internal). The ``masks`` say which places are live and seen (steps, texts) and what is kept of the states
    (steps, texts, internal), which may be empty. ``q`` (texts, internal) is changed; the states and errors ``found``
    are written.
    """
    (outputs, transition, gain), (live, seen, keep), (states, errors) = matrices, masks, found
    length, texts, types = rows.shape
    n = q.shape[1]
    shown, following = np.empty(n, q.dtype), np.empty(n, q.dtype)
    for s in range(texts):
        for t in range(length):
            for i in range(n):
                states[t, s, i] = q[s, i]
                shown[i] = q[s, i] * keep[t, s, i] if keep.size else q[s, i]
            highest = -np.inf
            for w in range(types):
                u = rows[t, s, w]
                for i in range(n):
                    u += outputs[w, i] * shown[i]
                rows[t, s, w] = u
                highest = max(highest, u)
            total = 0.0
            for w in range(types):
                rows[t, s, w] -= highest
                total += np.exp(rows[t, s, w])
            total = np.log(total)
            following[:] = from_inputs[t, s]
            for i in range(n):
                for j in range(n):
                    following[i] += transition[i, j] * q[s, j]
            for w in range(types):
                rows[t, s, w] -= total
                e = -np.exp(rows[t, s, w])
                if w == words[t, s]:
                    e += 1
                e *= seen[t, s]
                errors[t, s, w] = e
                for i in range(n):
                    following[i] += errors[t, s, w] * gain[w, i]
            for i in range(n):
                q[s, i] = min(max(following[i], -limit), limit) * live[t, s]
