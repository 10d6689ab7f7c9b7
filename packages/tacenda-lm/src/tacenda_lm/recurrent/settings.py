"""The settings of the recurrent language model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tacenda.settings import Settings, group, option
from tacenda_lm import options

__all__ = ["RecurrentLMAdvanced", "RecurrentLMSettings"]


@dataclass(frozen=True, kw_only=True)
class RecurrentLMAdvanced(Settings):
    """Options of `RecurrentLM` that few need to change."""

    rate_decay: float = option(
        0.5,
        "factor of the learning rate after each epoch, from the first one on that gains too little",
        above=0,
        below=1,
    )
    least_gain: float = option(
        0.003,
        "share of the held-out text's negative log-probability below which an epoch has gained too little",
        at_least=0,
        below=1,
    )
    input_dropout: float = options.dropout(
        0.0, "share of the elements of a word's input row left out in training; the paper has none"
    )
    averaging: float = option(
        0.995,
        "share of the running average of the parameters that a step keeps; the model is the average; 0, as in the "
        "paper, makes it the parameters themselves",
        at_least=0,
        below=1,
    )
    clip_norm: float = option(
        5.0, "bound of the norm of a step's gradient", at_least=1e-9, at_most=1e9
    )
    initial_scale: float = option(
        0.1, "standard deviation of the first parameters of a random start", at_least=0, at_most=100
    )
    state_spread: float = option(
        0.5,
        "standard deviation of what the logistic function is applied to, at a start from an LDS: small values keep it "
        "where it is nearly linear",
        at_least=1e-3,
        at_most=10,
    )


@dataclass(frozen=True, kw_only=True)
class RecurrentLMSettings(Settings):
    """Settings of `RecurrentLM`."""

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
        "until an epoch gains too little on the held-out text, then multiplied by ``rate_decay`` after every epoch "
        "until one gains too little again, which ends training; without held-out text constant for three fifths of the "
        "epochs, and then falling to a hundredth at most",
        at_least=0,
        below=1e6,
    )
    streams: int = option(
        20,
        "places of the text that are read side by side: more make a step cheaper for each word, and fewer steps an "
        "epoch, which learns less from it; the paper reads one",
        at_least=1,
        at_most=1 << 16,
    )
    window_words: int = option(
        20,
        "words of each stream in a step, over which the gradient is propagated back",
        at_least=1,
        at_most=1 << 16,
    )
    across_sentences: bool = options.across_sentences("")
    seed: int = options.seed()
    advanced: RecurrentLMAdvanced = group(RecurrentLMAdvanced)

    @property
    def patience(self) -> None:
        """None: the learning rate's schedule decides when training ends."""
        return None

    def idle(self) -> Mapping[str, str]:
        """Say what the start leaves unused."""
        if self.lds is None:
            return {"advanced.state_spread": "at a random start (lds=None)"}
        return {"advanced.initial_scale": "at a start from an LDS"}
