"""The LDS models that are compared: fitted once on the text by the code as it is, rounded as the command does, kept."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import tacenda
from benchmarks import kept
from benchmarks.embeddings import text
from tacenda_embeddings import LDS, LaggedCounts
from tacenda_embeddings.lds import N_LAGS

# Arguments of LDS that differ from its defaults.
VARIANTS: dict[str, dict[str, Any]] = {
    "em": {},
    "ssid": {"subspace_iterations": 0, "full_iterations": 0},
}


@cache
def counts() -> LaggedCounts:
    """Return lagged counts of the text, the same for every variant."""
    return LaggedCounts.from_corpus(text.corpus(), N_LAGS)


def settings(variant: str) -> dict[str, Any]:
    """Return all settings of a variant."""
    return LDS(**VARIANTS[variant]).settings.to_dict()


def folder(variant: str = "em", millions: float = 0) -> Path:
    """Return the folder of a variant's model, fitted now unless it is kept; of so many million tokens, 0: all."""

    def make(to: Path) -> None:
        on = text.corpus(millions) if millions else counts()
        LDS(**VARIANTS[variant]).fit(on).rounded("int8").save(to / "model")

    facts = {"settings": settings(variant), "text": text.corpus(millions).vocabulary.fingerprint}
    return kept.folder(f"lds-{variant}", facts, make)[0] / "model"


@lru_cache(maxsize=2)
def fitted(variant: str = "em", millions: float = 0) -> LDS:
    """Return the variant's model."""
    return tacenda.load(folder(variant, millions))
