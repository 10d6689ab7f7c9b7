"""The interface of segmenters, and the way from a name to one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, Protocol, Self, cast

import numpy.typing as npt

from tacenda.errors import ArtifactError, ConfigurationError

__all__ = ["MAX_LETTERS", "Segmenter", "learn_segmenter", "segmenter_from_arrays", "shortened"]

#: A longer word is cut in the middle before it is segmented, so that time stays linear in the text.
MAX_LETTERS = 100


class Segmenter(Protocol):
    """Cuts words into pieces; what it knows is fixed once it is made.

    Attributes
    ----------
    name
        As in the settings of a model.
    skips_unknown
        Whether a piece that no word of the vocabulary has says nothing (n-grams overlap, so
        others speak for it), or stands for a morpheme never seen.
    """

    name: ClassVar[str]
    skips_unknown: ClassVar[bool]

    @classmethod
    def learn(cls, words: Sequence[str], n_morphemes: int) -> Self:
        """Learn from distinct words, none empty, each counted once."""
        ...

    def segment(self, word: str) -> tuple[str, ...]:
        """The pieces of any string; none of the empty one."""
        ...

    def segment_all(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """The pieces of the words it learned from, which may be better known than by `segment`."""
        ...

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What it knows, by names that begin with ``segmenter.``."""
        ...

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """From what `arrays` gave; raises ArtifactError."""
        ...


_SEGMENTERS = {
    "unigram": ("unigram", "UnigramSegmenter"),
    "morfessor": ("morfessor", "MorfessorSegmenter"),
    "ngrams": ("ngrams", "NGramSegmenter"),
}


def _class(name: str) -> type[Segmenter]:
    module, attribute = _SEGMENTERS[name]
    found = getattr(import_module(f"tacenda_embeddings.varembed.segmenters.{module}"), attribute)
    return cast(type[Segmenter], found)


def learn_segmenter(name: str, words: Sequence[str], n_morphemes: int) -> Segmenter:
    """A segmenter of that name for these words.

    Raises ConfigurationError for an unknown name, or where a package it needs is not installed.
    """
    if name not in _SEGMENTERS:
        listed = ", ".join(_SEGMENTERS)
        raise ConfigurationError(f"there is no segmenter {name!r}; there are {listed}")
    return _class(name).learn(words, n_morphemes)


def segmenter_from_arrays(name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Segmenter:
    """The segmenter of an artefact. Raises ArtifactError."""
    if name not in _SEGMENTERS:
        raise ArtifactError(f"its words were cut by {name!r}, a segmenter this release lacks")
    return _class(name).from_arrays(arrays)


def shortened(word: str) -> str:
    """The word, or the two ends of a very long one."""
    half = MAX_LETTERS // 2
    return word if len(word) <= MAX_LETTERS else word[:half] + word[-half:]
