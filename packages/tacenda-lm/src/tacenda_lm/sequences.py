"""Texts as word ids: sequences laid end to end in one array, with the offsets that cut them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.corpus.text import Text, sentences_of
from tacenda.errors import DataError
from tacenda.offsets import checked_offsets
from tacenda.progress import Progress, track
from tacenda.tokenizers import Tokenizer
from tacenda.vocabulary import Vocabulary

__all__ = [
    "Block",
    "Float64",
    "Ids",
    "Integers",
    "Offsets",
    "blocks",
    "check_word",
    "checked",
    "checked_ids",
    "encoded",
    "encoded_text",
    "with_ends",
]

Ids: TypeAlias = npt.NDArray[np.int32]
Offsets: TypeAlias = npt.NDArray[np.int64]
Float64: TypeAlias = npt.NDArray[np.float64]
_TOKENS = 1 << 17  # of a block
#: Ids or offsets as a caller may give them.
Integers: TypeAlias = npt.NDArray[np.integer[Any]]


def checked(ids: Integers, offsets: Integers, n_types: int) -> tuple[Ids, Offsets]:
    """Return the ids as int32 (tokens,) and the offsets as int64 (sequences + 1,).

    Raises DataError for an id that is not in 0 .. n_types - 1, or offsets that do not cut the ids.
    """
    ids = checked_ids(ids, n_types)
    return ids, checked_offsets(offsets, len(ids), what="the offsets of the sequences")


def checked_ids(ids: Integers | Sequence[int], n_types: int) -> Ids:
    """Return the ids as int32 (tokens,). Raises DataError for one that is not in 0 .. n_types - 1."""
    found = np.asarray(ids)
    if found.ndim != 1 or (found.dtype.kind not in "iu" and found.size):
        raise DataError(
            f"ids must be integers in one dimension, not {found.dtype} of shape {found.shape}"
        )
    if len(found) and (found.min() < 0 or found.max() >= n_types):
        wrong = np.flatnonzero((found < 0) | (found >= n_types))
        check_word(int(found[wrong[0]]), n_types, f" (at place {wrong[0]})")
    return np.ascontiguousarray(found, dtype=np.int32)


def check_word(word: int, n_types: int, place: str = "") -> None:
    """Raise DataError unless ``word`` is an id from 0 to n_types - 1; ``place`` says where it stood."""
    if not 0 <= word < n_types:
        raise DataError(
            f"there is no id {word}{place} in a vocabulary of {n_types} types; "
            "encode the text with the vocabulary of the model"
        )


def encoded(
    sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, *, eos: bool = False
) -> tuple[Ids, Offsets]:
    """Encode token lists as int32 ids (tokens,) and int64 offsets (sentences + 1,).

    With ``eos``, ``</s>`` follows every sentence.
    """
    ids = vocabulary.encode(list(chain.from_iterable(sentences)))
    offsets = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
    return with_ends(ids, offsets, vocabulary.boundary_id) if eos else (ids, offsets)


def with_ends(ids: Integers, offsets: Integers, boundary: int) -> tuple[Ids, Offsets]:
    """Put the id of ``</s>`` after each sequence: int32 (tokens + sequences,), and the new offsets."""
    cuts = np.asarray(offsets, dtype=np.int64)
    ends = cuts + np.arange(len(cuts))
    longer = np.full(len(ids) + len(cuts) - 1, boundary, dtype=np.int32)
    inside = np.ones(len(longer), dtype=bool)
    inside[ends[1:] - 1] = False
    longer[inside] = ids
    return longer, ends


class Block(NamedTuple):
    """Some sentences as ids."""

    ids: Ids  # (tokens,), without ``</s>``
    offsets: Offsets  # (sentences + 1,)
    oov: npt.NDArray[np.bool_]  # (tokens,): which are outside the vocabulary
    n_characters: int | None  # of the words, without spaces; None where they are not known
    unknown: (
        list[str] | None
    )  # the words outside the vocabulary, as written; None where that is not known


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

    A corpus does not remember which of its ``<unk>`` were written in the text, so all of them count as outside the
    vocabulary. In every other form of text a written ``<unk>`` is an ordinary word. Raises CorpusError for a text that
    cannot be read, or a corpus with another vocabulary.
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
    unknown = [flat[place] for place in np.flatnonzero(oov).tolist()]
    return Block(ids, offsets, oov, sum(map(len, flat)), unknown)


def _corpus_blocks(corpus: Corpus) -> Iterator[Block]:
    """The blocks of a corpus, whose tokens are ids already."""
    vocabulary = corpus.vocabulary
    lengths = np.array([len(word) for word in vocabulary.words])
    bar: Progress[object] = track(None, "scoring", total=corpus.n_tokens, unit="token")
    with bar:
        for ids, offsets in corpus.blocks(_TOKENS):
            oov = np.isin(ids, vocabulary.oov_ids)
            known = not oov.any()
            n_characters = int(lengths[ids].sum()) if known else None
            yield Block(ids, offsets, oov, n_characters, [] if known else None)
            bar.update(len(ids))
