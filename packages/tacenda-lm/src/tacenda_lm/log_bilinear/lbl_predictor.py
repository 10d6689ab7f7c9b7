"""What a fitted LBL predicts: distributions from states, scores of streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda_lm.contract import rows_of_block
from tacenda_lm.log_bilinear.lbl_objective import Batch, LBLParameters, predicted, scores
from tacenda_lm.log_bilinear.stream import Stream
from tacenda_lm.sequences import Float64, Ids
from tacenda_lm.state import State

__all__ = ["LBLPredictor"]

_ROWS = 512  # distributions computed side by side, at most


class LBLPredictor:
    """A fitted LBL; ``boundary`` is the id of ``</s>``. A state is a tuple of the last words, oldest first."""

    def __init__(self, parameters: LBLParameters, boundary: int) -> None:
        self.parameters, self.boundary, self.n = parameters, boundary, len(parameters.contexts)

    def start(self) -> State:
        """Return the state after one ``</s>``."""
        return State((self.boundary,))

    def after(self, state: State, word: int) -> State:
        """Return the state after one more word."""
        return State((*state.parts(), word)[-self.n :])

    def log_probs(self, states: Sequence[State]) -> npt.NDArray[np.float32]:
        """Return natural log-probabilities of every next word, (states, types)."""
        if not len(states):
            return np.empty((0, len(self.parameters.words)), np.float32)
        words = np.zeros((len(states), self.n), np.int64)
        present = np.zeros(words.shape, bool)
        for i, state in enumerate(states):
            window = state.parts()[::-1]
            words[i, : len(window)], present[i, : len(window)] = window, True
        return self._rows(Batch(words, present, words[:, 0]))

    def log_prob(self, states: Sequence[State], words: Ids) -> Float64:
        """Return natural log p(word | state), (states,)."""
        return self.log_probs(states)[np.arange(len(words)), words].astype(np.float64)

    def _rows(self, batch: Batch) -> npt.NDArray[np.float32]:
        r = np.asarray(predicted(self.parameters, batch), np.float32)
        return np.asarray(scores(self.parameters, r), np.float32)

    def _blocks(self, stream: Stream, rows: int) -> Iterator[Batch]:
        """Yield all positions but the first of a sequence."""
        positions = np.flatnonzero(~stream.firsts)
        for i in range(0, len(positions), rows):
            yield Batch.at(stream, positions[i : i + rows], self.n)

    def score(self, stream: Stream) -> Float64:
        """Return natural log-probabilities of all but the first id of every sequence."""
        parts = [np.empty(0)]
        for batch in self._blocks(stream, min(_ROWS, rows_of_block(len(self.parameters.words)))):
            rows = self._rows(batch)
            parts.append(rows[np.arange(len(rows)), batch.targets].astype(np.float64))
        return np.concatenate(parts)

    def score_from(self, state: State, ids: Ids) -> tuple[Float64, State]:
        """Return the scores of ids that follow a state with no new sentence among them, and the state after."""
        window = state.parts()
        text = np.concatenate([np.array(window, np.int32), ids])
        # the window is scored too, as the beginning of one sequence, and left out
        found = self.score(Stream(text, np.array([0, len(text)])))[len(window) - 1 :]
        return found, State(tuple(text[-self.n :].tolist()))

    def distributions(self, stream: Stream, rows: int) -> Iterator[npt.NDArray[np.float32]]:
        """Yield natural log-probabilities of all words at the positions that `score` scores, (rows, types)."""
        yield from map(self._rows, self._blocks(stream, rows))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the parameters by name."""
        return self.parameters._asdict()
