"""`StateSpacePredictor`: a fitted state-space model: states after tokens, scores of whole texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda_lm.sequences import Float64, Ids
from tacenda_lm.state_space.inference import product_of
from tacenda_lm.state_space.joint_tokens import JointTokens
from tacenda_lm.state_space.parameters import Floats, Inputs, Ints, Parameters
from tacenda_lm.state_space.recurrence import Forward, forward, onward, read
from tacenda_lm.state_space.settings import StateSpaceLMSettings
from tacenda_lm.state_space.texts import Text
from tacenda_lm.states import State, log_softmax, rows_of_block, vector_of, window_of
from tacenda_lm.streams import Stream

__all__ = ["StateSpacePredictor"]

_TEXTS = 64  # scored side by side
_CELLS = 1 << 18  # log-probabilities of a piece of them


class _Read(NamedTuple):
    """States of a language model, taken apart."""

    inputs: Inputs
    internal: Floats  # q (states, internal)
    scores: Floats  # u (states, types)


class StateSpacePredictor:
    """A fitted model.

    A state is a pair: the last tokens, oldest first, and the bytes of the internal state q that they predict.
    ``boundary`` is the id of ``</s>``, after which a text begins.
    """

    def __init__(
        self,
        parameters: Parameters,
        joint: JointTokens,
        settings: StateSpaceLMSettings,
        boundary: int,
    ) -> None:
        self.parameters, self.joint, self.settings = parameters, joint, settings
        self.boundary = boundary
        self.variance, self.exact = settings.advanced.variance, settings.inference == "map"
        self.window, self.n = settings.window, settings.order - 1

    # -- one token after another -------------------------------------------------------------------

    def start(self) -> State:
        """Return the state after one ``</s>``."""
        return self._state((self.boundary,), np.zeros(self.parameters.internal))

    def after(self, state: State, word: int) -> State:
        """Return the state after one more token."""
        p, (inputs, q, scores) = self.parameters, self._taken_apart([state])
        words = np.array([word])
        seen = (words != self.joint.unknown).astype(scores.dtype)
        product = product_of(p.outputs, self.variance) if self.exact and p.internal else None
        e, _ = read(log_softmax(scores.copy()), scores, words, seen, product)
        q = onward(p, q, inputs.vectors(p), e, self.variance)
        return self._state((*state.parts(2)[0], word), q[0])

    def log_probs(self, states: Sequence[State]) -> npt.NDArray[np.float32]:
        """Return natural log-probabilities of every next token, (states, types)."""
        if not len(states):
            return np.empty((0, len(self.parameters.outputs)), np.float32)
        return np.asarray(log_softmax(self._taken_apart(states).scores), np.float32)

    def log_prob(self, states: Sequence[State], words: Ids) -> Float64:
        """Return natural log p(token | state), (states,)."""
        return self.log_probs(states)[np.arange(len(words)), words].astype(np.float64)

    def predicted(self, state: State) -> Floats:
        """Return the predicted state s^ (internal + inputs,)."""
        found = self._taken_apart([state])
        return np.concatenate([found.internal[0], found.inputs.vectors(self.parameters)[0]])

    def _state(self, words: tuple[int, ...], q: Floats) -> State:
        """Return a state after the last of some tokens."""
        last = words[len(words) - min(self.window, len(words)) :]
        return State((last, np.asarray(q, np.float32).tobytes()))

    def _taken_apart(self, states: Sequence[State]) -> _Read:
        p = self.parameters
        windows = np.full((len(states), self.window), self.joint.unknown)
        q = np.empty((len(states), p.internal), p.outputs.dtype)
        for i, state in enumerate(states):
            words, data = state.parts(2)
            q[i] = vector_of(data, np.float32, p.internal)
            words = window_of(words, self.window, len(p.outputs))
            windows[i, : len(words)] = words[::-1]
        inputs = Inputs.of(windows, self.n, self.joint)
        s = np.concatenate([q, inputs.vectors(p)], axis=1)
        return _Read(inputs, q, s @ p.outputs.T + p.biases[:, 0])

    # -- whole texts -------------------------------------------------------------------------------

    def score(self, stream: Stream) -> Float64:
        """Return natural log-probabilities of all but the first token of every sequence."""
        found = np.zeros(len(stream.ids))
        for positions, passed in self._passes(
            self._text(stream), np.arange(len(stream.offsets) - 1)
        ):
            there = positions >= 0
            words = np.where(there, stream.ids[positions], 0)
            scores = np.take_along_axis(passed.log_probs, words[..., None], 2)[..., 0]
            found[positions[there]] = scores[there]
        return found[~stream.firsts]

    def score_from(self, state: State, ids: Ids) -> tuple[Float64, State]:
        """Return the scores of tokens that follow a state with no new sentence among them, and the state after."""
        words, data = state.parts(2)
        self._taken_apart([state])
        if not len(ids):
            return np.empty(0), State(state.value)
        text = self._text(
            Stream(
                np.concatenate([np.array(words, np.int32), ids]),
                np.array([0, len(words) + len(ids)]),
            )
        )
        positions = np.arange(len(words), len(words) + len(ids))[:, None]
        q = np.frombuffer(data, np.float32)[None].astype(self.parameters.outputs.dtype)
        parts, size = [np.empty(0)], self._steps(1)
        for i in range(0, len(ids), size):
            places = positions[i : i + size]
            piece = text.piece(places)
            # a state without tokens before it is not the first place of a sequence
            seen = (piece.words != self.joint.unknown).astype(np.float32)
            piece = piece._replace(live=np.ones_like(piece.live), seen=seen)
            passed = forward(self.parameters, piece, q, self.variance, self.exact)
            rows = passed.log_probs[:, 0]
            parts.append(rows[np.arange(len(rows)), piece.words[:, 0]].astype(np.float64))
            q = passed.after
        return np.concatenate(parts), self._state((*words, *ids.tolist()), q[0])

    def distributions(self, stream: Stream) -> Iterator[npt.NDArray[np.float32]]:
        """Yield natural log-probabilities of all tokens at the places that `score` scores, (rows, types)."""
        text, firsts, types = self._text(stream), stream.firsts, len(self.parameters.outputs)
        most, offsets = rows_of_block(types), stream.offsets
        first = 0
        while first < len(offsets) - 1:
            # as many whole sequences as a block holds, or one in parts
            last = int(np.searchsorted(offsets, offsets[first] + most, side="right")) - 1
            last = max(last, first + 1)
            begin, end = int(offsets[first]), int(offsets[last])
            passes = self._passes(text, np.arange(first, last))
            if last == first + 1:
                for positions, passed in passes:
                    yield np.asarray(passed.log_probs[~firsts[positions]], np.float32)
            else:
                rows = np.empty((end - begin, types), np.float32)
                for positions, passed in passes:
                    there = positions >= 0
                    rows[positions[there] - begin] = passed.log_probs[there]
                yield rows[~firsts[begin:end]]
            first = last

    def _text(self, stream: Stream) -> Text:
        return Text(stream, self.window, self.n, self.joint)

    def _steps(self, texts: int) -> int:
        """Return how many steps of so many texts a piece has."""
        return max(1, _CELLS // (texts * len(self.parameters.outputs)))

    def _passes(self, text: Text, sequences: Ints) -> Iterator[tuple[Ints, Forward]]:
        """Yield positions (steps, texts), -1 behind the end of a text, with what was found there.

        Sequences of similar lengths are side by side; those of one sequence come in their order.
        """
        p, offsets = self.parameters, text.stream.offsets
        lengths = np.diff(offsets)[sequences]
        longest_first = np.argsort(-lengths, kind="stable")
        for i in range(0, len(sequences), _TEXTS):
            block = longest_first[i : i + _TEXTS]
            begins, sizes = offsets[sequences[block]], lengths[block]
            q, t = np.zeros((len(block), p.internal), p.outputs.dtype), 0
            while t < sizes[0]:
                n = int(np.count_nonzero(sizes > t))  # the others have ended
                steps = t + np.arange(min(self._steps(n), int(sizes[0]) - t))[:, None]
                positions = np.where(steps < sizes[:n], begins[:n] + steps, -1)
                passed = forward(p, text.piece(positions), q[:n], self.variance, self.exact)
                yield positions, passed
                q, t = passed.after, t + len(steps)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the parameters by name, and the runs of tokens."""
        return {**self.parameters._asdict(), **self.joint.arrays()}
