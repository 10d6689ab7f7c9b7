"""What a fitted machine predicts: states, streams, and the filter that carries hidden units along them.

The temporal model takes the hidden units of the word before as fixed at their probabilities (Mnih 2010, 3.2.1):

    p_t = sigma(a_{w_t} + b_t),    b_t = sum_i R_{w_t-i} W_i + b_h + A p_{t-1},    p = 0 at the beginning   (eq 3.14)

These recurrences need no prediction, so they are run first, over some thousand words at a time and all sequences in
step; predictions are then made for many words in one call of `hidden_sums.log_sums`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda_lm.boltzmann.parameters import (
    BoltzmannParameters,
    context_features,
    inputs_of_contexts,
    packed_words,
    sigmoid,
    unnormalised,
)
from tacenda_lm.sequences import Float64, Ids
from tacenda_lm.states import State, log_softmax, rows_of_block, vector_of, window_of
from tacenda_lm.streams import Contexts, Stream

__all__ = ["BoltzmannPredictor"]

_ROWS = 64  # predictions computed side by side, at most: their probabilities stay in cache
_TOKENS = 4096  # whose hidden units are in memory at a time

_Single = npt.NDArray[np.float32]


class _Part(NamedTuple):
    """Words that follow each other, and what the hidden units get from the context of each."""

    targets: Ids  # (tokens,)
    inputs: _Single  # b_t (tokens, hidden)
    hidden: _Single  # p_t of the last word (hidden,), none in the plain model


class BoltzmannPredictor:
    """A fitted machine; ``boundary`` is the id of ``</s>``.

    A state holds the last words, oldest first, and, in the temporal model, the probabilities of the hidden units at
    the last word, as bytes of float32 (hidden,).
    """

    def __init__(self, parameters: BoltzmannParameters, boundary: int) -> None:
        self.parameters, self.boundary = parameters, boundary
        self.n, self.temporal = len(parameters.contexts), len(parameters.transitions) > 0
        self._packed = packed_words(parameters)

    # -- one word after another --------------------------------------------------------------------

    def start(self) -> State:
        """Return the state after one ``</s>``."""
        hidden = np.zeros(self.parameters.hidden if self.temporal else 0, np.float32)
        return State(((self.boundary,), hidden.tobytes()))

    def after(self, state: State, word: int) -> State:
        """Return the state after one more word."""
        words, data = self._parts(state)
        if self.temporal:
            p = self.parameters
            hidden = sigmoid(self._inputs([state])[0] + p.words[word] @ p.outputs)
            data = hidden.astype(np.float32).tobytes()
        return State(((*words, word)[-self.n :], data))

    def log_probs(self, states: Sequence[State]) -> _Single:
        """Return natural log-probabilities of every next word, (states, types)."""
        found = np.empty((len(states), len(self.parameters.words)), np.float32)
        for i in range(0, len(states), _ROWS):
            some = states[i : i + _ROWS]
            found[i : i + len(some)] = log_softmax(self._scores(self._inputs(some)))
        return found

    def log_prob(self, states: Sequence[State], words: Ids) -> Float64:
        """Return natural log p(word | state), (states,)."""
        found = np.empty(len(words), np.float64)
        for i in range(0, len(states), _ROWS):
            own = slice(i, i + _ROWS)
            found[own] = _picked(self._scores(self._inputs(states[own])), words[own])
        return found

    def _parts(self, state: State) -> tuple[tuple[int, ...], bytes]:
        words, data = state.parts(2)
        vector_of(data, np.float32, self.parameters.hidden if self.temporal else 0)
        return window_of(words, self.n, len(self.parameters.words)), data

    def _inputs(self, states: Sequence[State]) -> _Single:
        """Return b_t (states, hidden)."""
        words = np.zeros((len(states), self.n), np.int64)
        present = np.zeros(words.shape, bool)
        parts = [self._parts(state) for state in states]
        for i, (window, _) in enumerate(parts):
            words[i, : len(window)], present[i, : len(window)] = window[::-1], True
        earlier = None
        if self.temporal:
            earlier = np.stack([np.frombuffer(data, np.float32) for _, data in parts])
        features = context_features(self.parameters, Contexts(words, present, words[:, 0]))
        return np.asarray(inputs_of_contexts(self.parameters, features, earlier), np.float32)

    # -- streams -----------------------------------------------------------------------------------

    def score(self, stream: Stream) -> Float64:
        """Return natural log-probabilities of all but the first id of every sequence."""
        found = [self._scored(part) for part in self._parts_of(stream)]
        return np.concatenate([np.empty(0), *found])

    def score_from(self, state: State, ids: Ids) -> tuple[Float64, State]:
        """Return the scores of ids that follow a state with no new sentence among them, and the state after."""
        window, data = self._parts(state)
        if not len(ids):
            return np.empty(0), state
        text = np.concatenate([np.array(window, np.int32), ids])
        stream = Stream(text, np.array([0, len(text)]))
        hidden = np.frombuffer(data, np.float32)
        found = []
        for part in self._parts_of(stream, len(window), hidden):
            found.append(self._scored(part))
            hidden = part.hidden
        last = hidden.tobytes() if self.temporal else b""
        return np.concatenate(found), State((tuple(text[-self.n :].tolist()), last))

    def distributions(self, stream: Stream) -> Iterator[_Single]:
        """Yield natural log-probabilities of all words at the positions that `score` scores, (rows, types)."""
        rows = rows_of_block(len(self.parameters.words))
        for part in self._parts_of(stream):
            for i in range(0, len(part.inputs), rows):
                yield log_softmax(self._scores(part.inputs[i : i + rows]))

    def _scored(self, part: _Part) -> Float64:
        found = np.empty(len(part.targets), np.float64)
        for i in range(0, len(found), _ROWS):
            own = slice(i, i + _ROWS)
            found[own] = _picked(self._scores(part.inputs[own]), part.targets[own])
        return found

    def _scores(self, inputs: _Single) -> _Single:
        found = unnormalised(self._packed, self.parameters.biases, inputs)
        return np.asarray(found, np.float32)

    def _parts_of(
        self, stream: Stream, first: int = 0, hidden: _Single | None = None
    ) -> Iterator[_Part]:
        """Yield the words to predict from position ``first`` on, where ``hidden`` are the units of the word before."""
        firsts = stream.firsts
        for begin in range(first, len(stream.ids), _TOKENS):
            positions = np.arange(begin, min(begin + _TOKENS, len(stream.ids)))
            batch = Contexts.at(stream, positions, self.n)
            features = context_features(self.parameters, batch)
            inputs = np.asarray(inputs_of_contexts(self.parameters, features, None), np.float32)
            opening = firsts[positions]
            if self.temporal:
                hidden = self._filter(inputs, batch.targets, opening, hidden)
            last = np.empty(0, np.float32) if hidden is None else hidden
            yield _Part(stream.ids[positions][~opening], inputs[~opening], last)

    def _filter(
        self,
        inputs: _Single,
        words: npt.NDArray[np.integer[Any]],
        opening: npt.NDArray[np.bool_],
        hidden: _Single | None,
    ) -> _Single:
        """Add A p_{t-1} to ``inputs`` (tokens, hidden), in place, and return p_t of the last word.

        A sequence begins at every position that is ``opening``, and has no hidden units there; the first goes on from
        ``hidden`` if there are any.
        """
        p = self.parameters
        found = p.words[words] @ p.outputs  # a_w, in the place of p_t
        transposed = np.ascontiguousarray(p.transitions.T)
        begins = np.flatnonzero(opening)
        if not len(begins) or begins[0]:
            begins = np.concatenate([[0], begins])
        lengths = np.diff(begins, append=len(inputs))
        order = np.argsort(-lengths, kind="stable")
        begins, lengths = begins[order], lengths[order]
        found[opening] = 0
        if not opening[0]:
            if hidden is not None:
                inputs[0] += hidden @ transposed
            found[0] = sigmoid(inputs[0] + found[0])
        for t in range(1, int(lengths[0])):
            rows: Any = begins[: np.count_nonzero(lengths > t)] + t
            if len(rows) == 1:
                rows = slice(int(rows[0]), int(rows[0]) + 1)
                before: Any = slice(rows.start - 1, rows.start)
            else:
                before = rows - 1
            inputs[rows] += found[before] @ transposed
            found[rows] = sigmoid(inputs[rows] + found[rows])
        return np.asarray(found[-1].copy(), np.float32)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the parameters by name."""
        return self.parameters._asdict()


def _picked(scores: _Single, words: Ids) -> Float64:
    """Return the log-probability of one word in each row; the scores are overwritten."""
    own = scores[np.arange(len(scores)), words].astype(np.float64)
    top = scores.max(axis=1, keepdims=True)
    scores -= top
    total = np.exp(scores, out=scores).sum(axis=1)
    return np.asarray(own - top[:, 0] - np.log(total), np.float64)
