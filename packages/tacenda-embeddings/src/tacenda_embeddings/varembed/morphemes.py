"""The morphemes of the words of a vocabulary and of any other string."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from tacenda.arrays import Array, Arrays, Int64, Offsets, UInt8, below, named
from tacenda.errors import ArtifactError
from tacenda.forks import cached_property
from tacenda.offsets import pack_words, unpack_words
from tacenda.vocabulary import Normalization, Vocabulary, not_a_string
from tacenda_embeddings.varembed.segmenters import SEGMENTERS, AnySegmenter, Pieces

Ints = npt.NDArray[np.int64]

BASE = "<BASE>"
"""The first morpheme, which every word of a model with a base has; no piece has this name, as pieces are lower case."""

_EARLIER_BASE = "<base>"  # in saved models, in which a piece could have this name, too

_CAPITALS = "<Xx>", "<XX>", "<xX>"

_DIGITS = re.compile(r"\d+")


class Inventory(Arrays):
    """The morphemes of a vocabulary, and the segmenter that finds those of any other word.

    Words are segmented in lower case. If the vocabulary keeps case, capitals are a morpheme of their own (``<Xx>``,
    ``<XX>`` or ``<xX>``). Special types, such as ``<unk>``, have no morpheme except the base.
    """

    vocabulary: Vocabulary
    # of a class that the options name, so that `from_arrays` is given it
    segmenter: Annotated[AnySegmenter, named("")]
    base: bool  # whether every word has the first morpheme
    name_text: UInt8[Array, "bytes", named("morphemes.names.text")]
    name_offsets: Offsets[Array, "morphemes bytes", named("morphemes.names.offsets")]
    # the morphemes of word i are ids[offsets[i] : offsets[i + 1]]
    offsets: Offsets[Array, "types pieces", named("morphemes.word_offsets")]
    ids: Int64[Array, "pieces", below("morphemes"), named("morphemes.word_ids")]

    @classmethod
    def learn(cls, vocabulary: Vocabulary, segmenter: str, n_morphemes: int, base: bool) -> Self:
        """Segment a vocabulary with a segmenter that is learned from it.

        ``segmenter`` is a name of `SEGMENTERS`. Raises ConfigurationError if a package that it needs is not installed.
        """
        spellings = [
            "" if vocabulary.is_reserved(word) else _spell_type(word, vocabulary)
            for word in vocabulary.words
        ]
        distinct = list(dict.fromkeys(spelling.lower() for spelling in spellings if spelling))
        learned, segmented = SEGMENTERS[segmenter].learn(distinct, n_morphemes)
        pieces_of = dict(zip(distinct, segmented, strict=True)) | {"": ()}
        names = {BASE: 0}
        offsets, ids = [0], []
        for spelling in spellings:
            pieces = (*pieces_of[spelling.lower()], *_find_capitals(spelling))
            if base:
                ids.append(0)
            ids += [names.setdefault(piece, len(names)) for piece in pieces]
            offsets.append(len(ids))
        arrays = np.array(offsets, np.int64), np.array(ids, np.int64)
        return cls(vocabulary, learned, base, *pack_words([*names]), *arrays)

    def check_saved(self) -> None:
        """Raise ArtifactError unless the names are those of an inventory."""
        names = self.names
        if names[:1] != (BASE,) or len(set(names)) != len(names):
            raise ArtifactError(
                "a morpheme occurs twice, or the first one is not the base: the model is damaged"
            )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the morphemes, `BASE` first, each once."""
        names = unpack_words(self.name_text, self.name_offsets, "morphemes.names")
        return (BASE, *names[1:]) if names[:1] == [_EARLIER_BASE] else tuple(names)

    def __len__(self) -> int:
        return len(self.name_offsets) - 1

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def pieces(self, words: Sequence[str]) -> list[Pieces]:
        """Return the names of the morphemes of words, known or not, without the base; an empty word has none.

        Raises CorpusError if a word is not a string.
        """
        vocabulary = self.vocabulary
        found: dict[str, Pieces] = {}
        spelled: dict[str, str] = {}
        for word in words:
            if not isinstance(word, str):
                raise not_a_string(word)
            if word in vocabulary:
                i = vocabulary.id_of(word)
                ids = self.ids[self.offsets[i] : self.offsets[i + 1]].tolist()
                found[word] = tuple(self.names[id_] for id_ in ids if id_ != 0)
            else:
                spelled[word] = _spell(word, vocabulary.normalization)
        segmented = self.segmenter.segment([spelling.lower() for spelling in spelled.values()])
        for (word, spelling), pieces in zip(spelled.items(), segmented, strict=True):
            found[word] = (*pieces, *_find_capitals(spelling))
        return [found[word] for word in words]

    def morphemes(self, words: Sequence[str]) -> tuple[csr_array, Ints]:
        """Return how often words have each known morpheme, as `incidence` does, and their unknown ones (words,)."""
        ids, bounds, n_unknown, id_of = [], [0], [], self._ids
        for pieces in self.pieces(words):
            known = [id_of[piece] for piece in pieces if piece in id_of]
            # letters of an unknown piece that overlaps others are known from those
            n_unknown.append(0 if self.segmenter.overlaps else len(pieces) - len(known))
            ids += [0, *known] if self.base else known
            bounds.append(len(ids))
        return self._count(np.array(ids, np.int64), np.array(bounds)), np.array(n_unknown)

    @cached_property
    def means_something(self) -> npt.NDArray[np.bool_]:
        """Which morphemes (morphemes,) depend on the meaning of a word: all except the base and capitals."""
        return np.array([name not in (BASE, *_CAPITALS) for name in self.names])

    def type_counts(self) -> Ints:
        """Return the number of words of the vocabulary that have each morpheme, int64 (morphemes,)."""
        words = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        pairs = np.unique(words * len(self) + self.ids)
        return np.bincount(pairs % len(self), minlength=len(self)).astype(np.int64)

    @cached_property
    def incidence(self) -> csr_array:
        """The number of times that each word has each morpheme, float32 (types, morphemes)."""
        return self._count(self.ids, self.offsets)

    def _count(self, ids: Ints, bounds: Ints) -> csr_array:
        """Return the number of times (words, morphemes) that ids occur between bounds (words + 1,)."""
        ones = np.ones(len(ids), np.float32)
        return csr_array((ones, ids, bounds), shape=(len(bounds) - 1, len(self)))

    def sum(self, vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the sums (types, width) of the morpheme vectors (morphemes, width) of every word."""
        return np.asarray(self.incidence @ vectors, np.float32)


def _spell(word: str, normalization: Normalization) -> str:
    """Return the letters of a word that are segmented: those of its normalized form, in which a number is 0."""
    if normalization.digits:
        word = _DIGITS.sub("0", word)
    return word.lower() if normalization.lowercase else word


def _spell_type(word: str, vocabulary: Vocabulary) -> str:
    """Return what `_spell` returns for a word of the vocabulary, in which a number is NUM."""
    if vocabulary.normalization.digits and word not in vocabulary.spelled:
        return _spell(word.replace("NUM", "0"), vocabulary.normalization)
    return _spell(word, vocabulary.normalization)


def _find_capitals(word: str) -> Pieces:
    """Return the morpheme for the capitals of a word, if it has any."""
    if word == word.lower():
        return ()
    title, upper, mixed = _CAPITALS
    if word[0].isupper() and word[1:] == word[1:].lower():
        return (title,)
    return (upper,) if word == word.upper() else (mixed,)
