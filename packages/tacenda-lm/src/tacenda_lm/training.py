"""Training in epochs that all models share: the bases of trainers, the learning rate, and what identifies a fit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tacenda import fitting
from tacenda.array_ops import to_device
from tacenda.arrays import Array
from tacenda.fitting import (
    BatchSource,
    Cosine,
    FitRun,
    FitSettings,
    History,
    Schedule,
    WarmUp,
    fingerprint_arrays,
    fit,
)
from tacenda.fitting.trainer import State
from tacenda.kernels.shared import adagrad
from tacenda_lm.streams import Stream

_MAY_CHANGE_ON_RESUME = "threads", "device"  # options
# a running average includes every step up to _STEPS_AVERAGED_EACH, and then every _AVERAGING_INTERVAL steps
_STEPS_AVERAGED_EACH, _AVERAGING_INTERVAL = 100, 10

Gradient: TypeAlias = tuple[Array | None, Array]
"""Distinct rows of a table, None for all of them, and the gradients of these rows (rows, width)."""
_DIVERGED = 300.0  # nats per token, whose perplexity counts as infinite
_STEPS_PER_LOSS_CHECK = 50  # on a device, where reading the loss waits until it is computed


def compute_perplexity(nats: float) -> float:
    """Return the perplexity of a mean negative log-probability in nats; infinite where training has diverged."""
    return float(np.exp(nats)) if nats <= _DIVERGED else math.inf


class TextTrainer(fitting.Trainer):
    """A model of a text under training, as `train` takes it.

    The perplexity of ``valid`` is the criterion.
    """

    settings: Any  #: with ``epochs`` and ``patience``
    text: tuple[npt.NDArray[Any], ...]
    valid: tuple[npt.NDArray[Any], ...] | None
    device: str = "cpu"
    evaluate_every: int = 1  #: epochs between evaluations
    warm_up: int = 200  #: steps in which the learning rate rises, at most half an epoch
    rate_floor: float = 0.1  #: share of the learning rate that is left at the end


class StreamTrainer(TextTrainer):
    """A model of a `Stream` under training; a subclass implements `step` and `predictor`.

    Random numbers of a step depend only on the seed and the number of the step.

    Parameters
    ----------
    tables
        Learned arrays by name, all on one ``device``, which steps change in place.
    accumulators
        First values of AdaGrad's accumulators, one for each row, by the name of the table. `move` changes these tables,
        which are float32 in C order.
    rest
        Anything else that later steps depend on, which a checkpoint therefore needs; also changed in place.
    """

    text: Stream
    valid: Stream | None

    def __init__(
        self,
        settings: Any,
        tables: State,
        text: Stream,
        valid: Stream | None,
        *,
        accumulators: Mapping[str, float] | None = None,
        rest: Mapping[str, Any] | None = None,
        device: str = "cpu",
    ) -> None:
        self.settings, self.tables, self.text, self.valid = settings, tables, text, valid
        self.device = device
        self.boundary = int(text.ids[0])  # the id of ``</s>``, with which every stream begins
        self.accumulators = {
            name: to_device(np.full(math.prod(tables[name].shape[:-1]), first, np.float32), device)
            for name, first in (accumulators or {}).items()
        }
        self.learned: State = tables
        # "sums" is their name in checkpoints
        self.rest: dict[str, Any] = {"sums": self.accumulators, **(rest or {})}

    def predictor(self) -> Any:
        """Return the predictor of the current parameters."""
        raise NotImplementedError

    def draw(self) -> np.random.Generator:
        """Return the generator of this step's random numbers, and count the step."""
        rng = np.random.default_rng([self.settings.seed, self.steps])
        self.steps += 1
        return rng

    def evaluate(self) -> float | None:
        """Return the perplexity of the held-out text, infinite where training has diverged."""
        if self.valid is None:
            return None
        return compute_perplexity(-float(self.predictor().score(self.valid).mean()))

    def move(
        self, name: str, rows: Array | None, gradient: Array, learning_rate: float, threads: int = 1
    ) -> None:
        """Take a step of AdaGrad on distinct rows of a table, or on all rows where ``rows`` is None.

        ``gradient`` is (rows, width). A table of more dimensions counts as (rows, width): its matrices stacked.
        """
        table = self.tables[name]
        table = table.reshape(-1, table.shape[-1])
        gradient = gradient.reshape(-1, table.shape[1])
        if rows is None:
            rows = np.arange(len(table), dtype=np.int32)
        adagrad(table, self.accumulators[name], rows, gradient, learning_rate, threads=threads)


def train(
    trainer: TextTrainer,
    source: BatchSource,
    run: FitRun,
    rate: Schedule | float | None = None,
    identity: Mapping[str, Any] | None = None,
    *,
    may_change: Sequence[str] = _MAY_CHANGE_ON_RESUME,
) -> History:
    """Train in place, and return the history; a divergence after the first epoch leaves the best model seen.

    Parameters
    ----------
    rate
        The learning rate. By default, the learning rate of the settings, which rises for ``trainer.warm_up`` steps and
        then falls to its share ``trainer.rate_floor``.
    identity
        JSON values or tuples of arrays that, with the texts and the settings, tell this fit from others: only the same
        fit can be resumed.
    may_change
        Settings that may differ when a fit is resumed.
    """
    settings, valid = trainer.settings, trainer.valid
    epochs = settings.epochs or 0
    if rate is None:
        highest, half_an_epoch = settings.learning_rate, (source.n_batches(0) or 0) // 2
        falling = Cosine(highest, epochs=max(epochs, 1), floor=trainer.rate_floor * highest)
        rate = WarmUp(falling, max(1, min(trainer.warm_up, half_an_epoch)))
    loop = FitSettings(
        epochs=epochs,
        learning_rate=rate,
        evaluate_every=trainer.evaluate_every,
        patience=None if valid is None else settings.patience,
        check_losses_every=1 if trainer.device == "cpu" else _STEPS_PER_LOSS_CHECK,
        on_divergence="return",
    )

    def identify() -> dict[str, Any]:
        return {
            "settings": {k: v for k, v in settings.to_dict().items() if k not in may_change},
            "text": fingerprint_arrays(trainer.text),
            "valid": None if valid is None else fingerprint_arrays(valid),
            **{
                name: fingerprint_arrays(value) if isinstance(value, tuple) else value
                for name, value in (identity or {}).items()
            },
        }

    return fit(trainer, source, loop, run, identify)


def smooth_counts(counts: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.float64]:
    """Return the frequencies of types after 0.1 is added to each count, so that none is zero: float64 (types,)."""
    smoothed = counts + 0.1
    return np.asarray(smoothed / smoothed.sum(), np.float64)


def averaging_weight(steps: int, averaging: float) -> float:
    """Return the weight of the parameters after step ``steps`` in their running average; 0 if they are left out.

    Early on, the average covers about the last tenth of the steps so far, and later the last 1 / (1 - averaging) steps.
    """
    # parameters hardly change in ten steps, and adding them up would take as long as a step of a small model
    interval = 1 if steps <= _STEPS_AVERAGED_EACH else _AVERAGING_INTERVAL
    if steps % interval:
        return 0.0
    return 1 - min(averaging**interval, steps / (steps + 10 * interval))


def draw_dropout_mask(
    shape: tuple[int, ...], share: float, rng: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Draw 0 for about this share of the elements (in steps of 2^-16), and for the others 1 / (1 - share)."""
    limit = min(round(share * 65536), 65535)  # some are kept, however large the share
    size = math.prod(shape)
    # each 64-bit word is four 16-bit numbers: much faster than drawing small numbers
    words = rng.integers(0, 2**64, -(-size // 4), dtype=np.uint64)
    drawn = words.view(np.uint16)[:size].reshape(shape)
    return np.asarray((drawn >= limit) * np.float32(65536 / (65536 - limit)), np.float32)
