"""Text in any of the forms a language model takes: a corpus, a file, token lists, strings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.corpus.reading import as_paths, file_blocks
from tacenda.errors import CorpusError
from tacenda.progress import Progress, track
from tacenda.tokenizers import Tokenizer, get_tokenizer
from tacenda.vocabulary import Vocabulary
from tacenda_lm.sequences import Ids, Offsets

__all__ = [
    "Block",
    "Sentence",
    "Text",
    "as_corpus",
    "blocks",
    "encoded",
    "sentences_of",
    "tokens_of",
]

#: A sentence: its tokens, or a string that is split at whitespace.
Sentence: TypeAlias = str | Sequence[str]
#: A corpus, the path of a file with a sentence a line, or sentences.
Text: TypeAlias = Corpus | str | os.PathLike[str] | Iterable[Sentence]

_BLOCK = 1 << 17  # tokens of a block


class Block(NamedTuple):
    """Some sentences as ids.

    Attributes
    ----------
    ids
        int32 (tokens,).
    offsets
        int64 (sentences + 1,).
    oov
        bool (tokens,): which tokens have no type of their own.
    n_characters
        Of the words, without spaces; None where it cannot be known.
    """

    ids: Ids
    offsets: Offsets
    oov: npt.NDArray[np.bool_]
    n_characters: int | None


def tokens_of(sentence: Sentence) -> list[str]:
    """The tokens of a sentence. Raises CorpusError for what is neither a string nor strings."""
    if isinstance(sentence, str):
        return sentence.split()
    tokens = list(sentence)
    for token in tokens:
        if not isinstance(token, str):
            raise CorpusError(
                f"a sentence holds {token!r:.40}, a {type(token).__name__}; "
                "a sentence is a string or a list of strings"
            )
    return tokens


def as_corpus(
    text: Text, vocabulary: Vocabulary | None = None, tokenizer: str | Tokenizer = "whitespace"
) -> Corpus:
    """The text as a corpus, of a given vocabulary if one is given.

    A string is the path of a file here, as in ``Corpus.from_text``.
    """
    if isinstance(text, Corpus):
        if vocabulary is not None:
            vocabulary.require_same(text.vocabulary, "the corpus")
        return text
    if isinstance(text, str | os.PathLike):
        return Corpus.from_text(Path(text), tokenizer=tokenizer, vocabulary=vocabulary)
    return Corpus.from_sentences(map(tokens_of, text), vocabulary=vocabulary)


def blocks(
    text: Text, vocabulary: Vocabulary, tokenizer: str | Tokenizer = "whitespace"
) -> Iterator[Block]:
    """The text in blocks of whole sentences; those without tokens are left out.

    A corpus does not remember which of its ``<unk>`` were written so: all count as out of vocabulary there.
    In a file or in token lists a written ``<unk>`` is an ordinary word.
    """
    if isinstance(text, Corpus):
        vocabulary.require_same(text.vocabulary, "the corpus")
        yield from _corpus_blocks(text)
        return
    held: list[list[str]] = []
    n_held = 0
    for tokens in sentences_of(text, tokenizer):
        if tokens:
            held.append(tokens)
            n_held += len(tokens)
        if n_held >= _BLOCK:
            yield encoded(held, vocabulary)
            held, n_held = [], 0
    if held:
        yield encoded(held, vocabulary)


def encoded(sentences: Sequence[Sequence[str]], vocabulary: Vocabulary) -> Block:
    """Token lists as one block; an empty one stays."""
    flat = list(chain.from_iterable(sentences))
    ids, offsets = ids_of(sentences, vocabulary)
    oov = np.isin(ids, vocabulary.oov_ids)
    for place in np.flatnonzero(oov).tolist():
        oov[place] = flat[place] not in vocabulary
    return Block(ids, offsets, oov, sum(map(len, flat)))


def ids_of(sentences: Sequence[Sequence[str]], vocabulary: Vocabulary) -> tuple[Ids, Offsets]:
    """Token lists as int32 ids (tokens,) and int64 offsets (sentences + 1,)."""
    ids = vocabulary.encode(list(chain.from_iterable(sentences)))
    return ids, np.cumsum([0, *map(len, sentences)], dtype=np.int64)


def _corpus_blocks(corpus: Corpus) -> Iterator[Block]:
    vocabulary = corpus.vocabulary
    lengths = np.array([len(word) for word in vocabulary.words])
    bar: Progress[object] = track(None, "scoring", total=corpus.n_tokens, unit="token")
    with bar:
        for ids, offsets in corpus.blocks(_BLOCK):
            oov = np.isin(ids, vocabulary.oov_ids)
            yield Block(ids, offsets, oov, None if oov.any() else int(lengths[ids].sum()))
            bar.update(len(ids))


def sentences_of(
    text: str | os.PathLike[str] | Iterable[Sentence],
    tokenizer: str | Tokenizer = "whitespace",
    encoding: str = "utf-8",
) -> Iterator[list[str]]:
    """Token lists of the lines of a file, or of sentences; those without tokens too."""
    if isinstance(text, str | os.PathLike):
        split = get_tokenizer(tokenizer)
        for lines in file_blocks(as_paths(Path(text)) or [], encoding, "strict"):
            yield from map(split, lines)
        return
    yield from map(tokens_of, text)
