"""Similarity in context: the hooks that make spaCy compare the vectors of tokens, not of their spellings.

Without them ``Token.similarity``, ``Span.similarity`` and ``Doc.similarity`` are 1 wherever the words are the same,
whatever is around them, and warn (W007) that the pipeline has no word vectors. A hook is an entry in one of three
dictionaries of a document; ``Doc.to_bytes`` leaves them out.
"""

import warnings
from collections.abc import Iterable
from functools import partial
from typing import Any

from spacy.errors import Warnings
from spacy.tokens import Doc, Span, Token
from thinc.api import get_array_module

from tacenda.errors import ConfigurationError
from tacenda_embeddings.spacy.doc_tensor import vectors_of

__all__ = ["ContextHooks"]


class ContextHooks:
    """Makes documents compare what ``Doc.tensor``, or an extension, holds for their tokens.

    ``vector`` and ``has_vector`` go the same way, so that a similarity is always the cosine of the two ``vector``: a
    row for a token, the mean of the rows for a span or a document, zeros where there is nothing.
    """

    def __init__(self, source: str) -> None:
        # functions of this module, which pickle with the document
        self._hooks = {
            "similarity": cosine,
            "vector": partial(_vector, source),
            "has_vector": partial(_has_vector, source),
        }

    def install(self, docs: Iterable[Doc]) -> None:
        """Hook into documents; what they have hooked for other purposes stays."""
        for doc in docs:
            doc.user_token_hooks.update(self._hooks)
            doc.user_span_hooks.update(self._hooks)
            doc.user_hooks.update(self._hooks)


def cosine(one: Any, other: Any) -> float:
    """Return the cosine of the vectors of two tokens, spans or documents; 0 where one of them is zero.

    Raises ConfigurationError if they have different widths.
    """
    a, b = one.vector, other.vector
    xp = get_array_module(a)
    lengths = xp.linalg.norm(a) * xp.linalg.norm(b)
    if not lengths:
        if not (one.has_vector and other.has_vector):
            warnings.warn(Warnings.W008.format(obj=type(one).__name__), stacklevel=2)
        return 0.0
    if a.shape != b.shape:
        raise ConfigurationError(
            f"a {type(one).__name__} with a vector in context of {len(a)} columns cannot be compared with a "
            f"{type(other).__name__} with one of {len(b)}: pass both through the same pipeline"
        )
    return float(a @ b / lengths)


def _rows(source: str, given: Any) -> Any:
    """Return the rows of a token (1, width), or of a span or document (n_tokens, width); None without vectors."""
    doc = given if isinstance(given, Doc) else given.doc
    rows = vectors_of(doc, source)
    if rows is None or isinstance(given, Doc):
        return rows
    if isinstance(given, Token):
        return rows[given.i : given.i + 1]
    assert isinstance(given, Span)
    return rows[given.start : given.end]


def _vector(source: str, given: Any) -> Any:
    """Return the mean of the rows (width,)."""
    rows = _rows(source, given)
    if rows is None:
        return get_array_module(given.vocab.vectors.data).zeros(0, dtype="f")
    return rows.mean(axis=0) if len(rows) else rows.sum(axis=0)


def _has_vector(source: str, given: Any) -> bool:
    return _rows(source, given) is not None
