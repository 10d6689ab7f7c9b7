"""Reading of documents: words, sentences, batches, and whether a model knows the words."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from spacy.attrs import ORTH, SENT_START
from spacy.tokens import Doc

from tacenda.errors import warn

#: Entries of the cache before it is emptied; about 15 MB of Python objects.
CACHE_LIMIT = 100_000

#: Tokens after which `TokenSurvey` says what it has found, and the punctuation marks that must be among them.
_SURVEYED_TOKENS, _MIN_MARKS = 1000, 50
#: Shares of unknown tokens and of unknown punctuation marks that no text had whose language the model knew, in English,
#: German, French, Polish, Slovenian and Finnish, with vocabularies of 7,000 to 40,000 words of another time and kind.
_MAX_UNKNOWN_TOKENS, _MAX_UNKNOWN_MARKS = 0.7, 0.5


class WordCache(dict[int, Any]):
    """Maps the hash of a token's text to what a model reads: ``look_up(text)``, or ``blank`` for whitespace.

    Of the words that come within a memory zone of spaCy it keeps only those of ``vocabulary``, which belong to the
    model and not to the text.
    """

    def __init__(
        self, look_up: Callable[[str], Any], blank: Any, vocabulary: Container[str]
    ) -> None:
        self.look_up = look_up
        self.blank = blank
        self._vocabulary = vocabulary

    def read(self, docs: Sequence[Doc]) -> list[Any]:
        """Return what the model reads for each token of all documents, in one list.

        Documents may be of several vocabularies, and several threads may read at once.
        """
        words: list[Any] = []
        passing: dict[int, Any] = {}  # words of a memory zone, for this call alone
        for doc in docs:
            orths = doc.to_array(ORTH).tolist()
            try:
                words += list(map(self.__getitem__, orths))
            except KeyError:
                words += [self._word(orth, doc.vocab, passing) for orth in orths]
        return words

    def _word(self, orth: int, vocab: Any, passing: dict[int, Any]) -> Any:
        if orth in passing:
            return passing[orth]
        try:
            return self[orth]
        except KeyError:
            text = vocab.strings[orth]
        value = self.look_up(text) if text.strip() else self.blank
        kept = passing if vocab.in_memory_zone and text not in self._vocabulary else self
        if len(kept) >= CACHE_LIMIT:
            kept.clear()
        kept[orth] = value
        return value


def sentence_cuts(docs: Sequence[Doc], offsets: np.ndarray) -> np.ndarray:
    """Return where documents and their sentences start, and where the last one ends, int64 (pieces + 1,).

    ``offsets``, int64 (documents + 1,), are where each document starts, in tokens counted through all of them; the
    result counts in the same way.
    """
    starts = [np.flatnonzero(doc.to_array(SENT_START) == 1) for doc in docs]
    inner = [start + offset for start, offset in zip(starts, offsets[:-1], strict=True)]
    return np.unique(np.concatenate([offsets, *inner]))


def has_boundaries(doc: Doc) -> bool:
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


class TokenSurvey:
    """Counts how many of a pipeline's tokens a model knows, until it has seen enough to tell; warns once if too few.

    ``owner`` is whose model it is, for the warning; ``knows`` says whether the model knows a token, by default what
    the model's own ``knows`` or its vocabulary says.
    """

    def __init__(self, model: Any, owner: str, knows: Callable[[str], bool] | None = None) -> None:
        self._owner = owner
        self._knows = knows or getattr(model, "knows", None) or model.vocabulary.__contains__
        self._tokenizer = (getattr(model, "fitted_on", None) or {}).get("tokenizer")
        self._tokens, self._unknown = 0, 0
        self._marks, self._unknown_marks = 0, 0  # of these, without a letter or a digit

    def count(self, words: Iterable[str]) -> None:
        """Count tokens until there are enough; then warn if too many are unknown, and ignore all further ones."""
        n_missing = _SURVEYED_TOKENS - self._tokens
        if n_missing <= 0:
            return
        for word in islice(words, n_missing):
            known = self._knows(word)
            is_mark = not any(map(str.isalnum, word))
            self._tokens += 1
            self._marks += is_mark
            self._unknown += not known
            self._unknown_marks += is_mark and not known
        if self._tokens >= _SURVEYED_TOKENS and (unknown := self._describe()):
            split = f" ({self._tokenizer!r})" if self._tokenizer else ""
            warn(
                f"the model of {self._owner} does not know {unknown}: it was fitted to another language, to another "
                f"kind of text, or with another tokenizer{split}; fit one to text like this with the tokenizer of the "
                "pipeline, such as --tokenizer spacy:LANG"
            )

    def _describe(self) -> str | None:
        """Return which share is unknown, if it is too large."""
        if self._unknown > _MAX_UNKNOWN_TOKENS * self._tokens:
            return f"{self._unknown / self._tokens:.0%} of the pipeline's tokens"
        if self._marks >= _MIN_MARKS and self._unknown_marks > _MAX_UNKNOWN_MARKS * self._marks:
            return f"{self._unknown_marks / self._marks:.0%} of the pipeline's punctuation marks"
        return None
