"""From text to word ids in one pass, in this process or in several.

The text is read once. Every string gets a provisional id when it is first seen; when the text ends, the counts of
the strings decide the vocabulary, and the provisional ids, in memory or in a file, are replaced by the final ones.
What must fit into memory is the set of distinct strings, one block of text, and the longest line.

With several processes, each turns a block of lines into the distinct strings of the block, in order of appearance,
and numbers that point at them. This process only gives ids to new strings, so little travels and little is left to
do, and the result is the same.
"""

import multiprocessing
import os
import pickle
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import chain
from multiprocessing.connection import wait
from pathlib import Path
from typing import Final, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacenda.corpus.doubts import doubt_lines, doubt_tokens
from tacenda.corpus.lines import Marks, sentence_without_marks
from tacenda.corpus.storage import GrowingArray
from tacenda.errors import CorpusError, warn
from tacenda.learned_classes import count_neighbors, merge_classes
from tacenda.progress import track
from tacenda.tokenizers import Tokenizer, get_tokenizer
from tacenda.vocabulary import UNKNOWN, Normalization, Oov, Vocabulary, not_a_string

_Result = TypeVar("_Result")

BLOCK_TOKENS = 1 << 15
_IN_FLIGHT: Final = 3  # blocks per process that are read ahead

#: Provisional ids of the tokens of a block, and the length of each of its sentences.
CodedBlock = tuple[NDArray[np.int32], NDArray[np.int64]]
#: Distinct strings of a block, and bytes of its int32 ids and int64 lengths, as one process sends it.
_LocalBlock = tuple[list[str], bytes, bytes]


class Selecting(TypedDict, total=False):
    """Keyword arguments that choose the vocabulary of a text, as `tacenda.Corpus.from_text` describes them."""

    vocabulary: Vocabulary | None
    max_vocabulary: int | None
    min_count: int
    digits: bool
    lowercase: bool
    oov: Oov
    min_class_count: int


@dataclass(frozen=True)
class Selection:
    """How the vocabulary of a text is chosen: `Selecting` with all defaults.

    Raises CorpusError where an option contradicts the vocabulary that is given.
    """

    vocabulary: Vocabulary | None = None
    max_vocabulary: int | None = None
    min_count: int = 1
    digits: bool = False
    lowercase: bool = False
    oov: Oov = "single"
    min_class_count: int = 50

    def __post_init__(self) -> None:
        """Take from a given vocabulary what it settles."""
        if self.vocabulary is None:
            return
        settled = {**vars(self.vocabulary.normalization), "oov": self.vocabulary.oov}
        for name, default in vars(Selection()).items():
            value, fixed = getattr(self, name), settled.get(name, default)
            if name != "vocabulary" and value not in (default, fixed):
                raise CorpusError(
                    f"{name}={value!r} contradicts the given vocabulary; leave out one of the two"
                )
            if name in settled:
                object.__setattr__(self, name, fixed)

    def choose(self, counts: Mapping[str, int], n_sentences: int) -> Vocabulary:
        """Return the vocabulary of a text in which each string was written so often, its classes not merged yet."""
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
        """The limits by which words of the text were left out of its vocabulary, as `Corpus.origin` notes them."""
        limits = {"min_count": self.min_count, "max_vocabulary": self.max_vocabulary}
        none = {"min_count": 1, "max_vocabulary": None}
        return {name: n for name, n in limits.items() if n is not None and n != none[name]}


class Types(dict[str, int]):
    """The provisional ids of strings: one that is not there yet gets the next id."""

    def __missing__(self, word: str) -> int:
        if not isinstance(word, str):
            raise not_a_string(word)
        self[word] = found = len(self)
        return found


def code(sentences: Sequence[Sequence[str]], types: Types) -> CodedBlock:
    """Return the provisional ids of a block of sentences. Raises CorpusError unless they are lists of strings."""
    for sentence in sentences:
        if not isinstance(sentence, list | tuple):
            raise CorpusError(
                f"the tokenizer returned a {type(sentence).__name__} for a line; "
                "it must return a list of strings"
            )
    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    tokens = chain.from_iterable(sentences)
    try:
        ids = np.fromiter(map(types.__getitem__, tokens), dtype=np.int32, count=lengths.sum())
    except TypeError as error:  # a list or dictionary where a token should be
        raise CorpusError(f"a token is not a string ({error}); tokens must be strings") from error
    return ids, lengths


def code_lines(
    blocks: Iterable[list[str]], tokenizer: str | Tokenizer, types: Types, processes: int
) -> Iterator[CodedBlock]:
    """Yield the provisional ids of blocks of lines, tokenized here or by several processes."""
    if processes > 1:
        yield from _code_in_processes(blocks, tokenizer, types, processes)
        return
    split = get_tokenizer(tokenizer)
    for lines in blocks:
        yield code(list(map(split, lines)), types)


def code_sentences(
    sentences: Iterable[Sequence[str]], types: Types, marks: Marks = "keep"
) -> Iterator[CodedBlock]:
    """Yield the provisional ids of sentences that are tokenized already, in blocks."""
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
            yield code(block, types)
            block, size = [], 0
    yield code(block, types)


def assemble(
    coded: Iterable[CodedBlock],
    types: Types,
    folder: Path | None,
    selection: Selection,
    what: str,
    tokenizer: str | None,
    first: Sequence[str],
) -> tuple[NDArray[np.int32], NDArray[np.int64], Vocabulary, int]:
    """Gather coded blocks, choose the vocabulary, and renumber.

    Also return how many ``<unk>`` were written in the text. ``folder`` is for the arrays, if they are to stay. ``what``
    is the text in words, for the error when it has no tokens. ``first`` are its first lines; with the counts they may
    cause a warning, see `tacenda.corpus.doubts`.
    """
    ids = GrowingArray(np.int32, folder and folder / "ids.npy")
    offsets = GrowingArray(np.int64, folder and folder / "offsets.npy")
    offsets.append(np.zeros(1, dtype=np.int64))
    for block, lengths in coded:
        ends = ids.size + np.cumsum(lengths[lengths > 0])
        ids.append(block)
        offsets.append(ends)
    if not ids.size:
        raise CorpusError(f"there are no tokens in {what}; give a text with at least one word")
    occurrences = np.zeros(len(types), dtype=np.int64)
    for block in ids.blocks():
        occurrences += np.bincount(block, minlength=len(types))
    counts = dict(zip(types, occurrences.tolist(), strict=True))
    said = doubt_lines(first)
    if selection.vocabulary is None:  # a held-out text may be short or odd
        said = said or doubt_tokens(counts, offsets.size - 1, tokenizer)
    if said:
        warn(said)
    vocabulary = selection.choose(counts, offsets.size - 1)
    if selection.vocabulary is None and selection.oov == "learned":
        table = vocabulary.encode(types, remember=False)
        starts = np.concatenate(list(offsets.blocks()))
        neighbors = count_neighbors((table[each] for each in ids.blocks()), starts, vocabulary)
        vocabulary = merge_classes(vocabulary, neighbors, selection.min_class_count)
    final, cuts = ids.finish(vocabulary.encode(types, remember=False)), offsets.finish()
    final.flags.writeable = cuts.flags.writeable = False  # as a mapped corpus is
    return final, cuts, vocabulary, counts.get(UNKNOWN, 0)


def _code_in_processes(
    blocks: Iterable[list[str]], tokenizer: str | Tokenizer, types: Types, processes: int
) -> Iterator[CodedBlock]:
    """Do the work of `code_lines` with a tokenizer that other processes can import."""
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
        with ProcessPoolExecutor(processes, context, _start, (tokenizer,)) as pool:
            futures = (pool.submit(_code_here, lines) for lines in blocks)
            for words, ids, lengths in results_in_order(futures, _IN_FLIGHT * processes + 1):
                table = np.fromiter(map(types.__getitem__, words), np.int32, len(words))
                yield table[np.frombuffer(ids, np.int32)], np.frombuffer(lengths, np.int64)
    except BrokenProcessPool as error:
        raise CorpusError(
            "a tokenizer process ended unexpectedly; in a script, call from_text under "
            'if __name__ == "__main__":, or use processes=1'
        ) from error


def results_in_order(futures: Iterable[Future[_Result]], most: int) -> Iterator[_Result]:
    """Yield the results of futures in their order; no more than ``most`` are submitted ahead of what is read."""
    pending: deque[Future[_Result]] = deque()
    try:
        for future in futures:
            pending.append(future)
            if len(pending) >= most:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()


_tokenizer: Tokenizer | None = None


def _start(tokenizer: str | Tokenizer) -> None:
    global _tokenizer
    _tokenizer = get_tokenizer(tokenizer)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process with its parent: it would otherwise wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _code_here(lines: list[str]) -> _LocalBlock:
    assert _tokenizer is not None
    types = Types()
    ids, lengths = code(list(map(_tokenizer, lines)), types)
    return list(types), ids.tobytes(), lengths.tobytes()
