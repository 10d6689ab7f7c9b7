"""From documents to what an embedder reads, and back to one row per token.

No ``Token`` object is made: a document gives its array of hashes, and a cache from the hash to the
word (or to its id, where the embedder takes ids) does the rest. Whitespace tokens are left out of
what the model sees and get rows of zeros.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from spacy.tokens import Doc

from tacenda.errors import PluginError
from tacenda.spacy.documents import WordCache, sentence_cuts

__all__ = ["DocEncoder"]


class DocEncoder:
    """Applies one embedder to documents.

    An embedder with ``transform_ids`` and a vocabulary is given arrays of int32 ids, any other
    lists of words.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.width = int(model.width)
        by_id = hasattr(model, "transform_ids") and hasattr(model.vocabulary, "id_of")
        self._cache = WordCache(model.vocabulary.id_of, -1) if by_id else WordCache(str, None)
        self._transform = model.transform_ids if by_id else model.transform
        self._by_id = by_id

    def __call__(self, docs: Sequence[Doc], sentences: bool = False) -> list[np.ndarray]:
        """Return one float32 array ``(n_tokens, width)`` per document, each with memory of its own.

        ``sentences=True`` gives the model the sentences of a document one by one, where their
        boundaries are known.
        """
        if not docs:
            return []
        offsets = np.cumsum([0, *map(len, docs)])
        words, keep = self._look_up(docs)
        cuts = sentence_cuts(docs, offsets) if sentences else offsets
        # positions among the words that are kept
        where = cuts if keep is None else np.concatenate([[0], np.cumsum(keep)])[cuts]
        spans = [(a, b) for a, b in pairwise(where.tolist()) if a < b]
        pieces = [words[a:b] for a, b in spans]
        vectors = self._checked(self._transform(pieces), pieces)
        if keep is None and not sentences and len(pieces) == len(docs):
            return [_own(rows) for rows in vectors]
        return self._spread(vectors, spans, offsets, keep)

    def _look_up(self, docs: Sequence[Doc]) -> tuple[Any, np.ndarray | None]:
        """Return the words or ids of all documents in a row, and which tokens they are (None:
        all).
        """
        words = self._cache.read(docs)
        if self._by_id:
            ids = np.array(words, dtype=np.int32)
            keep = ids >= 0
            return (ids, None) if keep.all() else (ids[keep], keep)
        if None not in words:
            return words, None
        keep = np.array([word is not None for word in words])
        return [word for word in words if word is not None], keep

    def _spread(
        self,
        vectors: list[np.ndarray],
        spans: list[tuple[int, int]],
        offsets: np.ndarray,
        keep: np.ndarray | None,
    ) -> list[np.ndarray]:
        """Put the rows of the pieces where their tokens are, and zeros where there is
        whitespace.
        """
        found = []
        given = zip(spans, vectors, strict=True)
        (start, stop), rows = next(given, ((0, 0), None))
        before = 0  # kept tokens before this document
        for first, last in pairwise(offsets.tolist()):
            out = np.zeros((last - first, self.width), dtype=np.float32)
            places = np.arange(last - first) if keep is None else np.flatnonzero(keep[first:last])
            while rows is not None and start < before + len(places):
                out[places[start - before : stop - before]] = rows
                (start, stop), rows = next(given, ((0, 0), None))
            before += len(places)
            found.append(out)
        return found

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


def _own(rows: np.ndarray) -> np.ndarray:
    # a view into a batch would keep the whole batch in memory for as long as the Doc lives
    return rows if rows.flags.owndata and rows.flags.c_contiguous else rows.copy()
