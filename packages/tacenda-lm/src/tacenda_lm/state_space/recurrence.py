"""Texts through a state-space model, side by side: scores forwards, gradients backwards.

At every place the state s^ is predicted, the token y is scored and read, and the internal state goes on:

    u = B (keep o s^) + b,    log P(y) = log softmax(u)_y,    q(t+1) = A s(t),    s(t) = s^ + Lambda B' e(u, y)

e is x - softmax(u), one step of ascent from the predicted state, or that of the most probable state
(`tacenda_lm.state_space.inference`). ``keep`` is dropout. All that depends on the last tokens alone is computed for a
whole piece in matrix products; what is left in the loop over time are products with N_q columns.

Gradients go back through e too: through a softmax for one step; for the most probable state by the implicit function
theorem, which asks for one more system with the matrix of a Newton step, (I + D G) w = D de.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacenda_lm.state_space.inference import (
    SMALL,
    Product,
    errors_of_step,
    most_probable,
    product_of,
    solve,
    times_covariance,
)
from tacenda_lm.state_space.parameters import Floats, Inputs, Ints, Parameters
from tacenda_lm.states import log_softmax
from tacenda_lm.training import Gradient, sum_by_row

__all__ = [
    "LIMIT",
    "Forward",
    "Piece",
    "backward",
    "forward",
    "onward",
    "read",
]

LIMIT = 1e6  # no element of an internal state exceeds it, so that a recurrence which is not stable cannot overflow


class Piece(NamedTuple):
    """Places of several texts side by side: (steps, texts) each."""

    inputs: Inputs
    words: Ints  # y, the tokens at these places
    live: Floats  # 1; 0 at a token that is context only, after which the state begins anew
    seen: Floats  # 1; 0 at a token that is unknown or context only


class Forward(NamedTuple):
    """What `forward` found, with what `backward` needs."""

    log_probs: Floats  # (steps, texts, types), natural
    after: Floats  # (texts, internal): the internal state after the last token
    states: Floats  # q (steps, texts, internal)
    errors: Floats  # e (steps, texts, types); without an internal state none are needed
    reached: Floats  # the probabilities at the most probable states, likewise


def read(
    log_probs: Floats, scores: Floats, words: Ints, seen: Floats, exact: Product | None
) -> tuple[Floats, Floats]:
    """Return e of tokens that are read, and the probabilities where it was taken, both (states, types).

    ``exact`` is the product with G for the most probable state, and None for one step.
    """
    if exact is not None:
        return most_probable(scores, words, seen, exact)
    reached = np.exp(log_probs)
    return errors_of_step(reached, words, seen), reached


def forward(
    p: Parameters,
    piece: Piece,
    before: Floats,
    variance: float,
    exact: bool,
    keep: Floats | None = None,
) -> Forward:
    """Score a piece.

    Parameters
    ----------
    p
        The parameters.
    piece
        What to score.
    before
        q (texts, internal) at the first places.
    variance
        The diagonal of Lambda.
    exact
        Whether a token that was read makes the most probable state of the predicted one.
    keep
        (steps, texts, state): factors of the elements of the predicted states.
    """
    n_q, (steps, texts) = p.internal, piece.words.shape
    x = piece.inputs.vectors(p)
    rows = (x if keep is None else x * keep[..., n_q:]) @ p.outputs[:, n_q:].T + p.biases[:, 0]
    if not n_q:
        none = rows[:, :, :0]
        return Forward(log_softmax(rows), before, none, none, none)
    from_inputs = x @ p.transition[:, n_q:].T
    gain = _gain(p, variance)
    product = product_of(p.outputs, variance) if exact else None
    states = np.empty((steps, texts, n_q), rows.dtype)
    errors, reached = np.empty_like(rows), np.empty_like(rows)
    q = before
    if not exact and rows.shape[2] <= SMALL:
        q = _compiled(p, piece, rows, from_inputs, gain, q, keep, states, errors)
        return Forward(rows, q, states, errors, np.exp(rows))
    for t in range(steps):
        states[t] = q
        rows[t] += (q if keep is None else q * keep[t, :, :n_q]) @ p.outputs[:, :n_q].T
        scores = rows[t].copy() if exact else rows[t]
        log_softmax(rows[t])
        errors[t], reached[t] = read(rows[t], scores, piece.words[t], piece.seen[t], product)
        q = q @ p.transition[:, :n_q].T + from_inputs[t] + errors[t] @ gain
        q = np.clip(q, -LIMIT, LIMIT) * piece.live[t][:, None]
    return Forward(rows, q, states, errors, reached)


def _compiled(
    p: Parameters,
    piece: Piece,
    rows: Floats,
    from_inputs: Floats,
    gain: Floats,
    before: Floats,
    keep: Floats | None,
    states: Floats,
    errors: Floats,
) -> Floats:
    """Fill the rows, the states and the errors of `forward`, one step at a time; return q after the last token."""
    from tacenda_lm.state_space.compiled import steps  # imports numba

    n_q, dtype = p.internal, rows.dtype
    own = keep[..., :n_q] if keep is not None else np.empty((0, 0, 0))
    columns = (p.outputs[:, :n_q], p.transition[:, :n_q], gain)
    of_places = (piece.live, piece.seen, own)
    q = np.array(before, dtype)
    outputs, transition, gained, live, seen, kept = (
        np.ascontiguousarray(each, dtype) for each in (*columns, *of_places)
    )
    words = np.ascontiguousarray(piece.words, np.int64)
    inner = np.ascontiguousarray(from_inputs, dtype), outputs, transition, gained
    steps(rows, *inner, words, live, seen, kept, q, states, errors, dtype.type(LIMIT))
    return q


def onward(p: Parameters, q: Floats, inputs: Floats, errors: Floats, variance: float) -> Floats:
    """Return the next internal states (states, internal), those of `forward`, after tokens with errors e were read."""
    s = np.concatenate([q, inputs], axis=1)
    return np.clip(s @ p.transition.T + errors @ _gain(p, variance), -LIMIT, LIMIT)


def backward(
    p: Parameters,
    piece: Piece,
    passed: Forward,
    variance: float,
    exact: bool,
    keep: Floats | None = None,
) -> tuple[float, dict[str, Gradient]]:
    """Return the summed -log P of the live places, and its gradients; arguments as of `forward`.

    The state before the piece is taken for constant.
    """
    n_q, (steps, texts) = p.internal, piece.words.shape
    x = piece.inputs.vectors(p)
    d_rows = np.exp(passed.log_probs) * piece.live[..., None]
    at = np.arange(steps)[:, None], np.arange(texts), piece.words
    loss = -float((passed.log_probs[at] * piece.live).sum(dtype=np.float64))
    d_rows[at] -= piece.live
    d_x = np.zeros_like(x)
    d_transition = np.zeros_like(p.transition)
    d_outputs = np.zeros_like(p.outputs)
    if n_q:
        d_onward, d_gain = _through_time(p, piece, passed, variance, exact, keep, d_rows, d_outputs)
        flat = _flat(d_onward)
        d_transition[:, :n_q], d_transition[:, n_q:] = (
            flat.T @ _flat(passed.states),
            flat.T @ _flat(x),
        )
        # gain = variance B A'
        d_transition += variance * (d_gain.T @ p.outputs)
        d_outputs += variance * (d_gain @ p.transition)
        d_x += d_onward @ p.transition[:, n_q:]
        shown = passed.states if keep is None else passed.states * keep[..., :n_q]
        d_outputs[:, :n_q] += _flat(d_rows).T @ _flat(shown)
    shown = x if keep is None else x * keep[..., n_q:]
    d_outputs[:, n_q:] += _flat(d_rows).T @ _flat(shown)
    back = d_rows @ p.outputs[:, n_q:]
    d_x += back if keep is None else back * keep[..., n_q:]
    n, width = piece.inputs.words.shape[-1], p.features.shape[1]
    found: dict[str, Gradient] = {
        "transition": (None, d_transition),
        "outputs": (None, d_outputs),
        "features": sum_by_row(
            piece.inputs.words.ravel(), d_x[..., : n * width].reshape(-1, width)
        ),
        "biases": (None, _flat(d_rows).sum(axis=0)[:, None]),
    }
    if piece.inputs.runs.shape[-1]:
        there = np.nonzero(piece.inputs.runs >= 0)
        found["joint"] = sum_by_row(piece.inputs.runs[there], d_x[there[:2]][:, n * width :])
    return loss, found


def _through_time(
    p: Parameters,
    piece: Piece,
    passed: Forward,
    variance: float,
    exact: bool,
    keep: Floats | None,
    d_rows: Floats,
    d_outputs: Floats,
) -> tuple[Floats, Floats]:
    """Return the gradients by A s^ (steps, texts, internal) and by the gain; add to those by u and, of G, by B."""
    n_q, steps = p.internal, len(piece.words)
    gain, product = _gain(p, variance), product_of(p.outputs, variance)
    d_onward = np.empty_like(passed.states)
    d_gain = np.zeros_like(gain)
    d_q = np.zeros_like(passed.after)
    for t in reversed(range(steps)):
        g = d_onward[t]
        np.multiply(d_q, piece.live[t][:, None], out=g)
        d_gain += passed.errors[t].T @ g
        # w is minus the gradient by u that comes through e
        w = times_covariance(passed.reached[t], piece.seen[t], g @ gain.T)
        if exact:
            w, *_ = solve(passed.reached[t], piece.seen[t], product, w)
            # G = variance B B' stands beside u in the softmax: u + G e
            d_outputs -= variance * (w.T @ (passed.errors[t] @ p.outputs))
            d_outputs -= variance * (passed.errors[t].T @ (w @ p.outputs))
        d_rows[t] -= w
        back = d_rows[t] @ p.outputs[:, :n_q]
        d_q = g @ p.transition[:, :n_q] + (back if keep is None else back * keep[t, :, :n_q])
    return d_onward, d_gain


def _gain(p: Parameters, variance: float) -> Floats:
    """Return Lambda B A' (types, internal): what e adds to the next internal state."""
    return (p.outputs @ p.transition.T) * p.outputs.dtype.type(variance)


def _flat(array: Floats) -> Floats:
    """Return (steps * texts, width)."""
    steps, texts, width = array.shape
    return array.reshape(steps * texts, width)
