"""Linear states through texts: what a state-space model has learned, what tokens make of its states, and gradients.

    s^(t) = [q(t); l(t-1); ...; l(t-n); j(t)],    q(t) = A s(t-1),    l(t-i) = C x(t-i)       (eqs 4 and 5)
    P(y(t) = w | s) = exp(B s + b)_w / sum_v exp(B s + b)_v                                   (eq 3, with a bias)

(Siivola and Honkela 2003.) x(t) is the indicator vector of a token, and zero for an unknown one and where there is
none. j(t) is the sum of the vectors of the runs of tokens that end at t - 1 (not in the paper; see `JointTokens`). The
matrix A takes the whole state, as eq 10 and the discussion of the paper have it; its eq 5 prints N_q columns.

At every place the state s^ is predicted, the token y is scored and read, and the internal state goes on:

    u = B (keep o s^) + b,    log P(y) = log softmax(u)_y,    q(t+1) = A s(t),    s(t) = s^ + Lambda B' e(u, y)

``keep`` is dropout. e is x - softmax(u), one step of ascent from the predicted state, or that of the most probable
state given the token (eq 9), by Newton's method for many states at once:

    s* = argmax_s  log P(y | s) - (s - s^)' Lambda^-1 (s - s^) / 2,    Lambda = variance I

The gradient is zero where s = s^ + Lambda B' e with the error e = x - softmax(B s + b), so a state is found through
its e, which has one element a token. With the scores u^ = B s^ + b and G = Lambda B B' it is the largest of

    phi(e) = log softmax(u^ + G e)_y - e' G e / 2

which is concave. A Newton step d solves (I + D G) d = x - p - e with p = softmax(u^ + G e), D = diag(p) - p p'. That
matrix is symmetric and positive in the inner product of G, so conjugate gradients in this product solve for d; nothing
is needed of G but its product with vectors, which is a small matrix for letters, and two products with B for words.
A token that is unknown says nothing: e = 0 (section 2.5).

All that depends on the last tokens alone is computed for a whole piece in matrix products; what is left in the loop
over time are products with N_q columns. Gradients go back through e too: through a softmax for one step; for the most
probable state by the implicit function theorem, which asks for one more system with the matrix of a Newton step,
(I + D G) w = D de. They are written out: autograd takes 1.7 to 1.8 times as long.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Array, Arrays, Float32, within
from tacenda.errors import ArtifactError
from tacenda_lm.states import log_softmax
from tacenda_lm.training import Gradient, sum_by_row

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.integer[Any]]
_Int64 = npt.NDArray[np.int64]

Product: TypeAlias = Callable[[Floats], Floats]
"""Rows e (states, types) to the rows G e."""

LIMIT = 1e6  # no element of an internal state exceeds it, so that a recurrence which is not stable cannot overflow
SMALL = 512  # types, up to which G is kept as a matrix, and a loop over time is compiled
_LARGEST = within(-1e4, 1e4)  # of the saved numbers; what training makes stays far below
_STEPS = 30  # of Newton's method, at most; two to four are usual
_HALVED = 20  # times that a step is halved, at most
_SOLVES = 60  # steps of conjugate gradients, at most
_TOLERANCE = {4: 1e-5, 8: 1e-10}  # length of the gradient at the end, by the bytes of a number


# -- what is learned, and the inputs of a state ------------------------------------------------------


class Parameters(Arrays):
    """The matrices, of one dtype; a state is (internal + inputs,) long."""

    transition: Float32[Array, "internal state", _LARGEST]  # A
    outputs: Float32[Array, "types state", _LARGEST]  # B
    features: Float32[Array, "types features", _LARGEST]  # C, transposed; the row of <unk> is zero
    biases: Float32[Array, "types 1", _LARGEST]  # b
    joint: Float32[Array, "runs joint_width", _LARGEST]  # the vectors of runs of tokens
    variance: float = 1.0  # the diagonal of Lambda
    exact: bool = (
        False  # whether a token that was read makes the most probable state of the predicted one
    )

    @property
    def internal(self) -> int:
        """Elements of the internal state, N_q."""
        return len(self.transition)

    @property
    def gain(self) -> Floats:
        """Lambda B A' (types, internal): what e adds to the next internal state."""
        found: Floats = (self.outputs @ self.transition.T) * self.outputs.dtype.type(self.variance)
        return found

    @property
    def product(self) -> Product | None:
        """The product with G where states are the most probable ones, else None."""
        return product_of(self.outputs, self.variance) if self.exact else None


class Inputs(NamedTuple):
    """The tokens before some places of a text, which give all of the predicted state but the internal one."""

    words: Ints  # (..., order - 1), the last token first, <unk> where there is none
    runs: Ints  # (..., joint_order - 1), rows of the vectors of runs, -1 where there is none

    @classmethod
    def of(cls, windows: Ints, n: int, joint: JointTokens) -> Inputs:
        """Return those of windows (..., window) of the last tokens, the last first."""
        return cls(windows[..., :n], joint.rows(windows))

    def vectors(self, p: Parameters) -> Floats:
        """Return [l(t-1); ...; l(t-n); j(t)], (..., inputs)."""
        *shape, n = self.words.shape
        parts = [p.features[self.words].reshape(*shape, n * p.features.shape[1])]
        if self.runs.shape[-1]:
            table = np.vstack([p.joint, np.zeros_like(p.joint, shape=(1, p.joint.shape[1]))])
            parts.append(table[self.runs].sum(axis=-2))  # -1 is the row of zeros
        return np.concatenate(parts, axis=-1)


class JointTokens:
    """Runs of two and more tokens that are taken for one, so that a state can hold a feature vector of them.

    A sum of feature vectors of single tokens cannot say what follows two of them together; a vector of the pair can.
    Runs are numbered from the shortest to the longest, and kept as a trie: a run of k tokens is the place of its first
    k - 1 among the runs of that length, and its last token.

    Parameters
    ----------
    keys
        For every length from two on, int64 (runs,), ascending: place of the first tokens * types + last token. The
        place of one token is its id.
    n_types
        Number of ids.
    unknown
        The id that stands for an unknown token and for none; no run has it.
    """

    def __init__(self, keys: list[_Int64], n_types: int, unknown: int) -> None:
        self.keys, self.n_types, self.unknown = keys, n_types, unknown
        self._first = list(
            accumulate(map(len, keys), initial=0)
        )  # row of the first run of each length

    def __len__(self) -> int:
        return self._first[-1]

    @classmethod
    def of(cls, windows: Ints, n_types: int, unknown: int, least: int) -> Self:
        """Find the runs that occur ``least`` times among the ends of windows (places, longest), last token first."""
        keys: list[_Int64] = []
        for k in range(2, windows.shape[1] + 1):
            shorter = cls(keys, n_types, unknown)
            known, key = shorter._keys(windows[:, :k])
            found, counts = np.unique(key[known], return_counts=True)
            keys.append(found[counts >= least])
        return cls(keys, n_types, unknown)

    def rows(self, windows: Ints) -> _Int64:
        """Return the rows of the runs that end windows (..., tokens), the last token first: int64 (..., lengths).

        -1 where a run is not among those kept.
        """
        found = np.full((*windows.shape[:-1], len(self.keys)), -1, np.int64)
        for i in range(len(self.keys)):
            place = self._places(windows[..., : i + 2])
            found[..., i] = np.where(place >= 0, place + self._first[i], -1)
        return found

    def _keys(self, windows: Ints) -> tuple[npt.NDArray[np.bool_], _Int64]:
        """Return which windows have all but their last token listed and a known last one, and the keys of all."""
        before, last = self._places(windows[..., 1:]), windows[..., 0].astype(np.int64)
        return (before >= 0) & (last != self.unknown), before * self.n_types + last

    def _places(self, windows: Ints) -> _Int64:
        """Return the places of whole windows among the runs of their length, -1 for one that is not there."""
        k = windows.shape[-1]
        if k == 1:
            ids = windows[..., 0].astype(np.int64)
            return np.where(ids == self.unknown, -1, ids)
        keys = self.keys[k - 2]
        known, key = self._keys(windows)
        if not len(keys):
            return np.full(known.shape, -1)
        place = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        return np.where(known & (keys[place] == key), place, -1)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the keys of all lengths end to end, and how many there are of each."""
        sizes = np.array([len(each) for each in self.keys], np.int64)
        return {"runs": np.concatenate([np.empty(0, np.int64), *self.keys]), "run_sizes": sizes}

    @classmethod
    def from_arrays(cls, keys: _Int64, sizes: _Int64, n_types: int, unknown: int) -> Self:
        """Return what `arrays` gave. Raises ArtifactError where these are no runs."""
        ends = np.cumsum(sizes)
        if (
            (sizes < 0).any()
            or (sizes > len(keys)).any()
            or (ends[-1] if len(ends) else 0) != len(keys)
        ):
            raise ArtifactError("run_sizes do not cut the runs of tokens; the model is damaged")
        cut = np.split(keys, ends[:-1]) if len(ends) else []
        places = n_types
        for k, own in enumerate(cut, start=2):
            ordered = (own[1:] > own[:-1]).all()
            if len(own) and not (ordered and own[0] >= 0 and own[-1] // n_types < places):
                raise ArtifactError(
                    f"the runs of {k} tokens are not in order; the model is damaged"
                )
            places = len(own)
        return cls(cut, n_types, unknown)


# -- the most probable state -------------------------------------------------------------------------


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


# -- pieces of texts ---------------------------------------------------------------------------------


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
    log_probs: Floats, scores: Floats, words: Ints, seen: Floats, product: Product | None
) -> tuple[Floats, Floats]:
    """Return e of tokens that are read, and the probabilities where it was taken, both (states, types)."""
    if product is not None:
        return most_probable(scores, words, seen, product)
    reached = np.exp(log_probs)
    return errors_of_step(reached, words, seen), reached


def forward(p: Parameters, piece: Piece, before: Floats, keep: Floats | None = None) -> Forward:
    """Score a piece, from the internal states ``before`` (texts, internal) at its first places.

    ``keep`` (steps, texts, state) are factors of the elements of the predicted states.
    """
    n_q, (steps, texts) = p.internal, piece.words.shape
    x = piece.inputs.vectors(p)
    rows = (x if keep is None else x * keep[..., n_q:]) @ p.outputs[:, n_q:].T + p.biases[:, 0]
    if not n_q:
        none = rows[:, :, :0]
        return Forward(log_softmax(rows), before, none, none, none)
    from_inputs, gain = x @ p.transition[:, n_q:].T, p.gain
    states = np.empty((steps, texts, n_q), rows.dtype)
    errors = np.empty_like(rows)
    if not p.exact and rows.shape[2] <= SMALL:
        from tacenda_lm.linear_state_loop import run  # imports numba

        q, dtype = np.array(before, rows.dtype), rows.dtype
        own = keep[..., :n_q] if keep is not None else np.empty((0, 0, 0))
        arrays = from_inputs, p.outputs[:, :n_q], p.transition[:, :n_q], gain
        of_places = piece.live, piece.seen, own
        words = np.ascontiguousarray(piece.words, np.int64)
        run(
            rows,
            *(np.ascontiguousarray(each, dtype) for each in arrays),
            words,
            *(np.ascontiguousarray(each, dtype) for each in of_places),
            q,
            states,
            errors,
            dtype.type(LIMIT),
        )
        return Forward(rows, q, states, errors, np.exp(rows))
    q, reached, product = before, np.empty_like(rows), p.product
    for t in range(steps):
        states[t] = q
        rows[t] += (q if keep is None else q * keep[t, :, :n_q]) @ p.outputs[:, :n_q].T
        scores = rows[t].copy() if p.exact else rows[t]
        log_softmax(rows[t])
        errors[t], reached[t] = read(rows[t], scores, piece.words[t], piece.seen[t], product)
        q = q @ p.transition[:, :n_q].T + from_inputs[t] + errors[t] @ gain
        q = np.clip(q, -LIMIT, LIMIT) * piece.live[t][:, None]
    return Forward(rows, q, states, errors, reached)


def onward(p: Parameters, q: Floats, inputs: Floats, errors: Floats) -> Floats:
    """Return the next internal states (states, internal), those of `forward`, after tokens with errors e were read."""
    s = np.concatenate([q, inputs], axis=1)
    found: Floats = np.clip(s @ p.transition.T + errors @ p.gain, -LIMIT, LIMIT)
    return found


def backward(
    p: Parameters, piece: Piece, passed: Forward, keep: Floats | None = None
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
        d_onward, d_gain = _through_time(p, piece, passed, keep, d_rows, d_outputs)
        flat = _flat(d_onward)
        d_transition[:, :n_q], d_transition[:, n_q:] = (
            flat.T @ _flat(passed.states),
            flat.T @ _flat(x),
        )
        # gain = variance B A'
        d_transition += p.variance * (d_gain.T @ p.outputs)
        d_outputs += p.variance * (d_gain @ p.transition)
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
    keep: Floats | None,
    d_rows: Floats,
    d_outputs: Floats,
) -> tuple[Floats, Floats]:
    """Return the gradients by A s^ (steps, texts, internal) and by the gain; add to those by u and, of G, by B."""
    n_q, steps = p.internal, len(piece.words)
    gain, product = p.gain, p.product
    d_onward = np.empty_like(passed.states)
    d_gain = np.zeros_like(gain)
    d_q = np.zeros_like(passed.after)
    for t in reversed(range(steps)):
        g = d_onward[t]
        np.multiply(d_q, piece.live[t][:, None], out=g)
        d_gain += passed.errors[t].T @ g
        # w is minus the gradient by u that comes through e
        w = times_covariance(passed.reached[t], piece.seen[t], g @ gain.T)
        if product is not None:
            w, *_ = solve(passed.reached[t], piece.seen[t], product, w)
            # G = variance B B' stands beside u in the softmax: u + G e
            d_outputs -= p.variance * (w.T @ (passed.errors[t] @ p.outputs))
            d_outputs -= p.variance * (passed.errors[t].T @ (w @ p.outputs))
        d_rows[t] -= w
        back = d_rows[t] @ p.outputs[:, :n_q]
        d_q = g @ p.transition[:, :n_q] + (back if keep is None else back * keep[t, :, :n_q])
    return d_onward, d_gain


def _flat(array: Floats) -> Floats:
    """Return (steps * texts, width)."""
    steps, texts, width = array.shape
    return array.reshape(steps * texts, width)
