"""Token features of the local classifier study: a row maps sentences to (tokens, width) arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.embeddings import models, text

Words = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Row:
    """`encode(sentences)` gives the features; `lds` names the model behind them, if any."""

    encode: Callable[[Words], np.ndarray]
    lds: str | None = None


def lds(variant: str, output: str) -> Row:
    def encode(sentences: Words) -> np.ndarray:
        model = models.fitted(variant)
        return np.concatenate(model.transform(sentences, output=output))

    return Row(encode, variant)


def static(width: int, window: int = 1) -> Row:
    """word2vec vectors of the token and its neighbors side by side, zeros outside the sentence."""
    reach = window // 2

    def encode(sentences: Words) -> np.ndarray:
        vectors, vocabulary, parts = text.word2vec(width), text.corpus().vocabulary, []
        for own in (vectors[vocabulary.encode(words)] for words in sentences):
            padded = np.pad(own, ((reach, reach), (0, 0)))
            shifted = [padded[k : k + len(own)] for k in range(window)]
            parts.append(np.concatenate(shifted, axis=1))
        return np.concatenate(parts)

    return Row(encode)


ROWS: dict[str, Row] = {
    "LDS own": lds("em", "own"),
    "LDS mean": lds("em", "mean"),
    "LDS weighted_mean": lds("em", "weighted_mean"),
    "LDS own_context": lds("em", "own_context"),
    "LDS own_past_future": lds("em", "own_past_future"),
    "LDS filtered": lds("em", "filtered"),
    "SSID alone mean": lds("ssid", "mean"),
    "SSID alone own_context": lds("ssid", "own_context"),
    "word2vec 100": static(100),
    "word2vec 100, 3-word window": static(100, 3),
    "word2vec 200": static(200),
    "word2vec 200, 3-word window": static(200, 3),
}
