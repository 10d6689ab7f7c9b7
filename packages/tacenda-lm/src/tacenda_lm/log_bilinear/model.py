"""`LogBilinear`: the language model around a fitted predictor of words from the words before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from tacenda_lm.configured import ConfiguredLanguageModel
from tacenda_lm.contract import rows_of_block
from tacenda_lm.log_bilinear.hlbl_predictor import HLBLPredictor
from tacenda_lm.log_bilinear.lbl_predictor import LBLPredictor
from tacenda_lm.log_bilinear.settings import HLBLSettings, LBLSettings
from tacenda_lm.log_bilinear.stream import Stream
from tacenda_lm.perplexity import Context
from tacenda_lm.sequences import Float64, check_word, checked
from tacenda_lm.state import State

__all__ = ["LogBilinear"]

S = TypeVar("S", bound=HLBLSettings | LBLSettings)
_ROWS = 512  # distributions computed side by side, at most


class LogBilinear(ConfiguredLanguageModel[S]):
    """Base of `HLBL` and `LBL`, whose ``_fit`` and ``from_arrays`` set the predictor and the vocabulary."""

    keeps_checkpoints: ClassVar[bool] = True
    _predictor: HLBLPredictor | LBLPredictor | None = None

    @property
    def _found(self) -> HLBLPredictor | LBLPredictor:
        self._learned(self._predictor)
        assert self._predictor is not None
        return self._predictor

    @property
    def own_context(self) -> Context:
        """``"stream"`` with ``across_sentences``, else ``"sentence"``."""
        return "stream" if self.settings.across_sentences else "sentence"

    def start(self) -> State:
        """Return the state after one ``</s>`` and nothing else."""
        return self._found.start()

    def advance(self, state: State, word: int) -> State:
        """Return the state after one more word.

        After ``</s>`` the context goes on with ``across_sentences``, and begins anew without.
        """
        check_word(word, len(self.vocabulary))
        if word == self.vocabulary.boundary_id and not self.settings.across_sentences:
            return self.start()
        return self._found.after(state, int(word))

    def log_probs(self, states: Sequence[State]) -> npt.NDArray[np.float32]:
        """Return natural log-probabilities of every next word, float32 (states, types)."""
        return self._found.log_probs(states)

    def log_prob(
        self, states: Sequence[State], words: npt.NDArray[np.integer[Any]] | Sequence[int]
    ) -> Float64:
        """Return natural log p(word | state) for pairs, float64 (states,)."""
        ids, _ = checked(np.asarray(words), np.array([0, len(words)]), len(self.vocabulary))
        return self._found.log_prob(states, ids)

    def score_corpus(
        self, ids: npt.NDArray[np.integer[Any]], offsets: npt.NDArray[np.integer[Any]]
    ) -> Float64:
        """Return the natural log-probability of every id given those before it in its sequence, float64 (tokens,)."""
        return self._found.score(self._stream(ids, offsets))

    def score_from(self, state: State, ids: npt.NDArray[np.integer[Any]]) -> tuple[Float64, State]:
        """Return the log-probability of every id of a sequence that follows a state, and the state after it."""
        ids, _ = checked(ids, np.array([0, len(ids)]), len(self.vocabulary))
        ends = np.flatnonzero(ids == self.vocabulary.boundary_id) + 1
        if self.settings.across_sentences or not len(ends):
            return self._found.score_from(state, ids)
        # the rest of a sentence, whole sentences, and the beginning of one
        first, _ = self._found.score_from(state, ids[: ends[0]])
        inner = self.score_corpus(ids[ends[0] : ends[-1]], ends - ends[0])
        last, state = self._found.score_from(self.start(), ids[ends[-1] :])
        return np.concatenate([first, inner, last]), state

    def distributions(
        self, ids: npt.NDArray[np.integer[Any]], offsets: npt.NDArray[np.integer[Any]]
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Yield the distribution that every id was drawn from, float32 (tokens of the block, types), in order."""
        rows = min(_ROWS, rows_of_block(len(self.vocabulary)))
        return self._found.distributions(self._stream(ids, offsets), rows)

    def _stream(
        self, ids: npt.NDArray[np.integer[Any]], offsets: npt.NDArray[np.integer[Any]]
    ) -> Stream:
        ids, offsets = checked(ids, offsets, len(self.vocabulary))
        boundary = self.vocabulary.boundary_id
        return Stream.of(ids, offsets, boundary, self.settings.across_sentences)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what was learned, and the vocabulary. Raises NotFittedError."""
        return {**self._found.arrays(), **self.vocabulary.arrays()}
