"""From documents to what an embedder reads, and back to one row per token.

No ``Token`` object is made: a document gives its array of hashes, and a cache from the hash to the
word (or to its id, where the embedder takes ids) does the rest. Whitespace tokens are left out of
what the model sees and get rows of zeros.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any

import numpy as np
from spacy.attrs import ORTH, SENT_START
from spacy.tokens import Doc

from tacit.errors import PluginError

__all__ = ["DocEncoder", "token_batches"]

#: Entries of the cache before it is emptied; about 100 MB of Python objects.
CACHE_LIMIT = 1_000_000


class DocEncoder:
    """Applies one embedder to documents.

    An embedder with ``transform_ids`` and a vocabulary is given arrays of int32 ids, any other
    lists of words.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.width = int(model.width)
        by_id = hasattr(model, "transform_ids") and hasattr(model.vocabulary, "id_of")
        self._cache: _WordCache = _WordCache(model.vocabulary if by_id else None)
        self._transform = model.transform_ids if by_id else model.transform
        self._by_id = by_id

    def __call__(self, docs: Sequence[Doc], sentences: bool = False) -> list[np.ndarray]:
        """Return one float32 array ``(n_tokens, width)`` per document, each with memory of its own.

        ``sentences=True`` gives the model the sentences of a document one by one, where their
        boundaries are known.
        """
        self._cache.strings = docs[0].vocab.strings if docs else None
        pieces: list[Any] = []
        layouts = [self._split(doc, sentences, pieces) for doc in docs]
        vectors = iter(self._checked(self._transform(pieces), pieces))
        return [
            self._rows(len(doc), keep, list(islice(vectors, n)))
            for doc, (keep, n) in zip(docs, layouts, strict=True)
        ]

    def _split(self, doc: Doc, sentences: bool, pieces: list[Any]) -> tuple[np.ndarray | None, int]:
        """Append a document's pieces; return which tokens they hold (None: all) and how many there
        are.
        """
        if not len(doc):
            return None, 0
        words = list(map(self._cache.__getitem__, doc.to_array(ORTH).tolist()))
        blank = -1 if self._by_id else None
        keep = None
        if blank in words:
            keep = np.array([word != blank for word in words])
        bounds = [0, len(doc)]
        if sentences:
            starts = np.flatnonzero(doc.to_array(SENT_START)[1:] == 1) + 1
            bounds = [0, *starts.tolist(), len(doc)]
        before = len(pieces)
        for start, stop in pairwise(bounds):
            piece = words[start:stop]
            if keep is not None:
                piece = [word for word in piece if word != blank]
            if piece:
                pieces.append(np.array(piece, dtype=np.int32) if self._by_id else piece)
        return keep, len(pieces) - before

    def _checked(self, given: Any, pieces: list[Any]) -> list[np.ndarray]:
        vectors = [np.asarray(rows, dtype=np.float32) for rows in given]
        wanted = [(len(piece), self.width) for piece in pieces]
        if [rows.shape for rows in vectors] != wanted:
            raise PluginError(
                f"the embedder {type(self.model).__name__} breaks its contract: for pieces of "
                f"{[n for n, _ in wanted[:5]]} tokens it gave arrays of shape "
                f"{[rows.shape for rows in vectors[:5]]}, not (n_tokens, {self.width})"
            )
        return vectors

    def _rows(self, n_tokens: int, keep: np.ndarray | None, parts: list[np.ndarray]) -> np.ndarray:
        if keep is None and len(parts) == 1:
            rows = parts[0]
            # a view into a batch would keep the whole batch in memory for as long as the Doc lives
            return rows if rows.flags.owndata and rows.flags.c_contiguous else rows.copy()
        rows = np.zeros((n_tokens, self.width), dtype=np.float32)
        if parts:
            rows[slice(None) if keep is None else keep] = np.concatenate(parts)
        return rows


class _WordCache(dict[int, Any]):
    """From the hash of a token's text to its word or id; None or -1 for whitespace."""

    def __init__(self, vocabulary: Any) -> None:
        self.vocabulary = vocabulary
        self.strings: Any = None

    def __missing__(self, orth: int) -> Any:
        text = self.strings[orth]
        value: Any = text
        if self.vocabulary is not None:
            value = int(self.vocabulary.id_of(text)) if text.strip() else -1
        elif not text.strip():
            value = None
        if len(self) >= CACHE_LIMIT:
            self.clear()
        self[orth] = value
        return value


def token_batches(stream: Iterable[Doc], n_tokens: int, n_docs: int) -> Iterator[list[Doc]]:
    """Group documents, in order, until a batch holds ``n_tokens`` tokens or ``n_docs`` documents.

    A document is never split, so one longer than the budget is a batch of its own size.
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
