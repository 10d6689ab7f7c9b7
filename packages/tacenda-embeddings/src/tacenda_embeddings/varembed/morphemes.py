"""Which morphemes each word of a vocabulary is made of, and those of any other string."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from tacenda.arrays import Array, Int64, Offsets, below, take
from tacenda.errors import ArtifactError
from tacenda.vocabulary import Vocabulary, reserved
from tacenda_embeddings.varembed.segmenters import (
    Segmenter,
    learn_segmenter,
    pack_names,
    segmenter_from_arrays,
    unpack_names,
)

Ints = npt.NDArray[np.int64]

BASE = "<base>"
"""The first morpheme: every word has it, or none where the model has no base."""

MAX_PIECES = 16  # of a word, base and capitals not counted; the last one takes the rest


class Morphemes(NamedTuple):
    """Morphemes of one word: ids (known,) int64 of those that are known, and how many are not."""

    ids: Ints
    n_unknown: int


@dataclass(frozen=True, eq=False)
class Inventory:
    """The morphemes of a vocabulary, and the segmenter that finds those of any other word.

    Words are segmented in lower case; where the vocabulary keeps case, capitals are a morpheme of their own
    (``<Xx>``, ``<XX>`` or ``<xX>``). Special types, such as ``<unk>``, have none but the base.
    """

    vocabulary: Vocabulary
    segmenter: Segmenter
    names: tuple[str, ...]  # of the morphemes, `BASE` first, each once
    base: bool  # whether every word has the first one
    offsets: Ints  # (types + 1,): the morphemes of word i are ids[offsets[i] : offsets[i + 1]]
    ids: Ints

    @classmethod
    def learn(cls, vocabulary: Vocabulary, segmenter: str, n_morphemes: int, base: bool) -> Self:
        """Segment a vocabulary with a segmenter that is learned from it.

        Raises ConfigurationError where the segmenter is unknown or its package is not installed.
        """
        special = reserved(vocabulary.oov)
        written = ["" if word in special else _spell(word, vocabulary) for word in vocabulary.words]
        distinct = list(dict.fromkeys(text.lower() for text in written if text))
        learned = learn_segmenter(segmenter, distinct, n_morphemes)
        cut = dict(zip(distinct, learned.segment_all(distinct), strict=True)) | {"": ()}
        names = {BASE: 0}
        offsets, ids = [0], []
        for text in written:
            pieces = (*_limit(cut[text.lower()], learned), *_capitals(text))
            ids += [0] * base + [names.setdefault(piece, len(names)) for piece in pieces]
            offsets.append(len(ids))
        found = np.array(offsets, np.int64), np.array(ids, np.int64)
        return cls(vocabulary, learned, tuple(names), base, *found)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def pieces(self, word: str) -> tuple[str, ...]:
        """Return the names of the morphemes of a word, known or not, without the base; none of ''."""
        vocabulary = self.vocabulary
        if word in vocabulary:
            i = vocabulary.id_of(word)
            own = self.ids[self.offsets[i] : self.offsets[i + 1]].tolist()
            return tuple(self.names[m] for m in own if m)
        written = _spell(vocabulary.normalization(word), vocabulary)
        return (
            *_limit(self.segmenter.segment(written.lower()), self.segmenter),
            *_capitals(written),
        )

    def morphemes(self, word: str) -> Morphemes:
        """Return the ids of the morphemes of any word, with the base, and how many more are unknown."""
        pieces = self.pieces(word)
        ids = [self._ids[piece] for piece in pieces if piece in self._ids]
        unknown = 0 if self.segmenter.skips_unknown else len(pieces) - len(ids)
        return Morphemes(np.array([0] * self.base + ids, np.int64), unknown)

    def type_counts(self) -> Ints:
        """Return in how many words of the vocabulary each morpheme occurs, int64 (morphemes,)."""
        words = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        pairs = np.unique(words * len(self) + self.ids)
        return np.bincount(pairs % len(self), minlength=len(self)).astype(np.int64)

    @cached_property
    def incidence(self) -> csr_array:
        """The float32 matrix (types, morphemes) of how often each word has each morpheme."""
        ones = np.ones(len(self.ids), np.float32)
        shape = (len(self.offsets) - 1, len(self))
        return csr_array((ones, self.ids, self.offsets), shape=shape)

    def sum(self, vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the sums (types, width) of the morpheme vectors (morphemes, width) of every word."""
        return np.asarray(self.incidence @ vectors, np.float32)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything but the vocabulary, by names that begin with ``morphemes.`` or ``segmenter.``."""
        words = {"morphemes.word_offsets": self.offsets, "morphemes.word_ids": self.ids}
        return {**pack_names("morphemes.names", self.names), **words, **self.segmenter.arrays()}

    @classmethod
    def from_arrays(
        cls,
        vocabulary: Vocabulary,
        segmenter: str,
        base: bool,
        arrays: Mapping[str, npt.NDArray[Any]],
    ) -> Self:
        """Return an inventory from `arrays`. Raises ArtifactError."""
        names = unpack_names("morphemes.names", arrays)
        if not names or names[0] != BASE or len(set(names)) != len(names):
            raise ArtifactError("a morpheme is there twice, or the first is not the base")
        sizes = {"types": len(vocabulary), "morphemes": len(names)}
        ids = take(arrays, "morphemes.word_ids", Int64[Array, "pieces", below("morphemes")], sizes)
        declared = Offsets[Array, "types pieces"]
        offsets = take(arrays, "morphemes.word_offsets", declared, sizes)
        learned = segmenter_from_arrays(segmenter, arrays)
        return cls(vocabulary, learned, tuple(names), base, offsets, ids)


def _spell(normalized: str, vocabulary: Vocabulary) -> str:
    """Return a normalized word as its letters are segmented: NUM is a digit again."""
    return normalized.replace("NUM", "0") if vocabulary.normalization.digits else normalized


def _limit(pieces: tuple[str, ...], segmenter: Segmenter) -> tuple[str, ...]:
    """Return at most `MAX_PIECES` pieces; n-grams are not limited."""
    if segmenter.skips_unknown or len(pieces) <= MAX_PIECES:
        return pieces
    return (*pieces[: MAX_PIECES - 1], "".join(pieces[MAX_PIECES - 1 :]))


def _capitals(word: str) -> tuple[str, ...]:
    """Return the morpheme of the capitals of a word, if it has any."""
    if word == word.lower():
        return ()
    if word[0].isupper() and word[1:] == word[1:].lower():
        return ("<Xx>",)
    return ("<XX>",) if word == word.upper() else ("<xX>",)
