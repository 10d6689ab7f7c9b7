"""`KneserNeySettings`: the options of the n-gram models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tacenda.settings import Settings, option

__all__ = ["MAX_ORDER", "KneserNeySettings", "Smoothing"]

Smoothing = Literal["interpolated", "backoff", "good_turing"]

MAX_ORDER = 16


@dataclass(frozen=True, kw_only=True)
class KneserNeySettings(Settings):
    """Options of `KneserNey`."""

    order: int = option(
        5,
        "words that an n-gram spans: order - 1 words of context and the predicted one",
        at_least=1,
        at_most=MAX_ORDER,
    )
    smoothing: Smoothing = option(
        "interpolated",
        """``"interpolated"`` is modified Kneser-Ney (Chen and Goodman 1998), estimated as lmplz does;
        ``"backoff"`` has the same discounts, but asks a lower order only where a higher one has not seen the
        word; ``"good_turing"`` is Katz's back-off with Good-Turing discounts (Katz 1987) on raw counts""",
    )
    min_count: int = option(
        1,
        """n-grams of three or more words that occur less often are not listed, and are predicted from their
        last words; 2 is SRILM's default, and the two back-off forms need it""",
        at_least=1,
    )
    cutoff: int = option(
        7,
        """the k of Katz: higher counts are trusted as they are; for ``smoothing="good_turing"``""",
        at_least=1,
        at_most=100,
    )

    def idle(self) -> Mapping[str, str]:
        """Only Good-Turing discounts have a cutoff."""
        return (
            {} if self.smoothing == "good_turing" else {"cutoff": "without smoothing='good_turing'"}
        )
