"""The settings of the caches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacenda.settings import Settings, group, option
from tacenda_lm.log_bilinear.hlbl import HLBLSettings

__all__ = ["NeuralCacheSettings", "UnigramCacheSettings"]


def _window(default: int) -> Any:
    return option(default, "words that are remembered", at_least=1, at_most=1 << 20)


@dataclass(frozen=True, kw_only=True)
class UnigramCacheSettings(Settings):
    """Settings of `UnigramCache`."""

    window: int = _window(2000)
    decay: float = option(
        0.99,
        "factor of a word's weight for every word since; with 1 all words of the window weigh the same",
        above=0,
        at_most=1,
    )
    prior_words: float = option(
        1.0,
        "weight of the words' frequencies in the training text, in words just read; all there is before the first",
        at_least=1e-6,
        at_most=1e9,
    )


@dataclass(frozen=True, kw_only=True)
class NeuralCacheSettings(Settings):
    """Settings of `NeuralCache`."""

    window: int = _window(2000)
    sharpness: float = option(
        5.0,
        "theta: a word whose context is as far from the present one as contexts are on average weighs exp(-theta) of "
        "one with the same context",
        at_least=0,
        at_most=1e3,
    )
    decay: float = option(
        1.0, "factor of a word's weight for every word since; the paper has 1", above=0, at_most=1
    )
    prior_words: float = option(
        0.5,
        "weight of the words' frequencies in the training text, in words read in the same context",
        at_least=1e-6,
        at_most=1e9,
    )
    hlbl: HLBLSettings = group(
        HLBLSettings,
        "options of the `HLBL` that ``fit`` fits, unless another model was given to ``over``",
    )
