"""The predictions of a fitted `StateSpaceLM`, of texts that are read side by side or of one that follows a state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np
import numpy.typing as npt

from tacenda.arrays import named
from tacenda.errors import ArtifactError
from tacenda.forks import cached_property
from tacenda.offsets import runs
from tacenda_lm.distributions import log_softmax, rows_of_block
from tacenda_lm.sequences import Float64, Floats, Ids, Integers
from tacenda_lm.state_space.joint_tokens import JointTokens
from tacenda_lm.state_space.recurrence import Forward, Inputs, Parameters, Piece, Recurrence
from tacenda_lm.states import State, vector_of, window_of
from tacenda_lm.stream_model import Predictor
from tacenda_lm.streams import Contexts, Stream

_TEXTS_PER_BLOCK = 64  # scored side by side
_LOG_PROBS_PER_PIECE = 1 << 18


def read_windows(stream: Stream, positions: Integers, n: int, filler: int) -> Integers:
    """Return the n tokens before each position, the last first (..., n), ``filler`` before the start of a sequence."""
    words, present = stream.before(positions, n)
    return np.where(present, words, filler)


class PieceReader:
    """Reads pieces of a stream, with ``n`` single tokens and the runs of ``joint`` as the inputs at each place."""

    def __init__(self, stream: Stream, n: int, joint: JointTokens) -> None:
        self.stream, self.n, self.joint = stream, n, joint
        self.window = max(n, joint.longest)
        self._firsts = stream.firsts

    def read_piece(self, positions: Integers) -> Piece:
        """Return the places at positions (steps, texts), -1 after the end of a text."""
        inside, unknown = positions >= 0, self.joint.unknown
        windows = read_windows(self.stream, positions, self.window, unknown)
        words = np.where(inside, self.stream.ids[positions], 0)
        # the first token of a sequence is context only
        live = inside & ~self._firsts[positions]
        seen = live & (words != unknown)
        inputs = Inputs.of(windows, self.n, self.joint)
        return Piece(inputs, words, live.astype(np.float32), seen.astype(np.float32))


class StateSpacePredictor(Predictor):
    """A fitted model, whose vectors are the predicted states s^.

    The value of a state is a pair: the last tokens, oldest first, and the bytes of the internal state q after them.
    ``n`` single tokens are inputs at each place.
    """

    parameters: Annotated[Parameters, named("")]
    joint: Annotated[JointTokens, named("")]
    n: int

    @cached_property
    def window(self) -> int:
        """The number of tokens that a prediction depends on directly."""
        return max(self.n, self.joint.longest)

    @cached_property
    def _recurrence(self) -> Recurrence:
        return Recurrence(self.parameters)

    def check_saved(self) -> None:
        """Raise ArtifactError unless each run has a vector, and the vector of the unknown token is zero."""
        if len(self.parameters.joint) != len(self.joint):
            raise ArtifactError(
                f"the array 'joint' has {len(self.parameters.joint)} vectors of {len(self.joint)} runs: the model is "
                "damaged"
            )
        if self.parameters.features[self.joint.unknown].any():
            raise ArtifactError("the feature vector of <unk> is not zero: the model is damaged")

    def start(self) -> State:
        return self._make_state((self.boundary,), np.zeros(self.parameters.internal))

    def after(self, state: State, word: int) -> State:
        q, inputs = self._unpack([state])
        inputs = Inputs(inputs.words[None], inputs.runs[None])  # of one step
        live = np.ones((1, 1), np.float32)
        piece = Piece(inputs, np.array([[word]]), live, live * (word != self.joint.unknown))
        q_after = self._recurrence.forward(piece, q).after[0]
        return self._make_state((*state.parts(2)[0], word), q_after)

    def vectors(self, states: Sequence[State]) -> Floats:
        """Return s^ of each state, (states, internal + inputs)."""
        q, inputs = self._unpack(states)
        return np.concatenate([q, inputs.look_up(self.parameters)], axis=1)

    def rows(self, vectors: Floats) -> npt.NDArray[np.float32]:
        p = self.parameters
        return np.asarray(log_softmax(vectors @ p.outputs.T + p.biases[:, 0]), np.float32)

    def _make_state(self, words: tuple[int, ...], q: Floats) -> State:
        """Return the state after some tokens, with the internal state q (internal,)."""
        last = words[max(len(words) - self.window, 0) :]
        return State((last, np.asarray(q, np.float32).tobytes()))

    def _unpack(self, states: Sequence[State]) -> tuple[Floats, Inputs]:
        """Return q (states, internal) and the inputs of states. Raises DataError for states of another model."""
        p, parts = self.parameters, [state.parts(2) for state in states]
        windows = [window_of(words, self.window, self.n_types) for words, _ in parts]
        words, present, _ = Contexts.of_windows(windows, self.window)
        q = np.empty((len(states), p.internal), p.outputs.dtype)
        for row, (_, data) in zip(q, parts, strict=True):
            row[:] = vector_of(data, np.float32, p.internal)
        return q, Inputs.of(np.where(present, words, self.joint.unknown), self.n, self.joint)

    # -- whole texts -------------------------------------------------------------------------------

    def score(self, stream: Stream) -> Float64:
        scores = np.zeros(len(stream.ids))
        sequences = np.arange(len(stream.offsets) - 1)
        reader = PieceReader(stream, self.n, self.joint)
        for positions, passed in self._forward_blocks(reader, sequences):
            inside = positions >= 0
            words = np.where(inside, stream.ids[positions], 0)
            of_words = np.take_along_axis(passed.log_probs, words[..., None], 2)[..., 0]
            scores[positions[inside]] = of_words[inside]
        return scores[~stream.firsts]

    def score_from(self, state: State, ids: Ids) -> tuple[Float64, State]:
        parts, last = [np.empty(0)], state
        for piece, passed, after in self._forward_from(state, ids):
            rows = passed.log_probs[:, 0]
            parts.append(rows[np.arange(len(rows)), piece.words[:, 0]].astype(np.float64))
            last = after
        return np.concatenate(parts), last

    def vectors_from(self, state: State, ids: Ids) -> tuple[Floats, State]:
        parts, last = [self.vectors([state])[:0]], state
        for piece, passed, after in self._forward_from(state, ids):
            x = piece.inputs.look_up(self.parameters)
            parts.append(np.concatenate([passed.states, x], axis=2)[:, 0])
            last = after
        return np.concatenate(parts), last

    def _forward_from(self, state: State, ids: Ids) -> Iterator[tuple[Piece, Forward, State]]:
        """Yield pieces (steps, 1) of a text that follows a state, their results, and the state after each."""
        (q, _), words = self._unpack([state]), state.parts(2)[0]
        if not len(ids):
            return
        reader = PieceReader(Stream.following(ids, words), self.n, self.joint)
        size, begin = self._count_steps(1), len(words)
        for i in range(0, len(ids), size):
            end = min(i + size, len(ids))
            piece = reader.read_piece(np.arange(begin + i, begin + end)[:, None])
            # the first token is read too if the state has no tokens before it
            seen = (piece.words != self.joint.unknown).astype(np.float32)
            piece = piece._replace(live=np.ones_like(piece.live), seen=seen)
            passed = self._recurrence.forward(piece, q)
            q = passed.after
            last = reader.stream.ids[max(0, begin + end - self.window) : begin + end]
            yield piece, passed, self._make_state(tuple(last.tolist()), q[0])

    def distributions(self, stream: Stream) -> Iterator[npt.NDArray[np.float32]]:
        reader = PieceReader(stream, self.n, self.joint)
        offsets, firsts, types = stream.offsets, stream.firsts, self.n_types
        # a block has whole sequences, or is a part of one
        for first, last in runs(offsets, rows_of_block(types)):
            begin, end = int(offsets[first]), int(offsets[last])
            blocks = self._forward_blocks(reader, np.arange(first, last))
            if last == first + 1:
                for positions, passed in blocks:
                    yield np.asarray(passed.log_probs[~firsts[positions]], np.float32)
            else:
                rows = np.empty((end - begin, types), np.float32)
                for positions, passed in blocks:
                    inside = positions >= 0
                    rows[positions[inside] - begin] = passed.log_probs[inside]
                yield rows[~firsts[begin:end]]

    def _count_steps(self, texts: int) -> int:
        """Return the number of steps of a piece of so many texts."""
        return max(1, _LOG_PROBS_PER_PIECE // (texts * self.n_types))

    def _forward_blocks(
        self, reader: PieceReader, sequences: Integers
    ) -> Iterator[tuple[Integers, Forward]]:
        """Yield positions (steps, texts), -1 after the end of a text, and the results there.

        Sequences of similar lengths are side by side; the positions of one sequence come in their order.
        """
        p, offsets = self.parameters, reader.stream.offsets
        lengths = np.diff(offsets)[sequences]
        longest_first = np.argsort(-lengths, kind="stable")
        for i in range(0, len(sequences), _TEXTS_PER_BLOCK):
            block = longest_first[i : i + _TEXTS_PER_BLOCK]
            begins, sizes = offsets[sequences[block]], lengths[block]
            q, t = np.zeros((len(block), p.internal), p.outputs.dtype), 0
            while t < sizes[0]:
                n = int(np.count_nonzero(sizes > t))  # the others have ended
                steps = t + np.arange(min(self._count_steps(n), int(sizes[0]) - t))[:, None]
                positions = np.where(steps < sizes[:n], begins[:n] + steps, -1)
                passed = self._recurrence.forward(reader.read_piece(positions), q[:n])
                yield positions, passed
                q, t = passed.after, t + len(steps)
