"""Texts as word ids: sequences laid end to end in one array, with the offsets that cut them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.corpus.lines import Marks, check_marks
from tacenda.corpus.storage import PASS_ITEMS, GrowingArray, forget_pages
from tacenda.corpus.text import Text, sentences_of
from tacenda.errors import ConfigurationError, DataError
from tacenda.offsets import check_offsets
from tacenda.progress import Progress, track
from tacenda.tokenizers import Tokenizer
from tacenda.vocabulary import Vocabulary

Ids: TypeAlias = npt.NDArray[np.int32]
Offsets: TypeAlias = npt.NDArray[np.int64]
Float64: TypeAlias = npt.NDArray[np.float64]
_TOKENS = 1 << 17  # of a block
#: What a sentence without tokens is: none, or one that consists of ``</s>`` alone, as in KenLM's ``query``.
BlankLines: TypeAlias = Literal["skip", "count"]
#: Ids or offsets as a caller may give them.
Integers: TypeAlias = npt.NDArray[np.integer[Any]]


def check_sequences(ids: Integers, offsets: Integers, n_types: int) -> tuple[Ids, Offsets]:
    """Return the ids as int32 (tokens,) and the offsets as int64 (sequences + 1,).

    Raises DataError for an id that is not in 0 .. n_types - 1, or offsets that do not cut the ids.
    """
    ids = check_ids(ids, n_types)
    return ids, check_offsets(offsets, len(ids), what="the offsets of the sequences")


def check_ids(ids: Integers | Sequence[int], n_types: int) -> Ids:
    """Return the ids as int32 (tokens,). Raises DataError for one that is not in 0 .. n_types - 1."""
    found = np.asarray(ids)
    if found.ndim != 1 or (found.dtype.kind not in "iu" and found.size):
        raise DataError(
            f"ids must be integers in one dimension, not {found.dtype} of shape {found.shape}"
        )
    # compiled code takes rows of tables by these ids and does not look whether there are such rows
    if len(found) and (found.min() < 0 or found.max() >= n_types):
        wrong = np.flatnonzero((found < 0) | (found >= n_types))
        check_word(int(found[wrong[0]]), n_types, f" (at place {wrong[0]})")
    return np.ascontiguousarray(found, dtype=np.int32)


def check_pairs(states: Sequence[Any], words: Integers | Sequence[int], n_types: int) -> Ids:
    """Return the words as `check_ids` does. Raises DataError too where there is not one for each state."""
    ids = check_ids(words, n_types)
    if len(ids) != len(states):
        raise DataError(f"there are {len(states)} states and {len(ids)} words: give one for each")
    return ids


def check_word(word: int, n_types: int, place: str = "") -> None:
    """Raise DataError unless ``word`` is an id from 0 to n_types - 1; ``place`` says where it stood."""
    if not 0 <= word < n_types:
        raise DataError(
            f"there is no id {word}{place} in a vocabulary of {n_types} types; "
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


def join_texts(texts: Iterable[tuple[Ids, Offsets]]) -> tuple[Ids, Offsets]:
    """Join texts, given as ids and offsets: arrays in memory, or read-only maps of a file where they are large."""
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
    """Yield, step by step, the sequences that have not ended, longest first, and the places of their ids.

    Many short sequences are so read in as few steps as the longest has ids.
    """
    order = np.argsort(-lengths, kind="stable")
    begins, longest_first, n = begins[order], lengths[order].tolist(), len(order)
    for t in range(longest_first[0] if n else 0):
        while longest_first[n - 1] <= t:
            n -= 1
        yield order[:n], begins[:n] + t


def rechunk(blocks: Iterable[npt.NDArray[Any]], size: int) -> Iterator[npt.NDArray[Any]]:
    """Yield the same rows in blocks of ``size``; only the last may be smaller."""
    held: list[npt.NDArray[Any]] = []
    n_held = 0
    for rows in blocks:
        held.append(rows)
        n_held += len(rows)
        if n_held >= size:
            joined = np.concatenate(held)
            whole = n_held - n_held % size
            for start in range(0, whole, size):
                yield joined[start : start + size]
            held, n_held = [joined[whole:]], n_held - whole
    if n_held:
        yield np.concatenate(held)


def sums_of_pieces(
    values: npt.NDArray[Any], begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> Float64:
    """Return the sum of the values from each begin to its end: float64 (pieces,), 0 where a piece is empty.

    An infinity or NaN among the values affects the sum of one piece only.
    """
    if not len(begins):
        return np.empty(0)
    padded = np.append(values.astype(np.float64), 0.0)  # an index may be the end of the values
    # reduceat sums between all neighboring borders: every other sum is of what lies between two pieces
    found = np.add.reduceat(padded, np.stack([begins, ends], axis=1).ravel())[::2]
    return np.where(begins == ends, 0.0, found)


def check_blank_lines(blank_lines: str) -> BlankLines:
    """Return the value itself. Raises ConfigurationError if it is not "skip" or "count"."""
    if blank_lines in get_args(BlankLines):
        return cast("BlankLines", blank_lines)
    raise ConfigurationError(f"blank_lines must be 'skip' or 'count', not {blank_lines!r}")


class Block(NamedTuple):
    """Some sentences as ids."""

    ids: Ids  # (tokens,), without ``</s>``
    offsets: Offsets  # (sentences + 1,)
    # (tokens,): which are outside the vocabulary, a written ``<unk>`` among them
    oov: npt.NDArray[np.bool_]
    n_characters: int | None  # of the words, without spaces; None where they are not known
    # the words outside the vocabulary, as written; None where that is not known
    unknown: list[str] | None


def encode_text(
    text: Text,
    vocabulary: Vocabulary,
    tokenizer: str | Tokenizer = "whitespace",
    *,
    eos: bool = False,
) -> tuple[Ids, Offsets]:
    """Encode a text whole: int32 ids (tokens,) and int64 offsets (sentences + 1,).

    Sentences without tokens stay, and so do marks of sentences. With ``eos``, ``</s>`` follows every sentence. Raises
    CorpusError for a text that cannot be read, or a corpus with another vocabulary.
    """
    if isinstance(text, Corpus):
        vocabulary.require_same(text.vocabulary, "the corpus")
        ids, offsets = np.asarray(text.ids), np.asarray(text.offsets)
        return with_ends(ids, offsets, vocabulary.boundary_id) if eos else (ids, offsets)
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
    is refused, and for a corpus with another vocabulary; ConfigurationError where blank lines of a corpus, which has
    none, are to count.
    """
    if isinstance(text, Corpus):
        vocabulary.require_same(text.vocabulary, "the corpus")
        if check_blank_lines(blank_lines) == "count":
            raise ConfigurationError(
                "a corpus leaves blank lines out, so that they cannot be counted: give the text itself, or leave out "
                'blank_lines="count"'
            )
        if check_marks(marks) != "keep":
            text.refuse_marks()
        yield from _corpus_blocks(text)
        return
    counted = check_blank_lines(blank_lines) == "count"
    held: list[list[str]] = []
    n_held = 0
    for tokens in sentences_of(text, tokenizer, marks=marks):
        if tokens or counted:
            held.append(tokens)
            n_held += len(tokens) + 1
        if n_held >= _TOKENS:
            yield _block(held, vocabulary)
            held, n_held = [], 0
    if held:
        yield _block(held, vocabulary)


def _block(sentences: list[list[str]], vocabulary: Vocabulary) -> Block:
    """Token lists as one block."""
    flat = list(chain.from_iterable(sentences))
    ids, offsets = encode_sentences(sentences, vocabulary)
    oov = np.isin(ids, vocabulary.oov_ids)
    unknown = [flat[place] for place in np.flatnonzero(oov).tolist()]
    return Block(ids, offsets, oov, sum(map(len, flat)), unknown)


def _corpus_blocks(corpus: Corpus) -> Iterator[Block]:
    """The blocks of a corpus, whose tokens are ids already."""
    vocabulary = corpus.vocabulary
    lengths = np.array([len(word) for word in vocabulary.words])
    bar: Progress[object] = track(None, "scoring", total=corpus.n_tokens, unit="token")
    with closing(bar):
        for ids, offsets in corpus.blocks(_TOKENS):
            oov = np.isin(ids, vocabulary.oov_ids)
            known = not oov.any()
            n_characters = int(lengths[ids].sum()) if known else None
            yield Block(ids, offsets, oov, n_characters, [] if known else None)
            bar.update(len(ids))
