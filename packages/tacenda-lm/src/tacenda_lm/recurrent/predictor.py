"""What a recurrent network predicts: one word after another, and along whole texts.

The value of a state is the bytes of h_t, in float32. Nearly all the time goes into the output, one product for each
block of words; the states of sequences before it are computed side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda_lm.recurrent.network import RESTING, Network, distribution, output, run, step
from tacenda_lm.sequences import Float64, Ids
from tacenda_lm.states import State, rows_of_block
from tacenda_lm.streams import Stream

__all__ = ["RecurrentPredictor"]

_Floats = npt.NDArray[np.floating[Any]]
_TOKENS = 8192  # whose states are held at once


class RecurrentPredictor:
    """A fitted network; ``boundary`` is the id of ``</s>``."""

    def __init__(self, network: Network, boundary: int) -> None:
        self.network, self.boundary = network, boundary

    # -- one word after another --------------------------------------------------------------------

    def start(self) -> State:
        """Return the state after one ``</s>`` and nothing else."""
        return State(self._read(self._resting(1), self.boundary).tobytes())

    def after(self, state: State, word: int) -> State:
        """Return the state after one more word."""
        return State(self._read(self.vectors([state]), word).tobytes())

    def vectors(self, states: Sequence[State]) -> _Floats:
        """Return h of each state, (states, width)."""
        found = np.empty((len(states), self.network.width), np.float32)
        for row, state in zip(found, states, strict=True):
            row[:] = state.vector(np.float32, len(row))
        return found

    def log_probs(self, states: Sequence[State]) -> _Floats:
        """Return natural log-probabilities of every next word, (states, types)."""
        return distribution(self.network, self.vectors(states))

    def log_prob(self, states: Sequence[State], words: Ids) -> Float64:
        """Return natural log p(word | state), (states,)."""
        return output(self.network, self.vectors(states), words)[0].astype(np.float64)

    def _resting(self, sequences: int) -> _Floats:
        return np.full((sequences, self.network.width), RESTING, np.float32)

    def _read(self, h: _Floats, word: int) -> _Floats:
        return step(self.network, h, self.network.inputs[word] + self.network.offsets)

    # -- whole texts -------------------------------------------------------------------------------

    def score(self, stream: Stream) -> Float64:
        """Return natural log-probabilities of all but the first id of every sequence."""
        return self._scores(self._states(stream))[0]

    def score_from(self, state: State, ids: Ids) -> tuple[Float64, State]:
        """Return the scores of ids that follow a state with no new sentence among them, and the state after."""
        scores, h = self._scores(self._states(*self._following(state, ids)))
        return scores, state if h is None else State(h.tobytes())

    def vectors_from(self, state: State, ids: Ids) -> tuple[_Floats, State]:
        """Return the h that predicts each id of ids as `score_from` takes them, and the state after."""
        blocks = list(self._states(*self._following(state, ids)))
        if not blocks:
            return np.empty((0, self.network.width), np.float32), state
        return np.concatenate([h for h, *_ in blocks]), State(blocks[-1][2].tobytes())

    def distributions(self, stream: Stream) -> Iterator[_Floats]:
        """Yield natural log-probabilities of all words at the positions that `score` scores, (rows, types)."""
        rows = rows_of_block(len(self.network.outputs))
        for states, _, _ in self._states(stream):
            for i in range(0, len(states), rows):
                yield distribution(self.network, states[i : i + rows])

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the parameters by name."""
        A, B, a, outputs = self.network
        arrays = {"transitions": A, "inputs": B, "offsets": a, "outputs": outputs[:, :-1]}
        return {**arrays, "biases": outputs[:, -1:]}

    def _following(self, state: State, ids: Ids) -> tuple[Stream, _Floats]:
        """Return the ids as a stream without a first ``</s>``, and the h that predicts the first of them."""
        return Stream(ids, np.array([0, len(ids)])), self.vectors([state])

    def _scores(
        self, blocks: Iterator[tuple[_Floats, Ids, _Floats]]
    ) -> tuple[Float64, _Floats | None]:
        """The scores of blocks, and the h after the last, None if there are no blocks."""
        found, h = [np.empty(0)], None
        for states, words, h in blocks:  # noqa: B007 - the last one is wanted
            found.append(output(self.network, states, words)[0].astype(np.float64))
        return np.concatenate(found), h

    def _states(
        self, stream: Stream, first: _Floats | None = None
    ) -> Iterator[tuple[_Floats, Ids, _Floats]]:
        """Yield blocks: the h that predicts each id (tokens, width), the ids, and the h after the last (1, width).

        The first id of a sequence is read at rest and predicted by nothing, unless ``first`` (1, width) is given,
        which predicts the first id of a stream of one sequence.
        """
        ids, h = stream.ids, first
        opening = stream.firsts if first is None else np.zeros(len(ids), bool)
        for i in range(0, len(ids), _TOKENS):
            words, begins = ids[i : i + _TOKENS], opening[i : i + _TOKENS]
            inner = np.flatnonzero(begins[1:]) + 1
            firsts = self._resting(len(inner) + 1)
            if h is not None and not begins[0]:
                firsts[0] = h[0]
            found, last = run(self.network, words, np.array([0, *inner, len(words)]), firsts)
            h = last[-1:]
            yield found[~begins], words[~begins], h
