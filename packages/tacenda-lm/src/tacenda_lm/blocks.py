"""A text in any form as word ids: whole, or in blocks of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.corpus.text import Text, sentences_of
from tacenda.progress import Progress, track
from tacenda.tokenizers import Tokenizer
from tacenda.vocabulary import Vocabulary
from tacenda_lm.sequences import Ids, Offsets, encoded, with_ends

__all__ = ["Block", "blocks", "encoded_text"]

_TOKENS = 1 << 17  # of a block


class Block(NamedTuple):
    """Some sentences as ids.

    Attributes
    ----------
    ids
        int32 (tokens,), without ``</s>``.
    offsets
        int64 (sentences + 1,).
    oov
        bool (tokens,): which tokens are outside the vocabulary.
    n_characters
        Characters of the words, without spaces; None where they are not known.
    """

    ids: Ids
    offsets: Offsets
    oov: npt.NDArray[np.bool_]
    n_characters: int | None


def encoded_text(text: Text, vocabulary: Vocabulary, *, eos: bool = False) -> tuple[Ids, Offsets]:
    """Encode a text whole: int32 ids (tokens,) and int64 offsets (sentences + 1,).

    Sentences without tokens stay. With ``eos``, ``</s>`` follows every sentence. Raises CorpusError as `blocks`.
    """
    if isinstance(text, Corpus):
        vocabulary.require_same(text.vocabulary, "the corpus")
        ids, offsets = np.asarray(text.ids), np.asarray(text.offsets)
        return with_ends(ids, offsets, vocabulary.boundary_id) if eos else (ids, offsets)
    return encoded(list(sentences_of(text)), vocabulary, eos=eos)


def blocks(
    text: Text, vocabulary: Vocabulary, tokenizer: str | Tokenizer = "whitespace"
) -> Iterator[Block]:
    """Yield the text in blocks of whole sentences; sentences without tokens are left out.

    A corpus does not remember which of its ``<unk>`` were written in the text, so all of them count as
    outside the vocabulary. In every other form of text a written ``<unk>`` is an ordinary word.

    Raises
    ------
    CorpusError
        The text cannot be read, or is a corpus with another vocabulary.
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
        if n_held >= _TOKENS:
            yield _block(held, vocabulary)
            held, n_held = [], 0
    if held:
        yield _block(held, vocabulary)


def _block(sentences: list[list[str]], vocabulary: Vocabulary) -> Block:
    """Token lists as one block."""
    flat = list(chain.from_iterable(sentences))
    ids, offsets = encoded(sentences, vocabulary)
    oov = np.isin(ids, vocabulary.oov_ids)
    for place in np.flatnonzero(oov).tolist():
        oov[place] = flat[place] not in vocabulary
    return Block(ids, offsets, oov, sum(map(len, flat)))


def _corpus_blocks(corpus: Corpus) -> Iterator[Block]:
    """The blocks of a corpus, whose tokens are ids already."""
    vocabulary = corpus.vocabulary
    lengths = np.array([len(word) for word in vocabulary.words])
    bar: Progress[object] = track(None, "scoring", total=corpus.n_tokens, unit="token")
    with bar:
        for ids, offsets in corpus.blocks(_TOKENS):
            oov = np.isin(ids, vocabulary.oov_ids)
            yield Block(ids, offsets, oov, None if oov.any() else int(lengths[ids].sum()))
            bar.update(len(ids))
