"""What the trainers of both models share: AdaGrad on named tables, dropout, evaluation, the fitting loop."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.fitting import ArrayBatches, History, StepResult
from tacenda.fitting.trainable import State
from tacenda.kernels.shared.row_steps import adagrad
from tacenda_lm.contract import FitContext
from tacenda_lm.log_bilinear.hlbl_predictor import HLBLPredictor
from tacenda_lm.log_bilinear.lbl_predictor import LBLPredictor
from tacenda_lm.log_bilinear.settings import HLBLSettings, LBLSettings
from tacenda_lm.log_bilinear.stream import Stream
from tacenda_lm.training import falling_rate, put, train

__all__ = ["Trainer", "dropout_mask", "texts_of", "train_trainer"]

_LEAST = 0.1  # of the learning rate, at the end
_WARM = 200  # steps at most before the learning rate is what it says, and half an epoch


class Trainer:
    """A model under training, as `tacenda.fitting` takes it; a subclass implements `step` and `predictor`.

    AdaGrad has one accumulator for each row of a table. `state` holds tables, accumulators and the number of steps,
    from which the random numbers of a step are drawn.
    The tables, float32 in C order, are changed in place; ``sums`` are the accumulators to begin with, by the name of
    the table. The perplexity of ``valid`` is the criterion.
    """

    def __init__(
        self,
        tables: dict[str, npt.NDArray[np.float32]],
        sums: Mapping[str, float],
        text: Stream,
        valid: Stream | None,
        seed: int,
    ) -> None:
        self.tables, self.text, self.valid, self.seed = tables, text, valid, seed
        self.sums = {
            name: np.full(len(_rows(table)), sums[name], np.float32)
            for name, table in tables.items()
        }
        self.steps = 0

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """Take one step on the summed loss of a batch."""
        raise NotImplementedError

    def predictor(self) -> HLBLPredictor | LBLPredictor:
        """Return what the present parameters predict."""
        raise NotImplementedError

    def draw(self) -> np.random.Generator:
        """Return the random numbers of this step, and count it."""
        rng = np.random.default_rng([self.seed, self.steps])
        self.steps += 1
        return rng

    def move(
        self,
        name: str,
        rows: npt.NDArray[np.integer[Any]] | None,
        gradient: npt.NDArray[np.floating[Any]],
        learning_rate: float,
        threads: int = 1,
    ) -> None:
        """Move some rows of a table, each once, against their gradient; None stands for all rows."""
        table = _rows(self.tables[name])
        every = np.arange(len(table), dtype=np.int32) if rows is None else rows
        slopes = np.ascontiguousarray(gradient.reshape(len(every), table.shape[1]), np.float32)
        adagrad(table, self.sums[name], every, slopes, learning_rate, threads=threads)

    def evaluate(self) -> float | None:
        """Return the perplexity of the held-out text."""
        if self.valid is None:
            return None
        return float(np.exp(-self.predictor().score(self.valid).mean()))

    def parameters(self) -> State:
        """Return what the model is made of."""
        return self.tables

    def load_parameters(self, parameters: State) -> None:
        """Put them back."""
        put(self.tables, parameters)

    def state(self) -> State:
        """Return everything the next steps depend on."""
        sums = {f"sums/{name}": array for name, array in self.sums.items()}
        return {**self.tables, **sums, "steps": np.array(self.steps)}

    def load_state(self, state: State) -> None:
        """Put back what `state` gave. Raises ValueError where names or shapes do not fit."""
        steps = np.array(0)
        put({**self.state(), "steps": steps}, state)
        self.steps = int(steps)


def _rows(array: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """View an array in two dimensions, matrices one under the other."""
    return array if array.ndim == 2 else array.reshape(-1, array.shape[-1])


def dropout_mask(
    shape: tuple[int, ...], share: float, rng: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Draw 0 for about this share of the elements (in steps of 2^-16), and for the others what keeps the mean."""
    limit = round(share * 65536)
    size = math.prod(shape)
    # four 16-bit numbers in each word: much faster than drawing small numbers
    words = rng.integers(0, 2**64, -(-size // 4), dtype=np.uint64)
    drawn = words.view(np.uint16)[:size].reshape(shape)
    return np.asarray((drawn >= limit) * np.float32(65536 / (65536 - limit)), np.float32)


def texts_of(
    settings: HLBLSettings | LBLSettings, corpus: Corpus, valid: Corpus | None
) -> tuple[Stream, Stream | None]:
    """Return the training text and the held-out text as streams."""
    across = settings.across_sentences
    held_out = None if valid is None else Stream.of_corpus(valid, across)
    return Stream.of_corpus(corpus, across), held_out


def train_trainer(
    trainer: Trainer,
    source: ArrayBatches,
    settings: HLBLSettings | LBLSettings,
    context: FitContext,
    identity: Mapping[str, Any] | None = None,
    description: str = "fitting",
) -> History:
    """Train in place, at a rate that falls to a tenth; see `tacenda_lm.training.train`."""
    epochs = settings.epochs
    rate = falling_rate(settings.learning_rate, epochs, source, least=_LEAST, warm=_WARM)
    texts = trainer.text, trainer.valid
    return train(
        trainer, source, settings, *texts, context, rate, identity=identity, description=description
    )
