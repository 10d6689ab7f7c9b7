"""`HMM`: a hidden Markov language model of some hundred states, trained by EM: the baseline of `VLHMM`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Array, Arrays, Probabilities, over
from tacenda.corpus import Corpus
from tacenda.fitting import FitRun, StepResult, Sweeps, Trainer, fingerprint_arrays
from tacenda.fitting.trainer import State
from tacenda.kernels.hidden_markov import Classed, FeatureModel, hmm_features, hmm_features_backward
from tacenda.progress import track
from tacenda.settings import configured_by, option
from tacenda_lm import options
from tacenda_lm.hidden_markov.tables import Whole, sentences_at, text_of
from tacenda_lm.hidden_markov.vlhmm import HiddenMarkov
from tacenda_lm.sequences import Ids, Offsets
from tacenda_lm.training import compute_perplexity, train

_Floats = npt.NDArray[np.float32]
_SPREAD = 0.5  # of the logarithms of the first values; states that begin alike stay alike
_SMOOTHING = 1.0  # added to the expected counts of a state's emissions and transitions, spread evenly over them
_SENTENCES = 256  # of a batch; memory is this, times the longest sentence, times Z


@dataclass(frozen=True, kw_only=True)
class HMMSettings(options.SeededSettings):
    """Settings of `HMM`."""

    retired: ClassVar = MappingProxyType({"smoothing": ..., "batch_sentences": ...})

    n_states: int = option(256, "hidden states, Z", at_least=1, at_most=1 << 12)
    epochs: int = options.epochs(30)
    patience: int = options.patience(3)


class HMM(HiddenMarkov):
    """A hidden Markov language model: every state may emit every word and follow every other."""

    name: ClassVar[str] = "hmm"
    settings: HMMSettings

    @configured_by(HMMSettings)
    def __init__(self, settings: HMMSettings) -> None:
        super().__init__(settings)

    def _shape(self) -> tuple[str, dict[str, Any]]:
        return "whole", {"classes": 1, "states": self.settings.n_states}

    def _fit(self, corpus: Corpus, valid: Corpus | None, fitting: FitRun) -> None:
        text = text_of(corpus)
        held_out = None if valid is None else text_of(valid)
        trainer = BaumWelch(self.settings, len(corpus.vocabulary), *text, held_out)
        source = Sweeps(fingerprint_arrays(text))
        history = train(trainer, source, fitting, 1.0)
        found = trainer.tables
        matrix = np.ascontiguousarray(found.transitions.T)
        self.learned = Whole(found.emissions, found.starts, matrix)
        self._vocabulary = corpus.vocabulary
        self.fitted_on = {"training": history.as_dict()}


class Expected(Arrays):
    """The probabilities that a pass over the text expects."""

    transitions: Probabilities[Array, "states states"]  # p(j | i), [i, j]
    emissions: Probabilities[Array, "types states", over(0)]  # p(word | i)
    starts: Probabilities[Array, "1 states"]


class BaumWelch(Trainer):
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
        self.settings, self.valid = settings, valid
        self.ids, self.offsets = self.text = ids, offsets
        rng, Z = np.random.default_rng(settings.seed), settings.n_states

        def near(shape: tuple[int, ...], frequencies: Any) -> _Floats:
            return _normalize(frequencies * np.exp(_SPREAD * rng.standard_normal(shape)))

        # EM keeps what is zero at zero, and treats alike what begins alike
        counts = np.bincount(ids, minlength=n_types) + 0.1
        self.tables = Expected(
            transitions=near((Z, Z), 1.0),
            emissions=np.ascontiguousarray(near((Z, n_types), counts).T),
            starts=near((1, Z), 1.0),
        )

    def _model(self) -> FeatureModel:
        """Return the model in features: x_i = p(. | i) are the transitions themselves, y_j is the jth unit vector."""
        found, unit_vectors = self.tables, np.eye(self.settings.n_states, dtype=np.float32)
        return FeatureModel(
            found.transitions[None], unit_vectors[None], found.emissions, found.starts
        )

    def _batches(self, ids: Ids, offsets: Offsets) -> Iterator[Classed]:
        """Yield sentences of similar lengths together."""
        # a batch is as long as its longest sentence: similar lengths waste least
        order = np.argsort(np.diff(offsets), kind="stable")
        for begin in track(range(0, len(order), _SENTENCES), "expectations", unit="batch"):
            words, cuts = sentences_at(ids, offsets, order[begin : begin + _SENTENCES])
            yield Classed(np.zeros(len(words), np.int32), words, cuts)

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """Count what is expected in the whole text, and take the probabilities of these counts."""
        model = self._model()
        total = 0.0
        sums = [np.zeros(table.shape) for _, table in self.tables.items()]
        for observed in self._batches(self.ids, self.offsets):
            found = hmm_features(model, observed)
            total += float(found.log_probs.sum())
            counts = hmm_features_backward(model, observed, found)
            # the count of a transition is its probability times the derivative by it
            sums[0] += counts.left[0] * model.left[0]
            sums[1] += counts.emissions
            sums[2] += counts.starts
        Z, V = self.settings.n_states, len(sums[1])
        self.tables = Expected(
            transitions=_normalize(sums[0] + _SMOOTHING / Z),
            emissions=np.ascontiguousarray(_normalize(sums[1].T + _SMOOTHING / V).T),
            starts=_normalize(sums[2] + _SMOOTHING / Z),
        )
        return StepResult(-total, len(self.ids))

    def evaluate(self) -> float | None:
        if self.valid is None:
            return None
        model, total = self._model(), 0.0
        for observed in self._batches(*self.valid):
            total += float(hmm_features(model, observed).log_probs.sum())
        return compute_perplexity(-total / len(self.valid[0]))

    @property
    def learned(self) -> Expected:  # type: ignore[override] # every step makes new tables
        """The tables."""
        return self.tables

    def load_state(self, state: State) -> None:
        """Put back what `state` gave. Raises ArtifactError for what are no distributions of these shapes."""
        types, states = self.tables.emissions.shape
        Expected.from_arrays(state, types=types, states=states)
        super().load_state(state)


def _normalize(rows: npt.NDArray[np.float64]) -> _Floats:
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True), np.float32)
