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
        parts = []
        for own in _own(width, sentences):
            padded = np.pad(own, ((reach, reach), (0, 0)))
            shifted = [padded[k : k + len(own)] for k in range(window)]
            parts.append(np.concatenate(shifted, axis=1))
        return np.concatenate(parts)

    return Row(encode)


def neighbor_sum(width: int, decay: float = 0.5, reach: int = 5) -> Row:
    """The control: own vector beside a decayed sum of the neighbors' vectors, each unit length."""

    def encode(sentences: Words) -> np.ndarray:
        parts = []
        for own in _own(width, sentences):
            padded = np.pad(own, ((reach, reach), (0, 0)))
            around = np.zeros_like(own)
            for k in range(1, reach + 1):
                left = padded[reach - k : reach - k + len(own)]
                right = padded[reach + k : reach + k + len(own)]
                around += decay**k * (left + right)
            parts.append(np.concatenate([unit(own), unit(around)], axis=1))
        return np.concatenate(parts)

    return Row(encode)


def _own(width: int, sentences: Words) -> list[np.ndarray]:
    vectors = text.word2vec(width)
    vocabulary = text.corpus().vocabulary
    return [vectors[vocabulary.encode(words)] for words in sentences]


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


ROWS: dict[str, Row] = {
    "LDS own": lds("em", "own"),
    "LDS mean": lds("em", "mean"),
    "LDS weighted_mean": lds("em", "weighted_mean"),
    "LDS own_context": lds("em", "own_context"),
    "LDS own_past_future": lds("em", "own_past_future"),
    "LDS filtered": lds("em", "filtered"),
    "LDS h100 own_context": lds("h100", "own_context"),
    "LDS h100 mean": lds("h100", "mean"),
    "SSID alone mean": lds("ssid", "mean"),
    "SSID alone own_context": lds("ssid", "own_context"),
    "random start mean": lds("random", "mean"),
    "random start own_context": lds("random", "own_context"),
    "no whitening own_context": lds("unwhitened", "own_context"),
    "diagonal D own_context": lds("diagonal", "own_context"),
    "spherical D own_context": lds("spherical", "own_context"),
    "word2vec 100": static(100),
    "word2vec 100, 3-word window": static(100, 3),
    "word2vec 100, 5-word window": static(100, 5),
    "word2vec 200": static(200),
    "word2vec 200, 3-word window": static(200, 3),
    "word2vec 200, 5-word window": static(200, 5),
    "word2vec 100 + neighbor sum": neighbor_sum(100),
    "word2vec 200 + neighbor sum": neighbor_sum(200),
}
