"""The settings of the hidden Markov language models."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tacenda.settings import Settings, group, option
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
        64, 'f, features of a state with transitions="features"', at_least=1, at_most=1 << 16
    )
    evaluate_every: int = option(
        1,
        "epochs from one evaluation of the held-out text to the next; an evaluation keeps all states, and with much "
        "dropout of many states costs half as much as an epoch",
        at_least=1,
        at_most=10**6,
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
        "M, word classes, of which ``</s>`` has one alone; with 1 every state emits every word; 128 in the paper",
        at_least=1,
        at_most=1 << 16,
    )
    states_per_class: int = option(
        64, "k; the model has M k states; 256 in the paper", at_least=1, at_most=1 << 16
    )
    width: int = option(
        64, "h, elements of an embedding; 256 in the paper", at_least=1, at_most=1 << 14
    )
    transitions: Literal["two_level", "flat", "features"] = option(
        "two_level",
        '"two_level": p(class | state) p(state | class, state); "flat": one softmax over all states, as in the paper; '
        '"features": the generalised softmax with a learned positive feature map',
    )
    state_dropout: float = option(
        0.5,
        "share of the states of every class left out of each step; 0.5 in the paper",
        at_least=0,
        below=1,
    )
    epochs: int = option(30, "passes over the text, at most", at_least=0, at_most=10**6)
    learning_rate: float = option(
        0.07,
        "of Adam: reached after a warm-up, it falls along half a cosine to a fiftieth; 0.01 in the paper",
        at_least=0,
        below=1e6,
    )
    patience: int = option(
        5,
        "evaluations without a better perplexity of the held-out text after which training ends early",
        at_least=1,
        at_most=10**6,
    )
    batch_words: int = option(
        16384,
        "words of a step, about: sentences are kept whole, and an epoch of a small text has fifty steps all the same, "
        "if that leaves 256 words to each; 512 in the paper",
        at_least=1,
        at_most=1 << 24,
    )
    threads: int = option(
        1, "threads of training; the result does not depend on it", at_least=1, at_most=1024
    )
    device: str = option(
        "cpu",
        'where training runs: "cpu", "cuda" or "cuda:1"; a model from a CUDA device differs by rounding; once fitted '
        "it runs on the CPU, and is saved without this option",
    )
    seed: int = option(
        0, "of everything random; one seed gives one model", at_least=0, at_most=2**63 - 1
    )
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


@dataclass(frozen=True, kw_only=True)
class HMMSettings(Settings):
    """Settings of `HMM`."""

    n_states: int = option(256, "Z", at_least=1, at_most=1 << 12)
    epochs: int = option(30, "passes over the text, at most", at_least=0, at_most=10**6)
    smoothing: float = option(
        1.0,
        "what is added to the expected counts of every emission and transition of a state, spread evenly over them",
        at_least=0,
        below=1e9,
    )
    patience: int = option(
        3,
        "epochs without a better perplexity of the held-out text after which training ends early",
        at_least=1,
        at_most=10**6,
    )
    batch_sentences: int = option(
        256,
        "sentences of a batch; memory is this, times the longest sentence, times Z",
        at_least=1,
        at_most=1 << 20,
    )
    seed: int = option(
        0, "of everything random; one seed gives one model", at_least=0, at_most=2**63 - 1
    )
