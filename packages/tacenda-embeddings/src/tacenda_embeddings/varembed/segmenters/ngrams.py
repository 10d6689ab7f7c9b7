"""Overlapping character n-grams as in fastText (Bojanowski et al. 2017), and the word itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy.typing as npt

from tacenda_embeddings.varembed.segmenters import (
    pack_names,
    shortened,
    unpack_names,
)

__all__ = ["NGramSegmenter"]

SIZES = (3, 4, 5, 6)
LEAST_TYPES = 3


class NGramSegmenter:
    """The n-grams of 3 to 6 letters, ends marked, that at least three words of the vocabulary have."""

    name: ClassVar[str] = "ngrams"
    skips_unknown: ClassVar[bool] = True

    def __init__(self, kept: Sequence[str]) -> None:
        self._kept = dict.fromkeys(kept)

    @classmethod
    def learn(cls, words: Sequence[str], n_morphemes: int) -> Self:
        """Learn which n-grams to keep; their number follows from the words, not from ``n_morphemes``."""
        counts: Counter[str] = Counter()
        for word in words:
            counts.update(
                dict.fromkeys(_ngrams(word), 1)
            )  # in the order of the word, not of hashes
        return cls([ngram for ngram, count in counts.items() if count >= LEAST_TYPES])

    def segment(self, word: str) -> tuple[str, ...]:
        """Return the known n-grams, each once, from left to right, shorter ones first."""
        return tuple(ngram for ngram in dict.fromkeys(_ngrams(word)) if ngram in self._kept)

    def segment_all(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the same for many."""
        return [self.segment(word) for word in words]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the n-grams that are kept."""
        return pack_names("segmenter.pieces", tuple(self._kept))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return a segmenter from what `arrays` gave. Raises ArtifactError."""
        return cls(unpack_names("segmenter.pieces", arrays))


def _ngrams(word: str) -> list[str]:
    """Return all n-grams of a word between its marked ends."""
    marked = f"<{shortened(word)}>" if word else ""
    return [marked[i : i + n] for i in range(len(marked)) for n in SIZES if i + n <= len(marked)]
