"""The settings of `RecurrentLM`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from tacenda.settings import option
from tacenda_lm import options


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
        "falling to a hundredth at most",
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
