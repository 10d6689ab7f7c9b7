"""`LBL`: the log-bilinear model: the next word by its vector's likeness to a predicted one (Mnih 2010, section 3.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda import devices
from tacenda.arrays import Array, to_device, to_numpy
from tacenda.artifact import require
from tacenda.corpus import Corpus
from tacenda.fitting import ArrayBatches, FitRun, StepResult
from tacenda.fitting.processes import join, processes
from tacenda.fitting.processes import total as sum_of
from tacenda.settings import configured_by
from tacenda.vocabulary import Vocabulary
from tacenda_lm.log_bilinear.lbl_objective import (
    LBLParameters,
    nce,
    predicted,
    scores,
    softmax,
)
from tacenda_lm.log_bilinear.settings import LBLSettings
from tacenda_lm.sequences import Float64, Ids
from tacenda_lm.states import State, rows_of_block
from tacenda_lm.stream_model import StreamModel
from tacenda_lm.streams import Contexts, Stream, streams_of
from tacenda_lm.training import AdaGradTrainer, dropout_mask, falling_rate, train

__all__ = ["LBL", "LBLPredictor", "LBLTrainer"]

_ROWS = 512  # distributions computed side by side, at most
_SUMS = 1e-6  # accumulators to begin with
_LESS = "fewer batch_words, a smaller width, or a smaller vocabulary"
_OPERATIONS = ("row_steps",)


class LBL(StreamModel):
    """A log-bilinear language model.

        r = sum_i C_i r_{w_i},    P(w | context) = exp(r . q_w + b_w) / sum_j exp(r . q_j + b_j)

    (Mnih 2010, equations 3.16 and 3.17.) The models of the thesis have ``width=100``, full matrices and no dropout.
    """

    name: ClassVar[str] = "lbl"
    settings_class = LBLSettings
    settings: LBLSettings
    _predictor: LBLPredictor | None = None

    @configured_by(LBLSettings)
    def __init__(self, settings: LBLSettings) -> None:
        super().__init__(settings)

    @property
    def parameters(self) -> LBLParameters:
        """What was learned. Raises NotFittedError."""
        return self._learned(self._predictor).parameters

    def _fit(self, corpus: Corpus, valid: Corpus | None, fitting: FitRun) -> None:
        settings = self.settings
        device = devices.resolve(settings, _OPERATIONS)
        together = join(device)
        needed = bytes_needed(settings, len(corpus.vocabulary))
        devices.check_memory(needed, device, settings, _LESS)
        texts = streams_of(corpus, valid, across=settings.across_sentences)
        with devices.out_of_memory(settings, _LESS):
            trainer = LBLTrainer(settings, corpus.type_counts, *texts, device)
            positions = np.flatnonzero(~trainer.text.firsts)
            size = settings.batch_words * together.size
            source = ArrayBatches(positions, batch_size=size, seed=settings.seed)
            rate = falling_rate(settings.learning_rate, settings.epochs, source)
            history = train(trainer, source, settings, *texts, fitting, rate)
        found = LBLParameters(*map(to_numpy, trainer.current))
        self._vocabulary = corpus.vocabulary
        self._predictor = LBLPredictor(found, self._vocabulary.boundary_id)
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
    """A fitted LBL; ``boundary`` is the id of ``</s>``. A state is a tuple of the last words, oldest first.

    It computes where its parameters lie, and gives out arrays of numpy.
    """

    def __init__(self, parameters: LBLParameters, boundary: int, device: str = "cpu") -> None:
        self.parameters, self.boundary, self.n = parameters, boundary, len(parameters.contexts)
        self._device = device

    def start(self) -> State:
        """Return the state after one ``</s>``."""
        return State((self.boundary,))

    def after(self, state: State, word: int) -> State:
        """Return the state after one more word."""
        return State((*self._window(state), word)[-self.n :])

    def log_probs(self, states: Sequence[State]) -> npt.NDArray[np.float32]:
        """Return natural log-probabilities of every next word, (states, types)."""
        if not len(states):
            return np.empty((0, len(self.parameters.words)), np.float32)
        words = np.zeros((len(states), self.n), np.int64)
        present = np.zeros(words.shape, bool)
        for i, state in enumerate(states):
            window = self._window(state)[::-1]
            words[i, : len(window)], present[i, : len(window)] = window, True
        return self._fetched(Contexts(words, present, words[:, 0]))

    def log_prob(self, states: Sequence[State], words: Ids) -> Float64:
        """Return natural log p(word | state), (states,)."""
        return self.log_probs(states)[np.arange(len(words)), words].astype(np.float64)

    def _window(self, state: State) -> tuple[int, ...]:
        """The last words, oldest first. Raises DataError for the state of another model."""
        return state.words(self.n, len(self.parameters.words))

    def _rows(self, batch: Contexts) -> Array:
        there = Contexts(*(to_device(array, self._device) for array in batch))
        return scores(self.parameters, predicted(self.parameters, there))

    def _fetched(self, batch: Contexts) -> npt.NDArray[np.float32]:
        return np.asarray(to_numpy(self._rows(batch)), np.float32)

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
            rows = np.arange(len(batch.targets)), batch.targets
            found = self._rows(batch)[tuple(to_device(each, self._device) for each in rows)]
            parts.append(to_numpy(found).astype(np.float64))
        return np.concatenate(parts)

    def score_from(self, state: State, ids: Ids) -> tuple[Float64, State]:
        """Return the scores of ids that follow a state with no new sentence among them, and the state after."""
        window = self._window(state)
        text = np.concatenate([np.array(window, np.int32), ids])
        # the window is scored too, as the beginning of one sequence, and left out
        found = self.score(Stream(text, np.array([0, len(text)])))[len(window) - 1 :]
        return found, State(tuple(text[-self.n :].tolist()))

    def distributions(self, stream: Stream) -> Iterator[npt.NDArray[np.float32]]:
        """Yield natural log-probabilities of all words at the positions that `score` scores, (rows, types)."""
        yield from map(self._fetched, self._blocks(stream))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the parameters by name."""
        return self.parameters._asdict()


class LBLTrainer(AdaGradTrainer):
    """An LBL under training, from small random vectors; batches are arrays of positions.

    Biases and words of noise come from ``counts``, which say how often each type occurs in the training text. Of
    several processes each has a part of a batch; what is drawn is drawn for the whole.
    """

    def __init__(
        self,
        settings: LBLSettings,
        counts: npt.NDArray[np.integer],
        text: Stream,
        valid: Stream | None,
        device: str = "cpu",
    ) -> None:
        some = counts + 0.1  # no type occurs never
        noise = np.asarray(some / some.sum())
        drawn = _drawn(settings, noise)
        self.settings = settings
        self.current = LBLParameters(*(to_device(table, device) for table in drawn))
        tables, sums = self.current._asdict(), dict.fromkeys(drawn._fields, _SUMS)
        super().__init__(tables, sums, text, valid, settings.seed, device=device)
        self._cumulative = np.cumsum(noise)
        self._log_noise = self.put(np.log(noise).astype(np.float32))

    def step(self, batch: tuple[npt.NDArray[np.int64]], learning_rate: float) -> StepResult:
        """Take one step on the summed loss of the words at some positions."""
        (positions,) = batch
        settings, rng, own = self.settings, self.draw(), processes().part
        found = Contexts(*map(self.put, Contexts.at(self.text, own(positions), settings.context)))
        keep = None
        if settings.dropout:
            shape = len(positions), settings.width
            keep = self.put(own(dropout_mask(shape, settings.dropout, rng)))
        if settings.loss == "softmax":
            loss, gradients = softmax(self.current, found, keep)
        else:
            uniform = rng.random(settings.advanced.noise_words) * self._cumulative[-1]
            noise = np.searchsorted(self._cumulative, uniform, side="right")
            noise = np.minimum(noise, len(self._cumulative) - 1)
            loss, gradients = nce(self.current, found, self.put(noise), self._log_noise, keep)
        for name, (rows, gradient) in gradients.items():
            self.move(name, rows, gradient, learning_rate)
        return StepResult(sum_of(loss), len(positions))

    def predictor(self) -> LBLPredictor:
        """Return what the present parameters predict, where they lie."""
        return LBLPredictor(self.current, self.boundary, self.device)


def bytes_needed(settings: LBLSettings, n_types: int) -> int:
    """Estimate the bytes of the parameters and their gradients, and of the scores of a batch."""
    n, width, batch = settings.context, settings.width, settings.batch_words
    tables = n_types * (width + 2) * (1 if settings.advanced.tied else 2) + n * width * width
    scored = n_types if settings.loss == "softmax" else settings.advanced.noise_words
    return 4 * (3 * tables + batch * (2 * scored + (4 * n + 4) * width))


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
