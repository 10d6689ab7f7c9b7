"""`LBL`: the log-bilinear model: the next word by its vector's likeness to a predicted one (Mnih 2010, 3.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.corpus import Corpus
from tacenda.vocabulary import Vocabulary
from tacenda_lm.contract import FitContext
from tacenda_lm.log_bilinear.base import LogBilinear
from tacenda_lm.log_bilinear.config import LBLConfig
from tacenda_lm.log_bilinear.lbl_objective import Batch, LBLParameters, predicted, scores
from tacenda_lm.log_bilinear.lbl_training import contexts_at, fit_lbl
from tacenda_lm.log_bilinear.stream import Stream
from tacenda_lm.sequences import Float64, Ids, checked
from tacenda_lm.state import State

__all__ = ["LBL"]

_CELLS = 1 << 22  # scores of a block: 16 MB


class LBL(LogBilinear[LBLConfig]):
    """A log-bilinear language model.

    Parameters
    ----------
    config
        Settings; keyword arguments replace single ones.
    settings
        Any field of `LBLConfig`.

    Raises
    ------
    ConfigurationError
        a setting is unknown or out of range.
    """

    name: ClassVar[str] = "lbl"
    settings = LBLConfig
    _parameters: LBLParameters | None = None

    def _fit(self, corpus: Corpus, valid: Corpus | None, context: FitContext) -> None:
        self._parameters, history = fit_lbl(
            self.config, corpus, valid, context.checkpoints, context.resume
        )
        self._vocabulary = corpus.vocabulary
        self.fitted_on = {"training": history.as_dict()}

    @property
    def parameters(self) -> LBLParameters:
        """What was learned. Raises NotFittedError."""
        return self._learned(self._parameters)

    # -- one word after another --------------------------------------------------------------------

    def start(self) -> State:
        """After one ``</s>`` and nothing else. A state's value is a tuple of the last words, oldest first."""
        return State((self.vocabulary.boundary_id,))

    def _after(self, state: State, word: int) -> State:
        return State((*state.parts(), word)[-self.config.context :])

    def _vectors(self, states: Sequence[State]) -> npt.NDArray[np.float32]:
        words = np.zeros((len(states), self.config.context), np.int64)
        present = np.zeros(words.shape, bool)
        for i, state in enumerate(states):
            window = state.parts()[::-1]
            words[i, : len(window)], present[i, : len(window)] = window, True
        return np.asarray(
            predicted(self.parameters, Batch(words, present, words[:, 0])), np.float32
        )

    def log_probs(self, states: Sequence[State]) -> npt.NDArray[np.float32]:
        """Natural log-probabilities of every next word, float32 (states, types)."""
        if not len(states):
            return np.empty((0, len(self.vocabulary)), np.float32)
        return np.asarray(scores(self.parameters, self._vectors(states)), np.float32)

    def log_prob(
        self, states: Sequence[State], words: npt.NDArray[np.integer[Any]] | Sequence[int]
    ) -> Float64:
        """Natural log p(word | state), float64 (states,)."""
        ids, _ = checked(np.asarray(words), np.array([0, len(words)]), len(self.vocabulary))
        return self.log_probs(states)[np.arange(len(ids)), ids].astype(np.float64)

    # -- whole texts -------------------------------------------------------------------------------

    def _rows(self, stream: Stream) -> Iterator[tuple[npt.NDArray[np.float32], Ids]]:
        """Log-probabilities of all words at all positions but the first of a sequence, and the words there."""
        positions = np.flatnonzero(~stream.firsts)
        size = max(1, min(512, _CELLS // len(self.vocabulary)))
        for i in range(0, len(positions), size):
            batch = contexts_at(stream, positions[i : i + size], self.config.context)
            rows = scores(self.parameters, predicted(self.parameters, batch))
            yield np.asarray(rows, np.float32), np.asarray(batch.targets, np.int32)

    def _score_stream(self, stream: Stream) -> Float64:
        parts = [np.empty(0)]
        for rows, words in self._rows(stream):
            parts.append(rows[np.arange(len(words)), words].astype(np.float64))
        return np.concatenate(parts)

    def _score_on(self, state: State, ids: Ids) -> tuple[Float64, State]:
        window = state.parts()
        text = np.concatenate([np.array(window, np.int32), ids])
        # as one sequence, of which the window is scored too, all but its first word, and left out
        found = self._score_stream(Stream(text, np.array([0, len(text)])))[len(window) - 1 :]
        return found, State(tuple(text[-self.config.context :].tolist()))

    def distributions(
        self, ids: npt.NDArray[np.integer[Any]], offsets: npt.NDArray[np.integer[Any]]
    ) -> Iterator[npt.NDArray[np.float32]]:
        """The distribution every id was drawn from: float32 (tokens of the block, types), blocks in order."""
        for rows, _ in self._rows(self._stream(ids, offsets)):
            yield rows

    # -- artefact ----------------------------------------------------------------------------------

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Parameters and vocabulary. Raises NotFittedError."""
        return {**self.parameters._asdict(), **self.vocabulary.arrays()}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """The model of an artefact, every array checked. Raises ArtifactError."""
        model = cls(LBLConfig.from_dict(dict(config["settings"])))
        vocabulary = Vocabulary.from_arrays(config["vocabulary"], arrays)
        types, width, n = len(vocabulary), model.config.width, model.config.context
        shapes: dict[str, tuple[int, ...]] = {
            "words": (types, width),
            "contexts": (n, width) if model.config.contexts == "diagonal" else (n, width, width),
            "targets": (0 if model.config.tied else types, width),
            "biases": (types, 1),
        }
        found = {
            name: require(arrays, name, dtype=np.float32, shape=shape, finite=True)
            for name, shape in shapes.items()
        }
        model._vocabulary, model._parameters = vocabulary, LBLParameters(**found)
        return model
