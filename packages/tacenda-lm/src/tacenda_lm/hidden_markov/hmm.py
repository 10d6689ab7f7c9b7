"""`HMM`: a hidden Markov language model of some hundred states, trained by EM: the baseline of `VLHMM`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.fitting import StepResult, Sweeps, fingerprint_arrays
from tacenda.fitting.trainable import State
from tacenda.kernels.hidden_markov import features as hmm_features
from tacenda.kernels.hidden_markov.features import Classed, Model
from tacenda.progress import track
from tacenda.settings import configured_by
from tacenda.vocabulary import Vocabulary
from tacenda_lm.hidden_markov.classed_text import Lexicon, sentences_at, text_of
from tacenda_lm.hidden_markov.inference import Tables, Whole, distributions
from tacenda_lm.hidden_markov.model import HiddenMarkov
from tacenda_lm.hidden_markov.settings import HMMSettings
from tacenda_lm.sequences import Ids, Offsets
from tacenda_lm.training import FitContext, perplexity_of, put, train

__all__ = ["HMM", "BaumWelch"]

_Floats = npt.NDArray[np.float32]
_SPREAD = 0.5  # of the logarithms of the first values; states that begin alike stay alike


class HMM(HiddenMarkov):
    """A hidden Markov language model: every state may emit every word and follow every other."""

    name: ClassVar[str] = "hmm"
    settings_class = HMMSettings

    @configured_by(HMMSettings)
    def __init__(self, settings: HMMSettings) -> None:
        super().__init__(settings)

    def _fit(self, corpus: Corpus, valid: Corpus | None, fitting: FitContext) -> None:
        text = text_of(corpus)
        held_out = None if valid is None else text_of(valid)
        trainer = BaumWelch(self.settings, len(corpus.vocabulary), *text, held_out)
        source = Sweeps(fingerprint_arrays(text))
        history = train(trainer, source, self.settings, text, held_out, fitting, 1.0)
        transitions, emissions, starts = trainer.tables.values()
        self._set(corpus.vocabulary, np.ascontiguousarray(transitions.T), emissions, starts)
        self.fitted_on = {"training": history.as_dict()}

    def _set(
        self, vocabulary: Vocabulary, matrix: _Floats, emissions: _Floats, starts: _Floats
    ) -> None:
        lexicon = Lexicon.of(np.zeros(len(vocabulary), np.int32), 1)
        self._vocabulary = vocabulary
        self._tables = Tables(lexicon, emissions, starts, Whole(matrix))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return tables and vocabulary. Raises NotFittedError."""
        found = super().arrays()
        del found["classes"]  # there is one
        return found

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Return the model of an artefact, every array checked. Raises ArtifactError."""
        model = cls.from_settings(config["settings"])
        vocabulary = Vocabulary.from_arrays(config["vocabulary"], arrays)
        Z = model.settings.n_states
        model._set(
            vocabulary,
            distributions(arrays, "matrix", Z, Z, over=0),
            distributions(arrays, "emissions", len(vocabulary), Z, over=0),
            distributions(arrays, "starts", 1, Z),
        )
        return model


class BaumWelch:
    """An `HMM` under training, as `tacenda.fitting` takes it; a step is one pass over the text.

    (Baum and Welch; Rabiner 1989, section III.C.) The perplexity of ``valid`` is the criterion.
    """

    def __init__(
        self,
        settings: HMMSettings,
        n_types: int,
        ids: Ids,
        offsets: Offsets,
        valid: tuple[Ids, Offsets] | None,
    ) -> None:
        self.settings, self.ids, self.offsets, self.valid = settings, ids, offsets, valid
        rng, Z = np.random.default_rng(settings.seed), settings.n_states

        def near(shape: tuple[int, ...], frequencies: Any) -> _Floats:
            return _normalised(frequencies * np.exp(_SPREAD * rng.standard_normal(shape)))

        counts = np.bincount(ids, minlength=n_types) + 0.1
        self.tables = {
            "transitions": near((Z, Z), 1.0),
            "emissions": np.ascontiguousarray(near((Z, n_types), counts).T),
            "starts": near((1, Z), 1.0),
        }

    def _model(self) -> Model:
        """Return the model in features: x_i = p(. | i) are the transitions themselves, y_j is the jth unit vector."""
        Z = self.settings.n_states
        transitions, emissions, starts = self.tables.values()
        return Model(transitions[None], np.eye(Z, dtype=np.float32)[None], emissions, starts)

    def _batches(self, ids: Ids, offsets: Offsets) -> Iterator[Classed]:
        """Yield sentences of similar lengths together."""
        order = np.argsort(np.diff(offsets), kind="stable")
        size = self.settings.batch_sentences
        for begin in track(range(0, len(order), size), "expectations", unit="batch"):
            words, cuts = sentences_at(ids, offsets, order[begin : begin + size])
            yield Classed(np.zeros(len(words), np.int32), words, cuts)

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """Take the expected counts of the whole text, and the probabilities they make."""
        model = self._model()
        total = 0.0
        sums = [np.zeros(table.shape) for table in self.tables.values()]
        for observed in self._batches(self.ids, self.offsets):
            found = hmm_features.forward(model, observed)
            total += float(found.log_probs.sum())
            counts = hmm_features.backward(model, observed, found)
            sums[0] += counts.left[0] * model.left[0]
            sums[1] += counts.emissions
            sums[2] += counts.starts
        Z, V, more = self.settings.n_states, len(sums[1]), self.settings.smoothing
        self.tables["transitions"][...] = _normalised(sums[0] + more / Z)
        self.tables["emissions"][...] = _normalised(sums[1].T + more / V).T
        self.tables["starts"][...] = _normalised(sums[2] + more / Z)
        return StepResult(-total, len(self.ids))

    def evaluate(self) -> float | None:
        """Return the perplexity of the held-out text."""
        if self.valid is None:
            return None
        model, total = self._model(), 0.0
        for observed in self._batches(*self.valid):
            total += float(hmm_features.forward(model, observed).log_probs.sum())
        return perplexity_of(-total / len(self.valid[0]))

    def state(self) -> State:
        """Return the probabilities."""
        return self.tables

    def load_state(self, state: State) -> None:
        """Put back what `state` gave. Raises ArtifactError for what are no distributions of these shapes."""
        for name, over in {"transitions": 1, "emissions": 0, "starts": 1}.items():
            distributions(dict(state), name, *self.tables[name].shape, over=over)
        put(self.tables, state)


def _normalised(rows: npt.NDArray[np.float64]) -> _Floats:
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True), np.float32)
