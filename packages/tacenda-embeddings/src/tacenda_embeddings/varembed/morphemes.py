"""Which morphemes each word of a vocabulary is made of, and those of any other string."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.errors import ArtifactError
from tacenda.offsets import checked_offsets
from tacenda.vocabulary import Vocabulary, reserved
from tacenda_embeddings.varembed.segmenters import (
    Segmenter,
    learn_segmenter,
    pack_names,
    segmenter_from_arrays,
    unpack_names,
)

__all__ = ["BASE", "Inventory", "Morphemes"]

Ints = npt.NDArray[np.int64]

BASE = "<base>"
"""The first morpheme: it is every word's, or nobody's where the model has no base."""


class Morphemes(NamedTuple):
    """Morphemes of one word: ids (known,) int64 of those that are known, and how many are not."""

    ids: Ints
    n_unknown: int


class Inventory:
    """The morphemes of a vocabulary, and the segmenter that finds those of any other word.

    Words are segmented in lower case; where the vocabulary keeps case, capitals are a morpheme of their own
    (``<Xx>``, ``<XX>`` or ``<xX>``). Special types, such as ``<unk>``, have none but the base.

    ``names`` are the morphemes, `BASE` first, each once; those of word i are ``ids[offsets[i] : offsets[i + 1]]``,
    at most ``max_pieces``, base and capitals apart. ``base`` says whether every word has the first one.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        segmenter: Segmenter,
        names: Sequence[str],
        offsets: Ints,
        ids: Ints,
        max_pieces: int,
        base: bool,
    ) -> None:
        self.vocabulary, self.segmenter = vocabulary, segmenter
        self.names = tuple(names)
        self.offsets, self.ids = offsets, ids
        self.max_pieces, self.base = max_pieces, base
        self._ids = {name: i for i, name in enumerate(self.names)}

    @classmethod
    def learn(
        cls, vocabulary: Vocabulary, segmenter: str, n_morphemes: int, max_pieces: int, base: bool
    ) -> Self:
        """Segment a vocabulary with a segmenter that is learned from it.

        Raises ConfigurationError where the segmenter cannot be had.
        """
        special = reserved(vocabulary.oov)
        written = [_written(word, vocabulary) for word in vocabulary.words]
        proper = [
            (word not in special) and bool(text)
            for word, text in zip(vocabulary.words, written, strict=True)
        ]
        lower = [text.lower() for text in written]
        distinct = list(
            dict.fromkeys(text for text, is_word in zip(lower, proper, strict=True) if is_word)
        )
        learned = learn_segmenter(segmenter, distinct, n_morphemes)
        cut = dict(zip(distinct, learned.segment_all(distinct), strict=True))
        names = {BASE: 0}
        offsets, ids = [0], []
        for text, key, is_word in zip(written, lower, proper, strict=True):
            pieces = _limited(cut[key], learned, max_pieces) if is_word else ()
            marks = _capitals(text) if is_word else ()
            ids += [0] * base + [names.setdefault(piece, len(names)) for piece in (*pieces, *marks)]
            offsets.append(len(ids))
        found = np.array(offsets, np.int64), np.array(ids, np.int64)
        return cls(vocabulary, learned, tuple(names), *found, max_pieces, base)

    def __len__(self) -> int:
        return len(self.names)

    def pieces(self, word: str) -> tuple[str, ...]:
        """Return the names of the morphemes of a word, known or not, without the base; none of ''."""
        if word in self.vocabulary:
            i = self.vocabulary.id_of(word)
            own = self.ids[self.offsets[i] : self.offsets[i + 1]].tolist()
            return tuple(self.names[m] for m in own if m)
        written = _written(self.vocabulary.normalization(word), self.vocabulary)
        found = _limited(self.segmenter.segment(written.lower()), self.segmenter, self.max_pieces)
        return (*found, *_capitals(written))

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

    def summed(self, vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the sums (vocabulary, width) of the morpheme vectors (morphemes, width) of every word."""
        from scipy.sparse import csr_array

        shape = (len(self.offsets) - 1, len(self))
        table = csr_array((np.ones(len(self.ids), np.float32), self.ids, self.offsets), shape=shape)
        return np.asarray(table @ vectors, np.float32)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all but the vocabulary, by names that begin with ``morphemes.`` or ``segmenter.``."""
        return {
            **pack_names("morphemes.names", self.names),
            "morphemes.word_offsets": self.offsets,
            "morphemes.word_ids": self.ids,
            **self.segmenter.arrays(),
        }

    @classmethod
    def from_arrays(
        cls,
        vocabulary: Vocabulary,
        segmenter: str,
        max_pieces: int,
        base: bool,
        arrays: Mapping[str, npt.NDArray[Any]],
    ) -> Self:
        """Return an inventory from what `arrays` gave. Raises ArtifactError."""
        names = unpack_names("morphemes.names", arrays)
        words = len(vocabulary)
        offsets = require(arrays, "morphemes.word_offsets", shape=(words + 1,), dtype=np.int64)
        ids = require(arrays, "morphemes.word_ids", shape=("pieces",), dtype=np.int64)
        checked_offsets(offsets, len(ids), what="morphemes.word_offsets", error=ArtifactError)
        if len(ids) and not (ids.min() >= 0 and ids.max() < len(names)):
            raise ArtifactError("the morphemes of the words do not fit: the file is damaged")
        if not names or names[0] != BASE or len(set(names)) != len(names):
            raise ArtifactError("a morpheme is there twice, or the first is not the base")
        made = segmenter_from_arrays(segmenter, arrays)
        return cls(vocabulary, made, names, offsets, ids, max_pieces, base)


def _written(normalized: str, vocabulary: Vocabulary) -> str:
    """Return a normalized word as its letters are segmented: NUM is a digit again."""
    return normalized.replace("NUM", "0") if vocabulary.normalization.digits else normalized


def _limited(pieces: tuple[str, ...], segmenter: Segmenter, most: int) -> tuple[str, ...]:
    """Return at most so many pieces; the last takes the rest."""
    if segmenter.skips_unknown or len(pieces) <= most:
        return pieces
    return (*pieces[: most - 1], "".join(pieces[most - 1 :]))


def _capitals(word: str) -> tuple[str, ...]:
    """Return the morpheme of the capitals of a word, if it has any."""
    if word == word.lower():
        return ()
    if word[0].isupper() and word[1:] == word[1:].lower():
        return ("<Xx>",)
    return ("<XX>",) if word == word.upper() else ("<xX>",)
