"""Training an LBL: minibatches of single words in random order, AdaGrad with one accumulator a row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.errors import CorpusError
from tacenda.fitting import ArrayBatches, History, StepResult
from tacenda.fitting.recorder import Resume
from tacenda.fitting.trainable import State
from tacenda.kernels.shared.row_steps import adagrad
from tacenda_lm.log_bilinear.config import LBLConfig
from tacenda_lm.log_bilinear.fitting import run_fit, text_stream
from tacenda_lm.log_bilinear.lbl_objective import (
    Batch,
    LBLParameters,
    nce,
    predicted,
    scores,
    softmax,
)
from tacenda_lm.log_bilinear.stream import Stream
from tacenda_lm.log_bilinear.training import dropout_mask, put

__all__ = ["LBLTrainer", "contexts_at", "fit_lbl"]

_SUMS = 1e-6  # accumulators to begin with
_EVALUATED = 512  # words at a time


def contexts_at(stream: Stream, positions: npt.NDArray[np.int64], n: int) -> Batch:
    """The n words before each position, within its sequence, and the word there."""
    begins = stream.offsets[:-1]
    of = begins[np.searchsorted(begins, positions, side="right") - 1]
    places = positions[:, None] - np.arange(1, n + 1)
    present = places >= of[:, None]
    words = stream.ids[np.maximum(places, 0)].astype(np.int64)
    return Batch(words, present, stream.ids[positions].astype(np.int64))


def drawn(
    config: LBLConfig, counts: npt.NDArray[np.int64], rng: np.random.Generator
) -> LBLParameters:
    """Small random vectors, diagonals of 1 / (2 sqrt(i)), and the biases of a unigram model."""
    types, width = len(counts), config.width

    def normal(rows: int, scale: float) -> npt.NDArray[np.float32]:
        return rng.standard_normal((rows, width), np.float32) * np.float32(scale)

    diagonal = np.repeat(0.5 / np.sqrt(np.arange(1, config.context + 1))[:, None], width, 1)
    if config.contexts == "full":
        diagonal = diagonal[:, :, None] * np.eye(width)
    return LBLParameters(
        words=normal(types, 0.1),
        contexts=np.ascontiguousarray(diagonal, np.float32),
        targets=normal(0 if config.tied else types, 0.1),
        biases=np.log(unigrams(counts))[:, None].astype(np.float32),
    )


def unigrams(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """How often each type occurs, none of them never: float64 (types,), summing to one."""
    some = counts + 0.1
    return np.asarray(some / some.sum())


class LBLTrainer:
    """An LBL under training, as `tacenda.fitting` takes it. Batches are arrays of positions.

    Parameters
    ----------
    config
        Settings.
    parameters
        Changed in place.
    counts
        Of the types in the training text, for noise.
    stream
        The training text.
    valid
        Held-out text; its perplexity, with exact normalisation, is the criterion.
    """

    def __init__(
        self,
        config: LBLConfig,
        parameters: LBLParameters,
        counts: npt.NDArray[np.int64],
        stream: Stream,
        valid: Stream | None,
    ) -> None:
        self.config, self.current, self.stream, self.valid = config, parameters, stream, valid
        self.sums = {
            name: np.full(len(_rows(array)), _SUMS, np.float32)
            for name, array in parameters._asdict().items()
        }
        self.steps = 0
        noise = unigrams(counts)
        self._cumulative, self._log_noise = np.cumsum(noise), np.log(noise).astype(np.float32)

    def step(self, batch: tuple[npt.NDArray[np.int64]], learning_rate: float) -> StepResult:
        """One step on the summed loss of the words at some positions."""
        (positions,) = batch
        found = contexts_at(self.stream, positions, self.config.context)
        rng = np.random.default_rng([self.config.seed, self.steps])
        self.steps += 1
        keep = None
        if self.config.dropout:
            keep = dropout_mask((len(positions), self.config.width), self.config.dropout, rng)
        if self.config.loss == "softmax":
            loss, gradients = softmax(self.current, found, keep)
        else:
            uniform = rng.random(self.config.noise) * self._cumulative[-1]
            noise = np.searchsorted(self._cumulative, uniform, side="right")
            noise = np.minimum(noise, len(self._cumulative) - 1)
            loss, gradients = nce(self.current, found, noise, self._log_noise, keep)
        for name, (rows, gradient) in gradients.items():
            table = _rows(getattr(self.current, name))
            every = np.arange(len(table), dtype=np.int32) if rows is None else rows
            slopes = np.ascontiguousarray(gradient.reshape(len(every), -1), np.float32)
            adagrad(table, self.sums[name], every, slopes, learning_rate)
        return StepResult(loss, len(positions))

    def evaluate(self) -> float | None:
        """Perplexity of the held-out text."""
        if self.valid is None:
            return None
        positions = np.flatnonzero(~self.valid.firsts)
        total = 0.0
        for i in range(0, len(positions), _EVALUATED):
            found = contexts_at(self.valid, positions[i : i + _EVALUATED], self.config.context)
            rows = scores(self.current, predicted(self.current, found))
            total += float(rows[np.arange(len(rows)), found.targets].sum(dtype=np.float64))
        return float(np.exp(-total / len(positions)))

    def parameters(self) -> State:
        """What the model is made of."""
        return self.current._asdict()

    def load_parameters(self, parameters: State) -> None:
        """Puts them back."""
        put(self.current._asdict(), parameters)

    def state(self) -> State:
        """Everything the next steps depend on."""
        sums = {f"sums/{name}": array for name, array in self.sums.items()}
        return {**self.current._asdict(), **sums, "steps": np.array(self.steps)}

    def load_state(self, state: State) -> None:
        """Puts back what ``state`` gave; ValueError where names or shapes do not fit."""
        steps = np.array(0)
        put({**self.state(), "steps": steps}, state)
        self.steps = int(steps)


def _rows(array: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """A view in two dimensions: matrices one under the other."""
    return array if array.ndim == 2 else array.reshape(-1, array.shape[-1])


def fit_lbl(
    config: LBLConfig,
    corpus: Corpus,
    valid: Corpus | None,
    checkpoints: Path | None,
    resume: Resume,
) -> tuple[LBLParameters, History]:
    """The whole fit; with ``checkpoints`` it is saved there and gone on from."""
    if not corpus.n_tokens:
        raise CorpusError("the text has no tokens; there is nothing to fit on")
    text = text_stream(corpus, config.across_sentences)
    held_out = None if valid is None else text_stream(valid, config.across_sentences)
    counts = corpus.type_counts
    parameters = drawn(config, counts, np.random.default_rng([config.seed, 1]))
    trainer = LBLTrainer(config, parameters, counts, text, held_out)
    source = ArrayBatches(np.flatnonzero(~text.firsts), batch_size=config.batch, seed=config.seed)
    history = run_fit(trainer, source, config, text, held_out, checkpoints, resume)
    return parameters, history
