"""Texts as word ids: sequences, concatenated in one array, and the offsets that cut them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.corpus.marks import Marks, check_marks
from tacenda.corpus.storage import PASS_ITEMS, GrowingArray, forget_pages
from tacenda.corpus.text import Text, sentences_of
from tacenda.errors import ConfigurationError, DataError, check_choice
from tacenda.offsets import check_offsets
from tacenda.progress import Progress, track
from tacenda.tokenizers import Tokenizer
from tacenda.vocabulary import Vocabulary

Ids: TypeAlias = npt.NDArray[np.int32]
Offsets: TypeAlias = npt.NDArray[np.int64]
Float64: TypeAlias = npt.NDArray[np.float64]
#: Floats of any type.
Floats: TypeAlias = npt.NDArray[np.floating[Any]]
_TOKENS_PER_BLOCK = 1 << 17
#: Whether a line without tokens is skipped, or counts as a sentence of ``</s>`` alone, as in KenLM's ``query``.
BlankLines: TypeAlias = Literal["skip", "count"]
#: Ids or offsets of any integer type.
Integers: TypeAlias = npt.NDArray[np.integer[Any]]


def check_sequences(ids: Integers, offsets: Integers, n_types: int) -> tuple[Ids, Offsets]:
    """Return the ids as int32 (tokens,) and the offsets as int64 (sequences + 1,).

    Raises DataError for an id that is not in 0 .. n_types - 1, or offsets that do not cut the ids.
    """
    ids = check_ids(ids, n_types)
    return ids, check_offsets(offsets, len(ids), what="the offsets of the sequences")


def check_ids(ids: Integers | Sequence[int], n_types: int) -> Ids:
    """Return the ids as int32 (tokens,). Raises DataError for one that is not in 0 .. n_types - 1."""
    try:
        array = np.asarray(ids)
    except ValueError as error:  # lists of different lengths
        raise DataError(
            "ids must be integers in one dimension, not lists of different lengths"
        ) from error
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise DataError(
            f"ids must be integers in one dimension, not {array.dtype} of shape {array.shape}"
        )
    # compiled code reads rows of tables at these ids without a check of bounds
    if len(array) and (array.min() < 0 or array.max() >= n_types):
        wrong = np.flatnonzero((array < 0) | (array >= n_types))
        check_word(int(array[wrong[0]]), n_types, f" (at place {wrong[0]})")
    return np.ascontiguousarray(array, dtype=np.int32)


def check_word(word: int, n_types: int, place: str = "") -> None:
    """Raise DataError unless ``word`` is a whole number from 0 to n_types - 1; the message says its ``place``."""
    is_id = isinstance(word, int | np.integer) and not isinstance(word, bool)
    if not is_id or not 0 <= word < n_types:
        raise DataError(
            f"there is no id {word!r}{place} in a vocabulary of {n_types} types; "
            "encode the text with the vocabulary of the model"
        )


def encode_sentences(
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
    # all places hold </s> first; the ids then go to all but the last place of each sequence
    longer = np.full(len(ids) + len(cuts) - 1, boundary, dtype=np.int32)
    inside = np.ones(len(longer), dtype=bool)
    inside[ends[1:] - 1] = False
    longer[inside] = ids
    return longer, ends


def encode_corpus(corpus: Corpus) -> tuple[Ids, Offsets]:
    """Return the sentences of a corpus with ``</s>`` after each, and their offsets; a mapped corpus stays mapped."""
    boundary = corpus.vocabulary.boundary_id
    if isinstance(corpus.ids, np.memmap):
        return join_texts(with_ends(*block, boundary) for block in corpus.blocks())
    return with_ends(corpus.ids, corpus.offsets, boundary)


def take_sequences(ids: Ids, offsets: Offsets, chosen: Integers) -> tuple[Ids, Offsets]:
    """Return the chosen sequences, concatenated, and their offsets."""
    begins = offsets[chosen]
    lengths = offsets[chosen + 1] - begins
    cuts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    at = np.repeat(begins - cuts[:-1], lengths) + np.arange(cuts[-1])
    words = np.asarray(ids[at])
    forget_pages(ids)
    forget_pages(offsets)
    return words, cuts


def join_texts(texts: Iterable[tuple[Ids, Offsets]]) -> tuple[Ids, Offsets]:
    """Join texts, given as ids and offsets, in arrays in memory, or in read-only maps of a file if they are large."""
    ids, cuts = GrowingArray(np.int32), GrowingArray(np.int64)
    cuts.append(np.zeros(1, np.int64))
    for words, offsets in texts:
        cuts.append(ids.size + offsets[1:])
        ids.append(words)
    return ids.finish(), cuts.finish()


def pieces(ids: Ids, overlap: int = 0, *, backwards: bool = False) -> Iterator[Ids]:
    """Yield an array in pieces, each after the first with the last ``overlap`` ids of the one before it.

    ``backwards`` begins with the last id and ends with the first.
    """
    starts = range(0, max(len(ids) - overlap, 1), PASS_ITEMS)
    for start in reversed(starts) if backwards else starts:
        piece = np.asarray(ids[start : start + PASS_ITEMS + overlap])
        yield piece[::-1] if backwards else piece
        forget_pages(ids)


def side_by_side(begins: Integers, lengths: Integers) -> Iterator[tuple[Integers, Integers]]:
    """Yield, for each step, the sequences that have not ended, longest first, and the places of their ids.

    Many sequences can thus be read in as many steps as the longest has ids.
    """
    order = np.argsort(-lengths, kind="stable")
    begins, longest_first, n = begins[order], lengths[order].tolist(), len(order)
    for t in range(longest_first[0] if n else 0):
        while longest_first[n - 1] <= t:
            n -= 1
        yield order[:n], begins[:n] + t


def sums_of_pieces(
    values: npt.NDArray[Any], begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> Float64:
    """Return the sum of the values from each begin to its end: float64 (pieces,), 0 where a piece is empty.

    An infinity or NaN among the values affects the sum of one piece only.
    """
    if not len(begins):
        return np.empty(0)
    padded = np.append(values.astype(np.float64), 0.0)  # an index may be the end of the values
    # reduceat sums between all neighboring borders; every other sum is of the values between two pieces
    sums = np.add.reduceat(padded, np.stack([begins, ends], axis=1).ravel())[::2]
    return np.where(begins == ends, 0.0, sums)


class Block(NamedTuple):
    """Some sentences as ids."""

    ids: Ids  # (tokens,), without ``</s>``
    offsets: Offsets  # (sentences + 1,)
    # (tokens,): which are outside the vocabulary, a written ``<unk>`` among them
    oov: npt.NDArray[np.bool_]
    n_characters: int | None  # of the words, without spaces; None if unknown
    # the words outside the vocabulary, as written; None if they are not known
    unknown: list[str] | None


def encode_text(
    text: Text,
    vocabulary: Vocabulary,
    tokenizer: str | Tokenizer = "whitespace",
    *,
    eos: bool = False,
) -> tuple[Ids, Offsets]:
    """Encode a whole text as int32 ids (tokens,) and int64 offsets (sentences + 1,).

    Sentences without tokens and marks of sentences are not left out. With ``eos``, ``</s>`` follows every sentence.
    Raises CorpusError for a text that cannot be read, or a corpus with another vocabulary.
    """
    if isinstance(text, Corpus):
        vocabulary.require_same(text.vocabulary, "the corpus")
        return encode_corpus(text) if eos else (np.asarray(text.ids), np.asarray(text.offsets))
    return encode_sentences(list(sentences_of(text, tokenizer)), vocabulary, eos=eos)


def blocks(
    text: Text,
    vocabulary: Vocabulary,
    tokenizer: str | Tokenizer = "whitespace",
    *,
    marks: Marks = "refuse",
    blank_lines: BlankLines = "skip",
) -> Iterator[Block]:
    """Yield the text in blocks of whole sentences; those without tokens are left out unless ``blank_lines="count"``.

    ``marks`` is as in `tacenda.corpus.as_corpus`. Raises CorpusError for a text that cannot be read or has a mark that
    is refused, and for a corpus with another vocabulary; ConfigurationError if blank lines of a corpus, which has none,
    are to be counted.
    """
    count_blank = check_choice("blank_lines", blank_lines, BlankLines) == "count"
    if isinstance(text, Corpus):
        vocabulary.require_same(text.vocabulary, "the corpus")
        if count_blank:
            raise ConfigurationError(
                "a corpus leaves blank lines out, so that they cannot be counted: give the text itself, or leave out "
                'blank_lines="count"'
            )
        if check_marks(marks) != "keep":
            text.refuse_marks()
        yield from _read_corpus(text)
        return
    sentences: list[list[str]] = []
    n_tokens = 0
    for tokens in sentences_of(text, tokenizer, marks=marks):
        if tokens or count_blank:
            sentences.append(tokens)
            n_tokens += len(tokens) + 1
        if n_tokens >= _TOKENS_PER_BLOCK:
            yield _encode_block(sentences, vocabulary)
            sentences, n_tokens = [], 0
    if sentences:
        yield _encode_block(sentences, vocabulary)


def _encode_block(sentences: list[list[str]], vocabulary: Vocabulary) -> Block:
    """Return token lists as one block."""
    flat = list(chain.from_iterable(sentences))
    ids, offsets = encode_sentences(sentences, vocabulary)
    oov = np.isin(ids, vocabulary.oov_ids)
    unknown = [flat[place] for place in np.flatnonzero(oov).tolist()]
    return Block(ids, offsets, oov, sum(map(len, flat)), unknown)


def _read_corpus(corpus: Corpus) -> Iterator[Block]:
    """Yield a corpus, whose tokens are ids already, in blocks, with a progress bar."""
    vocabulary = corpus.vocabulary
    lengths = np.array([len(word) for word in vocabulary.words])
    # whether a type may be a number whose digits were replaced; a corpus does not have the digits
    in_letters, digits = vocabulary.spelled, vocabulary.normalization.digits
    numbers = [digits and "NUM" in word and word not in in_letters for word in vocabulary.words]
    has_numbers = np.array(numbers)
    bar: Progress[object] = track(None, "scoring", total=corpus.n_tokens, unit="token")
    with closing(bar):
        for ids, offsets in corpus.blocks(_TOKENS_PER_BLOCK):
            oov = np.isin(ids, vocabulary.oov_ids)
            # nor does it have the spellings of its unknown words
            as_written = not (oov | has_numbers[ids]).any()
            n_characters = int(lengths[ids].sum()) if as_written else None
            yield Block(ids, offsets, oov, n_characters, None if oov.any() else [])
            bar.update(len(ids))
