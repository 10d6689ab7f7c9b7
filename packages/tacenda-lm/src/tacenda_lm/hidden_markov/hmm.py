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
from tacenda.fitting import FitRun, StepResult, Sweeps, fingerprint_arrays
from tacenda.fitting.trainer import State
from tacenda.kernels.hidden_markov import Classed, FeatureModel, hmm_features, hmm_features_backward
from tacenda.progress import track
from tacenda.settings import configured_by, option
from tacenda_lm import options
from tacenda_lm.hidden_markov.model import HiddenMarkov
from tacenda_lm.hidden_markov.parameters import Whole
from tacenda_lm.sequences import Ids, Offsets, encode_corpus, take_sequences
from tacenda_lm.training import TextTrainer, compute_perplexity, train

_Floats = npt.NDArray[np.float32]
# standard deviation of the logarithms of the first probabilities; states that begin equal would stay equal
_INITIAL_SPREAD = 0.5
# added to the expected counts of each distribution, divided evenly among its outcomes
_SMOOTHING = 1.0
_SENTENCES_PER_BATCH = 256  # read side by side


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
    learned_class = Whole
    settings: HMMSettings

    @configured_by(HMMSettings)
    def __init__(self, settings: HMMSettings) -> None:
        super().__init__(settings)

    def _sizes(self) -> dict[str, Any]:
        return {**super()._sizes(), "classes": 1, "states": self.settings.n_states}

    def _fit(self, corpus: Corpus, valid: Corpus | None, fitting: FitRun) -> None:
        text = encode_corpus(corpus)
        held_out = None if valid is None else encode_corpus(valid)
        trainer = BaumWelch(self.settings, len(corpus.vocabulary), text, held_out)
        source = Sweeps(fingerprint_arrays(text))
        history = train(trainer, source, fitting, 1.0)  # EM ignores the learning rate
        learned = trainer.learned
        matrix = np.ascontiguousarray(learned.transitions.T)
        self.learned = Whole(learned.emissions, learned.starts, matrix)
        self._vocabulary = corpus.vocabulary
        self.fitted_on = {"training": history.as_dict()}


class Parameters(Arrays):
    """The probabilities of the model under training."""

    transitions: Probabilities[Array, "states states"]  # p(j | i), [i, j]
    emissions: Probabilities[Array, "types states", over(0)]  # p(word | i)
    starts: Probabilities[Array, "1 states"]


class BaumWelch(TextTrainer):
    """An `HMM` under training, as `tacenda.fitting` takes it; a step is one pass over the text.

    (Baum and Welch; Rabiner 1989, section III.C.) The perplexity of ``valid`` is the criterion.
    """

    learned: Parameters

    def __init__(
        self,
        settings: HMMSettings,
        n_types: int,
        text: tuple[Ids, Offsets],
        valid: tuple[Ids, Offsets] | None,
    ) -> None:
        self.settings, self.text, self.valid = settings, text, valid
        rng, Z = np.random.default_rng(settings.seed), settings.n_states

        def draw(shape: tuple[int, ...], frequencies: Any) -> _Floats:
            return _normalize(frequencies * np.exp(_INITIAL_SPREAD * rng.standard_normal(shape)))

        counts = np.bincount(text[0], minlength=n_types) + 0.1  # EM keeps zeros at zero
        self.learned = Parameters(
            transitions=draw((Z, Z), 1.0),
            emissions=np.ascontiguousarray(draw((Z, n_types), counts).T),
            starts=draw((1, Z), 1.0),
        )

    def _model(self) -> FeatureModel:
        """Return the model in features: x_i = p(. | i) is a row of the transitions, y_j is the jth unit vector."""
        p, unit_vectors = self.learned, np.eye(self.settings.n_states, dtype=np.float32)
        return FeatureModel(p.transitions[None], unit_vectors[None], p.emissions, p.starts)

    def _batches(self, ids: Ids, offsets: Offsets) -> Iterator[Classed]:
        """Yield batches of sentences of similar lengths, so that few end before the others."""
        order, size = np.argsort(np.diff(offsets), kind="stable"), _SENTENCES_PER_BATCH
        for begin in track(range(0, len(order), size), "expectations", unit="batch"):
            words, cuts = take_sequences(ids, offsets, order[begin : begin + size])
            yield Classed(np.zeros(len(words), np.int32), words, cuts)

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """Sum expected counts over the whole text (E), and set the probabilities to their shares (M)."""
        model, total = self._model(), 0.0
        transitions, emissions, starts = (np.zeros(p.shape) for _, p in self.learned.items())
        for observed in self._batches(*self.text):
            passed = hmm_features(model, observed)
            total += float(passed.log_probs.sum())
            counts = hmm_features_backward(model, observed, passed)
            # the expected count of a transition is its probability times the derivative with respect to it
            transitions += counts.left[0] * model.left[0]
            emissions += counts.emissions
            starts += counts.starts
        Z, V = self.settings.n_states, len(emissions)
        self.learned.transitions[:] = _normalize(transitions + _SMOOTHING / Z)
        self.learned.emissions[:] = _normalize(emissions.T + _SMOOTHING / V).T
        self.learned.starts[:] = _normalize(starts + _SMOOTHING / Z)
        return StepResult(-total, len(self.text[0]))

    def evaluate(self) -> float | None:
        """Return the perplexity of the held-out text."""
        if self.valid is None:
            return None
        model, total = self._model(), 0.0
        for observed in self._batches(*self.valid):
            total += float(hmm_features(model, observed).log_probs.sum())
        return compute_perplexity(-total / len(self.valid[0]))

    def load_state(self, state: State) -> None:
        """Restore a `state`. Raises ArtifactError unless its arrays are distributions of the right shapes."""
        types, states = self.learned.emissions.shape
        Parameters.from_arrays(state, types=types, states=states)
        super().load_state(state)


def _normalize(rows: npt.NDArray[np.float64]) -> _Floats:
    """Divide rows by their sums."""
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True), np.float32)
