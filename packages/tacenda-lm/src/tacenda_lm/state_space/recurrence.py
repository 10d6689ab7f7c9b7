"""The recurrence of `StateSpaceLM`: its parameters, states, scores and gradients.

    s^(t) = [q(t); l(t-1); ...; l(t-n); j(t)],    q(t) = A s(t-1),    l(t-i) = C x(t-i)       (eqs 4 and 5)
    P(y(t) = w | s) = exp(B s + b)_w / sum_v exp(B s + b)_v                                   (eq 3, with a bias)

(Siivola and Honkela 2003.) x(t) is the indicator vector of a token, and zero for an unknown one and where there is
none. j(t) is the sum of the vectors of the runs of tokens that end at t - 1 (not in the paper; see `JointTokens`). The
matrix A takes the whole state, as eq 10 and the discussion of the paper have it; its eq 5 prints N_q columns.

At every place the state s^ is predicted, the token y is scored and read, and the next internal state is computed:

    u = B (keep o s^) + b,    log P(y) = log softmax(u)_y,    q(t+1) = A s(t),    s(t) = s^ + Lambda B' e(u, y)

``keep`` is dropout. e is x - softmax(u), one step of ascent from the predicted state, or that of the most probable
state given the token (`tacenda_lm.state_space.inference`). A token that is unknown says nothing: e = 0 (section 2.5).

Everything that depends on the last tokens alone is computed for a whole piece in matrix products; the loop over time
has only products with N_q columns. Gradients go back through e too: through a softmax for one step; for the most
probable state by the implicit function theorem, which needs one more system with the matrix of a Newton step,
(I + D G) w = D de. They are written out, because autograd takes 1.7 to 1.8 times as long.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacenda.array_ops import merge_rows
from tacenda.arrays import Array, Arrays, Float32
from tacenda.forks import cached_property
from tacenda.lazy import compiled
from tacenda_lm import options
from tacenda_lm.distributions import log_softmax
from tacenda_lm.sequences import Floats, Integers
from tacenda_lm.state_space.inference import (
    SMALL_VOCABULARY,
    Product,
    compute_errors,
    find_most_probable,
    make_product,
    multiply_by_covariance,
    solve,
)
from tacenda_lm.state_space.joint_tokens import JointTokens
from tacenda_lm.training import Gradient

LIMIT = 1e6  # bound of the elements of an internal state, so that an unstable recurrence cannot overflow


class Parameters(Arrays):
    """The learned matrices, all of one dtype; a state has internal + inputs elements."""

    transition: Float32[Array, "internal state", options.BOUNDED_WEIGHTS]  # A
    outputs: Float32[Array, "types state", options.BOUNDED_WEIGHTS]  # B
    # C, transposed; the row of <unk> is zero
    features: Float32[Array, "types features", options.BOUNDED_WEIGHTS]
    biases: Float32[Array, "types 1", options.BOUNDED_WEIGHTS]  # b
    # the vectors of runs of tokens
    joint: Float32[Array, "vectors joint_width", options.BOUNDED_WEIGHTS]
    variance: float = 1.0  # the diagonal of Lambda
    exact: bool = False  # whether a token that was read corrects the state to the most probable one

    @property
    def internal(self) -> int:
        """Elements of the internal state, N_q."""
        return len(self.transition)


class Inputs(NamedTuple):
    """The tokens before some places of a text, which determine the predicted state except its internal part."""

    words: Integers  # (..., order - 1), the last token first, <unk> where there is none
    runs: Integers  # (..., joint_order - 1), rows of the vectors of runs, -1 where there is none

    @classmethod
    def of(cls, windows: Integers, n: int, joint: JointTokens) -> Inputs:
        """Return the inputs of windows (..., window) of the last tokens, the last first."""
        return cls(windows[..., :n], joint.find_rows(windows))

    def look_up(self, p: Parameters) -> Floats:
        """Return [l(t-1); ...; l(t-n); j(t)] (..., inputs)."""
        *shape, n = self.words.shape
        parts = [p.features[self.words].reshape(*shape, n * p.features.shape[1])]
        if self.runs.shape[-1]:
            vectors = np.zeros_like(p.joint, shape=(*self.runs.shape, p.joint.shape[1]))
            stored = self.runs >= 0
            vectors[stored] = p.joint[self.runs[stored]]
            parts.append(vectors.sum(axis=-2))
        return np.concatenate(parts, axis=-1)

    def sum_gradients(self, p: Parameters, d_x: Floats) -> dict[str, Gradient]:
        """Return the gradients by ``features`` and ``joint``; ``d_x`` (steps, texts, inputs) are those by `look_up`."""
        n, width = self.words.shape[-1], p.features.shape[1]
        of_tokens = d_x[..., : n * width].reshape(-1, width)
        rows, (d_features,) = merge_rows(self.words.ravel(), of_tokens)
        gradients: dict[str, Gradient] = {"features": (rows, d_features)}
        if self.runs.shape[-1]:
            stored = np.nonzero(self.runs >= 0)
            rows, (d_joint,) = merge_rows(self.runs[stored], d_x[stored[:2]][:, n * width :])
            gradients["joint"] = rows, d_joint
        return gradients


# -- pieces of texts ---------------------------------------------------------------------------------


class Piece(NamedTuple):
    """Places of several texts side by side; every field but ``inputs`` is (steps, texts)."""

    inputs: Inputs
    words: Integers  # y, the tokens at these places
    live: Floats  # 1; 0 at a token that is context only, after which the state is zero
    seen: Floats  # 1; 0 at a token that is unknown or context only


class Forward(NamedTuple):
    """Results of `forward`, with the values that `backward` needs."""

    log_probs: Floats  # (steps, texts, types), natural
    after: Floats  # (texts, internal): the internal state after the last token
    states: Floats  # q (steps, texts, internal)
    errors: Floats  # e (steps, texts, types); empty without an internal state
    # (steps, texts, types): the probabilities at which e was computed; empty likewise
    reached: Floats


class Recurrence:
    """The states that some parameters predict, and their gradients; the parameters must not change meanwhile."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters

    def __reduce__(self) -> tuple[type[Recurrence], tuple[Parameters]]:
        return Recurrence, (self.parameters,)  # what follows from them is computed again

    @cached_property
    def gain(self) -> Floats:
        """Lambda B A' (types, internal), by which e changes the next internal state."""
        p = self.parameters
        return np.asarray((p.outputs @ p.transition.T) * p.outputs.dtype.type(p.variance))

    @cached_property
    def product(self) -> Product | None:
        """The multiplication by G, which finds the most probable states; None if states are not the most probable."""
        p = self.parameters
        return make_product(p.outputs, p.variance) if p.exact else None

    def read(
        self, log_probs: Floats, scores: Floats, words: Integers, seen: Floats
    ) -> tuple[Floats, Floats]:
        """Return e of tokens that are read, and the probabilities at which it is computed, both (states, types).

        ``log_probs`` and ``scores`` are those of the predicted states, (states, types).
        """
        if self.product is not None:
            return find_most_probable(scores, words, seen, self.product)
        reached = np.exp(log_probs)
        return compute_errors(reached, words, seen), reached

    def forward(self, piece: Piece, before: Floats, keep: Floats | None = None) -> Forward:
        """Score a piece, from the internal states ``before`` (texts, internal) at its first places.

        ``keep`` (steps, texts, state) are factors of the elements of the predicted states, for dropout.
        """
        p, n_q = self.parameters, self.parameters.internal
        x = piece.inputs.look_up(p)
        rows = (x if keep is None else x * keep[..., n_q:]) @ p.outputs[:, n_q:].T + p.biases[:, 0]
        if not n_q:
            none = rows[:, :, :0]
            return Forward(log_softmax(rows), before, none, none, none)
        from_inputs = x @ p.transition[:, n_q:].T
        keep = None if keep is None else keep[..., :n_q]
        if not p.exact and rows.shape[2] <= SMALL_VOCABULARY:
            return self._run_compiled(piece, before, keep, rows, from_inputs)
        states = np.empty_like(from_inputs)
        errors, reached = np.empty_like(rows), np.empty_like(rows)
        q = np.array(before, rows.dtype)
        for t in range(len(rows)):
            states[t] = q
            rows[t] += (q if keep is None else q * keep[t]) @ p.outputs[:, :n_q].T
            scores = rows[t].copy() if p.exact else rows[t]
            log_softmax(rows[t])
            errors[t], reached[t] = self.read(rows[t], scores, piece.words[t], piece.seen[t])
            q = q @ p.transition[:, :n_q].T + from_inputs[t] + errors[t] @ self.gain
            q = np.clip(q, -LIMIT, LIMIT) * piece.live[t][:, None]
        return Forward(rows, q, states, errors, reached)

    def _run_compiled(
        self, piece: Piece, before: Floats, keep: Floats | None, rows: Floats, from_inputs: Floats
    ) -> Forward:
        """Do the loop of `forward` in compiled code; ``rows`` become the log-probabilities."""
        p, n_q, dtype = self.parameters, self.parameters.internal, rows.dtype
        states, errors = np.empty_like(from_inputs), np.empty_like(rows)
        q = np.array(before, dtype)

        def convert(*arrays: Floats) -> tuple[Floats, ...]:
            return tuple(np.ascontiguousarray(array, dtype) for array in arrays)

        _read_texts(
            np.ascontiguousarray(piece.words, np.int64),
            dtype.type(LIMIT),
            np.ascontiguousarray(from_inputs, dtype),
            convert(p.outputs[:, :n_q], p.transition[:, :n_q], self.gain),
            convert(piece.live, piece.seen, np.empty((0, 0, 0)) if keep is None else keep),
            rows,
            q,
            (states, errors),
        )
        return Forward(rows, q, states, errors, np.exp(rows))

    def backward(
        self, piece: Piece, passed: Forward, keep: Floats | None = None
    ) -> tuple[float, dict[str, Gradient]]:
        """Return the summed -log P of the live places, and its gradients by name; arguments as of `forward`.

        The state before the piece is a constant.
        """
        p, n_q, (steps, texts) = self.parameters, self.parameters.internal, piece.words.shape
        flat = steps * texts, -1
        x = piece.inputs.look_up(p)
        d_scores = np.exp(passed.log_probs) * piece.live[..., None]
        at = np.arange(steps)[:, None], np.arange(texts), piece.words
        loss = -float((passed.log_probs[at] * piece.live).sum(dtype=np.float64))
        d_scores[at] -= piece.live
        d_x, d_transition = np.zeros_like(x), np.zeros_like(p.transition)
        d_outputs = np.zeros_like(p.outputs)
        if n_q:
            # by A s (steps, texts, internal); this changes d_scores too
            d_next = self._go_back(piece, passed, keep, d_scores, d_transition, d_outputs)
            back = d_next.reshape(flat).T
            d_transition[:, :n_q] += back @ passed.states.reshape(flat)
            d_transition[:, n_q:] += back @ x.reshape(flat)
            d_x += d_next @ p.transition[:, n_q:]
            seen_by_output = passed.states if keep is None else passed.states * keep[..., :n_q]
            d_outputs[:, :n_q] += d_scores.reshape(flat).T @ seen_by_output.reshape(flat)
        seen_by_output = x if keep is None else x * keep[..., n_q:]
        d_outputs[:, n_q:] += d_scores.reshape(flat).T @ seen_by_output.reshape(flat)
        back = d_scores @ p.outputs[:, n_q:]
        d_x += back if keep is None else back * keep[..., n_q:]
        return loss, {
            "transition": (None, d_transition),
            "outputs": (None, d_outputs),
            **piece.inputs.sum_gradients(p, d_x),
            "biases": (None, d_scores.reshape(flat).sum(axis=0)[:, None]),
        }

    def _go_back(
        self,
        piece: Piece,
        passed: Forward,
        keep: Floats | None,
        d_scores: Floats,
        d_transition: Floats,
        d_outputs: Floats,
    ) -> Floats:
        """Propagate gradients back through the internal states, and return those by A s (steps, texts, internal).

        What comes through e is added to ``d_scores``, ``d_transition`` and ``d_outputs``, the gradients by u, A and B.
        """
        p, n_q, gain = self.parameters, self.parameters.internal, self.gain
        d_next, d_gain = np.empty_like(passed.states), np.zeros_like(gain)
        d_q = np.zeros_like(passed.after)
        for t in reversed(range(len(d_next))):
            g, errors = d_next[t], passed.errors[t]
            np.multiply(d_q, piece.live[t][:, None], out=g)
            d_gain += errors.T @ g
            # w is minus the gradient by u that comes through e
            w = multiply_by_covariance(passed.reached[t], piece.seen[t], g @ gain.T)
            if self.product is not None:
                w, _, _ = solve(passed.reached[t], piece.seen[t], self.product, w)
                # the softmax is of u + G e, and G = variance B B'
                d_outputs -= p.variance * (w.T @ (errors @ p.outputs))
                d_outputs -= p.variance * (errors.T @ (w @ p.outputs))
            d_scores[t] -= w
            back = d_scores[t] @ p.outputs[:, :n_q]
            d_q = g @ p.transition[:, :n_q] + (back if keep is None else back * keep[t, :, :n_q])
        # gain = variance B A'
        d_transition += p.variance * (d_gain.T @ p.outputs)
        d_outputs += p.variance * (d_gain @ p.transition)
        return d_next


@compiled
def _read_texts(
    words: Integers,
    limit: np.floating,
    from_inputs: Floats,
    matrices: tuple[Floats, ...],
    masks: tuple[Floats, ...],
    rows: Floats,
    q: Floats,
    results: tuple[Floats, Floats],
) -> None:
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
    results
        The states (steps, texts, internal) and errors e (steps, texts, types), which are written.
    """
    (outputs, transition, gain), (live, seen, keep), (states, errors) = matrices, masks, results
    length, texts, types = rows.shape
    n = q.shape[1]
    shown, following = np.empty(n, q.dtype), np.empty(n, q.dtype)
    for s in range(texts):
        state = q[s]
        for t in range(length):
            log_probs, e = rows[t, s], errors[t, s]
            states[t, s] = state
            for i in range(n):
                shown[i] = state[i] * keep[t, s, i] if keep.size else state[i]
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
                    following[i] += transition[i, j] * state[j]
            for w in range(types):
                log_probs[w] -= np.log(total)
                e[w] = ((w == words[t, s]) - np.exp(log_probs[w])) * seen[t, s]
                for i in range(n):
                    following[i] += e[w] * gain[w, i]
            for i in range(n):
                state[i] = min(max(following[i], -limit), limit) * live[t, s]
