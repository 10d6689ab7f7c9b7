"""The network of `RecurrentLM`: its states, its probabilities and their gradients, and predictions of a fitted one.

    h_t = sigma(A h_{t-1} + B w_{t-1} + a) - 1/2,   p(w_t | h_t) = SoftMax(C h_t + b),   h_0 = 0

(Belanger and Kakade 2015, equations 18 and 19, after Mikolov 2012.) sigma is the logistic function, element by element.
The paper has neither biases nor the 1/2, for which the biases compensate: both networks can compute the same functions.
Learning is much faster with a state around zero, because otherwise every step on C or A moves all scores or states by
their sum.

Nearly all the time of training goes into three products with C, for the output, its gradient and the gradient of C: six
operations per token, word and element of the state. Each is one call of BLAS for all the words of a step. Gradients are
written out, because autograd, which holds the scores of all words more often, takes 1.1 to 1.3 times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, NamedTuple

import numpy as np

from tacenda.arrays import Array, Arrays, Float32, named
from tacenda_lm import options
from tacenda_lm.sequences import Float64, Floats, Ids, Integers, side_by_side
from tacenda_lm.states import State
from tacenda_lm.stream_model import Predictor
from tacenda_lm.streams import Stream

SCORES_PER_BLOCK = 1 << 23  # of words; float32 in 32 MB
_TOKENS_PER_BLOCK = 8192  # whose states are in memory at once


class SavedNetwork(Arrays):
    """The arrays of a saved network, in which C and b are separate."""

    transitions: Float32[Array, "width width", options.BOUNDED_WEIGHTS]
    inputs: Float32[Array, "types width", options.BOUNDED_WEIGHTS]
    offsets: Float32[Array, "1 width", options.BOUNDED_WEIGHTS]
    outputs: Float32[Array, "types width", options.BOUNDED_WEIGHTS]
    biases: Float32[Array, "types 1", options.BOUNDED_WEIGHTS]


class Network(NamedTuple):
    """The learned arrays, all of one dtype, which is also that of all computations."""

    transitions: Floats  # A (width, width)
    inputs: Floats  # B (types, width), the row of each word
    offsets: Floats  # a (1, width)
    outputs: Floats  # C and b (types, width + 1): the last column is b

    @property
    def width(self) -> int:
        """The elements of a state."""
        return len(self.transitions)


def step(p: Network, h: Floats, inputs: Floats) -> Floats:
    """Return h_t (rows, width) from h_{t-1} (rows, width) and ``inputs``, B w_{t-1} + a (rows, width)."""
    z = h @ p.transitions.T
    z += inputs
    # sigma(z) - 1/2 = tanh(z / 2) / 2, which cannot overflow
    z *= z.dtype.type(0.5)
    np.tanh(z, out=z)
    z *= z.dtype.type(0.5)
    return z


def run(p: Network, ids: Integers, offsets: Integers, first: Floats) -> tuple[Floats, Floats]:
    """Return the state that predicts each id (tokens, width), and the state after each sequence (sequences, width).

    ``first`` (sequences, width) are the states that predict the first id of each sequence. Sequences are read side by
    side, so that many short ones cost little more than their products.
    """
    read = p.inputs[ids] + p.offsets
    states = np.empty_like(read)
    last: Floats = np.array(first, read.dtype)
    for sequences, places in side_by_side(offsets[:-1], np.diff(offsets)):
        states[places] = h = last[sequences]
        last[sequences] = step(p, h, read[places])
    return states, last


def score_targets(
    p: Network, states: Floats, targets: Integers, gradient: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return natural log p(w_t | h_t) of the targets (tokens,), and the gradient of minus their sum by the states.

    ``states`` (tokens, width) are the h_t, after dropout. ``gradient``, with the shape of ``p.outputs``, is overwritten
    with the gradient by C and b if there is at least one token; if it is None, the gradient by the states is empty.
    """
    log_probs = np.empty(len(states), states.dtype)
    d_states = np.empty((0 if gradient is None else len(states), p.width), states.dtype)
    for begin, padded, e in _score_blocks(p, states):
        end = begin + len(padded)
        rows, words = np.arange(len(padded)), targets[begin:end]
        of_targets = e[rows, words]
        np.exp(e, out=e)
        sums = e.sum(axis=1)
        log_probs[begin:end] = of_targets - np.log(sums)
        if gradient is None:
            continue
        # the error of a row is e / its sum, less one at its target; the division comes after the products, which have
        # fewer elements
        e[rows, words] -= sums
        np.divide(e @ p.outputs[:, :-1], sums[:, None], out=d_states[begin:end])
        padded /= sums[:, None]
        if begin:
            gradient += e.T @ padded
        else:
            np.matmul(e.T, padded, out=gradient)
    return log_probs, d_states


def predict(p: Network, states: Floats) -> Floats:
    """Return natural log-probabilities (tokens, types) of every word after each state (tokens, width)."""
    log_probs = np.empty((len(states), len(p.outputs)), states.dtype)
    for begin, padded, s in _score_blocks(p, states):
        s -= np.log(np.exp(s).sum(axis=1, keepdims=True))
        log_probs[begin : begin + len(padded)] = s
    return log_probs


def _score_blocks(p: Network, states: Floats) -> Iterator[tuple[int, Floats, Floats]]:
    """Yield blocks of rows: where each begins, its states with a one appended, and C h + b less its maximum.

    The last is (tokens, types): no number in it is above zero, so that its exponentials cannot overflow.
    """
    rows = max(1, SCORES_PER_BLOCK // len(p.outputs))
    for begin in range(0, len(states), rows):
        block = states[begin : begin + rows]
        padded = np.concatenate([block, np.ones((len(block), 1), block.dtype)], axis=1)
        s = padded @ p.outputs.T
        s -= s.max(axis=1, keepdims=True)
        yield begin, padded, s


class RecurrentPredictor(Predictor):
    """A fitted network. The value of a state is the bytes of h_t, in float32."""

    parameters: Annotated[SavedNetwork, named("")]  # in the memory of the network
    network: Network

    @classmethod
    def of(cls, network: Network, boundary: int) -> RecurrentPredictor:
        """Return the predictor of a network."""
        A, B, a, outputs = network
        parameters = SavedNetwork(A, B, a, outputs[:, :-1], outputs[:, -1:])
        return cls(parameters, boundary, network)

    def start(self) -> State:
        h = np.zeros((1, self.network.width), np.float32)
        return State(self._read(h, self.boundary).tobytes())

    def after(self, state: State, word: int) -> State:
        return State(self._read(self.vectors([state]), word).tobytes())

    def vectors(self, states: Sequence[State]) -> Floats:
        """Return h of each state (states, width)."""
        vectors = np.empty((len(states), self.network.width), np.float32)
        for row, state in zip(vectors, states, strict=True):
            row[:] = state.vector(np.float32, len(row))
        return vectors

    def rows(self, vectors: Floats) -> Floats:
        return predict(self.network, vectors)

    def pick(self, vectors: Floats, words: Ids) -> Float64:
        return score_targets(self.network, vectors, words)[0].astype(np.float64)

    def _read(self, h: Floats, word: int) -> Floats:
        """Return the states (rows, width) after ``h`` (rows, width) and one more word."""
        return step(self.network, h, self.network.inputs[word] + self.network.offsets)

    def passes(
        self, stream: Stream, state: State | None = None
    ) -> Iterator[tuple[Floats, Ids, State]]:
        ids, h = stream.ids, None if state is None else self.vectors([state])
        opening = stream.firsts if state is None else np.zeros(len(ids), bool)
        for i in range(0, len(ids), _TOKENS_PER_BLOCK):
            words, begins = ids[i : i + _TOKENS_PER_BLOCK], opening[i : i + _TOKENS_PER_BLOCK]
            inner = np.flatnonzero(begins[1:]) + 1
            firsts = np.zeros((len(inner) + 1, self.network.width), np.float32)
            if h is not None and not begins[0]:
                firsts[0] = h[0]
            states, last = run(self.network, words, np.array([0, *inner, len(words)]), firsts)
            h = last[-1:]
            yield states[~begins], words[~begins], State(h.tobytes())
