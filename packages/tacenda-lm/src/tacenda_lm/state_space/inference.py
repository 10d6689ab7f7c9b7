"""The most probable state of a `StateSpaceLM` given a token (Siivola and Honkela 2003, eq 9).

    s* = argmax_s  log P(y | s) - (s - s^)' Lambda^-1 (s - s^) / 2,    Lambda = variance I

The gradient is zero where s = s^ + Lambda B' e with the error e = x - softmax(B s + b), so a state is found through
its e, which has one element for each token of the vocabulary. With the scores u^ = B s^ + b and G = Lambda B B', e
maximizes

    phi(e) = log softmax(u^ + G e)_y - e' G e / 2,

which is concave. A Newton step d solves (I + D G) d = x - p - e with p = softmax(u^ + G e), D = diag(p) - p p'. That
matrix is symmetric and positive in the inner product of G, so conjugate gradients in this product solve for d. They
need only products of G with vectors: one with a small matrix for letters, and two with B for words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from tacenda_lm.distributions import log_softmax
from tacenda_lm.sequences import Floats, Integers

Product: TypeAlias = Callable[[Floats], Floats]
"""Maps rows e (states, types) to the rows G e."""

# types up to which G is stored as a matrix, and a loop over time is compiled
SMALL_VOCABULARY = 512
_MAX_NEWTON_STEPS = 30  # two to four are usual
_MAX_HALVINGS = 20  # of one Newton step
_MAX_CG_STEPS = 60  # of conjugate gradients, for one Newton step
_TOLERANCE = {4: 1e-5, 8: 1e-10}  # length of the gradient at the end, by the bytes of a number


def make_product(outputs: Floats, variance: float) -> Product:
    """Return the function that multiplies by G = variance B B', for B (types, state)."""
    if len(outputs) <= SMALL_VOCABULARY:
        matrix = (outputs @ outputs.T) * outputs.dtype.type(variance)
        return lambda e: e @ matrix
    return lambda e: ((e @ outputs) * outputs.dtype.type(variance)) @ outputs.T


def compute_errors(p: Floats, words: Integers, seen: Floats) -> Floats:
    """Return e = x - p (states, types).

    ``p`` (states, types) are the probabilities at a state and ``words`` (states,) the tokens read there. ``seen``
    (states,) is 1, or 0 for a token that says nothing, whose e is zero.
    """
    e: Floats = -p * seen[:, None]
    e[np.arange(len(e)), words] += seen
    return e


def find_most_probable(
    scores: Floats, words: Integers, seen: Floats, product: Product
) -> tuple[Floats, Floats]:
    """Return e at the most probable states, and the probabilities of tokens there, both (states, types).

    ``scores`` are u^ (states, types) of the predicted states, and ``words`` y (states,), the tokens read;
    ``seen`` (states,) is 1, or 0 for a token that says nothing.
    """
    rows, tolerance = np.arange(len(scores)), _TOLERANCE[scores.dtype.itemsize]
    e, moved = np.zeros_like(scores), np.zeros_like(scores)  # moved = G e
    log_p = log_softmax(scores.copy())
    value = log_p[rows, words]  # phi
    active = np.array(seen)
    for _ in range(_MAX_NEWTON_STEPS):
        p = np.exp(log_p)
        slope = (compute_errors(p, words, seen) - e) * active[:, None]
        step, step_moved, size = solve(p, seen, product, slope)
        active = active * (size > tolerance**2)
        share = np.array(active)
        for _ in range(_MAX_HALVINGS):
            new_e, new_moved = e + share[:, None] * step, moved + share[:, None] * step_moved
            new_log_p = log_softmax(scores + new_moved)
            new_value = new_log_p[rows, words] - (new_e * new_moved).sum(axis=1) / 2
            is_higher = new_value >= value - tolerance
            if is_higher.all():
                break
            share[~is_higher] /= 2
        # a state that no step improves, or that is not a number, stays where it is
        active = active * is_higher
        better = active > 0
        if not better.any():
            break
        for old, new in ((e, new_e), (moved, new_moved), (log_p, new_log_p), (value, new_value)):
            old[better] = new[better]
    p = np.exp(log_p)
    # equals e up to what G maps to zero, which matters if B has fewer columns than rows
    return compute_errors(p, words, seen), p


def solve(p: Floats, seen: Floats, product: Product, rhs: Floats) -> tuple[Floats, Floats, Floats]:
    """Solve (I + D G) d = rhs for every state by conjugate gradients in the inner product of G.

    ``p`` (states, types) are the probabilities in D, and ``seen`` (states,) is 0 for a state whose D is zero. Return d,
    up to what G maps to zero, and G d (states, types), and rhs' G rhs (states,). A name with ``moved`` is G times the
    vector of that name.
    """
    d, d_moved = np.zeros_like(rhs), np.zeros_like(rhs)
    residual = direction = rhs
    residual_moved = direction_moved = product(rhs)
    first_size = size = (residual * residual_moved).sum(axis=1)
    enough = first_size * _TOLERANCE[rhs.dtype.itemsize] ** 2
    for _ in range(_MAX_CG_STEPS):
        unsolved = size > enough  # the residuals of the other states are rounding errors
        if not unsolved.any():
            break
        applied = direction + multiply_by_covariance(p, seen, direction_moved)
        curvature = (direction_moved * applied).sum(axis=1)
        usable = unsolved & (curvature > 0)
        a = np.divide(size, curvature, out=np.zeros_like(size), where=usable)[:, None]
        d, d_moved = d + a * direction, d_moved + a * direction_moved
        residual = residual - a * applied
        residual_moved = product(residual)
        new_size = (residual * residual_moved).sum(axis=1)
        b = np.divide(new_size, size, out=np.zeros_like(size), where=unsolved)[:, None]
        direction, direction_moved = residual + b * direction, residual_moved + b * direction_moved
        size = new_size
    return d, d_moved, first_size


def multiply_by_covariance(p: Floats, seen: Floats, v: Floats) -> Floats:
    """Return D v = p o (v - p'v) (states, types), zero for a state whose token says nothing."""
    inner = (p * v).sum(axis=1, keepdims=True)
    return np.asarray(p * (v - inner) * seen[:, None])
