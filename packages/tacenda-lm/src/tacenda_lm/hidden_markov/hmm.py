"""`HMM`: a hidden Markov language model of some hundred states, trained by EM: the baseline of `VLHMM`."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.corpus import Corpus
from tacenda.errors import CorpusError
from tacenda.fitting import FitSettings, Sweeps, fit
from tacenda.fitting.batches import fingerprint_arrays
from tacenda.vocabulary import Vocabulary
from tacenda_lm.contract import FitContext
from tacenda_lm.hidden_markov.base import HiddenMarkov
from tacenda_lm.hidden_markov.baum_welch import BaumWelch
from tacenda_lm.hidden_markov.blocks import BlockStore
from tacenda_lm.hidden_markov.config import HMMConfig
from tacenda_lm.hidden_markov.observed import Lexicon, text_of
from tacenda_lm.hidden_markov.tables import Tables

__all__ = ["HMM"]

_Floats = npt.NDArray[np.float32]


class Whole(NamedTuple):
    """One class, one block: ``matrix`` p(j | i) (Z, Z), ``[j, i]``."""

    matrix: _Floats

    def blocks(self, sources: Any, targets: Any) -> _Floats:
        """A (pairs, Z, Z)."""
        return np.repeat(self.matrix[None], len(sources), 0)

    def onward(self, group: int, states: _Floats) -> _Floats:
        """p(z') (1, Z, n)."""
        return np.asarray(self.matrix @ states.T, np.float32)[None]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """By name."""
        return self._asdict()


class HMM(HiddenMarkov[HMMConfig]):
    """A hidden Markov language model: every state may emit every word and follow every other.

    Parameters
    ----------
    config
        Settings; keyword arguments replace single ones.
    settings
        Any field of `HMMConfig`.

    Raises
    ------
    ConfigurationError
        a setting is unknown or out of range.
    """

    name: ClassVar[str] = "hmm"
    settings = HMMConfig

    def _fit(self, corpus: Corpus, valid: Corpus | None, context: FitContext) -> None:
        if not corpus.n_tokens:
            raise CorpusError("the text has no tokens; there is nothing to fit on")
        text = text_of(corpus)
        held_out = None if valid is None else text_of(valid)
        trainer = BaumWelch(self.config, len(corpus.vocabulary), *text, held_out)
        patience = None if valid is None else self.config.patience
        identity = fingerprint_arrays(text)
        history = fit(
            trainer,
            Sweeps(identity),
            FitSettings(epochs=self.config.epochs, learning_rate=1.0, patience=patience),
            configuration={
                "settings": self.config.to_dict(),
                "valid": None if held_out is None else fingerprint_arrays(held_out),
            },
            checkpoints=context.checkpoints,
            resume=context.resume,
        )
        transitions, emissions, starts = trainer.tables.values()
        self._set(corpus.vocabulary, np.ascontiguousarray(transitions.T), emissions, starts)
        self.fitted_on = {"training": history.as_dict()}

    def _set(
        self, vocabulary: Vocabulary, matrix: _Floats, emissions: _Floats, starts: _Floats
    ) -> None:
        lexicon = Lexicon.of(np.zeros(len(vocabulary), np.int32), 1)
        store = BlockStore(Whole(matrix), 1, len(matrix))
        self._vocabulary, self._tables = vocabulary, Tables(lexicon, emissions, starts, store)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Tables and vocabulary. Raises NotFittedError."""
        found = super().arrays()
        del found["classes"]  # there is one
        return found

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """The model of an artefact, every array checked. Raises ArtifactError."""
        model = cls(HMMConfig.from_dict(dict(config["settings"])))
        vocabulary = Vocabulary.from_arrays(config["vocabulary"], arrays)
        Z = model.config.n_states
        found = [
            np.ascontiguousarray(require(arrays, name, dtype=np.float32, shape=shape, finite=True))
            for name, shape in (
                ("matrix", (Z, Z)),
                ("emissions", (len(vocabulary), Z)),
                ("starts", (1, Z)),
            )
        ]
        model._set(vocabulary, *found)
        return model
