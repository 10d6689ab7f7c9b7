"""`Part`: arrays that any saved language model may have, with a fact in ``fitted_on`` that tells of them.

`WordCounts` are the counts of words that consist of several tokens; `PackedCounts` are these counts as arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from tacenda.arrays import Array, Arrays, Int64, Offsets, UInt8, at_least
from tacenda.artifact.folder import Artifact
from tacenda.forks import cached_property
from tacenda.offsets import pack_words, unpack_words


class Part(Arrays):
    """Base of the parts: ``part_name`` names the fact in ``fitted_on`` and begins the names of the arrays."""

    part_name: ClassVar[str]

    def put_into(self, artifact: Artifact) -> Artifact:
        """Return the artifact of a model with this part in it."""
        return replace(
            artifact,
            arrays={**artifact.arrays, **self.to_arrays(f"{self.part_name}.")},
            fitted_on={**artifact.fitted_on, self.part_name: self.describe()},
        )

    @classmethod
    def take_from(cls, artifact: Artifact) -> tuple[Self | None, Artifact]:
        """Return the part in the artifact of a model, if it has one, and the artifact without it.

        Raises ArtifactError if an array of the part is missing or not as declared, or its fact cannot be read.
        """
        name, about = cls.part_name, artifact.fitted_on.get(cls.part_name)
        if about is None:
            return None, artifact
        arrays = {k: a for k, a in artifact.arrays.items() if not k.startswith(f"{name}.")}
        facts = {k: fact for k, fact in artifact.fitted_on.items() if k != name}
        part = cls.from_arrays(artifact.arrays, f"{name}.", **cls.read_fact(about))
        return part, replace(artifact, arrays=arrays, fitted_on=facts)

    def describe(self) -> dict[str, Any]:
        """Return the fact about this part, for readers of the metadata."""
        return {}

    @classmethod
    def read_fact(cls, about: Any) -> dict[str, Any]:
        """Return the fields that are not arrays from the fact of `describe`. Raises ArtifactError."""
        return {}


class PackedCounts(Part):
    """The counts of words, as arrays."""

    part_name: ClassVar[str] = "word_counts"

    text: UInt8[Array, "bytes"]
    offsets: Offsets[Array, "words bytes"]
    counts: Int64[Array, "words", at_least(1)]

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> Self:
        """Pack the counts of words."""
        words = sorted(counts)
        text, offsets = pack_words(words)
        in_order = np.array([counts[word] for word in words], np.int64)
        return cls(text=text, offsets=offsets, counts=in_order)

    def describe(self) -> dict[str, Any]:
        """Return how many words there are."""
        return {"words": len(self.counts)}


class WordCounts(Mapping[str, int]):
    """The counts of words, unpacked at the first look-up, so that they do not slow down the loading of a model."""

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
