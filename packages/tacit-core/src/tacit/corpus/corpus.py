"""Tokenized text: int32 ids with int64 sentence offsets, in memory or memory-mapped, and a vocabulary."""

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tacit.corpus import building, reading
from tacit.corpus.building import Parts, Selection, Types
from tacit.corpus.storage import Place
from tacit.errors import CorpusError
from tacit.lookup import Oov
from tacit.tokenizers import Tokenizer, get_tokenizer
from tacit.vocabulary import Vocabulary

Text = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


class Corpus:
    """A tokenized text.

    ids: int32 (tokens,), the whole text without boundaries; read-only, a memory map where it is large.
    offsets: int64 (sentences + 1,); sentence i is ``ids[offsets[i] : offsets[i + 1]]``, never empty.
    vocabulary: what the ids mean.
    """

    def __init__(
        self,
        ids: NDArray[np.int32],
        offsets: NDArray[np.int64],
        vocabulary: Vocabulary,
        *,
        place: Place | None = None,
    ) -> None:
        self.ids = ids
        self.offsets = offsets
        self.vocabulary = vocabulary
        self._place = place  # a temporary folder lives as long as a corpus that needs it

    @classmethod
    def from_text(
        cls,
        text: Text,
        *,
        tokenizer: str | Tokenizer = "whitespace",
        max_vocabulary: int | None = None,
        min_count: int = 1,
        digits: bool = False,
        lowercase: bool = False,
        oov: Oov = "single",
        vocabulary: Vocabulary | None = None,
        cache: str | os.PathLike[str] | None = None,
        encoding: str = "utf-8",
        errors: str = "strict",
    ) -> Self:
        """Tokenize files, or lines, in one pass: a line is a sentence, empty lines are skipped."""
        selection = Selection(max_vocabulary, min_count, digits, lowercase, oov)
        tokenize = get_tokenizer(tokenizer)
        paths = reading.as_paths(text)
        if paths is None:
            blocks = reading.line_blocks(text)  # type: ignore[arg-type]
        else:
            blocks = (b for path in paths for b in reading.read_blocks(path, encoding, errors))
        types = Types()
        coded = building.code_lines(blocks, tokenize, types)
        what = "the text" if paths is None else ", ".join(map(str, paths))
        return cls._of(building.assemble(coded, types, Place(), selection, vocabulary, what))

    @classmethod
    def from_sentences(
        cls,
        sentences: Iterable[Sequence[str]],
        *,
        max_vocabulary: int | None = None,
        min_count: int = 1,
        digits: bool = False,
        lowercase: bool = False,
        oov: Oov = "single",
        vocabulary: Vocabulary | None = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> Self:
        """A corpus of sentences that are tokenized already; empty ones are skipped."""
        selection = Selection(max_vocabulary, min_count, digits, lowercase, oov)
        types = Types()
        coded = building.code_sentences(sentences, types)
        return cls._of(
            building.assemble(coded, types, Place(), selection, vocabulary, "the sentences")
        )

    @classmethod
    def _of(cls, parts: Parts) -> Self:
        return cls(parts.ids, parts.offsets, parts.vocabulary, place=parts.place)

    @property
    def n_tokens(self) -> int:
        """How many tokens, boundaries not counted."""
        return len(self.ids)

    @property
    def n_sentences(self) -> int:
        """How many sentences; each has at least one token."""
        return len(self.offsets) - 1

    def sentence(self, i: int) -> NDArray[np.int32]:
        """The ids of sentence i, int32 (tokens,)."""
        if not -self.n_sentences <= i < self.n_sentences:
            raise IndexError(f"sentence {i} of a corpus of {self.n_sentences} sentences")
        i %= self.n_sentences
        return self.ids[self.offsets[i] : self.offsets[i + 1]]

    def sentences(self) -> Iterator[NDArray[np.int32]]:
        """The ids of one sentence after the other."""
        for ids, offsets in self.blocks(1 << 16):
            ends = offsets.tolist()
            for start, end in zip(ends, ends[1:], strict=False):
                yield ids[start:end]

    def __iter__(self) -> Iterator[NDArray[np.int32]]:
        return self.sentences()

    def __len__(self) -> int:
        return self.n_sentences

    def blocks(
        self, n_tokens: int = 1 << 20
    ) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int64]]]:
        """Whole sentences in blocks of at most n_tokens tokens (a longer sentence is a block by itself).

        Yields int32 ids (tokens,) and int64 offsets (sentences + 1,) that start at 0.
        """
        first, offsets = 0, self.offsets
        while first < self.n_sentences:
            limit = offsets[first] + n_tokens
            last = (
                bisect_left(
                    range(self.n_sentences + 1), limit + 1, lo=first + 1, key=lambda i: offsets[i]
                )
                - 1
            )
            last = max(last, first + 1)
            bounds = np.asarray(offsets[first : last + 1])
            yield self.ids[bounds[0] : bounds[-1]], bounds - bounds[0]
            first = last

    def stream(self, n_tokens: int = 1 << 20) -> Iterator[NDArray[np.int32]]:
        """The text as one stream with the boundary's id before every sentence, n_tokens at a time.

        The end of the stream meets its start: the boundary before the first sentence is the one after the last.
        Yields int32 arrays of n_tokens ids; the last may be shorter. All together: tokens + sentences ids.
        """
        starts = self.offsets
        total = self.n_tokens + self.n_sentences
        boundary = self.vocabulary.boundary_id

        def boundaries_before(position: int) -> int:
            return bisect_left(range(self.n_sentences), position, key=lambda i: starts[i] + i)

        for begin in range(0, total, n_tokens):
            end = min(begin + n_tokens, total)
            i, j = boundaries_before(begin), boundaries_before(end)
            piece = np.empty(end - begin, dtype=np.int32)
            is_token = np.ones(end - begin, dtype=bool)
            is_token[starts[i:j] + np.arange(i, j) - begin] = False
            piece[~is_token] = boundary
            piece[is_token] = self.ids[begin - i : end - j]
            yield piece

    def __repr__(self) -> str:
        return f"Corpus({self.n_tokens} tokens, {self.n_sentences} sentences, {len(self.vocabulary)} types)"
