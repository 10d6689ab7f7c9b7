"""Settings of the hidden Markov language models."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from tacenda.artifact import ModelSettings
from tacenda_lm.hidden_markov.classes import Method

__all__ = ["HMMConfig", "Settings", "Transitions", "VLHMMConfig"]

Transitions = Literal["two_level", "flat", "features"]
_ON_DEVICES = "two_level", "flat"
_DEVICE = re.compile(r"cpu|cuda(:\d{1,3})?")


@dataclass(frozen=True)
class Settings(ModelSettings):
    """What the settings of both models share."""

    seed: int = 0


@dataclass(frozen=True)
class VLHMMConfig(Settings):
    """Settings of `VLHMM`. The paper's largest model has ``n_classes=128, states_per_class=256, width=256,
    transitions="flat", state_dropout=0.5, batch=512, learning_rate=0.01`` and Brown clusters.

    Attributes
    ----------
    n_classes
        M, word classes (``</s>`` alone in one); 1 leaves the emissions dense: every state emits every word.
    states_per_class
        k; the model has Z = M k states.
    classes
        How words are put into classes, ``"exchange"`` or ``"predictive"``.
    transitions
        ``"two_level"``, p(class | state) p(state | class, state); ``"flat"``, one softmax over all
        states, as in the paper; ``"features"``, the generalised softmax with a learned positive feature map.
    features
        f of ``"features"``.
    neural
        Whether embeddings of the states are turned into distributions by networks they share. If not,
        every transition between classes seen next to each other, and every emission, is a number of its own.
    width
        h, elements of an embedding.
    state_dropout
        Share of the states of every class left out of each step.
    epochs
        Passes over the text at most.
    learning_rate
        Of Adam, after a warm-up falling along half a cosine to a fiftieth.
    evaluate_every
        Epochs from one evaluation of the held-out text to the next. An evaluation keeps all states:
        with much dropout of many states it costs half as much as an epoch.
    patience
        Evaluations without a better perplexity of the held-out text before training ends early.
    batch
        Words of a step, about: sentences are kept whole, and an epoch of a small text has fifty steps all
        the same, if that leaves 256 words to each.
    averaging
        Share of the running average of the parameters that a step keeps; the model is the average.
    clip
        Bound of the norm of all gradients together.
    threads
        Of training; the result does not depend on it.
    device
        Where training runs, "cpu", "cuda" or "cuda:1"; of a CUDA device the model differs in rounding. What was
        fitted runs on the CPU, and is saved without it.
    seed
        Of everything random; one seed gives one model.
    """

    n_classes: int = 256
    states_per_class: int = 64
    classes: Method = "exchange"
    transitions: Transitions = "two_level"
    features: int = 64
    neural: bool = True
    width: int = 64
    state_dropout: float = 0.5
    epochs: int = 30
    learning_rate: float = 0.07
    evaluate_every: int = 1
    patience: int = 5
    batch: int = 16384
    averaging: float = 0.99
    clip: float = 5.0
    threads: int = 1
    device: str = "cpu"
    seed: int = 0

    @property
    def n_states(self) -> int:
        """Z."""
        return self.n_classes * self.states_per_class

    def __post_init__(self) -> None:
        """Refuse settings out of range: one sentence, naming the setting."""
        for name, low, high in (
            ("n_classes", 1, 1 << 16),
            ("states_per_class", 1, 1 << 16),
            ("features", 1, 1 << 16),
            ("width", 1, 1 << 14),
            ("epochs", 0, 10**6),
            ("evaluate_every", 1, 10**6),
            ("patience", 1, 10**6),
            ("batch", 1, 1 << 24),
            ("threads", 1, 1024),
            ("seed", 0, 2**63 - 1),
        ):
            self._whole(name, low, high)
        self._real("state_dropout", 0.0, 1.0)
        self._real("learning_rate", 0.0, 1e6)
        self._real("averaging", 0.0, 1.0)
        self._real("clip", 1e-9, 1e9)
        self._one_of("classes", get_args(Method))
        self._one_of("transitions", get_args(Transitions))
        self._flag("neural")
        if not self.neural and self.transitions != "two_level":
            self._refuse("neural", 'true with transitions other than "two_level"')
        if not isinstance(self.device, str) or not _DEVICE.fullmatch(self.device):
            self._refuse("device", '"cpu", "cuda" or "cuda:" and a number')
        if self.device != "cpu" and not (self.neural and self.transitions in _ON_DEVICES):
            self._refuse(
                "device", f'"cpu" unless neural with transitions {" or ".join(_ON_DEVICES)}'
            )


@dataclass(frozen=True)
class HMMConfig(Settings):
    """Settings of `HMM`, the baseline of some hundred states trained by EM.

    Attributes
    ----------
    n_states
        Z.
    epochs
        Passes over the text at most.
    smoothing
        Counts added to every expected count of an emission and a transition, in units of a uniform
        distribution: the pseudo-counts of a row sum to this.
    patience
        Epochs without a better perplexity of the held-out text before training ends early.
    batch
        Sentences of a batch; memory is batch x longest sentence x Z.
    seed
        Of everything random; one seed gives one model.
    """

    n_states: int = 256
    epochs: int = 30
    smoothing: float = 1.0
    patience: int = 3
    batch: int = 256

    def __post_init__(self) -> None:
        """Refuse settings out of range: one sentence, naming the setting."""
        self._whole("n_states", 1, 1 << 12)
        self._whole("epochs", 0, 10**6)
        self._whole("patience", 1, 10**6)
        self._whole("batch", 1, 1 << 20)
        self._whole("seed", 0, 2**63 - 1)
        self._real("smoothing", 0.0, 1e9)
