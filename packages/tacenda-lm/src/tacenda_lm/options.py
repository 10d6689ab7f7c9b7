"""Options that several models of this package have, each with one meaning and one range; and torch, an extra."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from tacenda.arrays import up_to
from tacenda.errors import PluginUnavailableError
from tacenda.settings import Settings, option

#: Of the weights that make a log-probability. Training stays far below; larger ones leave probabilities of 0 and 1.
weights = up_to(1e4)


def require_torch(what: str) -> None:
    """Raise PluginUnavailableError, which says how to install it, where torch is missing; ``what`` needs it."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise PluginUnavailableError(
            f"{what} needs torch ({error}), using a fitted one does not: install it with "
            'pip install "tacenda-lm[torch]"'
        ) from error


def width(default: int, doc: str) -> Any:
    """Declare the elements of a vector, which ``doc`` describes."""
    return option(default, doc, at_least=1, at_most=1 << 14)


def count(default: int, doc: str, at_most: int = 1 << 16) -> Any:
    """Declare how many of something there are, at least one."""
    return option(default, doc, at_least=1, at_most=at_most)


def dropout(default: float, doc: str) -> Any:
    """Declare a share that is left out of a step of training."""
    return option(default, doc, at_least=0, below=1)


def epochs(default: int) -> Any:
    """Declare how long to train at most."""
    return option(default, "maximum passes over the text", at_least=0)


class Plan(NamedTuple):
    """How many epochs a text lasts: one, and one more for every ``tokens`` of it that a type has on average.

    A text with few tokens for each of its words is soon learned by heart; a rate that falls over more epochs than the
    text lasts is still high when that happens.
    """

    tokens: int
    most: int

    def option(self, where: str = "") -> Any:
        """Declare the epochs, to be given or planned; ``where`` says when they are planned, if not always."""
        doc = f"""maximum passes over the text; None chooses the number by the text{where}: one, plus one for every
        {self.tokens} tokens per type, up to {self.most}"""
        return option(None, doc, at_least=0)


def learning_rate(default: float, optimizer: str, floor: str) -> Any:
    """Declare how far a step goes; ``floor`` says where the rate ends."""
    doc = f"step size of {optimizer}: reached after a warm-up, it falls along half a cosine to {floor}"
    return option(default, doc, at_least=0, below=1e6)


def patience(default: int) -> Any:
    """Declare when to stop before the epochs are done."""
    doc = """evaluations in a row without a better perplexity of the held-out text before training ends early; by
    default there is one evaluation after every epoch"""
    return option(default, doc, at_least=1)


def across_sentences(
    remark: str = "; false in the thesis", what: str = "the context reaches"
) -> Any:
    """Declare whether a text is a stream; ``what`` begins the explanation and the remark ends it."""
    return option(True, f"whether {what} over the ends of sentences{remark}")


def threads() -> Any:
    """Declare the threads of training."""
    doc = "threads of training; the result does not depend on their number"
    return option(1, doc, at_least=1, at_most=1024)


@dataclass(frozen=True, kw_only=True)
class SeededSettings(Settings):
    """Options of models whose fits draw random numbers."""

    seed: int = option(
        0,
        "seed of all random numbers; the same seed gives the same model",
        at_least=0,
        at_most=2**63 - 1,
        last=True,
    )
