"""Compiled loops of several models. Import this module only where it is used: it imports numba."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.kernels.machinery.compiled import njit
from tacenda_lm.sequences import Float64, Ids, Offsets

_FAST = {"contract", "reassoc"}


@njit(fastmath=_FAST)
def sum_recent_weights(ids: Ids, offsets: Offsets, weights: Float64) -> Float64:
    """Return the summed weights of the earlier occurrences of each id in its sequence, float64 (tokens,).

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
    """Return the summed weights of the entries with the right word, and of all entries, float64 (rows,) each.

    Row r is about the word at place ``first + r`` of ``words``, and sums the entries at the ``window`` places before
    it; ``weights`` (rows, places) has the entries at all places.
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
def smooth_states(pool, slots, emitted, later, probabilities):
    """Turn p(state | words so far) into p(state | sentence), from the last word of a piece to its first, in place.

        later_{t-1}[i] = sum_j A[j, i] p(x_t | j) later_t[j], which is p(x_t ... x_n | i), up to a factor

    ``pool`` (blocks, k, k) has blocks A, and ``slots`` (words,) the index of the block from each word to the next.
    ``emitted`` (words, k) is p(next word | j) for each state j of the next word. ``later`` (k,) is given for the word
    after the piece, and becomes that of the first word. ``probabilities`` (words, k) are changed. All arrays but
    ``slots`` are float32.
    """
    k = len(later)
    least, reached = np.finfo(np.float32).tiny, np.empty_like(later)
    for t in range(len(slots) - 1, -1, -1):
        A = pool[slots[t]]
        reached[:] = 0
        for j in range(k):
            weight = emitted[t, j] * later[j]
            for i in range(k):
                reached[i] += weight * A[j, i]
        # scaled, because float32 could not hold the probability of many words
        highest, total = max(reached.max(), least), np.float32(0)
        for i in range(k):
            later[i] = max(reached[i] / highest, least)
            probabilities[t, i] *= later[i]
            total += probabilities[t, i]
        probabilities[t] /= max(total, least)


@njit(fastmath=_FAST)
def read_texts(words, limit, from_inputs, matrices, masks, rows, q, found):
    """Do the loop of `Recurrence.forward`, with one step of ascent from every predicted state, text after text.

    With few types, products of matrices are too small to be worth their calls.

    Parameters
    ----------
    words
        (steps, texts). All other arrays have one dtype, and all are in C order.
    limit
        The bound of the elements of q.
    from_inputs
        The part of A s that comes from the inputs (steps, texts, internal).
    matrices
        The columns for the internal state of B (types, internal) and of A (internal, internal), and Lambda B A'
        (types, internal).
    masks
        ``live`` and ``seen`` (steps, texts) of a `Piece`, and ``keep`` (steps, texts, internal), empty without dropout.
    rows
        The part of the scores that comes from inputs and biases (steps, texts, types); becomes log-probabilities.
    q
        (texts, internal); becomes the states after the last step.
    found
        The states (steps, texts, internal) and errors e (steps, texts, types), which are written.
    """
    (outputs, transition, gain), (live, seen, keep), (states, errors) = matrices, masks, found
    length, texts, types = rows.shape
    n = q.shape[1]
    shown, following = np.empty(n, q.dtype), np.empty(n, q.dtype)
    for s in range(texts):
        now = q[s]
        for t in range(length):
            log_probs, e = rows[t, s], errors[t, s]
            states[t, s] = now
            for i in range(n):
                shown[i] = now[i] * keep[t, s, i] if keep.size else now[i]
            # u = B (keep o q) and what inputs and biases add, of which a softmax is taken
            highest = -np.inf
            for w in range(types):
                for i in range(n):
                    log_probs[w] += outputs[w, i] * shown[i]
                highest = max(highest, log_probs[w])
            total = 0.0
            for w in range(types):
                log_probs[w] -= highest
                total += np.exp(log_probs[w])
            # A q and what inputs add, and the gain by e = x - softmax(u)
            for i in range(n):
                following[i] = from_inputs[t, s, i]
                for j in range(n):
                    following[i] += transition[i, j] * now[j]
            for w in range(types):
                log_probs[w] -= np.log(total)
                e[w] = ((w == words[t, s]) - np.exp(log_probs[w])) * seen[t, s]
                for i in range(n):
                    following[i] += e[w] * gain[w, i]
            for i in range(n):
                now[i] = min(max(following[i], -limit), limit) * live[t, s]
