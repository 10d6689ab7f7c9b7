"""Reading of documents without making ``Token`` objects: words, sentences, batches."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from spacy.attrs import ORTH, SENT_START
from spacy.tokens import Doc

#: Entries of the cache before it is emptied; about 100 MB of Python objects.
CACHE_LIMIT = 1_000_000


class WordCache(dict[int, Any]):
    """Maps the hash of a token's text to what a model reads: ``look_up(text)``, or ``blank`` for whitespace."""

    def __init__(self, look_up: Callable[[str], Any], blank: Any) -> None:
        self._look_up = look_up
        self._blank = blank

    def read(self, docs: Sequence[Doc]) -> list[Any]:
        """Return what the model reads for each token of all documents, in one list.

        Documents may be of several vocabularies, and several threads may read at once.
        """
        words: list[Any] = []
        for doc in docs:
            orths = doc.to_array(ORTH).tolist()
            try:
                words += list(map(self.__getitem__, orths))
            except KeyError:
                words += [self._word(orth, doc.vocab.strings) for orth in orths]
        return words

    def _word(self, orth: int, strings: Any) -> Any:
        try:
            return self[orth]
        except KeyError:
            text = strings[orth]
        value = self._look_up(text) if text.strip() else self._blank
        if len(self) >= CACHE_LIMIT:
            self.clear()
        self[orth] = value
        return value


def sentence_cuts(docs: Sequence[Doc], offsets: np.ndarray) -> np.ndarray:
    """Return where documents and their sentences start, and where the last one ends, int64 (pieces + 1,).

    ``offsets``, int64 (documents + 1,), are where each document starts, in tokens counted through all of them; the
    result counts in the same way.
    """
    starts = [np.flatnonzero(doc.to_array(SENT_START) == 1) for doc in docs]
    inner = [start + offset for start, offset in zip(starts, offsets[:-1], strict=True)]
    return np.unique(np.concatenate([offsets, *inner]))


def boundaries_known(doc: Doc) -> bool:
    """Return whether a document has sentence boundaries; a single token needs none."""
    return len(doc) < 2 or bool(doc.has_annotation("SENT_START"))


def token_batches(stream: Iterable[Doc], n_tokens: int, n_docs: int) -> Iterator[list[Doc]]:
    """Group documents, in order, in batches of at most ``n_tokens`` tokens and ``n_docs`` documents.

    A document is never split, so a longer one is a batch by itself.
    """
    batch: list[Doc] = []
    size = 0
    for doc in stream:
        if batch and size + len(doc) > n_tokens:
            yield batch
            batch, size = [], 0
        batch.append(doc)
        size += len(doc)
        if size >= n_tokens or len(batch) >= n_docs:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
