"""The most probable state given a token, by Newton's method, for many states at once (eq 9).

    s* = argmax_s  log P(y | s) - (s - s^)' Lambda^-1 (s - s^) / 2,    Lambda = variance I

The gradient is zero where s = s^ + Lambda B' e with the error e = x - softmax(B s + b), so a state is found through
its e, which has one element a token. With the scores u^ = B s^ + b and G = Lambda B B' it is the largest of

    phi(e) = log softmax(u^ + G e)_y - e' G e / 2

which is concave. A Newton step d solves (I + D G) d = x - p - e with p = softmax(u^ + G e), D = diag(p) - p p'. That
matrix is symmetric and positive in the inner product of G, so conjugate gradients in this product solve for d; nothing
is needed of G but its product with vectors, which is a small matrix for letters, and two products with B for words.
A token that is unknown says nothing: e = 0 (section 2.5).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from tacenda_lm.state_space.parameters import Floats, Ints
from tacenda_lm.states import log_softmax

__all__ = ["SMALL", "Product", "errors_of_step", "most_probable", "product_of", "solve"]

Product: TypeAlias = Callable[[Floats], Floats]
"""Rows e (states, types) to the rows G e."""

SMALL = 512  # types, up to which G is kept as a matrix, and a loop over time is compiled
_STEPS = 30  # of Newton's method, at most; two to four are usual
_HALVED = 20  # times that a step is halved, at most
_SOLVES = 60  # steps of conjugate gradients, at most
_TOLERANCE = {4: 1e-5, 8: 1e-10}  # length of the gradient at the end, by the bytes of a number


def product_of(outputs: Floats, variance: float) -> Product:
    """Return the product with G = variance B B', for B (types, state)."""
    if len(outputs) <= SMALL:
        matrix = (outputs @ outputs.T) * outputs.dtype.type(variance)
        return lambda e: e @ matrix
    return lambda e: ((e @ outputs) * outputs.dtype.type(variance)) @ outputs.T


def errors_of_step(p: Floats, words: Ints, seen: Floats) -> Floats:
    """Return e = x - p (states, types): what one step of ascent from the predicted state takes for e.

    ``p`` are the probabilities there, and ``seen`` (states,) is 1, or 0 for a token that says nothing.
    """
    e: Floats = -p * seen[:, None]
    e[np.arange(len(e)), words] += seen
    return e


def most_probable(
    scores: Floats, words: Ints, seen: Floats, product: Product
) -> tuple[Floats, Floats]:
    """Return e at the most probable states, and the probabilities of tokens there, both (states, types).

    Parameters
    ----------
    scores
        u^ (states, types), those of the predicted states.
    words
        y (states,), the tokens read.
    seen
        (states,): 1, or 0 for a token that says nothing.
    product
        That with G.
    """
    rows, tolerance = np.arange(len(scores)), _TOLERANCE[scores.dtype.itemsize]
    e, moved = np.zeros_like(scores), np.zeros_like(scores)  # moved = G e
    log_p = log_softmax(scores.copy())
    value = log_p[rows, words]  # phi
    active = np.array(seen)
    for _ in range(_STEPS):
        p = np.exp(log_p)
        slope = (errors_of_step(p, words, seen) - e) * active[:, None]
        step, moves, size = solve(p, seen, product, slope)
        active = active * (size > tolerance**2)
        share = np.array(active)
        for _ in range(_HALVED):
            new, there = e + share[:, None] * step, moved + share[:, None] * moves
            log_new = log_softmax(scores + there)
            reached = log_new[rows, words] - (new * there).sum(axis=1) / 2
            higher = reached >= value - tolerance
            if higher.all():
                break
            share[~higher] /= 2
        active = (
            active * higher
        )  # a state that cannot be bettered, or is no number, stays where it is
        better = active > 0
        if not better.any():
            break
        for now, after in ((e, new), (moved, there), (log_p, log_new), (value, reached)):
            now[better] = after[better]
    p = np.exp(log_p)
    # the same but for what G takes to zero, where B has fewer columns than rows
    return errors_of_step(p, words, seen), p


def solve(p: Floats, seen: Floats, product: Product, rhs: Floats) -> tuple[Floats, Floats, Floats]:
    """Solve (I + D G) d = rhs for every state by conjugate gradients in the product of G.

    Parameters
    ----------
    p
        (states, types), the probabilities in D.
    seen
        (states,): 0 for a state whose D is zero.
    product
        That with G.
    rhs
        (states, types).

    Returns
    -------
    d and G d, (states, types), d up to what G takes to zero; and rhs' G rhs, (states,).
    """
    d, moves = np.zeros_like(rhs), np.zeros_like(rhs)
    left, ahead = rhs, rhs  # what is left, and the direction
    left_moves = ahead_moves = product(rhs)
    first = size = (left * left_moves).sum(axis=1)
    enough = first * _TOLERANCE[rhs.dtype.itemsize] ** 2
    for _ in range(_SOLVES):
        more = size > enough  # the others are done, and what is left of them is rounding
        if not more.any():
            break
        applied = ahead + times_covariance(p, seen, ahead_moves)
        curvature = (ahead_moves * applied).sum(axis=1)
        a = np.divide(size, curvature, out=np.zeros_like(size), where=more & (curvature > 0))
        d, moves = d + a[:, None] * ahead, moves + a[:, None] * ahead_moves
        left = left - a[:, None] * applied
        left_moves = product(left)
        now = (left * left_moves).sum(axis=1)
        b = np.divide(now, size, out=np.zeros_like(size), where=more)[:, None]
        ahead, ahead_moves, size = left + b * ahead, left_moves + b * ahead_moves, now
    return d, moves, first


def times_covariance(p: Floats, seen: Floats, v: Floats) -> Floats:
    """Return D v = p o (v - p'v), zero for a state whose token is not seen."""
    inner = (p * v).sum(axis=1, keepdims=True)
    return np.asarray(p * (v - inner) * seen[:, None])
