"""Training an LBL: minibatches of single words in random order, AdaGrad (Mnih 2010, section 3.3.2)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.fitting import ArrayBatches, History, StepResult
from tacenda_lm.contract import FitContext
from tacenda_lm.log_bilinear.lbl_objective import Batch, LBLParameters, nce, softmax
from tacenda_lm.log_bilinear.lbl_predictor import LBLPredictor
from tacenda_lm.log_bilinear.settings import LBLSettings
from tacenda_lm.log_bilinear.stream import Stream
from tacenda_lm.log_bilinear.training import Trainer, dropout_mask, texts_of, train_trainer

__all__ = ["LBLTrainer", "train_lbl"]

_SUMS = 1e-6  # accumulators to begin with


class LBLTrainer(Trainer):
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
        found = Batch.at(self.text, positions, settings.context)
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
        boundary = int(self.text.ids[0])  # every stream begins with </s>
        return LBLPredictor(self.current, boundary)


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


def train_lbl(
    settings: LBLSettings, corpus: Corpus, valid: Corpus | None, context: FitContext
) -> tuple[LBLPredictor, History]:
    """Fit to a corpus."""
    trainer = LBLTrainer(settings, corpus.type_counts, *texts_of(settings, corpus, valid))
    positions = np.flatnonzero(~trainer.text.firsts)
    source = ArrayBatches(positions, batch_size=settings.batch_words, seed=settings.seed)
    history = train_trainer(trainer, source, settings, context)
    return trainer.predictor(), history
