"""`StreamModel`: a language model that reads a text as a stream, around a predictor that holds its mathematics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt

from tacenda.settings import Settings
from tacenda_lm.contract import State
from tacenda_lm.language_model import ConfiguredLanguageModel
from tacenda_lm.perplexity import Context
from tacenda_lm.sequences import (
    Float64,
    Ids,
    Integers,
    check_word,
    checked,
    checked_ids,
    checked_pairs,
)
from tacenda_lm.streams import Stream

__all__ = ["StreamModel", "StreamPredictor", "VectorModel", "VectorPredictor"]


class StreamPredictor(Protocol):
    """What a fitted model predicts. Ids are checked; logarithms are natural."""

    def start(self) -> State:
        """Return the state after one ``</s>``."""
        ...

    def after(self, state: State, word: int) -> State:
        """Return the state after one more word, the context going on."""
        ...

    def log_probs(self, states: Sequence[State]) -> npt.NDArray[np.floating[Any]]:
        """Return log-probabilities of every next word, float32 (states, types)."""
        ...

    def log_prob(self, states: Sequence[State], words: Ids) -> Float64:
        """Return log p(word | state), (states,)."""
        ...

    def score(self, stream: Stream) -> Float64:
        """Return log-probabilities of all but the first id of every sequence."""
        ...

    def score_from(self, state: State, ids: Ids) -> tuple[Float64, State]:
        """Return the scores of ids that follow a state with no new sentence among them, and the state after."""
        ...

    def distributions(self, stream: Stream) -> Iterator[npt.NDArray[np.floating[Any]]]:
        """Yield log-probabilities of all words at the positions that `score` scores, float32 (rows, types)."""
        ...

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what was learned, by name."""
        ...


class VectorPredictor(StreamPredictor, Protocol):
    """A predictor whose states have vectors."""

    def vectors(self, states: Sequence[State]) -> npt.NDArray[np.floating[Any]]:
        """Return the vector that each state predicts from, float32 (states, width)."""
        ...

    def vectors_from(self, state: State, ids: Ids) -> tuple[npt.NDArray[np.floating[Any]], State]:
        """Return the vector that predicts each id of ids as `score_from` takes them, and the state after."""
        ...


S = TypeVar("S", bound=Settings)
P = TypeVar("P", bound=StreamPredictor)
V = TypeVar("V", bound=VectorPredictor)


class StreamModel(ConfiguredLanguageModel[S], Generic[S, P]):
    """Base of the models whose settings have ``across_sentences``.

    ``_fit`` and ``from_arrays`` of a subclass set the predictor and the vocabulary.
    """

    keeps_checkpoints = True
    _predictor: P | None = None

    @property
    def _found(self) -> P:
        return self._learned(self._predictor)

    @property
    def _across(self) -> bool:
        """Whether the context of a word reaches over the ends of sentences: a setting of all these models."""
        return bool(cast("Any", self.settings).across_sentences)

    @property
    def own_context(self) -> Context:
        """``"stream"`` with ``across_sentences``, else ``"sentence"``."""
        return "stream" if self._across else "sentence"

    # -- one word after another --------------------------------------------------------------------

    def start(self) -> State:
        """Return the state after one ``</s>`` and nothing else."""
        return self._found.start()

    def advance(self, state: State, word: int) -> State:
        """Return the state after one more word.

        After ``</s>`` the context goes on with ``across_sentences``, and begins anew without.
        """
        check_word(word, len(self.vocabulary))
        if word == self.vocabulary.boundary_id and not self._across:
            state.check_begun()
            return self.start()
        return self._found.after(state, int(word))

    def log_probs(self, states: Sequence[State]) -> npt.NDArray[np.float32]:
        """Return natural log-probabilities of every next word, float32 (states, types)."""
        return self._found.log_probs(states)

    def log_prob(self, states: Sequence[State], words: Integers | Sequence[int]) -> Float64:
        """Return natural log p(word | state) for pairs, float64 (states,)."""
        return self._found.log_prob(states, checked_pairs(states, words, len(self.vocabulary)))

    # -- whole texts -------------------------------------------------------------------------------

    def score_corpus(self, ids: Integers, offsets: Integers) -> Float64:
        """Return the natural log-probability of every id given those before it in its sequence, float64 (tokens,)."""
        return self._found.score(self._stream(ids, offsets))

    def score_from(self, state: State, ids: Integers) -> tuple[Float64, State]:
        """Return the log-probability of every id of a sequence that follows a state, and the state after it."""
        ids = checked_ids(ids, len(self.vocabulary))
        ends = np.flatnonzero(ids == self.vocabulary.boundary_id) + 1
        if self._across or not len(ends):
            return self._found.score_from(state, ids)
        # the rest of a sentence, whole sentences, and the beginning of one
        first, _ = self._found.score_from(state, ids[: ends[0]])
        inner = self.score_corpus(ids[ends[0] : ends[-1]], ends - ends[0])
        last, state = self._found.score_from(self.start(), ids[ends[-1] :])
        return np.concatenate([first, inner, last]), state

    def distributions(self, ids: Integers, offsets: Integers) -> Iterator[npt.NDArray[np.float32]]:
        """Yield the distribution that every id was drawn from, float32 (tokens of the block, types), in order."""
        return self._found.distributions(self._stream(ids, offsets))

    def _stream(self, ids: Integers, offsets: Integers) -> Stream:
        ids, offsets = checked(ids, offsets, len(self.vocabulary))
        boundary = self.vocabulary.boundary_id
        return Stream.of(ids, offsets, boundary, self._across)

    # -- artefact ----------------------------------------------------------------------------------

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what was learned, and the vocabulary. Raises NotFittedError."""
        return {**self._found.arrays(), **self.vocabulary.arrays()}


class VectorModel(StreamModel[S, V]):
    """Base of those whose predictions come from a vector, which a neural cache compares."""

    def state_vectors(self, states: Sequence[State]) -> npt.NDArray[np.floating[Any]]:
        """Return the vector that each state predicts from, float32 (states, width)."""
        return self._found.vectors(states)

    def vectors_from(
        self, state: State, ids: Integers
    ) -> tuple[npt.NDArray[np.floating[Any]], State]:
        """Return the vector that predicts each id of a sequence that follows a state, and the state after it."""
        words, boundary = checked_ids(ids, len(self.vocabulary)), self.vocabulary.boundary_id
        ends = np.flatnonzero((words == boundary) & (not self._across)) + 1
        found = []
        for sentence in np.split(words, ends):
            vectors, state = self._found.vectors_from(state, sentence)
            found.append(vectors)
            if len(ends) and len(sentence) and sentence[-1] == boundary:
                state = self.start()
        return np.concatenate(found), state
