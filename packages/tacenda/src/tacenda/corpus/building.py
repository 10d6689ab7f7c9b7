"""From text to ids in one pass: provisional ids in order of first appearance, renumbered in blocks.

The text is read once. Every string gets a provisional id when it is first seen; when the text ends
its counts decide the vocabulary, and the provisional ids, in memory or in a file, are replaced by
the final ones. What must fit into memory is the set of distinct strings, one block of text, and
the longest line.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.corpus.storage import GrowingArray, Place
from tacenda.errors import CorpusError
from tacenda.lookup import Normalization, Oov
from tacenda.progress import track
from tacenda.tokenizers import Tokenizer
from tacenda.vocabulary import Vocabulary

BLOCK_TOKENS = 1 << 15

CodedBlock = tuple[NDArray[np.int32], NDArray[np.int64]]
"""Provisional ids of the tokens of a block, and the length of each of its sentences."""


@dataclass(frozen=True)
class Selection:
    """How the vocabulary of a text is chosen; see Vocabulary.from_counts."""

    max_vocabulary: int | None = None
    min_count: int = 1
    digits: bool = False
    lowercase: bool = False
    oov: Oov = "single"
    min_class_count: int = 50


class Parts(NamedTuple):
    """A corpus: int32 ids (tokens,), int64 offsets (sentences + 1,), vocabulary, place."""

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]
    vocabulary: Vocabulary
    place: Place


class Types(dict[str, int]):
    """Provisional ids: a string that is not there yet gets the next one."""

    def __missing__(self, word: str) -> int:
        if not isinstance(word, str):
            raise CorpusError(
                f"a token is a {type(word).__name__} ({word!r:.40}), not a string; "
                "tokens must be strings"
            )
        self[word] = found = len(self)
        return found


def code(sentences: Sequence[Sequence[str]], types: Types) -> CodedBlock:
    """Provisional ids of a block of sentences."""
    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    tokens = chain.from_iterable(sentences)
    try:
        ids = np.fromiter(map(types.__getitem__, tokens), dtype=np.int32, count=lengths.sum())
    except TypeError as error:  # a list or dictionary where a token should be
        raise CorpusError(f"a token is not a string ({error}); tokens must be strings") from error
    return ids, lengths


def tokenize(lines: list[str], tokenizer: Tokenizer) -> list[list[str]]:
    """Tokens of each line. Raises CorpusError if the tokenizer returns anything but lists."""
    sentences = list(map(tokenizer, lines))
    for sentence in sentences:
        if not isinstance(sentence, list | tuple):
            raise CorpusError(
                f"the tokenizer returned a {type(sentence).__name__} for a line; "
                "it must return a list of strings"
            )
    return sentences


def code_lines(
    blocks: Iterable[list[str]], tokenizer: Tokenizer, types: Types
) -> Iterator[CodedBlock]:
    """Provisional ids of blocks of lines."""
    for lines in blocks:
        yield code(tokenize(lines, tokenizer), types)


def code_sentences(sentences: Iterable[Sequence[str]], types: Types) -> Iterator[CodedBlock]:
    """Provisional ids of sentences that are tokenized already, in blocks."""
    block: list[Sequence[str]] = []
    size = 0
    for number, sentence in enumerate(track(sentences, "Reading sentences", unit=" sentences")):
        if isinstance(sentence, str | bytes) or not isinstance(sentence, Iterable):
            raise CorpusError(
                f"sentence {number} is a {type(sentence).__name__}, not a list of tokens; "
                "for lines of text use Corpus.from_text"
            )
        block.append(sentence if isinstance(sentence, list | tuple) else list(sentence))
        size += len(block[-1])
        if size >= BLOCK_TOKENS:
            yield code(block, types)
            block, size = [], 0
    yield code(block, types)


def assemble(
    coded: Iterable[CodedBlock],
    types: Types,
    place: Place,
    selection: Selection,
    vocabulary: Vocabulary | None,
    what: str,
) -> Parts:
    """Gather coded blocks, choose the vocabulary unless it is given, and renumber.

    what: the text in words, for the error when it has no tokens.
    """
    ids = GrowingArray("ids", np.int32, place)
    offsets = GrowingArray("offsets", np.int64, place)
    try:
        offsets.append(np.zeros(1, dtype=np.int64))
        for block, lengths in coded:
            ends = len(ids) + np.cumsum(lengths[lengths > 0])
            ids.append(block)
            offsets.append(ends)
        if not len(ids):
            raise CorpusError(f"there are no tokens in {what}; give a text with at least one word")
        if vocabulary is None:
            counts = _count(ids, len(types))
            vocabulary = _choose(types, counts, len(offsets) - 1, selection)
        ids.replace(vocabulary.encode(types, remember=False))
        return Parts(ids.finish(), offsets.finish(), vocabulary, place)
    finally:
        ids.close()
        offsets.close()


def _count(ids: GrowingArray, n_types: int) -> NDArray[np.int64]:
    counts = np.zeros(n_types, dtype=np.int64)
    for block in ids.blocks():
        counts += np.bincount(block, minlength=n_types)
    return counts


def _choose(
    types: Types, counts: NDArray[Any], n_sentences: int, selection: Selection
) -> Vocabulary:
    return Vocabulary.from_counts(
        dict(zip(types, counts.tolist(), strict=True)),
        n_sentences,
        max_vocabulary=selection.max_vocabulary,
        min_count=selection.min_count,
        normalization=Normalization(selection.digits, selection.lowercase),
        oov=selection.oov,
        min_class_count=selection.min_class_count,
    )
