"""What a recurrent network predicts: one word after another, and along whole texts.

The value of a state is the bytes of h_t, in float32. Nearly all the time goes into the output, one product for each
block of words; the states of sequences before it are computed side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda_lm.contract import State, rows_of_block
from tacenda_lm.recurrent.network import RESTING, Network, distribution, output, run, step
from tacenda_lm.sequences import Float64, Ids, Offsets

__all__ = ["RecurrentPredictor"]

_Floats = npt.NDArray[np.floating[Any]]
_TOKENS = 8192  # whose states are held at once


class RecurrentPredictor:
    """A fitted network; ``boundary`` is the id of ``</s>``, after which a sentence begins anew unless ``across``."""

    def __init__(self, network: Network, boundary: int, across: bool) -> None:
        self.network, self.boundary, self.across = network, boundary, across

    # -- one word after another --------------------------------------------------------------------

    def start(self) -> State:
        """Return the state after one ``</s>`` and nothing else."""
        return State(self._started().tobytes())

    def after(self, state: State, word: int) -> State:
        """Return the state after one more word."""
        if word == self.boundary and not self.across:
            return self.start()
        return State(self._read(self.vectors([state]), word).tobytes())

    def vectors(self, states: Sequence[State]) -> _Floats:
        """Return h of each state, (states, width)."""
        found = np.empty((len(states), self.network.width), np.float32)
        for row, state in zip(found, states, strict=True):
            state.check_begun()
            row[:] = np.frombuffer(state.value, np.float32)  # type: ignore[call-overload]
        return found

    def log_probs(self, states: Sequence[State]) -> _Floats:
        """Return natural log-probabilities of every next word, (states, types)."""
        return distribution(self.network, self.vectors(states))

    def log_prob(self, states: Sequence[State], words: Ids) -> Float64:
        """Return natural log p(word | state), (states,)."""
        return output(self.network, self.vectors(states), words)[0].astype(np.float64)

    def _started(self) -> _Floats:
        rest = np.full((1, self.network.width), RESTING, np.float32)
        return self._read(rest, self.boundary)

    def _read(self, h: _Floats, word: int) -> _Floats:
        return step(self.network, h, self.network.inputs[word] + self.network.offsets)

    # -- whole texts -------------------------------------------------------------------------------

    def score(self, ids: Ids, offsets: Offsets) -> Float64:
        """Return natural log-probabilities of all ids, each sequence from its start."""
        return self._scores(self._states(ids, offsets, self._started()))[0]

    def score_from(self, state: State, ids: Ids) -> tuple[Float64, State]:
        """Return the scores of ids that follow a state, and the state after."""
        whole = np.array([0, len(ids)])
        scores, h = self._scores(self._states(ids, whole, self.vectors([state])))
        return scores, state if h is None else self._state_after(h, int(ids[-1]))

    def vectors_from(self, state: State, ids: Ids) -> tuple[_Floats, State]:
        """Return the h that predicts each id of a sequence that follows a state, and the state after."""
        blocks = list(self._states(ids, np.array([0, len(ids)]), self.vectors([state])))
        if not blocks:
            return np.empty((0, self.network.width), np.float32), state
        return np.concatenate([h for h, *_ in blocks]), self._state_after(
            blocks[-1][2], int(ids[-1])
        )

    def distributions(self, ids: Ids, offsets: Offsets) -> Iterator[_Floats]:
        """Yield natural log-probabilities of all words at every id, (tokens of the block, types)."""
        rows = rows_of_block(len(self.network.outputs))
        for states, _, _ in self._states(ids, offsets, self._started()):
            for i in range(0, len(states), rows):
                yield distribution(self.network, states[i : i + rows])

    def _scores(
        self, blocks: Iterator[tuple[_Floats, Ids, _Floats]]
    ) -> tuple[Float64, _Floats | None]:
        """The scores of blocks, and the h after the last, None if there are no blocks."""
        found, h = [np.empty(0)], None
        for states, words, h in blocks:  # noqa: B007 - the last one is wanted
            found.append(output(self.network, states, words)[0].astype(np.float64))
        return np.concatenate(found), h

    def _state_after(self, h: _Floats, word: int) -> State:
        """The state whose vector is h, which has read the word."""
        return self.start() if word == self.boundary and not self.across else State(h.tobytes())

    def _states(
        self, ids: Ids, offsets: Offsets, first: _Floats
    ) -> Iterator[tuple[_Floats, Ids, _Floats]]:
        """Yield blocks: the h that predicts each id (tokens, width), the ids, and the h after the last (1, width).

        ``first`` (1, width) predicts the first id of all; a sequence that begins later does so at the start.
        """
        cuts = np.asarray(offsets[1:-1], np.int64)
        if not self.across:
            cuts = np.union1d(cuts, np.flatnonzero(ids[:-1] == self.boundary) + 1)
        begins, h = np.zeros(len(ids) + 1, bool), first
        begins[cuts] = True
        begins[:1] = False  # the first id follows ``first``, whatever empty sequences there are
        started = self._started()
        for i in range(0, len(ids), _TOKENS):
            words = ids[i : i + _TOKENS]
            inner = np.flatnonzero(begins[i + 1 : i + len(words)]) + 1
            firsts = np.repeat(started, len(inner) + 1, axis=0)
            if not begins[i]:
                firsts[0] = h[0]
            found, last = run(self.network, words, np.array([0, *inner, len(words)]), firsts)
            h = last[-1:]
            yield found, words, h
