"""From documents to ids that a language model scores, and which of them are whose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from spacy.attrs import IDX, LENGTH
from spacy.tokens import Doc

from tacenda.spacy.documents import WordCache, sentence_cuts
from tacenda.vocabulary import Vocabulary
from tacenda_lm.sequences import Ids, Offsets, with_ends
from tacenda_lm.spacy.normalizing import Normalizing

__all__ = ["DocReader", "Reading"]

_BLANK = -1


class Reading(NamedTuple):
    """Documents as a language model reads them, whitespace tokens left out.

    A segment is a sentence where boundaries are known, else a document; those without words are left out.

    Attributes
    ----------
    ids
        int32 (predicted,): the words of all documents, and ``</s>`` after each segment if it is scored.
    is_word
        bool (predicted,): which are words.
    segments
        int64 (segments + 1,): cuts of the words into segments.
    predicted
        int64 (segments + 1,): cuts of ``ids`` into segments.
    doc_segments
        int64 (docs + 1,): which segments are whose.
    oov
        bool (words,): which words have no type of their own.
    start
        int32 (words,): where each begins, in characters of its document.
    length
        int32 (words,): its characters.
    """

    ids: Ids
    is_word: npt.NDArray[np.bool_]
    segments: Offsets
    predicted: Offsets
    doc_segments: Offsets
    oov: npt.NDArray[np.bool_]
    start: npt.NDArray[np.int32]
    length: npt.NDArray[np.int32]

    @property
    def documents(self) -> Offsets:
        """Cuts of ``ids`` into documents, those without words left out: int64 (documents + 1,)."""
        return np.unique(self.predicted[self.doc_segments])


class DocReader:
    """Reads documents for a model of a vocabulary; a word is looked up once.

    Parameters
    ----------
    vocabulary
        That of the model.
    normalizing
        What is done to a token before.
    eos
        Put ``</s>`` after every segment.
    """

    def __init__(self, vocabulary: Vocabulary, normalizing: Normalizing, eos: bool) -> None:
        self._vocabulary = vocabulary
        self._normalizing = normalizing
        self._eos = eos
        self._unknown = frozenset(vocabulary.oov_ids.tolist())
        self._cache = WordCache(self._look_up, _BLANK)

    def __call__(self, docs: Sequence[Doc]) -> Reading:
        """Read documents, at least one."""
        offsets = np.cumsum([0, *map(len, docs)])
        coded = np.array(self._cache.read(docs), dtype=np.int64)
        keep = coded != _BLANK
        before = np.concatenate([[0], np.cumsum(keep)])  # words before each token
        segments = np.unique(before[sentence_cuts(docs, offsets)]).astype(np.int64)
        places = np.concatenate([doc.to_array([IDX, LENGTH]).reshape(-1, 2) for doc in docs])
        places = places[keep].astype(np.int32)
        ids = (coded[keep] >> 1).astype(np.int32)
        predicted = segments
        is_word = np.ones(len(ids), bool)
        if self._eos:
            ids, predicted = with_ends(ids, segments, self._vocabulary.boundary_id)
            is_word = np.ones(len(ids), bool)
            is_word[predicted[1:] - 1] = False
        return Reading(
            ids=ids,
            is_word=is_word,
            segments=segments,
            predicted=predicted,
            doc_segments=np.searchsorted(segments, before[offsets]),
            oov=(coded[keep] & 1).astype(bool),
            start=places[:, 0],
            length=places[:, 1],
        )

    def _look_up(self, text: str) -> int:
        """Twice the id of a token, plus one if it is outside the vocabulary."""
        word = self._normalizing(text)
        number = self._vocabulary.id_of(word)
        return 2 * number + (number in self._unknown and word not in self._vocabulary)
