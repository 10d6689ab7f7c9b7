"""Training a recurrent network: parallel streams of one text, truncated back-propagation, the rate that falls.

The words of a text lie in a ring, which each epoch cuts at another place into streams of equal length. A step reads a
window of every stream; the states at its end begin the next one, and gradients do not reach back over its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.fitting import Callback, FitLoop, Schedule, StepResult, fingerprint_arrays
from tacenda.fitting.schedules import Position
from tacenda.fitting.trainer import State
from tacenda_lm.recurrent.network import RESTING, Network, backward, forward, output
from tacenda_lm.recurrent.predictor import RecurrentPredictor
from tacenda_lm.recurrent.settings import RecurrentLMSettings
from tacenda_lm.row_gradients import Gradient, by_row
from tacenda_lm.sequences import Ids
from tacenda_lm.streams import Stream
from tacenda_lm.training import Trainer, averaging_weight, dropout_mask, put

__all__ = ["FallingAfter", "FallingWhereHeldOutSays", "RecurrentTrainer", "WhenSettled", "Windows"]

_NEVER = 1e9  # nats a token, before the first evaluation


class Windows:
    """The windows of an epoch in the order of the text: the places that each step reads, and whether it is the first.

    Every place of the text is read once an epoch, but for less than one word a stream, read once more.
    """

    def __init__(self, text: Ids, streams: int, window: int, seed: int) -> None:
        self.text, self.streams, self.window, self.seed = text, streams, window, seed
        self._length = -(-len(text) // streams)  # of a stream

    def n_batches(self, epoch: int) -> int:
        """Return the steps of an epoch."""
        return -(-self._length // self.window)

    def batches(self, epoch: int, skip: int = 0) -> Iterator[tuple[npt.NDArray[np.int64], bool]]:
        """Yield places (steps, streams) and whether the epoch begins there."""
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, epoch]))
        cut = int(rng.integers(len(self.text)))
        starts = cut + self._length * np.arange(self.streams)
        for batch in range(skip, self.n_batches(epoch)):
            begin = batch * self.window
            steps = np.arange(begin, min(begin + self.window, self._length))
            yield (steps[:, None] + starts) % len(self.text), batch == 0

    def fingerprint(self) -> str:
        """Identify the text and how it is cut."""
        return fingerprint_arrays((self.text,), "windows", self.streams, self.window, self.seed)


@dataclass
class FallingAfter(Schedule):
    """Constant for ``epochs`` epochs, then multiplied by ``factor`` after each: for a fit without held-out text."""

    factor: float = 0.5
    epochs: int = 10

    def at(self, position: Position) -> float:
        return self.rate * self.factor ** max(0, position.epoch + 1 - self.epochs)


@dataclass
class FallingWhereHeldOutSays(Schedule):
    """Constant until the held-out text gains too little, then multiplied by ``factor`` after each epoch.

    The schedule of Mikolov 2012 (section 3.3.2), which the LDS paper follows (section 7.4). When an epoch gains too
    little again, training is `settled`. To gain too little is to leave more than the share 1 - ``least_gain`` of the
    lowest negative log-probability so far.
    """

    factor: float = 0.5
    least_gain: float = 0.003
    # lowest nats a token so far, the share of the rate, whether it falls, whether training is over
    progress: npt.NDArray[np.float64] = field(
        default_factory=lambda: np.array([_NEVER, 1.0, 0.0, 0.0])
    )

    @property
    def settled(self) -> bool:
        """Whether training is over."""
        return bool(self.progress[3])

    def observe(self, nats: float) -> None:
        """Note the mean negative log-probability of the held-out text after an epoch."""
        best, _, falls, _ = self.progress
        if not nats <= (1 - self.least_gain) * best:
            self.progress[2:] = True, falls
        self.progress[0] = min(best, nats)
        if self.progress[2]:
            self.progress[1] *= self.factor

    def at(self, position: Position) -> float:
        return self.rate * float(self.progress[1])

    def config(self) -> dict[str, Any]:
        values = {"rate": self.rate, "factor": self.factor, "least_gain": self.least_gain}
        return {"schedule": type(self).__name__, **values}


class WhenSettled(Callback):
    """Ends a fit when the schedule of its `RecurrentTrainer` says that training is over."""

    def on_epoch_end(self, run: FitLoop) -> bool:
        """Return whether it is."""
        return isinstance(run.model, RecurrentTrainer) and run.model.rate.settled


class RecurrentTrainer(Trainer):
    """A network under training, changed in place, and the running average of its parameters, which is the model.

    A step of plain gradient descent that is long enough for rare words is too long for frequent ones: their rows follow
    the last few hundred words of the text, and predict other text badly. The average over many steps does not.

    `state` holds the states of the streams and what the schedule has seen beside the parameters. The text lies in a
    ring: after its last word comes its first.
    """

    def __init__(
        self,
        settings: RecurrentLMSettings,
        network: Network,
        text: Stream,
        valid: Stream | None,
        rate: FallingWhereHeldOutSays,
    ) -> None:
        self.settings, self.network, self.rate = settings, network, rate
        self.ring = text.ids[1:]
        shape, dtype = (settings.streams, network.width), network.transitions.dtype
        self._h = np.full(shape, RESTING, dtype)
        self._d_outputs = np.empty_like(network.outputs)
        self.average = Network(*map(np.array, network)) if self._averages else network
        rest = {"h": self._h, "progress": rate.progress}
        if self._averages:
            rest |= {f"average/{name}": table for name, table in self.average._asdict().items()}
        super().__init__(network._asdict(), text, valid, settings.seed, rest)

    @property
    def _averages(self) -> bool:
        return self.settings.advanced.averaging > 0

    def step(self, batch: tuple[npt.NDArray[np.int64], bool], learning_rate: float) -> StepResult:
        """Take one step of gradient descent on a window of every stream."""
        places, begins = batch
        if begins:
            self._h[...] = RESTING
        with np.errstate(over="ignore", invalid="ignore"):  # the loop looks for NaN
            loss, gradients = self.gradients(places, self.draw())
            self._descend(gradients, learning_rate / self.settings.streams)
            self._follow()
        return StepResult(loss, places.size)

    def gradients(
        self, places: npt.NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[float, dict[str, Gradient]]:
        """Return the summed loss at some places (steps, streams), and its gradients by the names of the tables.

        The states of the streams become those at the end of the window.
        """
        p, settings = self.network, self.settings
        read = self.ring[places]
        targets = self.ring[(places + 1) % len(self.ring)].ravel()
        anew = np.zeros(read.shape, bool) if settings.across_sentences else read == self.boundary
        shape, input_dropout = (*read.shape, p.width), settings.advanced.input_dropout
        inputs_kept = dropout_mask(shape, input_dropout, rng) if input_dropout else None
        states = forward(p, read, self._h, anew, inputs_kept)
        self._h[...] = states.at[-1]
        kept = dropout_mask(shape, settings.dropout, rng) if settings.dropout else None
        seen = states.at if kept is None else states.at * kept
        log_probs, d_seen = output(p, seen.reshape(-1, p.width), targets, self._d_outputs)
        d_states = d_seen.reshape(states.at.shape)
        if kept is not None:
            d_states *= kept
        d_z = backward(p, states, d_states, anew)
        flat = d_z.reshape(-1, p.width)
        d_transitions = flat.T @ states.before.reshape(-1, p.width)
        d_offsets = flat.sum(axis=0)[None]
        if inputs_kept is not None:
            d_z *= inputs_kept
        return -float(log_probs.sum(dtype=np.float64)), {
            "transitions": (None, d_transitions),
            "inputs": by_row(read.ravel(), flat),
            "offsets": (None, d_offsets),
            "outputs": (None, self._d_outputs),
        }

    def _descend(self, gradients: dict[str, Gradient], rate: float) -> None:
        """Move against the gradient, which is used up, and whose mean over the streams is clipped."""
        squares = sum(float(np.vdot(gradient, gradient)) for _, gradient in gradients.values())
        norm = float(np.sqrt(squares)) / self.settings.streams
        rate *= min(1.0, self.settings.advanced.clip_norm / max(norm, 1e-30))
        for name, (rows, gradient) in gradients.items():
            gradient *= gradient.dtype.type(rate)
            table = getattr(self.network, name)
            if rows is None:
                table -= gradient
            else:
                table[rows] -= gradient

    def _follow(self) -> None:
        """Update the running average."""
        if not self._averages:
            return
        weight = np.float32(averaging_weight(self.steps, self.settings.advanced.averaging))
        if not weight:
            return
        for average, table in zip(self.average, self.network, strict=True):
            average += weight * (table - average)

    def predictor(self) -> RecurrentPredictor:
        """Return what the average of the parameters predicts."""
        return RecurrentPredictor(self.average, self.boundary)

    def parameters(self) -> State:
        """Return what the model is made of: the averages."""
        return self.average._asdict()

    def load_parameters(self, parameters: State) -> None:
        """Put them back, and let training go on from there."""
        put(self.average._asdict(), parameters)
        put(self.tables, parameters)

    def observe(self, nats: float) -> None:
        """Tell the schedule what the held-out text has after an epoch."""
        self.rate.observe(nats)
