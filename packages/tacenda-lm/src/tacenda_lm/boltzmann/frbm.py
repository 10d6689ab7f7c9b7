"""`FRBM`: the factored restricted Boltzmann machine language model (Mnih and Hinton 2007; Mnih 2010, section 3.1)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.corpus import Corpus
from tacenda.fitting import ArrayBatches, FitRun, History, StepResult
from tacenda.settings import configured_by
from tacenda.vocabulary import Vocabulary
from tacenda_lm.boltzmann.gradients import (
    Contrast,
    contrast,
    contrast_of_mean_field,
    gradients,
)
from tacenda_lm.boltzmann.parameters import (
    BoltzmannParameters,
    Floats,
    context_features,
    inputs_of_contexts,
    packed_words,
)
from tacenda_lm.boltzmann.predictor import BoltzmannPredictor
from tacenda_lm.boltzmann.sampling import by_divergence, by_mean_field, by_prediction
from tacenda_lm.boltzmann.settings import FRBMSettings
from tacenda_lm.stream_model import StreamModel
from tacenda_lm.streams import Contexts, Stream, streams_of
from tacenda_lm.training import AdaGradTrainer, falling_rate, train

__all__ = [
    "FRBM",
    "LEAST_STEPS",
    "BoltzmannTrainer",
    "WordBoltzmann",
    "fit_frbm",
    "initial_parameters",
]

_SUMS = 1e-6  # accumulators to begin with
LEAST_STEPS = 16
"""Steps of an epoch at least; with fewer the learning rate rises at once, which spoils a fit to a small text."""

_Positions = npt.NDArray[np.int64]


class WordBoltzmann(StreamModel):
    """Base of `FRBM` and `TemporalFRBM`."""

    temporal: ClassVar[bool]
    _predictor: BoltzmannPredictor | None = None

    @property
    def parameters(self) -> BoltzmannParameters:
        """What was learned. Raises NotFittedError."""
        return self._learned(self._predictor).parameters

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Return the model of an artefact, every array checked. Raises ArtifactError."""
        model = cls.from_settings(config["settings"])
        vocabulary = Vocabulary.from_arrays(config["vocabulary"], arrays)
        features, hidden = model.settings.features, model.settings.hidden
        shapes: dict[str, tuple[int, ...]] = {
            "words": (len(vocabulary), features),
            "contexts": (model.settings.context, features, hidden),
            "outputs": (features, hidden),
            "transitions": (hidden if cls.temporal else 0, hidden),
            "hidden_biases": (hidden, 1),
            "biases": (len(vocabulary), 1),
        }
        found = {
            name: require(arrays, name, dtype=np.float32, shape=shape, finite=True)
            for name, shape in shapes.items()
        }
        model._vocabulary = vocabulary
        model._predictor = BoltzmannPredictor(BoltzmannParameters(**found), vocabulary.boundary_id)
        return model


class FRBM(WordBoltzmann):
    """A factored restricted Boltzmann machine language model.

        P(w | context) = exp(b_w) prod_j (1 + exp(a_wj + b_j)) / Z,    a_w = R_w W_n,    b = sum_i R_{w_i} W_i + b_h

    (Mnih 2010, equation 3.5): binary hidden units, which see the feature vectors R of the next word and of those before
    it, are summed out exactly. A prediction costs N_w N_h fused multiply-adds and as many products for N_w words and
    N_h hidden units. A text of fewer than 16 ``batch_words`` words is read in smaller steps, 16 or more an epoch. The
    model of the thesis has ``hidden=1000, learning="divergence", advanced={"visible": "mean_field"}``.
    """

    name: ClassVar[str] = "frbm"
    settings_class = FRBMSettings
    temporal: ClassVar[bool] = False

    @configured_by(FRBMSettings)
    def __init__(self, settings: FRBMSettings) -> None:
        super().__init__(settings)

    def _fit(self, corpus: Corpus, valid: Corpus | None, fitting: FitRun) -> None:
        self._predictor, history = fit_frbm(self.settings, corpus, valid, fitting)
        self._vocabulary = corpus.vocabulary
        self.fitted_on = {"training": history.as_dict()}


class BoltzmannTrainer(AdaGradTrainer):
    """A machine under training, whose parameters are changed in place; batches are arrays of positions."""

    def __init__(
        self,
        settings: FRBMSettings,
        parameters: BoltzmannParameters,
        text: Stream,
        valid: Stream | None,
    ) -> None:
        tables = {name: table for name, table in parameters._asdict().items() if len(table)}
        super().__init__(tables, dict.fromkeys(tables, _SUMS), text, valid, settings.seed)
        self.settings, self.current = settings, parameters
        advanced = settings.advanced
        self._decays = dict.fromkeys(("contexts", "outputs", "transitions"), advanced.weight_decay)
        self._decays["words"] = advanced.feature_decay

    def step(self, batch: tuple[_Positions], learning_rate: float) -> StepResult:
        """Take one step on the summed loss of the words at some positions."""
        (positions,) = batch
        now, read = self.current, Contexts.at(self.text, positions, self.settings.context)
        features = context_features(now, read)
        inputs = inputs_of_contexts(now, features, None)
        found, loss = self.contrast(inputs, read.targets)
        self.climb(
            gradients(now, read, features, None, found, found.inputs), len(inputs), learning_rate
        )
        return StepResult(loss, len(positions))

    def contrast(
        self, inputs: Floats, targets: npt.NDArray[np.integer[Any]]
    ) -> tuple[Contrast, float]:
        """Return the direction of the statistics, as the settings say, and the loss to be shown.

        That is minus the summed log-likelihood, or, for contrastive divergence, which does not know it, minus that of
        the words given the first states of the hidden units.
        """
        now, advanced, rng = self.current, self.settings.advanced, self.draw()
        if self.settings.learning == "likelihood":
            drawn = advanced.drawn_words
            negative = by_prediction(now, packed_words(now), inputs, targets, drawn, rng)
        elif advanced.visible == "stochastic":
            negative = by_divergence(now, inputs, targets, advanced.gibbs_steps, rng)
        else:
            mean = by_mean_field(now, inputs, targets, advanced.gibbs_steps, rng)
            return contrast_of_mean_field(now, inputs, targets, mean), mean.loss
        return contrast(now, inputs, targets, negative), negative.loss

    def climb(self, found: dict[str, Floats], tokens: int, learning_rate: float) -> None:
        """Move all parameters along gradients summed over so many words, and shrink them.

        Weight decay adds -lambda w to the mean gradient of a word, for feature vectors to those of the step's words.
        """
        for name, gradient in found.items():
            slope = -gradient
            decay = self._decays.get(name, 0.0) * tokens
            if name == "words":
                touched = np.any(slope, axis=1, keepdims=True)
                slope += decay * touched * self.tables[name]
            elif decay:
                slope += decay * self.tables[name]
            self.move(name, None, slope, learning_rate)

    def predictor(self) -> BoltzmannPredictor:
        """Return what the present parameters predict."""
        return BoltzmannPredictor(self.current, self.boundary)


def fit_frbm(
    settings: FRBMSettings,
    corpus: Corpus,
    valid: Corpus | None,
    fitting: FitRun,
    description: str = "fitting",
) -> tuple[BoltzmannPredictor, History]:
    """Train a plain machine from small random weights."""
    text, held_out = streams_of(corpus, valid, across=settings.across_sentences)
    trainer = BoltzmannTrainer(
        settings, initial_parameters(settings, corpus.type_counts), text, held_out
    )
    positions = np.flatnonzero(~text.firsts)
    batch = max(1, min(settings.batch_words, len(positions) // LEAST_STEPS))
    source = ArrayBatches(positions, batch_size=batch, seed=settings.seed)
    rate = falling_rate(settings.learning_rate, settings.epochs, source)
    history = train(
        trainer, source, settings, text, held_out, fitting, rate, description=description
    )
    return trainer.predictor(), history


def initial_parameters(
    settings: FRBMSettings, counts: npt.NDArray[np.integer[Any]]
) -> BoltzmannParameters:
    """Draw small vectors and weights; the biases of words are those of a unigram model."""
    rng = np.random.default_rng([settings.seed, 1])
    features, hidden = settings.features, settings.hidden

    def normal(*shape: int) -> npt.NDArray[np.float32]:
        return rng.standard_normal(shape, np.float32)

    weight = np.float32(1 / np.sqrt(hidden))
    some = counts + 0.1  # so that no bias is -inf, that of a word which the text has not
    return BoltzmannParameters(
        words=normal(len(counts), features) * np.float32(0.1),
        contexts=normal(settings.context, features, hidden) * weight,
        outputs=normal(features, hidden) * weight,
        transitions=np.zeros((0, hidden), np.float32),
        hidden_biases=np.zeros((hidden, 1), np.float32),
        biases=np.log(some / some.sum())[:, None].astype(np.float32),
    )
