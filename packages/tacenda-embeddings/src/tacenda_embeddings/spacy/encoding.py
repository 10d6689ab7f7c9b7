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

    An embedder with ``transform_into`` and a vocabulary is given packed ids, and writes straight into the
    arrays of the documents; any other is given lists of words.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.width = int(model.width)
        self._takes_ids = hasattr(model, "transform_into") and hasattr(model.vocabulary, "id_of")
        self._cache = (
            WordCache(model.vocabulary.id_of, -1) if self._takes_ids else WordCache(str, None)
        )

    def __call__(self, docs: Sequence[Doc], sentences: bool = False) -> list[np.ndarray]:
        """Return one float32 array ``(n_tokens, width)`` per document, each with memory of its own.

        ``sentences=True`` gives the model the sentences of a document one by one, where their
        boundaries are known.
        """
        if not docs:
            return []
        offsets = np.cumsum([0, *map(len, docs)])
        words, kept = self._look_up(docs)
        seen = np.concatenate(
            [[0], np.cumsum(kept)]
        )  # tokens that the model sees, before each token
        bounds = seen[offsets].tolist()
        arrays = [np.empty((j - i, self.width), np.float32) for i, j in pairwise(bounds)]
        cuts = sentence_cuts(docs, offsets) if sentences else np.unique(offsets)
        documents = np.searchsorted(offsets, cuts[:-1], side="right") - 1
        pieces = [
            arrays[document][start - bounds[document] : stop - bounds[document]]
            for document, (start, stop) in zip(
                documents.tolist(), pairwise(seen[cuts].tolist()), strict=True
            )
        ]
        self._embed(words, seen[cuts], pieces)
        if kept.all():
            return arrays
        return [
            _among_zeros(rows, kept[start:stop])
            for rows, (start, stop) in zip(arrays, pairwise(offsets.tolist()), strict=True)
        ]

    def _look_up(self, docs: Sequence[Doc]) -> tuple[Any, np.ndarray]:
        """Return the words or ids of all documents in a row without whitespace, and which tokens they are."""
        words = self._cache.read(docs)
        if self._takes_ids:
            ids = np.array(words, dtype=np.int32)
            return ids[ids >= 0], ids >= 0
        kept = np.array([word is not None for word in words], dtype=bool)
        return [word for word in words if word is not None], kept

    def _embed(self, words: Any, cuts: np.ndarray, pieces: Sequence[np.ndarray]) -> None:
        """Write the rows of ``words[cuts[i] : cuts[i + 1]]`` into piece i, for all i."""
        if self._takes_ids:
            self.model.transform_into(words, cuts, pieces)
            return
        given = self.model.transform([words[i:j] for i, j in pairwise(cuts.tolist())])
        vectors = [np.asarray(rows, dtype=np.float32) for rows in given]
        if [rows.shape for rows in vectors] != [piece.shape for piece in pieces]:
            raise PluginError(
                f"the embedder {type(self.model).__name__} breaks its contract: for pieces of "
                f"{[len(piece) for piece in pieces[:5]]} tokens it gave arrays of shape "
                f"{[rows.shape for rows in vectors[:5]]}, not (n_tokens, {self.width})"
            )
        for piece, rows in zip(pieces, vectors, strict=True):
            piece[...] = rows


def _among_zeros(rows: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return the rows at the tokens they belong to, and zeros at the others."""
    if len(rows) == len(kept):
        return rows
    found = np.zeros((len(kept), rows.shape[1]), dtype=np.float32)
    found[kept] = rows
    return found
