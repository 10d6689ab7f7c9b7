"""Options that several models of this package have, each with one meaning and one range."""

from __future__ import annotations

from typing import Any

from tacenda.settings import option


def width(default: int, doc: str) -> Any:
    """Declare the elements of a vector, which ``doc`` describes."""
    return option(default, doc, at_least=1, at_most=1 << 14)


def dropout(default: float, doc: str) -> Any:
    """Declare a share that is left out of a step of training."""
    return option(default, doc, at_least=0, below=1)


def epochs(default: int) -> Any:
    """Declare how long to train at most."""
    return option(default, "passes over the text, at most", at_least=0)


def learning_rate(default: float, optimiser: str, floor: str) -> Any:
    """Declare how far a step goes; ``floor`` says where the rate ends."""
    doc = f"step size of {optimiser}: reached after a warm-up, it falls along half a cosine to {floor}"
    return option(default, doc, at_least=0, below=1e6)


def patience(default: int) -> Any:
    """Declare when to stop before the epochs are done."""
    doc = """evaluations without a better perplexity of the held-out text after which training ends early; there is one
    after every epoch unless said otherwise"""
    return option(default, doc, at_least=1)


def across_sentences() -> Any:
    """Declare whether a text is a stream."""
    doc = "whether the context reaches over the ends of sentences; false in the thesis"
    return option(True, doc)


def threads() -> Any:
    """Declare the threads of training."""
    doc = "threads of training; the result does not depend on their number"
    return option(1, doc, at_least=1, at_most=1024)


def seed() -> Any:
    """Declare the seed of a fit."""
    doc = "seed of everything random; one seed gives one model"
    return option(0, doc, at_least=0, at_most=2**63 - 1)
