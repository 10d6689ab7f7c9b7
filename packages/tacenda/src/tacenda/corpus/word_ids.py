"""Conversion of text to word ids in one pass, in this process or in several.

Every string gets a provisional id when it first occurs. At the end of the text, the vocabulary is chosen from the
counts of the strings, and the provisional ids, in memory or in a file, are replaced by the final ones. The distinct
strings, the longest line and the blocks that are read in advance must fit into memory; with ``oov="learned"``, so must
the offsets of all sentences.

With several processes, each converts blocks of lines to the distinct strings of a block, in order of appearance, and
places in this list. This process gives ids to new strings only, so little data is sent, and the result is the same.
"""

import multiprocessing
import os
import pickle
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, fields
from itertools import chain
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Final, NamedTuple, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacenda.corpus.doubts import doubt_lines, doubt_tokens
from tacenda.corpus.marks import Marks, sentence_without_marks
from tacenda.corpus.storage import GrowingArray
from tacenda.errors import CorpusError, warn
from tacenda.learned_classes import count_neighbors, merge_classes
from tacenda.progress import track
from tacenda.tokenizers import Tokenizer, get_tokenizer
from tacenda.vocabulary import (
    UNKNOWN,
    Normalization,
    Oov,
    Vocabulary,
    no_vocabulary,
    not_a_string,
)

_Result = TypeVar("_Result")

BLOCK_TOKENS = 1 << 15
_BLOCKS_AHEAD: Final = 3  # blocks per process that are read in advance

#: Provisional ids of the tokens of a block, and the length of each of its sentences.
CodedBlock = tuple[NDArray[np.int32], NDArray[np.int64]]


class Selecting(TypedDict, total=False):
    """Keyword arguments that choose the vocabulary of a text, as `tacenda.Corpus.from_text` describes them."""

    vocabulary: Vocabulary | None
    max_vocabulary: int | None
    min_count: int
    digits: bool
    lowercase: bool
    oov: Oov
    min_class_count: int


@dataclass
class Selection:
    """The options that choose the vocabulary of a text, with their defaults.

    Raises CorpusError if an option contradicts the vocabulary that is given, or has no valid value.
    """

    vocabulary: Vocabulary | None = None
    max_vocabulary: int | None = None
    min_count: int = 1
    digits: bool = False
    lowercase: bool = False
    oov: Oov = "single"
    min_class_count: int = 50

    def __post_init__(self) -> None:
        """Set the options that follow from a given vocabulary, and all others as values that JSON has."""
        if not isinstance(self.vocabulary, Vocabulary | None):
            raise no_vocabulary(self.vocabulary)
        # without a given vocabulary, this refuses limits and rules before a text is read
        chosen = self.choose({}, 0)
        implied = {**vars(chosen.normalization), "oov": chosen.oov}
        for field in fields(self)[1:]:  # after the vocabulary
            value, fixed = getattr(self, field.name), implied.get(field.name, field.default)
            if self.vocabulary is not None and value not in (field.default, fixed):
                raise CorpusError(
                    f"{field.name}={value!r} contradicts the given vocabulary; leave out one of the two"
                )
            if field.name in implied:
                value = fixed
            elif value is not None:
                value = int(value)
            setattr(self, field.name, value)

    def choose(self, counts: Mapping[str, int], n_sentences: int) -> Vocabulary:
        """Return the given vocabulary, or one built from the counts of a text's strings, with unmerged classes."""
        return self.vocabulary or Vocabulary.from_counts(
            counts,
            n_sentences,
            max_vocabulary=self.max_vocabulary,
            min_count=self.min_count,
            normalization=Normalization(self.digits, self.lowercase),
            oov=self.oov,
            min_class_count=self.min_class_count,
        )

    @property
    def cutoff(self) -> dict[str, int]:
        """The limits that leave words of the text out of its vocabulary, for `Corpus.origin`."""
        limits = {"min_count": self.min_count, "max_vocabulary": self.max_vocabulary}
        return {name: n for name, n in limits.items() if n and n != getattr(Selection, name)}


class Types(dict[str, int]):
    """Provisional ids of strings: looking up a new string gives it the next id."""

    def __missing__(self, word: str) -> int:
        if not isinstance(word, str):
            raise not_a_string(word)
        self[word] = new_id = len(self)
        return new_id


def encode_block(sentences: Sequence[Sequence[str]], types: Types) -> CodedBlock:
    """Return the provisional ids of a block of sentences. Raises CorpusError unless they are lists of strings."""
    for sentence in sentences:
        if not isinstance(sentence, list | tuple):
            raise CorpusError(
                f"the tokenizer returned a {type(sentence).__name__} for a line; it must return a list of strings"
            )
    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    tokens = chain.from_iterable(sentences)
    try:
        ids = np.fromiter(map(types.__getitem__, tokens), dtype=np.int32, count=lengths.sum())
    except TypeError as error:  # a list or dictionary where a token should be
        raise CorpusError(f"a token is not a string ({error}); tokens must be strings") from error
    return ids, lengths


def encode_lines(
    blocks: Iterable[list[str]], tokenizer: str | Tokenizer, types: Types, processes: int
) -> Iterator[CodedBlock]:
    """Yield the provisional ids of blocks of lines, tokenized here or by several processes."""
    if processes > 1:
        yield from _encode_in_processes(blocks, tokenizer, types, processes)
        return
    split = get_tokenizer(tokenizer)
    for lines in blocks:
        yield encode_block(list(map(split, lines)), types)


def encode_sentences(
    sentences: Iterable[Sequence[str]], types: Types, marks: Marks = "keep"
) -> Iterator[CodedBlock]:
    """Yield the provisional ids of sentences that are tokenized already, in blocks."""
    if not isinstance(sentences, Iterable):
        raise CorpusError(f"sentences must be a list of lists of tokens, not {sentences!r:.40}")
    block: list[Sequence[str]] = []
    size = 0
    bar = track(sentences, "Reading sentences", unit=" sentences")
    for number, sentence in enumerate(bar, start=1):
        if isinstance(sentence, str | bytes) or not isinstance(sentence, Iterable):
            raise CorpusError(
                f"sentence {number} is a {type(sentence).__name__}, not a list of tokens; "
                "for lines of text use Corpus.from_text"
            )
        tokens = sentence if isinstance(sentence, list | tuple) else list(sentence)
        block.append(sentence_without_marks(tokens, marks, number))
        size += len(block[-1])
        if size >= BLOCK_TOKENS:
            yield encode_block(block, types)
            block, size = [], 0
    yield encode_block(block, types)


class EncodedText(NamedTuple):
    """A whole text as final word ids."""

    ids: NDArray[np.int32]  # (tokens,)
    offsets: NDArray[np.int64]  # (sentences + 1,)
    vocabulary: Vocabulary
    origin: dict[str, Any]  # of the corpus


def assemble(
    coded: Iterable[CodedBlock],
    types: Types,
    folder: Path | None,
    selection: Selection,
    origin: dict[str, Any],
    first_lines: Sequence[str],
) -> EncodedText:
    """Join encoded blocks, choose the vocabulary, and replace the provisional ids in ``types`` by final ones.

    ``folder`` is for the arrays, if they are to be kept. The result has the given ``origin`` and the count of a written
    ``<unk>``. Warns if the text looks like no sentences of words: `tacenda.corpus.doubts` examines the first lines and
    the counts. Raises CorpusError if the text has no tokens, or the arrays cannot be written.
    """
    ids = GrowingArray(np.int32, folder and folder / "ids.npy")
    offsets = GrowingArray(np.int64, folder and folder / "offsets.npy")
    offsets.append(np.zeros(1, dtype=np.int64))
    for block, lengths in coded:
        ends = ids.size + np.cumsum(lengths[lengths > 0])
        ids.append(block)
        offsets.append(ends)
    if not ids.size:
        raise no_tokens_error(", ".join(origin["sources"]) or "the text")
    occurrences = np.zeros(len(types), dtype=np.int64)
    for block in ids.blocks():
        occurrences += np.bincount(block, minlength=len(types))
    counts = dict(zip(types, occurrences.tolist(), strict=True))
    doubt = doubt_lines(first_lines)
    # a held-out text may be short or unusual
    if doubt is None and selection.vocabulary is None:
        doubt = doubt_tokens(counts, offsets.size - 1, origin["tokenizer"])
    if doubt is not None:
        warn(doubt)
    vocabulary = selection.choose(counts, offsets.size - 1)
    if selection.vocabulary is None and selection.oov == "learned":
        table = vocabulary.encode(types, remember=False)
        starts = np.concatenate(list(offsets.blocks()))
        neighbors = count_neighbors((table[block] for block in ids.blocks()), starts, vocabulary)
        vocabulary = merge_classes(vocabulary, neighbors, selection.min_class_count)
    if UNKNOWN in counts:
        origin = origin | {"written_unknown": counts[UNKNOWN]}
    final_ids = ids.finish(vocabulary.encode(types, remember=False))
    return EncodedText(final_ids, offsets.finish(), vocabulary, origin)


def no_tokens_error(description: str) -> CorpusError:
    """Return the error for a text without tokens."""
    return CorpusError(f"there are no tokens in {description}; give a text with at least one word")


def _encode_in_processes(
    blocks: Iterable[list[str]], tokenizer: str | Tokenizer, types: Types, processes: int
) -> Iterator[CodedBlock]:
    """Yield what `encode_lines` does, tokenized by other processes, which import the tokenizer."""
    try:
        pickle.dumps(tokenizer)
    except Exception as error:
        raise CorpusError(
            f"the tokenizer {tokenizer!r:.80} cannot be sent to other processes; "
            "give a function defined in a module, or processes=1"
        ) from error
    # spawned, not forked: the threads of numeric libraries do not survive a fork
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(processes, context, _start_worker, (tokenizer,)) as pool:
            futures = (pool.submit(_encode_in_worker, lines) for lines in blocks)
            for words, (ids, lengths) in results_in_order(futures, _BLOCKS_AHEAD * processes + 1):
                table = np.fromiter(map(types.__getitem__, words), np.int32, len(words))
                yield table[ids], lengths
    except BrokenProcessPool as error:
        raise CorpusError(
            "a tokenizer process ended unexpectedly; in a script, call from_text under "
            'if __name__ == "__main__":, or use processes=1'
        ) from error


def results_in_order(futures: Iterable[Future[_Result]], max_pending: int) -> Iterator[_Result]:
    """Yield the results of futures in their order, taking at most ``max_pending`` futures in advance."""
    pending: deque[Future[_Result]] = deque()
    try:
        for future in futures:
            pending.append(future)
            if len(pending) >= max_pending:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()


_tokenizer: Tokenizer | None = None


def _start_worker(tokenizer: str | Tokenizer) -> None:
    """Set the tokenizer of this process, which ends with its parent."""
    global _tokenizer
    _tokenizer = get_tokenizer(tokenizer)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent dies; otherwise it would wait for work forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _encode_in_worker(lines: list[str]) -> tuple[list[str], CodedBlock]:
    """Return the distinct strings of a block of lines, and the block with their places as ids."""
    assert _tokenizer is not None
    types = Types()
    coded = encode_block(list(map(_tokenizer, lines)), types)
    return list(types), coded
