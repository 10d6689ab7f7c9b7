"""Settings of the n-gram models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from tacenda.artifact import ModelSettings

Smoothing = Literal["interpolated", "backoff", "good_turing"]

MAX_ORDER = 16


@dataclass(frozen=True)
class KneserNeyConfig(ModelSettings):
    """Settings of `KneserNey`.

    Attributes
    ----------
    order
        N, the words an n-gram spans: N - 1 of context and the predicted one; 1 to 16.
    smoothing
        ``"interpolated"`` modified Kneser-Ney (Chen and Goodman 1998, as lmplz estimates it);
        ``"backoff"``, the same discounts, a lower order asked only where a higher one has not seen the
        word; ``"good_turing"``, Katz's back-off with Good-Turing discounts (Katz 1987) on raw counts.
    min_count
        n-grams of three words or more that occur less often are not listed, and predicted from
        their last words; 2 is SRILM's default, and what the back-off forms need to be any good.
    cutoff
        k of Katz: counts above it are trusted as they are; for ``good_turing`` only.
    """

    order: int = 5
    smoothing: Smoothing = "interpolated"
    min_count: int = 1
    cutoff: int = 7

    def __post_init__(self) -> None:
        """Refuse settings out of range: one sentence, naming the setting."""
        self._whole("order", 1, MAX_ORDER)
        self._whole("cutoff", 1, 100)
        self._whole("min_count", 1, 10**9)
        self._one_of("smoothing", get_args(Smoothing))
