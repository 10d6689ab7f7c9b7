"""What a hidden Markov model says of the states behind the words: posteriors, the most probable path, classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.vocabulary import Vocabulary
from tacenda_lm.hidden_markov.tables import Tables

__all__ = ["Decoding", "Posterior"]

_LEAST = np.finfo(np.float32).tiny


class Posterior(NamedTuple):
    """States given a whole sentence.

    Attributes
    ----------
    classes
        int32 (words,): the class each word belongs to; all its states do.
    probabilities
        p(state | sentence) float32 (words, k), over the states of that class.
    """

    classes: npt.NDArray[np.int32]
    probabilities: npt.NDArray[np.float32]


class Decoding:
    """Mixed into the models; a state's number is ``class * k + number within the class``."""

    @property
    def tables(self) -> Tables:
        """As of `HiddenMarkov`."""
        raise NotImplementedError

    @property
    def vocabulary(self) -> Vocabulary:
        """As of `HiddenMarkov`."""
        raise NotImplementedError

    def sentences(self, ids: Any, offsets: Any) -> Any:
        """As of `HiddenMarkov`."""
        raise NotImplementedError

    def class_of(self, word: str) -> int:
        """The class of a word, of ``<unk>`` for one that is not known."""
        return int(self.tables.lexicon.classes[self.vocabulary.encode([word])[0]])

    def words_of(self, group: int) -> list[str]:
        """The words of a class, in the order of the vocabulary."""
        words = self.vocabulary.words
        members = np.flatnonzero(self.tables.lexicon.classes == group)
        return [words[i] for i in members.tolist()]

    def posterior(self, sentence: str | Sequence[str], *, eos: bool = True) -> Posterior:
        """p(state | sentence) for every word.

        Parameters
        ----------
        sentence
            Words, or a string of words with spaces between.
        eos
            Whether the sentence ends there; ``</s>`` is then the last word.
        """
        ids = self._ids(sentence, eos)
        probabilities = np.empty((len(ids), self.tables.k), np.float32)
        at = np.array([0, len(ids)])
        for passed in self.tables.passes(*self.sentences(ids, at)):
            probabilities[passed.tokens] = self.tables.backward(passed).posteriors
        return Posterior(self.tables.lexicon.classes[ids], probabilities)

    def viterbi(self, sentence: str | Sequence[str], *, eos: bool = True) -> npt.NDArray[np.int64]:
        """The most probable path of states: int64 (words,), numbers from 0 to Z - 1.

        Parameters
        ----------
        sentence
            Words, or a string of words with spaces between.
        eos
            Whether the sentence ends there; ``</s>`` is then the last word.
        """
        ids = self._ids(sentence, eos)
        return self.state_path(ids, np.array([0, len(ids)]))

    def state_path(
        self, ids: npt.NDArray[np.integer[Any]], offsets: npt.NDArray[np.integer[Any]]
    ) -> npt.NDArray[np.int64]:
        """The most probable path of every sentence of a text: int64 (tokens,)."""
        words, cuts = self.sentences(ids, offsets)
        path = np.empty(len(words), np.int64)
        for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            path[begin:end] = self._best_path(words[begin:end])
        return path

    def _best_path(self, ids: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """The largest p(z, x) over z, by dynamic programming, in logarithms (Viterbi 1967)."""
        tables, k = self.tables, self.tables.k
        classes = tables.lexicon.classes[ids].astype(np.int64)
        emitted = np.log(np.maximum(tables.emissions[tables.lexicon.places[ids]], _LEAST))
        came_from = np.empty((len(ids), k), np.int64)
        best = np.zeros(k, np.float32)
        for t in range(len(ids)):
            if t == 0:
                best = np.log(np.maximum(tables.starts[classes[0]], _LEAST)) + emitted[0]
                continue
            pool, slots = tables.store.get(classes[t - 1 : t], classes[t : t + 1])
            scores = np.log(np.maximum(pool[slots[0]], _LEAST)) + best
            came_from[t] = scores.argmax(axis=1)
            best = scores[np.arange(k), came_from[t]] + emitted[t]
        path = np.empty(len(ids), np.int64)
        if len(ids):
            path[-1] = best.argmax()
        for t in range(len(ids) - 1, 0, -1):
            path[t - 1] = came_from[t, path[t]]
        return path + classes * k

    def _ids(self, sentence: str | Sequence[str], eos: bool) -> npt.NDArray[np.int32]:
        words = sentence.split() if isinstance(sentence, str) else list(sentence)
        ids = np.asarray(self.vocabulary.encode(words), np.int32)
        if eos:
            ids = np.append(ids, np.int32(self.vocabulary.boundary_id))
        return ids
