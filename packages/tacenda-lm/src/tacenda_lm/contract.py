"""What a language model implements, and what can be derived from it token by token.

    log p(w_1 ... w_n </s>) = sum_t log p(w_t | state_t),   state_1 = start(),  state_{t+1} = advance(state_t, w_t)

Every probability is over the whole vocabulary, ``</s>`` and ``<unk>`` included, and sums to one; ``<s>`` is
never predicted. Logarithms are natural here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.artifact import Saveable
from tacenda.corpus import Corpus
from tacenda.fitting.recorder import Resume
from tacenda.vocabulary import Vocabulary
from tacenda_lm.perplexity import Context
from tacenda_lm.sequences import Float64, Ids, checked
from tacenda_lm.state import State

__all__ = ["FitContext", "LanguageModelContract", "rows_of_block"]

_SEQUENCES = 64  # scored side by side, so that a model computes many rows at once
_CELLS = 1 << 22  # log-probabilities of a block of `distributions`: 32 MB


class FitContext(NamedTuple):
    """Where a fit saves its progress (nowhere if None), and whether it goes on from what is there."""

    checkpoints: Path | None = None
    resume: Resume = "auto"

    def stage(self, name: str) -> FitContext:
        """Return the context of one of several stages, which is saved in a folder of its own."""
        return self._replace(checkpoints=self.checkpoints and self.checkpoints / name)

    def after_first(self) -> FitContext:
        """Return the context of the stages after the first, which a killed fit need not have reached."""
        return self._replace(resume="auto") if self.resume is True else self


class LanguageModelContract(Saveable):
    """The small contract of every language model.

    A model implements ``_fit``, ``vocabulary``, ``start``, ``advance`` and ``log_probs``, and for the artefact
    ``config_dict``, ``arrays`` and ``from_arrays``. It may override ``log_prob`` (cheaper than a whole
    distribution), ``null``, ``score_corpus`` (all tokens of many sequences in one call: where a fast model is
    fast), ``score_from``, ``distributions`` and ``matched_lengths``.
    """

    kind: ClassVar[str] = "language_models"
    api_version: ClassVar[int] = 1

    #: Whether ``fit`` can save its progress; a model of which this is false refuses ``checkpoints``.
    keeps_checkpoints: ClassVar[bool] = False

    def _fit(self, corpus: Corpus, valid: Corpus | None, context: FitContext) -> None:
        """Fit the model to a corpus, whose vocabulary becomes the model's; ``valid`` may stop it early."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it is fitted")

    @property
    def vocabulary(self) -> Vocabulary:
        """What the ids mean. Raises NotFittedError."""
        raise NotImplementedError(f"{type(self).__name__} has no vocabulary")

    @property
    def own_context(self) -> Context:
        """What the model's own figures are measured in: ``"stream"`` if it looks beyond ``</s>``."""
        return "sentence"

    def start(self) -> State:
        """The state at the beginning of a sentence, after ``<s>``. Raises NotFittedError."""
        raise NotImplementedError(f"{type(self).__name__} does not say where it starts")

    def null(self) -> State:
        """The state in which nothing is known of what came before; that of `start` unless overridden."""
        return self.start()

    def advance(self, state: State, word: int) -> State:
        """The state after one more word.

        Parameters
        ----------
        state
            Left as it is.
        word
            An id of ``vocabulary``; after ``</s>`` a new sentence begins.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how it goes on")

    def log_probs(self, states: Sequence[State]) -> npt.NDArray[np.floating[Any]]:
        """Natural logarithms of the probabilities of every next word.

        Returns
        -------
        float32 or float64 (states, types); the exponentials of a row sum to one.
        """
        raise NotImplementedError(f"{type(self).__name__} predicts nothing")

    def log_prob(
        self, states: Sequence[State], words: npt.NDArray[np.integer[Any]] | Sequence[int]
    ) -> Float64:
        """Natural log p(word | state), for pairs: float64 (states,).

        Parameters
        ----------
        states
            One for every word.
        words
            Ids (states,).
        """
        rows = self.log_probs(states)
        return rows[np.arange(len(rows)), np.asarray(words, np.int64)].astype(np.float64)

    def score_corpus(
        self, ids: npt.NDArray[np.integer[Any]], offsets: npt.NDArray[np.integer[Any]]
    ) -> Float64:
        """Log-probability of every id given those before it in its sequence, natural: float64 (tokens,).

        Parameters
        ----------
        ids
            (tokens,) ids of ``vocabulary``, all sequences one after another; ``</s>`` is scored where it
            stands, and nothing is added.
        offsets
            (sequences + 1,) where each begins, and the end; every sequence starts from ``start()``.

        Raises
        ------
        DataError
            An id is not in the vocabulary, or the offsets do not cut the ids.
        NotFittedError
            The model was not fitted or loaded.
        """
        ids, offsets = checked(ids, offsets, len(self.vocabulary))
        found = np.empty(len(ids), np.float64)
        lengths = np.diff(offsets)
        longest_first = np.argsort(-lengths, kind="stable")
        for block in range(0, len(longest_first), _SEQUENCES):
            chosen = longest_first[block : block + _SEQUENCES]
            states = [self.start() for _ in chosen]
            for t in range(int(lengths[chosen[0]]) if len(chosen) else 0):
                n = int(np.count_nonzero(lengths[chosen] > t))  # the others have ended
                places = offsets[chosen[:n]] + t
                found[places] = self.log_prob(states[:n], ids[places])
                states = [
                    self.advance(s, w) for s, w in zip(states, ids[places].tolist(), strict=False)
                ]
        return found

    def score_from(self, state: State, ids: npt.NDArray[np.integer[Any]]) -> tuple[Float64, State]:
        """Log-probability of every id of one sequence that goes on from a state, and the state after it.

        What a stream needs: the scores of its parts are those of the whole.

        Parameters
        ----------
        state
            Left as it is.
        ids
            (tokens,) ids of ``vocabulary``.

        Returns
        -------
        float64 (tokens,), natural; and the state after the last.
        """
        ids, _ = checked(ids, np.array([0, len(ids)]), len(self.vocabulary))
        scores = np.empty(len(ids), np.float64)
        for t, word in enumerate(ids.tolist()):
            scores[t] = self.log_prob([state], [word])[0]
            state = self.advance(state, word)
        return scores, state

    def distributions(
        self, ids: npt.NDArray[np.integer[Any]], offsets: npt.NDArray[np.integer[Any]]
    ) -> Iterator[npt.NDArray[np.floating[Any]]]:
        """The whole distribution at every token: log-probabilities before each id was seen.

        Parameters
        ----------
        ids
            As in `score_corpus`.
        offsets
            As in `score_corpus`.

        Yields
        ------
        float32 or float64 (tokens of the block, types), blocks of bounded size in the order of the ids.
        """
        ids, offsets = checked(ids, offsets, len(self.vocabulary))
        size = rows_of_block(len(self.vocabulary))
        states: list[State] = []
        for i, end in enumerate(offsets[1:].tolist()):
            state = self.start()
            for word in ids[offsets[i] : end].tolist():
                states.append(state)
                state = self.advance(state, word)
                if len(states) == size:
                    yield self.log_probs(states)
                    states = []
        if states:
            yield self.log_probs(states)

    def matched_lengths(self, ids: Ids, *, bos: bool = True) -> npt.NDArray[np.int64]:
        """How many words each prediction rests on, the predicted one included: int64 (tokens,).

        For an n-gram model the length of the n-gram found; all words so far unless overridden.
        """
        return np.arange(len(ids)) + (2 if bos else 1)


def rows_of_block(n_types: int) -> int:
    """How many distributions over so many types a block of `distributions` holds."""
    return max(1, _CELLS // n_types)
