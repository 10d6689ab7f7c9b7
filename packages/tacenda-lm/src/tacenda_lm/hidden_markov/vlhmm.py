"""`VLHMM`: hidden Markov language models with tens of thousands of states (Chiu and Rush 2020, 2021)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.corpus import Corpus
from tacenda.errors import ArtifactError
from tacenda.settings import configured_by
from tacenda.vocabulary import Vocabulary
from tacenda_lm.hidden_markov.classed_text import Lexicon
from tacenda_lm.hidden_markov.inference import (
    Tables,
    distributions,
    require_sums,
    required,
    transitions_of,
)
from tacenda_lm.hidden_markov.model import HiddenMarkov
from tacenda_lm.hidden_markov.settings import VLHMMSettings, device_of
from tacenda_lm.options import require_torch
from tacenda_lm.training import FitContext

__all__ = ["VLHMM"]


class VLHMM(HiddenMarkov):
    """A hidden Markov language model whose states are divided among classes of words.

        p(x) = sum_z prod_t p(z_t | z_{t-1}) p(x_t | z_t)

    A state emits the words of its class only, so a word leaves k states possible and a step costs k^2, not Z^2. Each of
    the four techniques of the paper is one option: ``n_classes``, ``state_dropout``, ``transitions="features"`` and, in
    ``advanced``, ``neural``. The paper's largest model has ``n_classes=128, states_per_class=256, width=256,
    transitions="flat", batch_words=512, learning_rate=0.01`` and Brown clusters.

    Raises
    ------
    ConfigurationError
        An option is unknown or out of range, or there is no such device.
    """

    name: ClassVar[str] = "vlhmm"
    settings_class = VLHMMSettings

    @configured_by(VLHMMSettings)
    def __init__(self, settings: VLHMMSettings) -> None:
        super().__init__(settings)
        device_of(settings)  # refuses one that is not there, before any work

    def _fit(self, corpus: Corpus, valid: Corpus | None, fitting: FitContext) -> None:
        require_torch("fitting VLHMM")
        from tacenda_lm.hidden_markov.vlhmm_training import fit_vlhmm

        self._tables, history = fit_vlhmm(self.settings, corpus, valid, fitting)
        self._vocabulary = corpus.vocabulary
        self.fitted_on = {"training": history.as_dict()}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Return the model of an artefact, every array checked. Raises ArtifactError."""
        model = cls.from_settings(config["settings"])
        settings, vocabulary = model.settings, Vocabulary.from_arrays(config["vocabulary"], arrays)
        M, k = settings.n_classes, settings.states_per_class
        classes = require(arrays, "classes", dtype=np.int32, shape=(len(vocabulary),))
        if len(classes) and (classes.min() < 0 or classes.max() >= M):
            raise ArtifactError(f"classes must be from 0 to {M - 1}; the artefact is damaged")
        lexicon = Lexicon.of(classes, M)
        emissions = required(arrays, "emissions", len(vocabulary), k)
        sums = np.zeros((M, k))
        np.add.at(sums, classes[lexicon.order], emissions)
        require_sums("emissions", emissions, sums[np.unique(classes)])
        starts = distributions(arrays, "starts", M, k)
        kind = settings.transitions if settings.advanced.neural else "free"
        width = settings.advanced.n_features if kind == "features" else settings.width
        transitions = transitions_of(kind, arrays, M, k, width)
        model._vocabulary = vocabulary
        model._tables = Tables(lexicon, emissions, starts, transitions)
        return model
