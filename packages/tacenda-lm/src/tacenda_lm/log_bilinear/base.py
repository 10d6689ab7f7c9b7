"""`LogBilinear`: what the log-bilinear models share: how they go on, streams."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from tacenda_lm.configured import OldConfiguredLanguageModel
from tacenda_lm.log_bilinear.config import Settings
from tacenda_lm.log_bilinear.stream import Stream
from tacenda_lm.perplexity import Context
from tacenda_lm.sequences import Float64, Ids, check_word, checked
from tacenda_lm.state import State

__all__ = ["LogBilinear"]


S = TypeVar("S", bound=Settings)


class LogBilinear(OldConfiguredLanguageModel[S]):
    """Base of `HLBL` and `LBL`.

    A subclass names its ``settings`` and implements ``_fit``, ``_after``, ``_score_stream``, ``_score_on`` and what
    the contract asks for beyond.
    """

    @property
    def own_context(self) -> Context:
        """A stream with ``across_sentences``."""
        return "stream" if self.config.across_sentences else "sentence"

    keeps_checkpoints: ClassVar[bool] = True

    # -- one word after another --------------------------------------------------------------------

    def advance(self, state: State, word: int) -> State:
        """The state after one more word (an id). After ``</s>`` the context goes on with ``across_sentences``, and
        begins anew without.
        """
        check_word(word, len(self.vocabulary))
        if word == self.vocabulary.boundary_id and not self.config.across_sentences:
            return self.start()
        return self._after(state, int(word))

    def _after(self, state: State, word: int) -> State:
        """The state with one more word in it."""
        raise NotImplementedError

    # -- whole texts -------------------------------------------------------------------------------

    def score_corpus(
        self, ids: npt.NDArray[np.integer[Any]], offsets: npt.NDArray[np.integer[Any]]
    ) -> Float64:
        """Log-probability of every id given those before it in its sequence, natural, float64 (tokens,)."""
        return self._score_stream(self._stream(ids, offsets))

    def score_from(self, state: State, ids: npt.NDArray[np.integer[Any]]) -> tuple[Float64, State]:
        """Log-probability of every id of a sequence that goes on from a state, and the state after it."""
        ids, _ = checked(ids, np.array([0, len(ids)]), len(self.vocabulary))
        ends = np.flatnonzero(ids == self.vocabulary.boundary_id) + 1
        if self.config.across_sentences or not len(ends):
            return self._score_on(state, ids)
        first, _ = self._score_on(state, ids[: ends[0]])
        inner = self.score_corpus(ids[ends[0] : ends[-1]], ends - ends[0])
        last, state = self._score_on(self.start(), ids[ends[-1] :])
        return np.concatenate([first, inner, last]), state

    def _stream(
        self, ids: npt.NDArray[np.integer[Any]], offsets: npt.NDArray[np.integer[Any]]
    ) -> Stream:
        ids, offsets = checked(ids, offsets, len(self.vocabulary))
        boundary = self.vocabulary.boundary_id
        return Stream.of(ids, offsets, boundary, self.config.across_sentences)

    def _score_stream(self, stream: Stream) -> Float64:
        """Scores of all but the first id of every sequence."""
        raise NotImplementedError

    def _score_on(self, state: State, ids: Ids) -> tuple[Float64, State]:
        """Scores of a sequence without an end inside that goes on from a state, and the state after it."""
        raise NotImplementedError
