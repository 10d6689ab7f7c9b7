"""`WordCounts`: the counts of words that consist of several tokens, as a language model saves them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Self

import numpy as np

from tacenda.arrays import Array, Arrays, Int64, Offsets, UInt8
from tacenda.artifact.folder import Artifact
from tacenda.forks import cached_property
from tacenda.vocabulary import pack_words, unpack_words
from tacenda_lm.artifact_parts import add_part, pop_part

_NAME = "word_counts"


class _Packed(Arrays):
    text: UInt8[Array, "bytes"]
    offsets: Offsets[Array, "words bytes"]
    counts: Int64[Array, "words"]


class WordCounts(Mapping[str, int]):
    """How often words were written; unpacked when one is looked up, so that a model opens as fast as without."""

    def __init__(self, packed: _Packed) -> None:
        self._packed = packed

    @cached_property
    def _by_word(self) -> dict[str, int]:
        words = unpack_words(self._packed.text, self._packed.offsets, _NAME)
        return dict(zip(words, self._packed.counts.tolist(), strict=True))

    def __getitem__(self, word: str) -> int:
        return self._by_word[word]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_word)

    def __len__(self) -> int:
        return len(self._packed.counts)

    @staticmethod
    def put_into(artifact: Artifact, counts: Mapping[str, int]) -> Artifact:
        """Return the artifact of a model with counts of words in it."""
        words = sorted(counts)
        text, offsets = pack_words(words)
        array = np.array([counts[word] for word in words], np.int64)
        packed = _Packed(text=text, offsets=offsets, counts=array)
        return add_part(artifact, _NAME, packed, {"words": len(words)})

    @classmethod
    def take_from(cls, artifact: Artifact) -> tuple[Self | None, Artifact]:
        """Return the counts in the artifact of a model, if there are any, and the artifact without them.

        Raises ArtifactError where they are damaged.
        """
        about, rest = pop_part(artifact, _NAME)
        if about is None:
            return None, artifact
        return cls(_Packed.from_arrays(artifact.arrays, f"{_NAME}.")), rest
