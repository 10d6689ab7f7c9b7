"""`StreamModel`: a language model of running text, and `Predictor`, which predicts the text from vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Arrays
from tacenda_lm.distributions import rows_of_block
from tacenda_lm.language_model import LanguageModel
from tacenda_lm.perplexity import Context
from tacenda_lm.sequences import Float64, Floats, Ids, Integers, check_sequences
from tacenda_lm.states import State, check_following, check_pairs, check_states, check_step
from tacenda_lm.streams import Stream


class Predictor(Arrays):
    """Base of fitted models that predict a word from a vector. Ids are already checked; logarithms are natural.

    A subclass implements `start`, `after`, `vectors`, `rows` and `passes`; the other methods follow from these. Instead
    of `passes` it may implement `score`, `score_from`, `vectors_from` and `distributions`.
    """

    parameters: Any  # the learned arrays, declared by the subclass
    boundary: int  # the id of ``</s>``, after which a text begins

    @property
    def n_types(self) -> int:
        """The number of words that can be predicted."""
        return len(self.parameters.biases)

    def start(self) -> State:
        """Return the state after one ``</s>``."""
        raise NotImplementedError

    def after(self, state: State, word: int) -> State:
        """Return the state after one more word, without a new sentence after ``</s>``."""
        raise NotImplementedError

    def vectors(self, states: Sequence[State]) -> Floats:
        """Return the vector from which each state predicts (states, width)."""
        raise NotImplementedError

    def passes(
        self, stream: Stream, state: State | None = None
    ) -> Iterator[tuple[Floats, Ids, State | None]]:
        """Yield the vectors that predict the ids of a stream (rows, width), and these ids (rows,), block by block.

        The first id of every sequence is not predicted. A stream that follows a ``state`` is one sequence, whose first
        id is predicted; the state after each block is then yielded, too.
        """
        raise NotImplementedError

    def rows(self, vectors: Floats) -> Floats:
        """Return the log-probabilities of every next word (rows, types)."""
        raise NotImplementedError

    def pick(self, vectors: Floats, words: Ids) -> Float64:
        """Return log p(word) of one word for each vector (rows,)."""
        return self.rows(vectors)[np.arange(len(words)), words].astype(np.float64)

    # -- methods that follow from these ------------------------------------------------------------

    def score(self, stream: Stream) -> Float64:
        """Return the log-probabilities of all ids except the first of every sequence."""
        scores = [self.pick(vectors, words) for vectors, words, _ in self.passes(stream)]
        return np.concatenate([np.empty(0), *scores])

    def score_from(self, state: State, ids: Ids) -> tuple[Float64, State]:
        """Return the scores of ids that follow a state with no new sentence among them, and the state after."""
        return self._collect(state, ids, [np.empty(0)], self.pick)

    def vectors_from(self, state: State, ids: Ids) -> tuple[Floats, State]:
        """Return the vectors that predict ids as `score_from` takes them (tokens, width), and the state after."""
        return self._collect(state, ids, [self.vectors([state])[:0]], lambda vectors, _: vectors)

    def _collect(
        self, state: State, ids: Ids, parts: list[Any], convert: Callable[[Floats, Ids], Any]
    ) -> tuple[Any, State]:
        """Return converted vectors of ids that follow a state, appended to ``parts``, and the state after."""
        for vectors, words, after in self.passes(Stream.following(ids), state):
            parts.append(convert(vectors, words))
            state = after or state
        return np.concatenate(parts), state

    def distributions(self, stream: Stream) -> Iterator[Floats]:
        """Yield the log-probabilities of all words at the positions that `score` scores (rows, types)."""
        size = rows_of_block(self.n_types)
        for vectors, _, _ in self.passes(stream):
            for i in range(0, len(vectors), size):
                yield self.rows(vectors[i : i + size])


class StreamModel(LanguageModel):
    """Base of the models whose settings have ``across_sentences``.

    A subclass names the class of its `Predictor` in ``learned_class``, and implements ``_fit``, which sets the
    vocabulary and the predictor as ``learned``.
    """

    distribution: ClassVar[str] = "tacenda-lm"
    keeps_checkpoints = True
    learned: Predictor | None

    @property
    def _fitted(self) -> Predictor:
        return self._learned(self.learned)

    @property
    def parameters(self) -> Any:
        """The learned arrays, a `tacenda.arrays.Arrays`. Raises NotFittedError."""
        return self._fitted.parameters

    @property
    def own_context(self) -> Context:
        return "stream" if self.settings.across_sentences else "sentence"

    # -- one word after another --------------------------------------------------------------------

    def start(self) -> State:
        return self._fitted.start()

    def advance(self, state: State, word: int) -> State:
        """Return the state after one more word.

        After ``</s>`` the context continues with ``across_sentences``, and starts again without.
        """
        check_step(state, word, len(self.vocabulary))
        after = self._fitted.after(state, int(word))  # refuses a state of another model
        if word == self.vocabulary.boundary_id and not self.settings.across_sentences:
            return self.start()
        return after

    def log_probs(self, states: Sequence[State]) -> Floats:
        check_states(states)
        return self._fitted.rows(self._fitted.vectors(states))

    def log_prob(self, states: Sequence[State], words: Integers | Sequence[int]) -> Float64:
        ids = check_pairs(states, words, len(self.vocabulary))
        return self._fitted.pick(self._fitted.vectors(states), ids)

    def state_vectors(self, states: Sequence[State]) -> Floats:
        """Return the vector from which each state predicts, float32 (states, width). Raises DataError."""
        check_states(states)
        return self._fitted.vectors(states)

    # -- whole texts -------------------------------------------------------------------------------

    def score_corpus(self, ids: Integers, offsets: Integers) -> Float64:
        return self._fitted.score(self._make_stream(ids, offsets))

    def score_from(self, state: State, ids: Integers) -> tuple[Float64, State]:
        ids, ends = self._find_restarts(state, ids)
        if not len(ends):
            return self._fitted.score_from(state, ids)
        # the rest of a sentence, whole sentences, and the beginning of one
        first, _ = self._fitted.score_from(state, ids[: ends[0]])
        inner = self.score_corpus(ids[ends[0] : ends[-1]], ends - ends[0])
        last, state = self._fitted.score_from(self.start(), ids[ends[-1] :])
        return np.concatenate([first, inner, last]), state

    def vectors_from(self, state: State, ids: Integers) -> tuple[Floats, State]:
        """Return the vectors that predict the ids that follow a state (tokens, width), and the state after them."""
        words, ends = self._find_restarts(state, ids)
        if not len(ends):
            return self._fitted.vectors_from(state, words)
        parts = []
        for i, sentence in enumerate(np.split(words, ends)):
            vectors, state = self._fitted.vectors_from(self.start() if i else state, sentence)
            parts.append(vectors)
        return np.concatenate(parts), state

    def distributions(self, ids: Integers, offsets: Integers) -> Iterator[Floats]:
        return self._fitted.distributions(self._make_stream(ids, offsets))

    def _find_restarts(self, state: State, ids: Integers) -> tuple[Ids, npt.NDArray[np.int64]]:
        """Return checked ids after a state, and the places after a ``</s>`` where a sentence begins without context."""
        words = check_following(state, ids, len(self.vocabulary))
        if self.settings.across_sentences:
            return words, np.empty(0, np.int64)
        return words, np.flatnonzero(words == self.vocabulary.boundary_id) + 1

    def _make_stream(self, ids: Integers, offsets: Integers) -> Stream:
        ids, offsets = check_sequences(ids, offsets, len(self.vocabulary))
        across = self.settings.across_sentences
        return Stream.of(ids, offsets, self.vocabulary.boundary_id, across)

    # -- saved model -------------------------------------------------------------------------------

    def _sizes(self) -> dict[str, Any]:
        return {**super()._sizes(), "boundary": self.vocabulary.boundary_id}
