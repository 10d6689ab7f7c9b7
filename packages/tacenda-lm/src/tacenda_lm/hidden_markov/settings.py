"""The settings of the hidden Markov language models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tacenda.settings import Settings, group, option
from tacenda_lm import options
from tacenda_lm.hidden_markov.word_classes import Method

__all__ = ["HMMSettings", "VLHMMAdvanced", "VLHMMSettings"]

_ON_DEVICES = "two_level", "flat"
_DEVICE = re.compile(r"cpu|cuda(:\d{1,3})?")


@dataclass(frozen=True, kw_only=True)
class VLHMMAdvanced(Settings):
    """Options of `VLHMM` that few need to change."""

    word_classes: Method = option(
        "exchange", 'how words are put into classes; the paper has Brown clusters, "brown"'
    )
    neural: bool = option(
        True,
        "whether networks that all states share turn embeddings of the states into distributions; if not, every "
        "transition between classes seen next to each other, and every emission, is a number of its own",
    )
    n_features: int = option(
        64, 'features of a state with transitions="features", f', at_least=1, at_most=1 << 16
    )
    evaluate_every: int = option(
        1,
        "epochs from one evaluation of the held-out text to the next; an evaluation keeps all states, and with much "
        "dropout of many states costs half as much as an epoch",
        at_least=1,
    )
    averaging: float = option(
        0.99,
        "share of the running average of the parameters that a step keeps; the model is the average",
        at_least=0,
        below=1,
    )
    clip_norm: float = option(
        5.0, "bound of the norm of all gradients together", at_least=1e-9, at_most=1e9
    )


@dataclass(frozen=True, kw_only=True)
class VLHMMSettings(Settings):
    """Settings of `VLHMM`."""

    n_classes: int = option(
        256,
        "word classes, M, of which ``</s>`` has one alone; with 1 every state emits every word; 128 in the paper",
        at_least=1,
        at_most=1 << 16,
    )
    states_per_class: int = option(
        64,
        "states of each class, k; the model has M k states; 256 in the paper",
        at_least=1,
        at_most=1 << 16,
    )
    width: int = options.width(64, "elements of an embedding, h; 256 in the paper")
    transitions: Literal["two_level", "flat", "features"] = option(
        "two_level",
        '"two_level": p(class | state) p(state | class, state); "flat": one softmax over all states, as in the paper; '
        '"features": the generalised softmax with a learned positive feature map',
    )
    state_dropout: float = options.dropout(
        0.5, "share of the states of every class left out of each step; 0.5 in the paper"
    )
    epochs: int = options.epochs(30)
    learning_rate: float = options.learning_rate(0.07, "Adam", "a fiftieth; 0.01 in the paper")
    patience: int = options.patience(5)
    batch_words: int = option(
        16384,
        "words of a step, about: sentences are kept whole, and an epoch of a small text has fifty steps all the same, "
        "if that leaves 256 words to each; 512 in the paper",
        at_least=1,
        at_most=1 << 24,
    )
    threads: int = options.threads()
    device: str = option(
        "cpu",
        'where training runs: "cpu", "cuda" or "cuda:1"; a model from a CUDA device differs by rounding; once fitted '
        "it runs on the CPU, and is saved without this option",
    )
    seed: int = options.seed()
    advanced: VLHMMAdvanced = group(VLHMMAdvanced)

    @property
    def n_states(self) -> int:
        """Z, states of all classes together."""
        return self.n_classes * self.states_per_class

    def check(self) -> None:
        """Refuse what is not offered for tables of numbers, and devices that no kernel is for."""
        neural = self.advanced.neural
        if not neural and self.transitions != "two_level":
            self.advanced.refuse("neural", 'true with transitions other than "two_level"')
        if not _DEVICE.fullmatch(self.device):
            self.refuse("device", '"cpu", "cuda" or "cuda:" and a number')
        if self.device != "cpu" and not (neural and self.transitions in _ON_DEVICES):
            self.refuse(
                "device", f'"cpu" unless neural with transitions {" or ".join(_ON_DEVICES)}'
            )

    def idle(self) -> Mapping[str, str]:
        """Say what other options leave unused."""
        found = {}
        if self.transitions != "features":
            found["advanced.n_features"] = 'without transitions="features"'
        if self.n_classes == 1:
            found["advanced.word_classes"] = "with a single class"
        if not self.advanced.neural:
            found["width"] = "without networks (neural=False), since there are no embeddings"
        return found


@dataclass(frozen=True, kw_only=True)
class HMMSettings(Settings):
    """Settings of `HMM`."""

    n_states: int = option(256, "hidden states, Z", at_least=1, at_most=1 << 12)
    epochs: int = options.epochs(30)
    smoothing: float = option(
        1.0,
        "what is added to the expected counts of every emission and transition of a state, spread evenly over them",
        at_least=0,
        below=1e9,
    )
    patience: int = options.patience(3)
    batch_sentences: int = option(
        256,
        "sentences of a batch; memory is this, times the longest sentence, times Z",
        at_least=1,
        at_most=1 << 20,
    )
    seed: int = options.seed()
