"""Options that several models of this package share, each with one meaning and one range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from tacenda.arrays import up_to
from tacenda.settings import Settings, option

#: Bound on weights that a log-probability is computed from: training stays far below it, and with larger ones
#: probabilities would be 0 or 1.
BOUNDED_WEIGHTS = up_to(1e4)


def width(default: int, doc: str) -> Any:
    """Declare the number of elements of a vector, which ``doc`` describes."""
    return option(default, doc, at_least=1, at_most=1 << 14)


def count(default: int, doc: str, at_most: int = 1 << 16) -> Any:
    """Declare a number of things, at least one."""
    return option(default, doc, at_least=1, at_most=at_most)


def dropout(default: float, doc: str) -> Any:
    """Declare the share of something that each step of training leaves out."""
    return option(default, doc, at_least=0, below=1)


def epochs(default: int) -> Any:
    """Declare the maximum number of epochs."""
    return option(default, "maximum passes over the text", at_least=0)


class Plan(NamedTuple):
    """The rule that chooses the number of epochs by the tokens per type of a text.

    A text with few tokens per type is soon memorized. The learning rate falls over all epochs, so with too many of them
    it would still be high when that happens.
    """

    tokens_per_type_per_epoch: int
    max_epochs: int

    def epochs(self, n_tokens: int, n_types: int) -> int:
        """Choose the number of epochs for a text."""
        more = n_tokens // (self.tokens_per_type_per_epoch * n_types)
        return min(1 + more, self.max_epochs)

    def option(self, where: str = "") -> Any:
        """Declare the epochs, which this rule chooses where they are None; ``where`` restricts that to some texts."""
        doc = f"""maximum passes over the text; None chooses the number by the text{where}: one, plus one for every
        {self.tokens_per_type_per_epoch} tokens per type, up to {self.max_epochs}"""
        return option(None, doc, at_least=0)


def learning_rate(default: float, optimizer: str, floor: str) -> Any:
    """Declare the step size of an optimizer; ``floor`` says what share of it is left at the end."""
    doc = f"step size of {optimizer}: reached after a warm-up, it falls along half a cosine to {floor}"
    return option(default, doc, at_least=0, below=1e6)


def patience(default: int) -> Any:
    """Declare how many evaluations without improvement end training early."""
    doc = """evaluations in a row without a better perplexity of the held-out text before training ends early; by
    default there is one evaluation after every epoch"""
    return option(default, doc, at_least=1)


def across_sentences(
    remark: str = "; false in the thesis", what: str = "the context reaches"
) -> Any:
    """Declare whether context crosses the ends of sentences; ``what`` begins the explanation, ``remark`` ends it."""
    return option(True, f"whether {what} over the ends of sentences{remark}")


def threads() -> Any:
    """Declare the number of threads of training."""
    doc = "threads of training; the result does not depend on their number"
    return option(1, doc, at_least=1, at_most=1024)


@dataclass(frozen=True, kw_only=True)
class SeededSettings(Settings):
    """Options of models whose training draws random numbers."""

    seed: int = option(
        0,
        "seed of all random numbers; the same seed gives the same model",
        at_least=0,
        at_most=2**63 - 1,
        last=True,
    )
