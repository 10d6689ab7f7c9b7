"""How words are cut into morphemes: one interface, three ways, and lists of strings as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.errors import ArtifactError, ConfigurationError
from tacenda.offsets import checked_offsets
from tacenda.vocabulary import pack_words, unpack_words

__all__ = [
    "MAX_LETTERS",
    "Segmenter",
    "learn_segmenter",
    "pack_names",
    "segmenter_from_arrays",
    "shortened",
    "unpack_names",
]

#: A longer word is cut in the middle before it is segmented, so that time stays linear in the text.
MAX_LETTERS = 100


class Segmenter(Protocol):
    """Cuts words into pieces; what it knows is fixed once it is made."""

    #: As in the settings of a model.
    name: ClassVar[str]
    #: Whether a piece that no word of the vocabulary has says nothing, because n-grams overlap and others
    #: speak for it; otherwise it stands for a morpheme never seen.
    skips_unknown: ClassVar[bool]

    @classmethod
    def learn(cls, words: Sequence[str], n_morphemes: int) -> Self:
        """Learn from distinct words, none empty, each counted once."""
        ...

    def segment(self, word: str) -> tuple[str, ...]:
        """Return the pieces of any string; none of the empty one."""
        ...

    def segment_all(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the pieces of the words it learned from, which may be better known than by `segment`."""
        ...

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what it knows, by names that begin with ``segmenter.``."""
        ...

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return a segmenter from what `arrays` gave. Raises ArtifactError."""
        ...


_SEGMENTERS = {
    "unigram": ("unigram", "UnigramSegmenter"),
    "morfessor": ("morfessor", "MorfessorSegmenter"),
    "ngrams": ("ngrams", "NGramSegmenter"),
}


def _class(name: str) -> type[Segmenter]:
    """Import the class of a name, and what it needs, only now."""
    module, attribute = _SEGMENTERS[name]
    found = getattr(import_module(f"tacenda_embeddings.varembed.segmenters.{module}"), attribute)
    return cast(type[Segmenter], found)


def learn_segmenter(name: str, words: Sequence[str], n_morphemes: int) -> Segmenter:
    """Learn a segmenter; raises ConfigurationError for an unknown name, or a package that is not installed."""
    if name not in _SEGMENTERS:
        listed = ", ".join(_SEGMENTERS)
        raise ConfigurationError(f"there is no segmenter {name!r}; there are {listed}")
    return _class(name).learn(words, n_morphemes)


def segmenter_from_arrays(name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Segmenter:
    """Return the segmenter of an artefact. Raises ArtifactError."""
    if name not in _SEGMENTERS:
        raise ArtifactError(f"its words were cut by {name!r}, a segmenter this release lacks")
    return _class(name).from_arrays(arrays)


def shortened(word: str) -> str:
    """Return the word, or the two ends of a very long one."""
    half = MAX_LETTERS // 2
    return word if len(word) <= MAX_LETTERS else word[:half] + word[-half:]


def pack_names(prefix: str, names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Return ``<prefix>.text`` uint8 (bytes,) and ``<prefix>.offsets`` int64 (names + 1,)."""
    text, offsets = pack_words(names)
    return {f"{prefix}.text": text, f"{prefix}.offsets": offsets}


def unpack_names(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> list[str]:
    """Return the strings that `pack_names` packed. Raises ArtifactError."""
    text = require(arrays, f"{prefix}.text", shape=("bytes",), dtype=np.uint8)
    offsets = require(arrays, f"{prefix}.offsets", shape=("cuts",), dtype=np.int64)
    checked_offsets(offsets, len(text), what=f"{prefix}.offsets", error=ArtifactError)
    return unpack_words(text, offsets, prefix)
