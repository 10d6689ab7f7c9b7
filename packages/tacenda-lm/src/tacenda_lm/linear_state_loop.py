"""The loop over time of a state-space model where the vocabulary is small, compiled (see `linear_states.forward`).

With so few types a product has too few numbers to be worth a call.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

import numpy as np

from tacenda.kernels.machinery.compiled import njit


@njit(fastmath={"contract", "reassoc"})
def run(
    rows, from_inputs, outputs, transition, gain, words, live, seen, keep, q, states, errors, limit
):
    """Read texts side by side, with one step of ascent from every predicted state.

    All arrays are in C order and of one dtype but ``words``. ``rows`` (steps, texts, types) hold what inputs and biases
    give to the scores, and become log-probabilities. ``outputs`` (types, internal) and ``transition`` (internal,
    internal) are the columns of B and A for the internal state, ``from_inputs`` (steps, texts, internal) is what the
    others give, ``gain`` (types, internal) is Lambda B A'. ``keep`` (steps, texts, internal) may be empty.
    ``q`` (texts, internal) is changed; ``states`` and ``errors`` are written.
    """
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
