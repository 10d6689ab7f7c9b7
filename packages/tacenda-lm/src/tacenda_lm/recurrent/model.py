"""`RecurrentLM`: a simple recurrent network, started at random or from an LDS (Belanger and Kakade 2015, section 6).

It is trained on windows of parallel streams, with a learning rate that falls, and is the average of many steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tacenda.array_ops import merge_rows
from tacenda.corpus import Corpus
from tacenda.errors import ConfigurationError
from tacenda.fitting import Callback, FitLoop, FitRun, Schedule, StepResult
from tacenda.fitting.settings import Position
from tacenda.settings import configured_by, option
from tacenda_lm import options
from tacenda_lm.recurrent.lds_start import LinearSystem
from tacenda_lm.recurrent.network import (
    Network,
    RecurrentPredictor,
    SavedNetwork,
    score_targets,
    step,
)
from tacenda_lm.sequences import Ids
from tacenda_lm.stream_model import StreamModel
from tacenda_lm.streams import RingWindows, Stream
from tacenda_lm.training import (
    Gradient,
    StreamTrainer,
    averaging_weight,
    compute_perplexity,
    draw_dropout_mask,
    smooth_counts,
    train,
)

_INITIAL_SCALE = 0.1  # standard deviation of the first parameters of a random start
_MAX_GRADIENT_NORM = 5.0  # of a step
_RATE_DECAY = 0.5  # factor of the rate after each epoch, once it falls
_MIN_GAIN = 0.003  # share of the held-out nats below which an epoch has gained too little
# without held-out text
_CONSTANT_SHARE = 0.6  # of the epochs, before the rate falls
_MIN_RATE_SHARE = 0.01  # of the rate that is left at the end; with a lower rate nothing is learned


@dataclass(frozen=True, kw_only=True)
class RecurrentLMSettings(options.SeededSettings):
    """Settings of `RecurrentLM`."""

    retired: ClassVar[Mapping[str, Any]] = MappingProxyType({"advanced": ...})

    width: int = options.width(300, "elements of the state; 300 in the paper")
    lds: str | None = option(
        None,
        "folder of a saved LDS, or name of an installed one, that training starts from: its number of states must be "
        "``width``; None starts at random",
    )
    dropout: float = options.dropout(
        0.0, "share of the elements of the state that the output does not see in training"
    )
    epochs: int = options.epochs(40)
    learning_rate: float = option(
        1.0,
        "step size of gradient descent, on the gradient summed over a window and averaged over the streams; constant "
        "until an epoch gains too little on the held-out text, then halved after every epoch until one gains too "
        "little again, which ends training; without held-out text constant for three fifths of the epochs, and then "
        "falling by half after each, or more slowly if that is enough to end at a hundredth",
        at_least=0,
        below=1e6,
    )
    averaging: float = option(
        0.995,
        "share of the running average of the parameters that a step keeps; the model is the average; 0, as in the "
        "paper, makes it the parameters themselves",
        at_least=0,
        below=1,
    )
    streams: int = options.count(
        20,
        "places of the text that are read side by side: with more, each word is cheaper, but an epoch has fewer steps "
        "and learns less; the paper reads one",
        1 << 16,
    )
    window_words: int = options.count(
        20, "words of each stream in a step, over which the gradient is propagated back", 1 << 16
    )
    across_sentences: bool = options.across_sentences("")

    @property
    def patience(self) -> None:
        """None: the learning rate's schedule decides when training ends."""
        return None


class RecurrentLM(StreamModel):
    """A recurrent neural network language model.

        h_t = sigma(A h_{t-1} + B w_{t-1} + a) - 1/2,    p(w_t) = SoftMax(C h_t + b)

    (Belanger and Kakade 2015, equations 18 and 19, after Mikolov 2012; they have neither a and b nor the 1/2.)
    Training is gradient descent with back-propagation through the windows of parallel streams. It starts from small
    random numbers, or from the tensors A - K C A, K and C of an `LDS` that was fitted to the same text (section
    7.4); b starts at the logarithms of the words' frequencies either way.

    Examples
    --------
    >>> lm = RecurrentLM(lds="my-lds", width=200).fit(Path("train.txt"), valid=Path("valid.txt"))
    >>> lm.perplexity(Path("test.txt"), context="stream")
    """

    name: ClassVar[str] = "recurrent"
    settings: RecurrentLMSettings
    roundable: ClassVar[tuple[str, ...]] = ("inputs", "outputs")
    learned: RecurrentPredictor | None

    @configured_by(RecurrentLMSettings)
    def __init__(self, settings: RecurrentLMSettings) -> None:
        super().__init__(settings)

    @property
    def network(self) -> Network:
        """The learned network. Raises NotFittedError."""
        return self._learned(self.learned).network

    def _fit(self, corpus: Corpus, valid: Corpus | None, run: FitRun) -> None:
        settings = self.settings
        text = Stream.of_corpus(corpus, across=True)
        held_out = None if valid is None else Stream.of_corpus(valid, settings.across_sentences)
        network, lds = self._start_network(corpus, text.ids[1:])
        rate = ReduceOnPlateau(settings.learning_rate, _RATE_DECAY, _MIN_GAIN)
        schedule: Schedule = rate
        if valid is None:
            constant = max(1, round(_CONSTANT_SHARE * settings.epochs))
            slowest = _MIN_RATE_SHARE ** (1 / max(1, settings.epochs - constant))
            factor = max(_RATE_DECAY, slowest)
            schedule = FallingAfter(settings.learning_rate, factor, constant)
        trainer = RecurrentTrainer(settings, network, text, held_out, rate)
        source = RingWindows(trainer.ring, settings.streams, settings.window_words, settings.seed)
        run = replace(run, callbacks=(*run.callbacks, WhenSettled()))
        # a resumed fit may have more epochs, and may find the same LDS in another folder
        identity = {"start": lds}
        history = train(trainer, source, run, schedule, identity, may_change=("lds", "epochs"))
        self._vocabulary, self.learned = corpus.vocabulary, trainer.predictor()
        self.fitted_on = {"training": history.as_dict()}

    def _start_network(self, corpus: Corpus, text: Ids) -> tuple[Network, str | None]:
        """Return the network that training starts from, and the digest of the LDS it was made from, if any.

        Raises ConfigurationError, ArtifactError.
        """
        settings, width = self.settings, self.settings.width
        frequencies = smooth_counts(corpus.type_counts)
        if settings.lds is None:
            rng = np.random.default_rng([settings.seed, 1])
            types, scale = len(frequencies), np.float32(_INITIAL_SCALE)
            shapes = (width, width), (types, width), (types, width)
            A, B, C = (rng.standard_normal(shape, np.float32) * scale for shape in shapes)
            outputs = np.column_stack([C, np.log(frequencies).astype(np.float32)])
            return Network(A, B, np.zeros((1, width), np.float32), outputs), None
        system = LinearSystem.load(settings.lds, corpus.vocabulary)
        states = len(system.transitions)
        if states != width:
            raise ConfigurationError(
                f"RecurrentLM: width is {width}, and the LDS in {settings.lds} has {states} states: give "
                f"width={states}, or fit an LDS with n_states={width}"
            )
        return system.start_network(text, frequencies), system.source

    def _read_arrays(self, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        saved = SavedNetwork.from_arrays(arrays, **self._sizes())
        outputs = np.hstack([saved.outputs, saved.biases])
        network = Network(saved.transitions, saved.inputs, saved.offsets, outputs)
        self.learned = RecurrentPredictor.of(network, self.vocabulary.boundary_id)


# -- training ----------------------------------------------------------------------------------------


@dataclass
class FallingAfter(Schedule):
    """Constant for ``epochs`` epochs, then multiplied by ``factor`` after each: for a fit without held-out text."""

    factor: float = _RATE_DECAY
    epochs: int = 10

    def at(self, position: Position) -> float:
        return self.rate * self.factor ** max(0, position.epoch + 1 - self.epochs)


@dataclass
class ReduceOnPlateau(Schedule):
    """Constant until an epoch gains too little on the held-out text, then multiplied by ``factor`` after each epoch.

    The schedule of Mikolov 2012 (section 3.3.2), which the LDS paper follows (section 7.4). When an epoch gains too
    little again, training is `settled`. An epoch gains too little if the negative log-probability is above the share
    1 - ``least_gain`` of its lowest value so far.
    """

    factor: float = _RATE_DECAY
    least_gain: float = _MIN_GAIN

    def __post_init__(self) -> None:
        super().__post_init__()
        # lowest nats per token so far (before the first evaluation a number above all), the share of the rate, whether
        # it falls, whether training is over
        self.progress = np.array([1e9, 1.0, 0.0, 0.0])

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


class WhenSettled(Callback):
    """End a fit when the schedule of its `RecurrentTrainer` says that training is over."""

    def on_epoch_end(self, run: FitLoop) -> bool:
        return isinstance(run.model, RecurrentTrainer) and run.model.rate.settled


class RecurrentTrainer(StreamTrainer):
    """A network under training, changed in place, and the running average of its parameters, which is the model.

    A step of plain gradient descent that is long enough for rare words is too long for frequent ones: their rows follow
    the last few hundred words of the text, and predict other text badly. The average over many steps does not.

    Gradients do not go back over the beginning of a window. `state` holds the states of the streams and the progress of
    the schedule, in addition to the parameters.
    """

    def __init__(
        self,
        settings: RecurrentLMSettings,
        network: Network,
        text: Stream,
        valid: Stream | None,
        rate: ReduceOnPlateau,
    ) -> None:
        self.network, self.rate = network, rate
        self.ring = text.ids[1:]
        self._h = np.zeros((settings.streams, network.width), network.transitions.dtype)
        self._d_outputs = np.empty_like(network.outputs)
        self.average = Network(*map(np.array, network)) if settings.averaging else network
        rest: dict[str, Any] = {"h": self._h, "progress": rate.progress}
        if settings.averaging:
            rest["present"] = network._asdict()
        super().__init__(settings, self.average._asdict(), text, valid, rest=rest)

    def step(self, batch: tuple[npt.NDArray[np.int64], bool], learning_rate: float) -> StepResult:
        """Take one step of gradient descent on a window of every stream."""
        places, begins = batch
        if begins:
            self._h[...] = 0
        with np.errstate(over="ignore", invalid="ignore"):  # a fit that diverges shows in its loss
            loss, gradients = self.gradients(places, self.draw())
            self._descend(gradients, learning_rate / self.settings.streams)
        averaging = self.settings.averaging
        weight = np.float32(averaging_weight(self.steps, averaging) if averaging else 0)
        if weight:
            for average, table in zip(self.average, self.network, strict=True):
                average += weight * (table - average)
        return StepResult(loss, places.size)

    def gradients(
        self, places: npt.NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[float, dict[str, Gradient]]:
        """Return the summed loss at the places of a window (steps, streams), and its gradients by name.

        The states of the streams become those at the end of the window.
        """
        p, settings = self.network, self.settings
        words = self.ring[places]
        targets = self.ring[(places + 1) % len(self.ring)].ravel()
        restarts = words == self.boundary  # where a sentence begins without context
        if settings.across_sentences:
            restarts[:] = False
        read = p.inputs[words]
        read += p.offsets
        before, states = np.empty_like(read), read  # h_{t-1} and h_t
        for t in range(len(words)):
            before[t] = self._h
            before[t, restarts[t]] = 0
            self._h[...] = states[t] = step(p, before[t], read[t])

        mask = draw_dropout_mask(states.shape, settings.dropout, rng) if settings.dropout else None
        seen = states if mask is None else states * mask
        log_probs, d_seen = score_targets(p, seen.reshape(-1, p.width), targets, self._d_outputs)
        d_z = d_seen.reshape(states.shape)
        if mask is not None:
            d_z *= mask
        for t in reversed(range(len(d_z))):  # from the gradient of h_t to that of A h + B w + a
            if t + 1 < len(d_z):
                carried = d_z[t + 1] @ p.transitions
                carried[restarts[t + 1]] = 0
                d_z[t] += carried
            # the derivative of h = sigma(z) - 1/2 is (h + 1/2)(1/2 - h)
            d_z[t] *= 0.25 - states[t] ** 2
        flat = d_z.reshape(-1, p.width)
        rows, (d_inputs,) = merge_rows(words.ravel(), flat)
        return -float(log_probs.sum(dtype=np.float64)), {
            "transitions": (None, flat.T @ before.reshape(-1, p.width)),
            "inputs": (rows, d_inputs),
            "offsets": (None, flat.sum(axis=0)[None]),
            "outputs": (None, self._d_outputs),
        }

    def _descend(self, gradients: dict[str, Gradient], rate: float) -> None:
        """Move the parameters against the gradient, whose norm per stream is clipped; its arrays are overwritten."""
        # one factor for all tables, so that the direction of the gradient stays (Pascanu et al. 2013)
        squares = sum(float(np.vdot(gradient, gradient)) for _, gradient in gradients.values())
        norm = float(np.sqrt(squares)) / self.settings.streams
        rate *= min(1.0, _MAX_GRADIENT_NORM / max(norm, 1e-30))
        for name, (rows, gradient) in gradients.items():
            gradient *= gradient.dtype.type(rate)
            table = getattr(self.network, name)
            if rows is None:
                table -= gradient
            else:
                table[rows] -= gradient

    def predictor(self) -> RecurrentPredictor:
        return RecurrentPredictor.of(self.average, self.boundary)

    def load_parameters(self, saved: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore averages, and let training continue from them."""
        super().load_parameters(saved)
        for table, average in zip(self.network, self.average, strict=True):
            table[...] = average

    def evaluate(self) -> float | None:
        """Return the perplexity of the held-out text, after the schedule has observed it."""
        if self.valid is None:
            return None
        nats = -float(self.predictor().score(self.valid).mean())
        self.rate.observe(nats)
        return compute_perplexity(nats)
