"""`HiddenMarkov`: what the hidden Markov models share: states, scores, posteriors, the way to disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from tacenda.errors import DataError
from tacenda_lm.configured import OldConfiguredLanguageModel
from tacenda_lm.hidden_markov.config import Settings
from tacenda_lm.hidden_markov.decoding import Decoding
from tacenda_lm.hidden_markov.tables import Tables
from tacenda_lm.sequences import Float64, check_word, checked
from tacenda_lm.state import State

__all__ = ["HiddenMarkov"]

_START = -1  # instead of a class: nothing was read yet
_ROWS = 64  # states of a class whose next words are computed side by side
S = TypeVar("S", bound=Settings)


class HiddenMarkov(OldConfiguredLanguageModel[S], Decoding):
    """Base of `VLHMM` and `HMM`: all but the fit.

    A state is the class of the last word and the probabilities of the k states of that class given all words of the
    sentence so far. ``</s>`` begins a new sentence, as in the paper.
    """

    _tables: Tables | None = None

    @property
    def tables(self) -> Tables:
        """The probabilities. Raises NotFittedError."""
        return self._learned(self._tables)

    keeps_checkpoints: ClassVar[bool] = True

    # -- one word after another --------------------------------------------------------------------

    def start(self) -> State:
        """After ``<s>``. A state's value is the class of the last word and the bytes of p(z) float32 (k,)."""
        self.vocabulary  # noqa: B018 - raises where there is none
        return State((_START, b""))

    def advance(self, state: State, word: int) -> State:
        """The state after one more word (an id); after ``</s>`` a sentence begins."""
        check_word(word, len(self.vocabulary))
        if word == self.vocabulary.boundary_id:
            state.check_begun()
            return self.start()
        joint = self._joint(state, word)
        total = joint.sum(dtype=np.float64)
        now = joint / np.float32(total) if total > 0 else np.full_like(joint, 1 / len(joint))
        return State((int(self.tables.lexicon.classes[word]), now.astype(np.float32).tobytes()))

    def _joint(self, state: State, word: int) -> npt.NDArray[np.float32]:
        """p(z, word | state) for the states z of the word's class: (k,)."""
        tables = self.tables
        emitted = tables.emissions[tables.lexicon.places[word]]
        return np.asarray(self._reach(state, word) * emitted, np.float32)

    def _reach(self, state: State, word: int) -> npt.NDArray[np.float32]:
        tables = self.tables
        group, data = state.parts()
        if group == _START:
            return np.asarray(tables.starts[tables.lexicon.classes[word]])
        return tables.reach(group, _array(data), int(tables.lexicon.classes[word]))

    def log_prob(
        self, states: Sequence[State], words: npt.NDArray[np.integer[Any]] | Sequence[int]
    ) -> Float64:
        """Natural log p(word | state), float64 (states,)."""
        ids, _ = checked(np.asarray(words), np.array([0, len(words)]), len(self.vocabulary))
        found = np.empty(len(ids), np.float64)
        for n, (state, word) in enumerate(zip(states, ids.tolist(), strict=True)):
            found[n] = self._joint(state, word).sum(dtype=np.float64)
        return np.asarray(_log(found))

    def log_probs(self, states: Sequence[State]) -> npt.NDArray[np.float32]:
        """Natural log-probabilities of every next word, float32 (states, types).

        All transitions out of the class of the last word are made for it, so states are taken class by class.
        """
        tables = self.tables
        onward = tables.store.transitions.onward
        rows = np.empty((len(states), len(self.vocabulary)), np.float32)
        groups = np.array([state.parts()[0] for state in states], np.int64)
        for group in np.unique(groups).tolist():
            own = np.flatnonzero(groups == group)
            if group == _START:
                rows[own] = tables.words(np.ascontiguousarray(tables.starts[:, :, None]))
                continue
            for i in range(0, len(own), _ROWS):
                some = own[i : i + _ROWS]
                vectors = np.stack([_array(states[n].parts()[1]) for n in some])
                rows[some] = tables.words(onward(group, vectors))
        return np.asarray(_log(rows), np.float32)

    # -- whole texts -------------------------------------------------------------------------------

    def score_corpus(
        self, ids: npt.NDArray[np.integer[Any]], offsets: npt.NDArray[np.integer[Any]]
    ) -> Float64:
        """Log-probability of every id given those before it in its sentence, natural, float64 (tokens,)."""
        found = np.empty(len(np.asarray(ids)), np.float64)
        for passed in self.tables.passes(*self.sentences(ids, offsets)):
            found[passed.tokens] = passed.forward.log_probs
        return found

    def score_from(self, state: State, ids: npt.NDArray[np.integer[Any]]) -> tuple[Float64, State]:
        """Log-probability of every id of a sequence that goes on from a state, and the state after it."""
        words, cuts = self.sentences(ids, np.array([0, len(ids)]))
        found = np.empty(len(words), np.float64)
        if not len(words):
            state.check_begun()
            return found, State(state.value)
        last = None
        for passed in self.tables.passes(words, cuts, self._reach(state, int(words[0]))):
            found[passed.tokens] = passed.forward.log_probs
            last = passed.forward.states[-1]
        if words[-1] == self.vocabulary.boundary_id or last is None:
            return found, self.start()
        return found, State((int(self.tables.lexicon.classes[words[-1]]), last.tobytes()))

    def sentences(
        self, ids: npt.NDArray[np.integer[Any]], offsets: npt.NDArray[np.integer[Any]]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """The ids, checked, and where sentences begin among them: sequences cut after every ``</s>``."""
        words, cuts = checked(ids, offsets, len(self.vocabulary))
        ends = np.flatnonzero(words == self.vocabulary.boundary_id) + 1
        return words, np.union1d(cuts, ends)

    # -- artefact ----------------------------------------------------------------------------------

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Tables and vocabulary. Raises NotFittedError."""
        return {**self.tables.arrays(), **self.vocabulary.arrays()}


def _array(data: bytes) -> npt.NDArray[np.float32]:
    if not isinstance(data, bytes) or not data or len(data) % 4:
        raise DataError("the state is not one of a hidden Markov model")
    return np.frombuffer(data, np.float32)


def _log(probabilities: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Natural logarithms; what float32 cannot hold is taken as the least it can."""
    return np.asarray(np.log(np.maximum(probabilities, np.finfo(np.float32).tiny)))
