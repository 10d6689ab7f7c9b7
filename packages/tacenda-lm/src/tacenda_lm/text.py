"""Text as ids in blocks, for scoring: a model counts the words that have no type of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.corpus.text import Text, sentences_of
from tacenda.progress import Progress, track
from tacenda.tokenizers import Tokenizer
from tacenda.vocabulary import Vocabulary
from tacenda_lm.sequences import Ids, Offsets

__all__ = ["Block", "blocks", "encoded", "ids_of"]

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
