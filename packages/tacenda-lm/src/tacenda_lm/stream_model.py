"""`StreamModel`: a language model that reads a text as a stream, and `Predictor`, which holds its mathematics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tacenda_lm.language_model import LanguageModel
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
from tacenda_lm.states import State, rows_of_block
from tacenda_lm.streams import Stream

_Floats = npt.NDArray[np.floating[Any]]


class Predictor:
    """A fitted model as arrays. Ids are checked before they come here; logarithms are natural.

    A word is predicted from a vector. A predictor says what the vectors of states and of texts are, and what they
    predict (`vectors`, `passes`, `rows`); the rest follows.
    """

    boundary: int  # the id of ``</s>``, after which a text begins
    n_types: int

    def start(self) -> State:
        """Return the state after one ``</s>``."""
        raise NotImplementedError

    def after(self, state: State, word: int) -> State:
        """Return the state after one more word, the context going on."""
        raise NotImplementedError

    def vectors(self, states: Sequence[State]) -> _Floats:
        """Return the vector that each state predicts from, (states, width)."""
        raise NotImplementedError

    def passes(
        self, stream: Stream, state: State | None = None
    ) -> Iterator[tuple[_Floats, Ids, State | None]]:
        """Yield the vectors that predict the ids of a stream, (rows, width), and these ids, block by block.

        The first id of every sequence is predicted by nothing. Where the stream follows a ``state`` it has no new
        sequence; its first id is then predicted, and the state after each block is yielded too.
        """
        raise NotImplementedError

    def rows(self, vectors: _Floats) -> _Floats:
        """Return log-probabilities of every next word, (rows, types)."""
        raise NotImplementedError

    def picked(self, vectors: _Floats, words: Ids) -> Float64:
        """Return log p(word) of one word for each vector, (rows,)."""
        return self.rows(vectors)[np.arange(len(words)), words].astype(np.float64)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what was learned, by name."""
        raise NotImplementedError

    # -- what follows ------------------------------------------------------------------------------

    def log_probs(self, states: Sequence[State]) -> _Floats:
        """Return log-probabilities of every next word, (states, types)."""
        return self.rows(self.vectors(states))

    def log_prob(self, states: Sequence[State], words: Ids) -> Float64:
        """Return log p(word | state), (states,)."""
        return self.picked(self.vectors(states), words)

    def score(self, stream: Stream) -> Float64:
        """Return log-probabilities of all but the first id of every sequence."""
        found = [self.picked(vectors, words) for vectors, words, _ in self.passes(stream)]
        return np.concatenate([np.empty(0), *found])

    def score_from(self, state: State, ids: Ids) -> tuple[Float64, State]:
        """Return the scores of ids that follow a state with no new sentence among them, and the state after."""
        found, last = [np.empty(0)], state
        for vectors, words, after in self.passes(Stream.following(ids), state):
            found.append(self.picked(vectors, words))
            last = after or last
        return np.concatenate(found), last

    def vectors_from(self, state: State, ids: Ids) -> tuple[_Floats, State]:
        """Return the vector that predicts each id of ids as `score_from` takes them, and the state after."""
        found, last = [self.vectors([state])[:0]], state
        for vectors, _, after in self.passes(Stream.following(ids), state):
            found.append(vectors)
            last = after or last
        return np.concatenate(found), last

    def distributions(self, stream: Stream) -> Iterator[_Floats]:
        """Yield log-probabilities of all words at the positions that `score` scores, (rows, types)."""
        size = rows_of_block(self.n_types)
        for vectors, _, _ in self.passes(stream):
            for i in range(0, len(vectors), size):
                yield self.rows(vectors[i : i + size])


class StreamModel(LanguageModel):
    """Base of the models whose settings have ``across_sentences``.

    ``_fit`` and ``from_arrays`` of a subclass set the predictor, and ``from_arrays`` the vocabulary.
    """

    distribution: ClassVar[str] = "tacenda-lm"
    keeps_checkpoints = True
    _predictor: Any = None

    @property
    def _found(self) -> Predictor:
        found: Predictor = self._learned(self._predictor)
        return found

    @property
    def own_context(self) -> Context:
        return "stream" if self.settings.across_sentences else "sentence"

    # -- one word after another --------------------------------------------------------------------

    def start(self) -> State:
        return self._found.start()

    def advance(self, state: State, word: int) -> State:
        """Return the state after one more word.

        After ``</s>`` the context goes on with ``across_sentences``, and begins anew without.
        """
        check_word(word, len(self.vocabulary))
        if word == self.vocabulary.boundary_id and not self.settings.across_sentences:
            state.check_begun()
            return self.start()
        return self._found.after(state, int(word))

    def log_probs(self, states: Sequence[State]) -> _Floats:
        return self._found.log_probs(states)

    def log_prob(self, states: Sequence[State], words: Integers | Sequence[int]) -> Float64:
        return self._found.log_prob(states, checked_pairs(states, words, len(self.vocabulary)))

    def state_vectors(self, states: Sequence[State]) -> _Floats:
        """Return the vector that each state predicts from, float32 (states, width)."""
        return self._found.vectors(states)

    # -- whole texts -------------------------------------------------------------------------------

    def score_corpus(self, ids: Integers, offsets: Integers) -> Float64:
        return self._found.score(self._stream(ids, offsets))

    def score_from(self, state: State, ids: Integers) -> tuple[Float64, State]:
        ids, ends = self._sentences(ids)
        if not len(ends):
            return self._found.score_from(state, ids)
        # the rest of a sentence, whole sentences, and the beginning of one
        first, _ = self._found.score_from(state, ids[: ends[0]])
        inner = self.score_corpus(ids[ends[0] : ends[-1]], ends - ends[0])
        last, state = self._found.score_from(self.start(), ids[ends[-1] :])
        return np.concatenate([first, inner, last]), state

    def vectors_from(self, state: State, ids: Integers) -> tuple[_Floats, State]:
        """Return the vector that predicts each id of a sequence that follows a state, and the state after it."""
        words, ends = self._sentences(ids)
        found = []
        for i, sentence in enumerate(np.split(words, ends)):
            vectors, state = self._found.vectors_from(self.start() if i else state, sentence)
            found.append(vectors)
        return np.concatenate(found), state

    def distributions(self, ids: Integers, offsets: Integers) -> Iterator[_Floats]:
        return self._found.distributions(self._stream(ids, offsets))

    def _sentences(self, ids: Integers) -> tuple[Ids, npt.NDArray[np.int64]]:
        """Return the ids, checked, and the places behind a ``</s>``, after which the context begins anew."""
        words = checked_ids(ids, len(self.vocabulary))
        if self.settings.across_sentences:
            return words, np.empty(0, np.int64)
        return words, np.flatnonzero(words == self.vocabulary.boundary_id) + 1

    def _stream(self, ids: Integers, offsets: Integers) -> Stream:
        ids, offsets = checked(ids, offsets, len(self.vocabulary))
        across = self.settings.across_sentences
        return Stream.of(ids, offsets, self.vocabulary.boundary_id, across)

    # -- saved model -------------------------------------------------------------------------------

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {**self._found.arrays(), **self.vocabulary.arrays()}
