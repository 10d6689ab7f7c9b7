"""`FRBM` and `TemporalFRBM`: factored restricted Boltzmann machines of words, their settings and their training.

`tacenda_lm.boltzmann.machine` has the equations of predictions, and `tacenda_lm.boltzmann.contrast` those of learning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from tacenda.array_ops import sum_rows
from tacenda.corpus import Corpus
from tacenda.errors import ConfigurationError
from tacenda.fitting import ArrayBatches, FitRun, StepResult
from tacenda.settings import configured_by, option
from tacenda_lm import options
from tacenda_lm.boltzmann.contrast import (
    Contrast,
    compute_gradients,
    contrast,
    contrast_by_mean_field,
    draw_by_divergence,
    draw_by_prediction,
)
from tacenda_lm.boltzmann.machine import (
    BoltzmannParameters,
    BoltzmannPredictor,
    compute_inputs,
    look_up_features,
    pack_word_inputs,
    sigmoid,
)
from tacenda_lm.sequences import Floats, Integers
from tacenda_lm.stream_model import StreamModel
from tacenda_lm.streams import Contexts, Pieces, Stream, streams_of
from tacenda_lm.training import StreamTrainer, smooth_counts, train

_INITIAL_SUM = 1e-6  # of squares, in AdaGrad
_FEATURE_DECAY = 1e-4  # weight decay of the feature vectors that a step has a gradient for
_WEIGHT_DECAY = 1e-5  # of all other weights except biases
_N_DRAWN = 10  # words drawn from the prediction for every context
# per epoch; with fewer, the learning rate rises at once, which spoils a fit to a small text
_MIN_STEPS = 16


@dataclass(frozen=True, kw_only=True)
class FRBMSettings(options.SeededSettings):
    """Settings of `FRBM`."""

    retired: ClassVar[Mapping[str, Any]] = MappingProxyType({"advanced": ...})

    features: int = options.width(
        100, "elements of a word's feature vector, N_f; 100 in the thesis"
    )
    hidden: int = options.width(
        100, "binary hidden units, N_h; 1000 in the thesis; a prediction costs this times the words"
    )
    context: int = options.count(
        2, "preceding words that a prediction rests on, n - 1; 2 in the thesis", 1000
    )
    learning: Literal["likelihood", "divergence", "mean_field"] = option(
        "likelihood",
        '"likelihood": the gradient of the log-likelihood, with words drawn from the exact prediction instead of its '
        'expectation; "divergence": contrastive divergence, steps of Gibbs sampling from the word of the text; '
        '"mean_field": the same with the probabilities of all words instead of a drawn one; the thesis has it for '
        "the FRBM, and contrastive divergence for the temporal FRBM",
    )
    gibbs_steps: int = options.count(
        1, "steps of Gibbs sampling in contrastive divergence, k of CD-k; 1 in the thesis", 1000
    )
    epochs: int = options.epochs(10)
    learning_rate: float = options.learning_rate(0.2, "AdaGrad", "a tenth; not given in the thesis")
    patience: int = options.patience(3)
    batch_words: int = options.count(
        1000, "words of a step, at most a sixteenth of the text; 1000 in the thesis", 1 << 20
    )
    across_sentences: bool = options.across_sentences(
        ", which are words like others; true in the thesis"
    )

    def idle(self) -> Mapping[str, str]:
        reason = 'with learning="likelihood"'
        return {"gibbs_steps": reason} if self.learning == "likelihood" else {}

    @classmethod
    def without_retired(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return `Settings.without_retired`, with the retired option ``advanced.visible`` as ``learning``."""
        current = super().without_retired(values)
        if values.get("advanced", {}).get("visible") == "mean_field":
            current["learning"] = "mean_field"
        return current


@dataclass(frozen=True, kw_only=True)
class TemporalFRBMSettings(FRBMSettings):
    """Settings of `TemporalFRBM`."""

    frbm_epochs: int = option(
        5,
        "maximum passes over the text for the `FRBM` with whose parameters training begins; 0 begins with random ones",
        at_least=0,
    )
    piece_words: int = options.count(
        10,
        "consecutive words of a step in each of batch_words / piece_words parts of the text, or in fewer parts if they "
        'had fewer than 16 pieces; 1 in the thesis; with learning="likelihood", the gradient goes back to the '
        "beginning of the piece",
        1 << 20,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.piece_words > self.batch_words:
            self.refuse("piece_words", f"at most batch_words, {self.batch_words}")


class _BoltzmannModel(StreamModel):
    """Base of both models, which differ in their training."""

    settings: FRBMSettings
    _temporal: ClassVar[bool] = False  # whether hidden units depend on those of the word before
    learned_class = BoltzmannPredictor

    def _sizes(self) -> dict[str, Any]:
        return {**super()._sizes(), "remembered": self.settings.hidden if self._temporal else 0}


class FRBM(_BoltzmannModel):
    """A factored restricted Boltzmann machine language model.

        P(w | context) = exp(b_w) prod_j (1 + exp(a_wj + b_j)) / Z,    a_w = R_w W_n,    b = sum_i R_{w_i} W_i + b_h

    (Mnih 2010, equation 3.5). The binary hidden units, which are connected to the feature vectors R of the next word
    and of the words before it, are summed out exactly. A prediction costs N_w N_h fused multiply-adds and as many
    products for N_w words and N_h hidden units. A text of fewer than 16 ``batch_words`` words is read in smaller steps,
    at least 16 an epoch. The model of the thesis has ``hidden=1000, learning="mean_field"``.
    """

    name: ClassVar[str] = "frbm"

    @configured_by(FRBMSettings)
    def __init__(self, settings: FRBMSettings) -> None:
        super().__init__(settings)

    def _fit(self, corpus: Corpus, valid: Corpus | None, run: FitRun) -> None:
        settings = self.settings
        texts = streams_of(corpus, valid, across=settings.across_sentences)
        trainer = BoltzmannTrainer(settings, draw_parameters(settings, corpus), *texts)
        positions = np.flatnonzero(~trainer.text.firsts)
        batch = max(1, min(settings.batch_words, len(positions) // _MIN_STEPS))
        source = ArrayBatches(positions, batch_size=batch, seed=settings.seed)
        history = train(trainer, source, run)
        self._vocabulary, self.learned = corpus.vocabulary, trainer.predictor()
        self.fitted_on = {"training": history.as_dict()}


class TemporalFRBM(_BoltzmannModel):
    """A temporal factored restricted Boltzmann machine language model.

    An `FRBM` whose hidden units also get A p_{t-1} from the probabilities of the hidden units at the word before (Mnih
    2010, equation 3.14), so that a prediction depends on all words before, at the cost of N_h^2 more multiplications
    per word. Training begins with the parameters of an `FRBM` and with A = 0, as in the thesis, whose model has
    ``hidden=1000, learning="divergence", piece_words=1``. A text of fewer than 16 ``batch_words`` words is cut into
    fewer parts, and so read in smaller steps.

    With ``perplexity(text, context="stream")``, the hidden units carry over from each sentence to the next.
    """

    name: ClassVar[str] = "temporal_frbm"
    settings: TemporalFRBMSettings
    _temporal = True
    _begin: FRBM | None = None

    @configured_by(TemporalFRBMSettings)
    def __init__(self, settings: TemporalFRBMSettings) -> None:
        super().__init__(settings)

    @classmethod
    def starting_from(cls, frbm: FRBM, **given: Any) -> Self:
        """Return an unfitted model whose training begins with the parameters of a fitted `FRBM`, and with A = 0.

        The text to fit must have the vocabulary of ``frbm``. Options that an `FRBM` has too default to their values in
        ``frbm``; ``features``, ``hidden``, ``context`` and ``across_sentences`` must have these values. The fingerprint
        of the parameters of ``frbm`` is recorded as ``fitted_on["begin"]``. A saved model does not contain ``frbm``, so
        a loaded one cannot be fitted again: its ``fit`` raises ConfigurationError.

        Raises
        ------
        ConfigurationError
            ``frbm`` is not an `FRBM`, one of these options differs, or an option is unknown, out of range or without
            effect.
        NotFittedError
            ``frbm`` is not fitted.
        """
        if not isinstance(frbm, FRBM):
            raise ConfigurationError(
                f"TemporalFRBM: training begins with a fitted FRBM, not with {type(frbm).__name__}: give "
                "starting_from an FRBM, or leave starting_from out and let fit train one"
            )
        _ = frbm.parameters  # raises NotFittedError
        shared = {one.name: getattr(frbm.settings, one.name) for one in FRBMSettings.options()}
        for name in ("features", "hidden", "context", "across_sentences"):
            if given.get(name, shared[name]) != shared[name]:
                raise ConfigurationError(
                    f"TemporalFRBM: {name} is {shared[name]} in the FRBM that training begins with, "
                    f"and cannot be {given[name]}: leave it out"
                )
        if given.get("frbm_epochs"):
            raise ConfigurationError(
                "TemporalFRBM: frbm_epochs has no effect where an FRBM is given; leave it out"
            )
        if given.get("learning") == "likelihood":
            del shared["gibbs_steps"]  # an option of contrastive divergence only
        model = cls.from_settings({**shared, "frbm_epochs": 0, **given})
        model._begin = frbm
        return model

    def _fit(self, corpus: Corpus, valid: Corpus | None, run: FitRun) -> None:
        settings = self.settings
        facts: dict[str, Any] = {}
        _, _, loaded_facts = self._loaded
        if self._begin is not None:
            self._begin.vocabulary.require_same(corpus.vocabulary, "the text of a TemporalFRBM")
            begin = self._begin.parameters
            facts["begin"] = begin.fingerprint()
        elif "begin" in loaded_facts:
            raise ConfigurationError(
                "TemporalFRBM: the FRBM that training began with is not saved with the model: make a new one with "
                "starting_from"
            )
        elif settings.frbm_epochs:
            shared = {one.name: getattr(settings, one.name) for one in FRBMSettings.options()}
            plain = FRBM.from_settings({**shared, "epochs": settings.frbm_epochs})
            plain._fit(corpus, valid, replace(run.stage("frbm"), description="fitting the FRBM"))
            begin, facts["frbm"] = plain.parameters, plain.fitted_on["training"]
            run = run.stage(first=False)
        else:
            begin = draw_parameters(settings, corpus)
        texts = streams_of(corpus, valid, across=settings.across_sentences)
        zeros = np.zeros((begin.hidden, begin.hidden), np.float32)
        trainer = TemporalTrainer(settings, replace(begin.copy(), transitions=zeros), *texts)
        identity = {"begin": begin.fingerprint()}
        history = train(trainer, trainer.source, run.stage("temporal"), identity=identity)
        self._vocabulary, self.learned = corpus.vocabulary, trainer.predictor()
        self.fitted_on = {**facts, "training": history.as_dict()}


class BoltzmannTrainer(StreamTrainer):
    """An FRBM under training, whose parameters are changed in place; batches are arrays of positions."""

    def __init__(
        self,
        settings: FRBMSettings,
        parameters: BoltzmannParameters,
        text: Stream,
        valid: Stream | None,
    ) -> None:
        tables = {name: table for name, table in parameters.items() if len(table)}
        super().__init__(
            settings, tables, text, valid, accumulators=dict.fromkeys(tables, _INITIAL_SUM)
        )
        self.current = parameters

    def step(self, batch: tuple[npt.NDArray[np.int64]], learning_rate: float) -> StepResult:
        (positions,), parameters = batch, self.current
        contexts = Contexts.at(self.text, positions, self.settings.context)
        features = look_up_features(parameters, contexts)
        inputs = compute_inputs(parameters, features, None)
        difference, loss = self.contrast(inputs, contexts.targets)
        gradients = compute_gradients(
            parameters, contexts, features, None, difference, difference.inputs
        )
        self.climb(gradients, len(inputs), learning_rate)
        return StepResult(loss, len(positions))

    def contrast(self, inputs: Floats, targets: Integers) -> tuple[Contrast, float]:
        """Return the contrast of ``settings.learning``, and the loss of the step.

        The loss is minus the summed log-likelihood; contrastive divergence does not compute it, and has minus the
        log-probability of the words given the first states of the hidden units instead.
        """
        parameters, rng, steps = self.current, self.draw(), self.settings.gibbs_steps
        if self.settings.learning == "likelihood":
            negative = draw_by_prediction(
                parameters, pack_word_inputs(parameters), inputs, targets, _N_DRAWN, rng
            )
        elif self.settings.learning == "divergence":
            negative = draw_by_divergence(parameters, inputs, targets, steps, rng)
        else:
            return contrast_by_mean_field(parameters, inputs, targets, steps, rng)
        return contrast(parameters, inputs, targets, negative), negative.loss

    def climb(self, gradients: dict[str, Floats], tokens: int, learning_rate: float) -> None:
        """Move all parameters along gradients summed over so many words, and shrink them.

        Weight decay adds -lambda w to the mean gradient of a word. A feature vector decays only if its gradient is not
        zero: its word is in the step, or was drawn; by mean field, every vector decays in every step.
        """
        for name, gradient in gradients.items():
            slope = -gradient
            # rare words, which most steps neither read nor draw, would decay more than they learn
            if name == "words":
                touched = np.any(slope, axis=1, keepdims=True)
                slope += _FEATURE_DECAY * tokens * touched * self.tables[name]
            elif not name.endswith("biases"):
                slope += _WEIGHT_DECAY * tokens * self.tables[name]
            self.move(name, None, slope, learning_rate)

    def predictor(self) -> BoltzmannPredictor:
        return BoltzmannPredictor(self.current, self.boundary)


class TemporalTrainer(BoltzmannTrainer):
    """A temporal FRBM under training, in batches of `Pieces`.

    There are batch_words / piece_words parts, or fewer if these had fewer than 16 pieces. The probabilities of the
    hidden units at the ends of the pieces are carried to the next step, and belong to the state.
    """

    def __init__(
        self,
        settings: TemporalFRBMSettings,
        parameters: BoltzmannParameters,
        text: Stream,
        valid: Stream | None,
    ) -> None:
        super().__init__(settings, parameters, text, valid)
        n, piece = len(text.ids), settings.piece_words
        wanted = max(1, min(settings.batch_words // piece, n // (_MIN_STEPS * piece)))
        # as many parts as ceil(n / wanted) words each will fill: of ``wanted`` parts, the last ones might be empty
        self.source = Pieces(text, -(-n // -(-n // wanted)), piece, piece)
        self._firsts = text.firsts
        shape = self.source.parts, parameters.hidden
        self.carried = self.rest["carried"] = np.zeros(shape, parameters.words.dtype)

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """Take one step on the summed loss of a piece of every part, read side by side."""
        parameters = self.current
        if batch[0] == 0:
            self.carried[:] = 0
        places = self.source.positions(batch)
        inside, places = places >= 0, np.maximum(places, 0)
        opening = self._firsts[places]
        contexts = Contexts.at(self.text, places.ravel(), self.settings.context)
        features = look_up_features(parameters, contexts)
        shape = (*places.shape, parameters.hidden)
        inputs = compute_inputs(parameters, features, None).reshape(shape)  # b_t
        hidden = parameters.words[contexts.targets] @ parameters.outputs  # a_w, which becomes p_t
        hidden = hidden.reshape(shape)
        before = np.empty_like(hidden)  # p_{t-1}
        for t in range(len(places)):  # the filter of eq 3.14
            before[t] = hidden[t - 1] if t else self.carried
            inputs[t] += before[t] @ parameters.transitions.T
            hidden[t] = sigmoid(inputs[t] + hidden[t])
            hidden[t][opening[t]] = 0
        self.carried[:] = hidden[-1]
        counted = inside & ~opening
        difference, loss = self.contrast(inputs[counted], contexts.targets[counted.ravel()])
        slopes = np.zeros_like(inputs)
        slopes[counted] = difference.inputs
        if self.settings.learning == "likelihood" and len(places) > 1:
            difference = self._go_back(difference, slopes, hidden, contexts.targets)
        rows = (-1, parameters.hidden)
        before, slopes = before.reshape(rows), slopes.reshape(rows)
        gradients = compute_gradients(parameters, contexts, features, before, difference, slopes)
        self.climb(gradients, int(counted.sum()), learning_rate)
        return StepResult(loss, int(counted.sum()))

    def _go_back(
        self, difference: Contrast, slopes: Floats, hidden: Floats, targets: Integers
    ) -> Contrast:
        """Add to the gradients of a piece what goes back through time, from each word to the words before it.

        ``slopes``, the gradients by b_t (steps, parts, hidden), are changed in place, and ``difference`` is returned
        with the gradients by a_w of the observed words. ``hidden`` are p_t, and ``targets`` (steps * parts,) those
        words.
        """
        parameters, from_later, back = self.current, np.zeros_like(slopes), np.zeros_like(slopes[0])
        for t in reversed(range(len(slopes))):
            p = hidden[t]
            # zero where a sequence begins, because p is 0 there
            from_later[t] = back * p * (1 - p)
            slopes[t] += from_later[t]
            back = slopes[t] @ parameters.transitions
        from_later = from_later.reshape(-1, parameters.hidden)
        by_token = from_later @ parameters.outputs.T
        words = difference.words + sum_rows(targets, by_token, len(parameters.words))
        return difference._replace(
            words=words, outputs=difference.outputs + parameters.words[targets].T @ from_later
        )


def draw_parameters(settings: FRBMSettings, corpus: Corpus) -> BoltzmannParameters:
    """Draw small vectors and weights; the biases of words make a unigram model."""
    counts = corpus.type_counts
    rng = np.random.default_rng([settings.seed, 1])
    features, hidden = settings.features, settings.hidden

    def draw_normal(*shape: int) -> npt.NDArray[np.float32]:
        return rng.standard_normal(shape, np.float32)

    weight = np.float32(1 / np.sqrt(hidden))
    return BoltzmannParameters(
        words=draw_normal(len(counts), features) * np.float32(0.1),
        contexts=draw_normal(settings.context, features, hidden) * weight,
        outputs=draw_normal(features, hidden) * weight,
        transitions=np.zeros((0, hidden), np.float32),
        hidden_biases=np.zeros((hidden, 1), np.float32),
        biases=np.log(smooth_counts(counts))[:, None].astype(np.float32),
    )
