"""`LBL`: the log-bilinear model: the next word by its vector's likeness to a predicted one (Mnih 2010, section 3.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.corpus import Corpus
from tacenda.fitting import ArrayBatches, StepResult
from tacenda.settings import configured_by
from tacenda.vocabulary import Vocabulary
from tacenda_lm.contract import State, rows_of_block
from tacenda_lm.log_bilinear.lbl_objective import (
    LBLParameters,
    nce,
    predicted,
    scores,
    softmax,
)
from tacenda_lm.log_bilinear.settings import LBLSettings
from tacenda_lm.sequences import Float64, Ids
from tacenda_lm.stream_model import StreamModel
from tacenda_lm.streams import Contexts, Stream, streams_of
from tacenda_lm.training import AdaGradTrainer, FitContext, dropout_mask, falling_rate, train

__all__ = ["LBL", "LBLPredictor", "LBLTrainer"]

_ROWS = 512  # distributions computed side by side, at most
_SUMS = 1e-6  # accumulators to begin with


class LBL(StreamModel[LBLSettings, "LBLPredictor"]):
    """A log-bilinear language model.

        r = sum_i C_i r_{w_i},    P(w | context) = exp(r . q_w + b_w) / sum_j exp(r . q_j + b_j)

    (Mnih 2010, equations 3.16 and 3.17.) The models of the thesis have ``width=100``, full matrices and no dropout.
    """

    name: ClassVar[str] = "lbl"
    settings_class = LBLSettings

    @configured_by(LBLSettings)
    def __init__(self, settings: LBLSettings) -> None:
        super().__init__(settings)

    @property
    def parameters(self) -> LBLParameters:
        """What was learned. Raises NotFittedError."""
        return self._found.parameters

    def _fit(self, corpus: Corpus, valid: Corpus | None, fitting: FitContext) -> None:
        settings = self.settings
        texts = streams_of(corpus, valid, across=settings.across_sentences)
        trainer = LBLTrainer(settings, corpus.type_counts, *texts)
        positions = np.flatnonzero(~trainer.text.firsts)
        source = ArrayBatches(positions, batch_size=settings.batch_words, seed=settings.seed)
        rate = falling_rate(settings.learning_rate, settings.epochs, source)
        history = train(trainer, source, settings, *texts, fitting, rate)
        self._vocabulary, self._predictor = corpus.vocabulary, trainer.predictor()
        self.fitted_on = {"training": history.as_dict()}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Return the model of an artefact, every array checked. Raises ArtifactError."""
        model = cls.from_settings(config["settings"])
        settings, vocabulary = model.settings, Vocabulary.from_arrays(config["vocabulary"], arrays)
        types, width, n = len(vocabulary), settings.width, settings.context
        diagonal = settings.advanced.context_matrices == "diagonal"
        shapes: dict[str, tuple[int, ...]] = {
            "words": (types, width),
            "contexts": (n, width) if diagonal else (n, width, width),
            "targets": (0 if settings.advanced.tied else types, width),
            "biases": (types, 1),
        }
        found = {
            name: require(arrays, name, dtype=np.float32, shape=shape, finite=True)
            for name, shape in shapes.items()
        }
        model._vocabulary = vocabulary
        model._predictor = LBLPredictor(LBLParameters(**found), vocabulary.boundary_id)
        return model


class LBLPredictor:
    """A fitted LBL; ``boundary`` is the id of ``</s>``. A state is a tuple of the last words, oldest first."""

    def __init__(self, parameters: LBLParameters, boundary: int) -> None:
        self.parameters, self.boundary, self.n = parameters, boundary, len(parameters.contexts)

    def start(self) -> State:
        """Return the state after one ``</s>``."""
        return State((self.boundary,))

    def after(self, state: State, word: int) -> State:
        """Return the state after one more word."""
        return State((*state.parts(), word)[-self.n :])

    def log_probs(self, states: Sequence[State]) -> npt.NDArray[np.float32]:
        """Return natural log-probabilities of every next word, (states, types)."""
        if not len(states):
            return np.empty((0, len(self.parameters.words)), np.float32)
        words = np.zeros((len(states), self.n), np.int64)
        present = np.zeros(words.shape, bool)
        for i, state in enumerate(states):
            window = state.parts()[::-1]
            words[i, : len(window)], present[i, : len(window)] = window, True
        return self._rows(Contexts(words, present, words[:, 0]))

    def log_prob(self, states: Sequence[State], words: Ids) -> Float64:
        """Return natural log p(word | state), (states,)."""
        return self.log_probs(states)[np.arange(len(words)), words].astype(np.float64)

    def _rows(self, batch: Contexts) -> npt.NDArray[np.float32]:
        r = np.asarray(predicted(self.parameters, batch), np.float32)
        return np.asarray(scores(self.parameters, r), np.float32)

    def _blocks(self, stream: Stream) -> Iterator[Contexts]:
        """Yield all positions but the first of a sequence."""
        positions = np.flatnonzero(~stream.firsts)
        rows = min(_ROWS, rows_of_block(len(self.parameters.words)))
        for i in range(0, len(positions), rows):
            yield Contexts.at(stream, positions[i : i + rows], self.n)

    def score(self, stream: Stream) -> Float64:
        """Return natural log-probabilities of all but the first id of every sequence."""
        parts = [np.empty(0)]
        for batch in self._blocks(stream):
            rows = self._rows(batch)
            parts.append(rows[np.arange(len(rows)), batch.targets].astype(np.float64))
        return np.concatenate(parts)

    def score_from(self, state: State, ids: Ids) -> tuple[Float64, State]:
        """Return the scores of ids that follow a state with no new sentence among them, and the state after."""
        window = state.parts()
        text = np.concatenate([np.array(window, np.int32), ids])
        # the window is scored too, as the beginning of one sequence, and left out
        found = self.score(Stream(text, np.array([0, len(text)])))[len(window) - 1 :]
        return found, State(tuple(text[-self.n :].tolist()))

    def distributions(self, stream: Stream) -> Iterator[npt.NDArray[np.float32]]:
        """Yield natural log-probabilities of all words at the positions that `score` scores, (rows, types)."""
        yield from map(self._rows, self._blocks(stream))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the parameters by name."""
        return self.parameters._asdict()


class LBLTrainer(AdaGradTrainer):
    """An LBL under training, from small random vectors; batches are arrays of positions.

    Biases and words of noise come from ``counts``, which say how often each type occurs in the training text.
    """

    def __init__(
        self,
        settings: LBLSettings,
        counts: npt.NDArray[np.integer],
        text: Stream,
        valid: Stream | None,
    ) -> None:
        some = counts + 0.1  # no type occurs never
        noise = np.asarray(some / some.sum())
        self.settings, self.current = settings, _drawn(settings, noise)
        tables = self.current._asdict()
        super().__init__(tables, dict.fromkeys(tables, _SUMS), text, valid, settings.seed)
        self._cumulative, self._log_noise = np.cumsum(noise), np.log(noise).astype(np.float32)

    def step(self, batch: tuple[npt.NDArray[np.int64]], learning_rate: float) -> StepResult:
        """Take one step on the summed loss of the words at some positions."""
        (positions,) = batch
        settings, rng = self.settings, self.draw()
        found = Contexts.at(self.text, positions, settings.context)
        keep = None
        if settings.dropout:
            keep = dropout_mask((len(positions), settings.width), settings.dropout, rng)
        if settings.loss == "softmax":
            loss, gradients = softmax(self.current, found, keep)
        else:
            uniform = rng.random(settings.advanced.noise_words) * self._cumulative[-1]
            noise = np.searchsorted(self._cumulative, uniform, side="right")
            noise = np.minimum(noise, len(self._cumulative) - 1)
            loss, gradients = nce(self.current, found, noise, self._log_noise, keep)
        for name, (rows, gradient) in gradients.items():
            self.move(name, rows, gradient, learning_rate)
        return StepResult(loss, len(positions))

    def predictor(self) -> LBLPredictor:
        """Return what the present parameters predict."""
        return LBLPredictor(self.current, self.boundary)


def _drawn(settings: LBLSettings, unigrams: npt.NDArray[np.float64]) -> LBLParameters:
    """Draw small vectors; diagonals are 1 / (2 sqrt(i)), and biases those of a unigram model."""
    rng, types, width = np.random.default_rng([settings.seed, 1]), len(unigrams), settings.width

    def normal(rows: int) -> npt.NDArray[np.float32]:
        return rng.standard_normal((rows, width), np.float32) * np.float32(0.1)

    contexts = np.repeat(0.5 / np.sqrt(np.arange(1, settings.context + 1))[:, None], width, 1)
    if settings.advanced.context_matrices == "full":
        contexts = contexts[:, :, None] * np.eye(width)
    return LBLParameters(
        words=normal(types),
        contexts=np.ascontiguousarray(contexts, np.float32),
        targets=normal(0 if settings.advanced.tied else types),
        biases=np.log(unigrams)[:, None].astype(np.float32),
    )
