"""Training in epochs that all models share: the base of trainers, the learning rate, and what identifies a fit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_array

from tacenda import fitting
from tacenda.array_ops import in_c_order, to_device
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
_DIVERGED = 300.0  # nats per token, whose perplexity counts as infinite
# a running average includes every step up to _STEPS_AVERAGED_EACH, and then every _AVERAGING_INTERVAL steps
_STEPS_AVERAGED_EACH, _AVERAGING_INTERVAL = 100, 10
_STEPS_PER_LOSS_CHECK = 50  # on a device, where reading the loss waits until it is computed

Gradient: TypeAlias = tuple[npt.NDArray[np.integer[Any]] | None, npt.NDArray[np.floating[Any]]]
"""Distinct rows of a table, None for all of them, and the gradients of these rows (rows, width)."""


def schedule_rate(
    rate: float, epochs: int | None, source: BatchSource, *, floor: float = 0.1, warm_up: int = 200
) -> WarmUp:
    """Return a rate that rises for ``warm_up`` steps, at most half an epoch, and falls to ``floor * rate``."""
    falling = Cosine(rate, epochs=max(epochs or 0, 1), floor=floor * rate)
    return WarmUp(falling, max(1, min(warm_up, (source.n_batches(0) or 0) // 2)))


def train(
    trainer: Any,
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
    trainer
        With ``settings``, which have ``epochs`` and ``patience``; ``text`` and ``valid``, tuples of arrays; and perhaps
        ``evaluate_every``, the epochs between evaluations.
    rate
        The learning rate; by default the `schedule_rate` of the settings.
    identity
        JSON values or tuples of arrays that, with the texts and the settings, tell this fit from others: only the same
        fit can be resumed.
    may_change
        Settings that may differ when a fit is resumed.
    """
    settings, valid = trainer.settings, trainer.valid
    if rate is None:
        rate = schedule_rate(settings.learning_rate, settings.epochs, source)
    is_on_cpu = getattr(trainer, "device", "cpu") == "cpu"
    loop = FitSettings(
        epochs=settings.epochs or 0,
        learning_rate=rate,
        evaluate_every=getattr(trainer, "evaluate_every", 1),
        patience=None if valid is None else settings.patience,
        check_losses_every=1 if is_on_cpu else _STEPS_PER_LOSS_CHECK,
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


def compute_perplexity(nats: float) -> float:
    """Return the perplexity of a mean negative log-probability in nats; infinite where training has diverged."""
    return math.inf if nats > _DIVERGED else float(np.exp(nats))


class Trainer(fitting.Trainer):
    """A model of a text under training; a subclass implements `step` and `predictor`.

    Random numbers of a step depend only on the seed and the number of the step. The perplexity of ``valid`` is the
    criterion.

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

    def put(self, array: npt.NDArray[Any]) -> Array:
        """Copy an array of the host to the device of the tables."""
        return to_device(array, self.device)

    def move(
        self,
        name: str,
        rows: Array | None,
        gradient: Array,
        learning_rate: float,
        threads: int = 1,
    ) -> None:
        """Take a step of AdaGrad on distinct rows of a table, or on all rows where ``rows`` is None.

        ``gradient`` is (rows, width). A table of more dimensions counts as (rows, width): its matrices stacked.
        """
        table = self.tables[name]
        table = table.reshape(-1, table.shape[-1])
        # the compiled step would read a strided gradient in the wrong order
        gradient = in_c_order(gradient.reshape(-1, table.shape[1]), table.dtype)
        if rows is None:
            rows = np.arange(len(table), dtype=np.int32)
        adagrad(table, self.accumulators[name], rows, gradient, learning_rate, threads=threads)


class Pieces:
    """A text in ``parts`` equal parts that are read in parallel and in order: a batch has a piece of each.

    A batch is a pair, its first step and its end, where step i reads the i-th token of every part. Its number of steps
    grows geometrically from ``first`` in the first of ``epochs`` epochs to ``last`` in the last.
    """

    def __init__(self, text: Stream, parts: int, first: int, last: int, epochs: int = 1) -> None:
        self.text, self.parts, self.steps = text, parts, -(-len(text.ids) // parts)
        self.first, self.last, self.epochs = first, last, epochs

    def positions(self, batch: tuple[int, int]) -> npt.NDArray[np.int64]:
        """Return the positions of a batch in the text, (steps, parts); -1 after the end of the text."""
        positions = np.arange(*batch)[:, None] + self.steps * np.arange(self.parts)
        return np.where(positions < len(self.text.ids), positions, -1)

    def length(self, epoch: int) -> int:
        """Return how many steps a batch of an epoch has."""
        share = epoch / max(self.epochs - 1, 1)
        steps: float = self.first * (self.last / self.first) ** share
        return max(1, round(steps))

    def n_batches(self, epoch: int) -> int:
        """Return how many batches an epoch has."""
        return -(-self.steps // self.length(epoch))

    def batches(self, epoch: int, skip: int = 0) -> Iterator[tuple[int, int]]:
        """Yield the batches of an epoch without the first ``skip``."""
        length = self.length(epoch)
        for begin in range(skip * length, self.steps, length):
            yield begin, min(begin + length, self.steps)

    def fingerprint(self) -> str:
        """Return a hash of the text and of how it is cut."""
        return fingerprint_arrays(
            tuple(self.text), "pieces", self.parts, self.first, self.last, self.epochs
        )


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


def sum_by_row(
    rows: npt.NDArray[np.integer[Any]], gradients: npt.NDArray[np.floating[Any]]
) -> Gradient:
    """Return the distinct rows of a table among ``rows`` (reads,), ascending, and the summed gradient of each.

    ``gradients`` (reads, width) are those of the reads, in any order.
    """
    distinct, places = np.unique(rows, return_inverse=True)
    return distinct, sum_rows(places, gradients, len(distinct))


def sum_rows(
    places: npt.NDArray[np.integer[Any]], values: npt.NDArray[np.floating[Any]], n: int
) -> npt.NDArray[Any]:
    """Return sums (n, width): that of place i is the sum of the ``values`` (reads, width) whose place is i."""
    # a sparse product adds in one pass over the values; np.add.at and sorting copy them or jump around
    ones, reads = np.ones(len(places), values.dtype), len(places)
    adder = csc_array((ones, places, np.arange(reads + 1)), shape=(n, reads))
    return np.asarray(adder @ values)
