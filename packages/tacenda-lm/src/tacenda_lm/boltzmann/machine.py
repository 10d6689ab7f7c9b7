"""The predictions of a factored restricted Boltzmann machine of words (Mnih 2010, sections 3.1 and 3.2).

    E(w_n, h, w_1:n-1) = - sum_i v_i^T R W_i h - b_h^T h - b_v^T v_n                                      (eq 3.2)

Given everything else, hidden unit j is on with the probability sigma(a_wj + b_tj), where

    a_w = R_w W_n (what it gets from the next word),    b_t = sum_i<n R_{w_i} W_i + b_h + A p_{t-1}    (eqs 3.13, 3.14)

is what it gets from the context; only the temporal model has A p_{t-1}, the input from the hidden units of the word
before. With the hidden units summed out (eq 3.5),

    log P(w | context) = b_v_w + sum_j log(1 + exp(a_wj + b_tj)) - log Z_t.

The products are computed for a few contexts at a time, so that the probabilities of all words stay in the cache of the
processor. Arrays have the dtype of the parameters, and log-probabilities of single words are float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Array, Arrays, Float32, named
from tacenda.forks import cached_property
from tacenda.kernels.boltzmann import PackedInputs, hidden_sums, pack_inputs
from tacenda_lm import options
from tacenda_lm.distributions import log_softmax
from tacenda_lm.sequences import Float64, Floats, Ids, Integers, side_by_side
from tacenda_lm.states import State, vector_of, window_of
from tacenda_lm.stream_model import Predictor
from tacenda_lm.streams import Contexts, Stream

_Single = npt.NDArray[np.float32]

ROWS_PER_TILE = 64  # predictions at a time: the probabilities of all words stay in cache
_TOKENS_PER_BLOCK = 4096  # whose hidden units are in memory at a time


class BoltzmannParameters(Arrays):
    """The learned arrays, all of one dtype."""

    words: Float32[Array, "types features", options.BOUNDED_WEIGHTS]  # R
    # W_i, the matrix of the last word first
    contexts: Float32[Array, "context features hidden", options.BOUNDED_WEIGHTS]
    outputs: Float32[Array, "features hidden", options.BOUNDED_WEIGHTS]  # W_n
    # A; no rows in the plain model
    transitions: Float32[Array, "remembered hidden", options.BOUNDED_WEIGHTS]
    hidden_biases: Float32[Array, "hidden 1", options.BOUNDED_WEIGHTS]  # b_h
    biases: Float32[Array, "types 1", options.BOUNDED_WEIGHTS]  # b_v

    @property
    def hidden(self) -> int:
        """The number of hidden units."""
        return len(self.hidden_biases)


def sigmoid(x: Floats) -> Floats:
    """Return 1 / (1 + exp(-x)), computed by tanh, which does not overflow."""
    return np.asarray(0.5 * np.tanh(0.5 * x) + 0.5)


def look_up_features(p: BoltzmannParameters, batch: Contexts) -> Floats:
    """Return the rows of R of the context words (tokens, context, features), zero for missing words."""
    features: Floats = p.words[batch.words]
    if not batch.present.all():
        features *= batch.present[:, :, None]
    return features


def compute_inputs(p: BoltzmannParameters, features: Floats, earlier: Floats | None) -> Floats:
    """Return b_t (tokens, hidden), given the `look_up_features` of the contexts.

    ``earlier`` is p_{t-1} (tokens, hidden), and None in the plain model.
    """
    # the sum over i is one product: the rows of all context words side by side, and all W_i one under the other
    flat = features.reshape(len(features), features.shape[1] * features.shape[2])
    inputs: Floats = flat @ p.contexts.reshape(flat.shape[1], -1)
    inputs += p.hidden_biases[:, 0]
    if earlier is not None:
        inputs += earlier @ p.transitions.T
    return inputs


def pack_word_inputs(p: BoltzmannParameters) -> PackedInputs:
    """Return a (types, hidden) packed for `score_unnormalized`; this takes 2 N_w N_f N_h operations."""
    return pack_inputs(p.words @ p.outputs)


def score_unnormalized(words: PackedInputs, biases: Floats, inputs: Floats) -> Floats:
    """Return log P(w | context) + log Z_t in a new array (tokens, types); ``biases`` are b_v (types, 1)."""
    scores: Floats = hidden_sums(words, inputs)
    scores += biases[:, 0]
    return scores


class BoltzmannPredictor(Predictor):
    """A fitted model.

    A state holds the last words, oldest first, and, in the temporal model, p_t = sigma(a_w + b_t) at the last word w,
    as bytes of float32 (hidden,). It is zero at the beginning, and taken as fixed (Mnih 2010, section 3.2.1).

    The recurrence of p_t needs no prediction, so it is run first, over some thousand words at a time with all sequences
    in step; many words are then predicted in one call of `hidden_sums`.
    """

    parameters: Annotated[BoltzmannParameters, named("")]

    @property
    def n(self) -> int:
        """The number of words in a window; a temporal model also depends on all words before the window."""
        return len(self.parameters.contexts)

    @cached_property
    def _packed(self) -> PackedInputs:
        return pack_word_inputs(self.parameters)

    def start(self) -> State:
        hidden = np.zeros(len(self.parameters.transitions), np.float32)
        return State(((self.boundary,), hidden.tobytes()))

    def after(self, state: State, word: int) -> State:
        p, (words, data) = self.parameters, self._unpack(state)
        if len(p.transitions):
            hidden = sigmoid(self._compute_inputs([(words, data)])[0] + p.words[word] @ p.outputs)
            data = hidden.astype(np.float32).tobytes()
        return State(((*words, word)[-self.n :], data))

    def _unpack(self, state: State) -> tuple[tuple[int, ...], bytes]:
        """Return the last words, and the bytes of p_t. Raises DataError for a state of another model."""
        words, data = state.parts(2)
        vector_of(data, np.float32, len(self.parameters.transitions))
        return window_of(words, self.n, self.n_types, least=1), data

    def vectors(self, states: Sequence[State]) -> _Single:
        """Return b_t (states, hidden)."""
        return self._compute_inputs([self._unpack(state) for state in states])

    def _compute_inputs(self, parts: Sequence[tuple[tuple[int, ...], bytes]]) -> _Single:
        """Return b_t (states, hidden) of states that are unpacked."""
        batch = Contexts.of_windows([window for window, _ in parts], self.n)
        earlier = None
        if len(self.parameters.transitions) and parts:
            earlier = np.stack([np.frombuffer(data, np.float32) for _, data in parts])
        features = look_up_features(self.parameters, batch)
        return np.asarray(compute_inputs(self.parameters, features, earlier), np.float32)

    def rows(self, vectors: _Single) -> _Single:
        rows, biases = np.empty((len(vectors), self.n_types), np.float32), self.parameters.biases
        for i in range(0, len(vectors), ROWS_PER_TILE):
            tile = slice(i, i + ROWS_PER_TILE)
            rows[tile] = log_softmax(score_unnormalized(self._packed, biases, vectors[tile]))
        return rows

    def pick(self, vectors: _Single, words: Ids) -> Float64:
        log_probs, biases = np.empty(len(words), np.float64), self.parameters.biases
        for i in range(0, len(words), ROWS_PER_TILE):
            tile = slice(i, i + ROWS_PER_TILE)
            scores = score_unnormalized(self._packed, biases, vectors[tile])
            log_probs[tile] = score_targets(scores, words[tile])
        return log_probs

    def passes(
        self, stream: Stream, state: State | None = None
    ) -> Iterator[tuple[_Single, Ids, State | None]]:
        first, hidden, p = 0, None, self.parameters
        if state is not None:
            window, data = self._unpack(state)
            first, hidden = len(window), np.frombuffer(data, np.float32)
            stream = Stream.following(stream.ids, window)
        firsts = stream.firsts
        for begin in range(first, len(stream.ids), _TOKENS_PER_BLOCK):
            end = min(begin + _TOKENS_PER_BLOCK, len(stream.ids))
            batch = Contexts.at(stream, np.arange(begin, end), self.n)
            inputs = compute_inputs(p, look_up_features(p, batch), None)
            inputs, opening = np.asarray(inputs, np.float32), firsts[begin:end]
            data = b""
            if len(p.transitions):
                hidden = self._filter(inputs, batch.targets, opening, hidden)
                data = hidden.tobytes()
            last = tuple(stream.ids[max(0, end - self.n) : end].tolist())
            after = None if state is None else State((last, data))
            yield inputs[~opening], stream.ids[begin:end][~opening], after

    def _filter(
        self,
        inputs: _Single,
        words: Integers,
        opening: npt.NDArray[np.bool_],
        hidden: _Single | None,
    ) -> _Single:
        """Add A p_{t-1} to ``inputs`` (tokens, hidden), in place, and return p_t of the last word.

        A sequence begins at every position that is ``opening``, where p_t is zero. The first sequence continues from
        ``hidden``, if it is not None and the first position is not opening.
        """
        p = self.parameters
        filtered = p.words[words] @ p.outputs  # a_w, which becomes p_t
        transposed = np.ascontiguousarray(p.transitions.T)
        filtered[opening] = 0
        if not opening[0]:
            if hidden is not None:
                inputs[0] += hidden @ transposed
            filtered[0] = sigmoid(inputs[0] + filtered[0])
        begins = np.array([0, *np.flatnonzero(opening[1:]) + 1])
        steps = side_by_side(begins, np.diff(begins, append=len(inputs)))
        next(steps)  # the first words were read above
        for _, places in steps:
            rows: Any = places
            before: Any = places - 1
            if len(places) == 1:  # a slice is a view: one long sequence is read word by word
                end = int(places[0]) + 1
                rows, before = slice(end - 1, end), slice(end - 2, end - 1)
            inputs[rows] += filtered[before] @ transposed
            filtered[rows] = sigmoid(inputs[rows] + filtered[rows])
        return np.asarray(filtered[-1].copy(), np.float32)


def score_targets(scores: Floats, targets: Integers) -> Float64:
    """Return log-probabilities of the targets; turn the scores into probabilities up to a factor, in place."""
    of_targets = scores[np.arange(len(scores)), targets].astype(np.float64)
    top = scores.max(axis=1, keepdims=True)
    scores -= top
    total = np.exp(scores, out=scores).sum(axis=1)
    return np.asarray(of_targets - top[:, 0] - np.log(total))
