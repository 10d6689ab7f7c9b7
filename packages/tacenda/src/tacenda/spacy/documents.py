"""What is read from documents, without making ``Token`` objects: words and sentence boundaries."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from spacy.attrs import ORTH, SENT_START
from spacy.tokens import Doc

__all__ = ["WordCache", "boundaries_known", "sentence_cuts"]

#: Entries of the cache before it is emptied; about 100 MB of Python objects.
CACHE_LIMIT = 1_000_000


class WordCache(dict[int, Any]):
    """From the hash of a token's text to what a model reads: ``look_up(text)``.

    ``blank`` stands for whitespace, which no model sees.
    """

    def __init__(self, look_up: Callable[[str], Any], blank: Any) -> None:
        self._look_up = look_up
        self._blank = blank
        self._strings: Any = None

    def read(self, docs: Sequence[Doc]) -> list[Any]:
        """Return what each token of all documents, in a row, is to the model."""
        if not docs:
            return []
        self._strings = docs[0].vocab.strings
        orths = np.concatenate([doc.to_array(ORTH) for doc in docs]).tolist()
        return list(map(self.__getitem__, orths))

    def __missing__(self, orth: int) -> Any:
        text = self._strings[orth]
        value = self._look_up(text) if text.strip() else self._blank
        if len(self) >= CACHE_LIMIT:
            self.clear()
        self[orth] = value
        return value


def sentence_cuts(docs: Sequence[Doc], offsets: np.ndarray) -> np.ndarray:
    """Return where documents and their sentences start, counted through all documents, and the
    end: int64 (pieces + 1,). ``offsets``, int64 (documents + 1,), cut the documents.
    """
    starts = [np.flatnonzero(doc.to_array(SENT_START) == 1) for doc in docs]
    inner = [start + offset for start, offset in zip(starts, offsets[:-1], strict=True)]
    return np.unique(np.concatenate([offsets, *inner]))


def boundaries_known(doc: Doc) -> bool:
    """Whether a document says where its sentences are; a single token needs to say nothing."""
    return len(doc) < 2 or bool(doc.has_annotation("SENT_START"))
