"""`VLHMM`: hidden Markov language models with tens of thousands of states (Chiu and Rush 2020, 2021)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.corpus import Corpus
from tacenda.errors import ArtifactError
from tacenda.vocabulary import Vocabulary
from tacenda_lm.contract import FitContext
from tacenda_lm.hidden_markov.base import HiddenMarkov
from tacenda_lm.hidden_markov.blocks import BlockStore
from tacenda_lm.hidden_markov.config import VLHMMConfig
from tacenda_lm.hidden_markov.device import check_device
from tacenda_lm.hidden_markov.observed import Lexicon
from tacenda_lm.hidden_markov.tables import Tables
from tacenda_lm.hidden_markov.transitions import transitions_of

__all__ = ["VLHMM"]


class VLHMM(HiddenMarkov[VLHMMConfig]):
    """A hidden Markov language model whose states are divided among classes of words.

        p(x) = sum_z prod_t p(z_t | z_{t-1}) p(x_t | z_t)

    A state emits the words of its class only, so a word leaves k states possible and a step costs k^2, not Z^2.
    The four techniques of the paper each are one setting: ``neural``, ``state_dropout``, ``n_classes``,
    ``transitions="features"``.

    Parameters
    ----------
    config
        Settings; keyword arguments replace single ones.
    settings
        Any field of `VLHMMConfig`.

    Raises
    ------
    ConfigurationError
        a setting is unknown or out of range, or there is no such device.
    """

    name: ClassVar[str] = "vlhmm"
    settings = VLHMMConfig

    def __init__(self, config: VLHMMConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        check_device(self.config)

    def _fit(self, corpus: Corpus, valid: Corpus | None, context: FitContext) -> None:
        from tacenda_lm.hidden_markov.fitting import fit_vlhmm

        self._tables, history = fit_vlhmm(
            self.config, corpus, valid, context.checkpoints, context.resume
        )
        self._vocabulary = corpus.vocabulary
        self.fitted_on = {"training": history.as_dict()}

    def config_dict(self) -> dict[str, Any]:
        """Settings but for the device, and the vocabulary's, as JSON values."""
        found = super().config_dict()
        del found["settings"]["device"]
        return found

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """The model of an artefact, every array checked. Raises ArtifactError."""
        model = cls(VLHMMConfig.from_dict(dict(config["settings"])))
        vocabulary = Vocabulary.from_arrays(config["vocabulary"], arrays)
        M, k = model.config.n_classes, model.config.states_per_class
        classes = require(arrays, "classes", dtype=np.int32, shape=(len(vocabulary),))
        if len(classes) and (classes.min() < 0 or classes.max() >= M):
            raise ArtifactError(f"classes must be from 0 to {M - 1}; the artefact is damaged")
        found = {
            name: np.ascontiguousarray(
                require(arrays, name, dtype=np.float32, shape=shape, finite=True)
            )
            for name, shape in (("emissions", (len(vocabulary), k)), ("starts", (M, k)))
        }
        kind = model.config.transitions if model.config.neural else "free"
        width = model.config.features if kind == "features" else model.config.width
        transitions = transitions_of(kind, arrays, M, k, width)
        lexicon, store = Lexicon.of(classes, M), BlockStore(transitions, M, k)
        model._vocabulary = vocabulary
        model._tables = Tables(lexicon, found["emissions"], found["starts"], store)
        return model
