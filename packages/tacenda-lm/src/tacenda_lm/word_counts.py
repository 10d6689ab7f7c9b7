"""`WordCounts`: the counts of words that consist of several tokens; `PackedCounts`: the same as a model saves them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from tacenda.arrays import Array, Int64, Offsets, UInt8
from tacenda.forks import cached_property
from tacenda.vocabulary import pack_words, unpack_words
from tacenda_lm.artifact_parts import Part


class PackedCounts(Part):
    """How often words were written, as arrays."""

    part_name: ClassVar[str] = "word_counts"

    text: UInt8[Array, "bytes"]
    offsets: Offsets[Array, "words bytes"]
    counts: Int64[Array, "words"]

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> Self:
        """Pack the counts of words."""
        words = sorted(counts)
        text, offsets = pack_words(words)
        array = np.array([counts[word] for word in words], np.int64)
        return cls(text=text, offsets=offsets, counts=array)

    def describe(self) -> dict[str, Any]:
        """Return how many words there are."""
        return {"words": len(self.counts)}


class WordCounts(Mapping[str, int]):
    """How often words were written; unpacked when one is looked up, so that a model opens as fast as without."""

    def __init__(self, packed: PackedCounts) -> None:
        self._packed = packed

    @cached_property
    def _by_word(self) -> dict[str, int]:
        words = unpack_words(self._packed.text, self._packed.offsets, self._packed.part_name)
        return dict(zip(words, self._packed.counts.tolist(), strict=True))

    def __getitem__(self, word: str) -> int:
        return self._by_word[word]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_word)

    def __len__(self) -> int:
        return len(self._packed.counts)
