"""Training in epochs, the same for every model: the trainer of a text, the learning rate, what identifies a fit."""

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
    StepResult,
    WarmUp,
    fingerprint_arrays,
    fit,
)
from tacenda.fitting.trainer import State
from tacenda.kernels.shared import adagrad
from tacenda_lm.streams import Stream

_MAY_CHANGE = "threads", "device"  # options that may differ where a fit is resumed
_HOPELESS = 300.0  # nats a token: training has diverged
_EARLY, _AVERAGED = 100, 10  # after so many steps a running average looks at every tenth
_CHECK = 50  # steps between looks at the loss of a fit on a device, which is waited for by looking

Gradient: TypeAlias = tuple[npt.NDArray[np.integer[Any]] | None, npt.NDArray[np.floating[Any]]]
"""Rows of a table, each once, and their gradients (rows, width); None stands for all rows."""


def falling_rate(
    rate: float, epochs: int | None, source: BatchSource, *, least: float = 0.1, warm: int = 200
) -> WarmUp:
    """Return a rate that rises for up to ``warm`` steps or half an epoch, and falls to the share ``least``."""
    falling = Cosine(rate, epochs=max(epochs or 0, 1), floor=least * rate)
    return WarmUp(falling, max(1, min(warm, (source.n_batches(0) or 0) // 2)))


def train(
    trainer: Any,
    source: BatchSource,
    run: FitRun,
    rate: Schedule | float,
    identity: Mapping[str, Any] | None = None,
    *,
    may_change: Sequence[str] = _MAY_CHANGE,
) -> History:
    """Train in place; a divergence after the first epoch leaves the best model seen.

    A trainer has ``settings``, with ``epochs`` and ``patience``, and ``text`` and ``valid``, tuples of arrays; one with
    ``evaluate_every`` is evaluated after so many epochs. ``identity`` (JSON values, or tuples of arrays) tells this fit
    from others, with the texts and all settings but those that ``may_change`` on resume.
    """
    settings, valid = trainer.settings, trainer.valid
    loop = FitSettings(
        epochs=settings.epochs or 0,
        learning_rate=rate,
        evaluate_every=getattr(trainer, "evaluate_every", 1),
        patience=None if valid is None else settings.patience,
        check_losses_every=1 if getattr(trainer, "device", "cpu") == "cpu" else _CHECK,
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


def perplexity_of(nats: float) -> float:
    """Return the perplexity of a mean negative log-probability in nats; infinite where training has diverged."""
    return math.inf if nats > _HOPELESS else float(np.exp(nats))


class Trainer(fitting.Trainer):
    """A model of a text under training; a subclass implements `step` and `predictor`.

    The tables, all on one ``device``, are changed in place, and so is ``rest``, whatever else the next steps depend
    on. The random numbers of a step are drawn from the number of steps. The perplexity of ``valid`` is the criterion.

    `move` takes steps of AdaGrad with one accumulator for each row of a table; ``sums`` are the accumulators to begin
    with, by the name of the table, which is then float32 in C order.
    """

    def __init__(
        self,
        settings: Any,
        tables: State,
        text: Stream,
        valid: Stream | None,
        *,
        sums: Mapping[str, float] | None = None,
        rest: Mapping[str, Any] | None = None,
        device: str = "cpu",
    ) -> None:
        self.settings, self.tables, self.text, self.valid = settings, tables, text, valid
        self.device = device
        self.boundary = int(text.ids[0])  # the id of ``</s>``, with which every stream begins
        self.sums = {
            name: to_device(np.full(math.prod(tables[name].shape[:-1]), first, np.float32), device)
            for name, first in (sums or {}).items()
        }
        self.learned: State = tables
        self.rest: dict[str, Any] = {"sums": self.sums, **(rest or {})}

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """Take one step on the summed loss of a batch."""
        raise NotImplementedError

    def predictor(self) -> Any:
        """Return what the present parameters predict."""
        raise NotImplementedError

    def draw(self) -> np.random.Generator:
        """Return the random numbers of this step, and count it."""
        rng = np.random.default_rng([self.settings.seed, self.steps])
        self.steps += 1
        return rng

    def evaluate(self) -> float | None:
        """Return the perplexity of the held-out text, infinite where training has diverged."""
        if self.valid is None:
            return None
        return perplexity_of(-float(self.predictor().score(self.valid).mean()))

    def put(self, array: npt.NDArray[Any]) -> Array:
        """Return an array of the host where the tables are."""
        return to_device(array, self.device)

    def move(
        self,
        name: str,
        rows: Array | None,
        gradient: Array,
        learning_rate: float,
        threads: int = 1,
    ) -> None:
        """Move some rows of a table, each once, against their gradient; None stands for all rows.

        A table of more dimensions is taken for one of two, matrices one under the other.
        """
        table = self.tables[name]
        table = table.reshape(-1, table.shape[-1])
        # a view or a strided gradient would be read out of order by the compiled step
        slopes = in_c_order(gradient.reshape(-1, table.shape[1]), table.dtype)
        every = np.arange(len(table), dtype=np.int32) if rows is None else rows
        adagrad(table, self.sums[name], every, slopes, learning_rate, threads=threads)


class Pieces:
    """A text in equal parts that are read side by side, a piece of each at a time, in order.

    A batch is (first step, end), steps within the parts. In the first of ``epochs`` epochs a batch has ``first`` steps,
    in the last ``last``.
    """

    def __init__(self, text: Stream, parts: int, first: int, last: int, epochs: int = 1) -> None:
        self.text, self.parts, self.steps = text, parts, -(-len(text.ids) // parts)
        self.first, self.last, self.epochs = first, last, epochs

    def positions(self, batch: tuple[int, int]) -> npt.NDArray[np.int64]:
        """Return the positions of a batch in the text, (steps, parts); -1 behind its end."""
        found = np.arange(*batch)[:, None] + self.steps * np.arange(self.parts)
        return np.where(found < len(self.text.ids), found, -1)

    def length(self, epoch: int) -> int:
        """Return how many steps a batch of an epoch has."""
        share = epoch / max(self.epochs - 1, 1)
        grown: float = self.first * (self.last / self.first) ** share
        return max(1, round(grown))

    def n_batches(self, epoch: int) -> int:
        return -(-self.steps // self.length(epoch))

    def batches(self, epoch: int, skip: int = 0) -> Iterator[tuple[int, int]]:
        """Yield the batches of an epoch without the first ``skip``."""
        length = self.length(epoch)
        for begin in range(skip * length, self.steps, length):
            yield begin, min(begin + length, self.steps)

    def fingerprint(self) -> str:
        return fingerprint_arrays(
            tuple(self.text), "pieces", self.parts, self.first, self.last, self.epochs
        )


def averaging_weight(steps: int, averaging: float) -> float:
    """Return how much the parameters after a step weigh in their running average; 0 if it does not look at them.

    Early on it is about the average of the last tenth of the steps so far, later of the last 1 / (1 - averaging).
    """
    # parameters hardly change in ten steps, and adding them up would take as long as a step of a small model
    every = 1 if steps <= _EARLY else _AVERAGED
    return 0.0 if steps % every else 1 - min(averaging**every, steps / (steps + 10 * every))


def dropout_mask(
    shape: tuple[int, ...], share: float, rng: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Draw 0 for about this share of the elements (in steps of 2^-16), and for the others what keeps the mean."""
    limit = min(round(share * 65536), 65535)  # some are kept, however large the share
    size = math.prod(shape)
    # four 16-bit numbers in each word: much faster than drawing small numbers
    words = rng.integers(0, 2**64, -(-size // 4), dtype=np.uint64)
    drawn = words.view(np.uint16)[:size].reshape(shape)
    return np.asarray((drawn >= limit) * np.float32(65536 / (65536 - limit)), np.float32)


def sum_by_row(
    rows: npt.NDArray[np.integer[Any]], gradients: npt.NDArray[np.floating[Any]]
) -> Gradient:
    """Return the distinct rows of a table that were read (reads,), ascending, and the sum of the gradients of each.

    ``gradients`` (reads, width) belong to the reads, in any order.
    """
    found, places = np.unique(rows, return_inverse=True)
    # a product with a sparse matrix adds in one pass; np.add.at and sorting copy or wander
    ones, reads = np.ones(len(rows), gradients.dtype), len(rows)
    chosen = csc_array((ones, places, np.arange(reads + 1)), shape=(len(found), reads))
    return found, np.asarray(chosen @ gradients)
