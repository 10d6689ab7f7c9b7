"""Tokenized text: int32 ids with int64 sentence offsets, in memory or memory-mapped."""

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from tacenda.corpus import building, views
from tacenda.corpus.building import CodedBlock, Parts, Selection, Types
from tacenda.corpus.cache import open_folder
from tacenda.corpus.fingerprint import fingerprint
from tacenda.corpus.lines import Lines, text_files
from tacenda.corpus.making import make, selection_for, text_coder
from tacenda.corpus.storage import Place
from tacenda.errors import CorpusError
from tacenda.lookup import Oov
from tacenda.tokenizers import Tokenizer, tokenizer_version
from tacenda.vocabulary import Vocabulary

Folder = str | os.PathLike[str]


class VocabularySettings(TypedDict, total=False):
    """The arguments of Corpus.from_text that choose the vocabulary."""

    max_vocabulary: int | None
    min_count: int
    digits: bool
    lowercase: bool
    oov: Oov
    min_class_count: int


class Corpus:
    """A tokenized text.

    ids: int32 (tokens,), the whole text without boundaries; read-only, a memory map where large.
    offsets: int64 (sentences + 1,); sentence i is ``ids[offsets[i] : offsets[i + 1]]``, never
    empty. vocabulary: what the ids mean. Its counts are those of the text it was built from, which
        is another text where ``vocabulary=`` was given; ``type_counts`` counts this one.
    origin: where the text came from (names of files, tokenizer), as JSON, for the record.
    """

    def __init__(
        self,
        ids: NDArray[np.int32],
        offsets: NDArray[np.int64],
        vocabulary: Vocabulary,
        origin: dict[str, Any] | None = None,
        *,
        place: Place | None = None,
    ) -> None:
        self.ids = ids
        self.offsets = offsets
        self.vocabulary = vocabulary
        self.origin = dict(origin or {})
        self._place = place  # a temporary folder lives as long as a corpus that needs it

    @classmethod
    def from_text(
        cls,
        text: Lines,
        *,
        tokenizer: str | Tokenizer = "whitespace",
        vocabulary: Vocabulary | None = None,
        cache: Folder | None = None,
        cache_key: str | None = None,
        encoding: str = "utf-8",
        errors: str = "strict",
        workers: int = 1,
        **settings: Unpack[VocabularySettings],
    ) -> Self:
        """Tokenize text files, or lines, in one pass: a line is a sentence, empty lines are
        skipped.

        text: a ``Path`` or a list of them (plain text or .xz, .gz, .bz2), a string, or an iterable
            of lines. A path is a file and a string is text, here as everywhere in Tacenda.
        tokenizer: "whitespace", "words", "spacy:en" or a callable; see tacenda.tokenizers.
        max_vocabulary: how many proper words become types, the most frequent first; ``</s>``,
            ``<unk>`` and the OOV classes come on top. None (default) keeps all.
        min_count: words that occur less often are left out; default 1.
        digits, lowercase: turn each run of digits into ``NUM``; lower-case. Default False.
        oov: "single" (default) maps all other words to ``<unk>``; "classes" to about a hundred
            shape and suffix classes, of which those with fewer than min_class_count (50) are
            merged. vocabulary: use this one, as for a held-out text; it takes the place of the
            settings above. cache: a folder for the result, memory-mapped; a corpus found there is
            used again if it came from the same files (path, size, times) with the same settings,
            and built anew otherwise. Without it, up to 32M tokens stay in memory and more go to a
            temporary folder. cache_key: a name for the version of a source or tokenizer that
            cannot be compared (an iterable, a callable); without one such a corpus is built anew
            every time. encoding, errors: as for open().
        workers: processes that tokenize; the result does not depend on it. They pay for slow
            tokenizers; the tokenizer must be a name or a function from a module.

        Raises CorpusError for a missing file, a directory, undecodable bytes (with line and byte),
        a text without tokens, contradictory settings, or a cache folder that is not ours.
        """
        selection = selection_for(vocabulary, Selection(**settings))
        paths = text_files(text)
        n = at_least_one(workers, "workers")
        coder = text_coder(text, tokenizer, encoding, errors, n)
        key = fingerprint(
            paths=paths,
            tokenizer=tokenizer_version(tokenizer),
            selection=selection,
            vocabulary=vocabulary,
            reading=(encoding, errors),
            cache_key=cache_key,
        )
        origin = {
            "sources": [path.name for path in paths or ()],
            "tokenizer": tokenizer if isinstance(tokenizer, str) else "callable",
        }
        folder = None if cache is None else Path(cache)
        return cls._of(make(coder, selection, vocabulary, folder, key, origin), origin)

    @classmethod
    def from_sentences(
        cls,
        sentences: Iterable[Sequence[str]],
        *,
        vocabulary: Vocabulary | None = None,
        cache: Folder | None = None,
        cache_key: str | None = None,
        **settings: Unpack[VocabularySettings],
    ) -> Self:
        """A corpus of sentences that are tokenized already, read once; empty ones are skipped.

        Tokens are any strings, with spaces or line ends inside if need be. Arguments as from_text.
        """
        selection = selection_for(vocabulary, Selection(**settings))
        key = fingerprint(
            paths=None,
            tokenizer=None,
            selection=selection,
            vocabulary=vocabulary,
            reading=("", ""),
            cache_key=cache_key,
        )
        origin: dict[str, Any] = {"sources": [], "tokenizer": None}

        def coder(types: Types) -> Iterator[CodedBlock]:
            return building.code_sentences(sentences, types)

        folder = None if cache is None else Path(cache)
        return cls._of(make(coder, selection, vocabulary, folder, key, origin), origin)

    @classmethod
    def open(cls, folder: Folder) -> Self:
        """The corpus that ``cache=folder`` left there; CorpusError if it is missing or damaged."""
        stored = open_folder(Path(folder))
        return cls(stored.ids, stored.offsets, stored.vocabulary, stored.manifest.origin)

    @classmethod
    def _of(cls, parts: Parts, origin: dict[str, Any]) -> Self:
        return cls(parts.ids, parts.offsets, parts.vocabulary, origin, place=parts.place)

    @property
    def n_tokens(self) -> int:
        """How many tokens, boundaries not counted."""
        return len(self.ids)

    @property
    def n_sentences(self) -> int:
        """How many sentences; each has at least one token."""
        return len(self.offsets) - 1

    def __len__(self) -> int:
        return self.n_sentences

    def sentence(self, i: int) -> NDArray[np.int32]:
        """The ids of sentence i (from the end if negative), int32 (tokens,). Raises IndexError."""
        n = self.n_sentences
        if not -n <= i < n:
            raise IndexError(f"there is no sentence {i} in a corpus of {n}")
        return self.ids[self.offsets[i % n] : self.offsets[i % n + 1]]

    def sentences(self) -> Iterator[NDArray[np.int32]]:
        """The ids of one sentence after the other, int32 (tokens,)."""
        for ids, offsets in self.blocks(1 << 18):
            for start, end in pairwise(offsets.tolist()):
                yield ids[start:end]

    def __iter__(self) -> Iterator[NDArray[np.int32]]:
        return self.sentences()

    def blocks(
        self, n_tokens: int = 1 << 20
    ) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int64]]]:
        """Whole sentences, at most n_tokens tokens at a time; a longer sentence is a block by
        itself.

        Yields int32 ids (tokens,) and int64 offsets (sentences + 1,) that start at 0.
        """
        return views.blocks(self.ids, self.offsets, at_least_one(n_tokens, "n_tokens"))

    def stream(self, n_tokens: int = 1 << 20) -> Iterator[NDArray[np.int32]]:
        """The text as one stream, the boundary's id before every sentence, n_tokens ids at a time.

        The stream is a circle: the boundary before the first sentence also follows the last.
        Yields int32 arrays of n_tokens ids, the last one shorter; tokens + sentences ids in all.
        """
        boundary = self.vocabulary.boundary_id
        return views.stream(self.ids, self.offsets, boundary, at_least_one(n_tokens, "n_tokens"))

    def head(self, n_sentences: int) -> Self:
        """The first n_sentences sentences (all, if there are fewer); shares ids and vocabulary."""
        n = min(at_least_one(n_sentences, "n_sentences"), self.n_sentences)
        offsets = self.offsets[: n + 1]
        ids = self.ids[: offsets[-1]]
        return type(self)(ids, offsets, self.vocabulary, self.origin, place=self._place)

    def split(self, fraction: float, seed: int = 0) -> tuple[Self, Self]:
        """Two corpora of whole sentences, in order: the rest, and a random ``fraction`` of them.

        Both keep the vocabulary of the whole. Raises CorpusError if either would be empty.
        """
        n_held_out = round(fraction * self.n_sentences)
        if not 0 < n_held_out < self.n_sentences:
            raise CorpusError(
                f"a fraction of {fraction} of {self.n_sentences} sentences leaves one part empty; "
                "give a fraction between 0 and 1 that suits the corpus"
            )
        held_out = np.zeros(self.n_sentences, dtype=bool)
        rng = np.random.default_rng(seed)
        held_out[rng.choice(self.n_sentences, n_held_out, replace=False)] = True
        return self._subset(~held_out), self._subset(held_out)

    def _subset(self, keep: NDArray[np.bool_]) -> Self:
        ids, offsets, place = views.subset(self.ids, self.offsets, keep)
        return type(self)(ids, offsets, self.vocabulary, self.origin, place=place)

    @cached_property
    def type_counts(self) -> NDArray[np.int64]:
        """How often each type occurs in this text, int64 (types,); ``</s>`` once a sentence."""
        counts = np.zeros(len(self.vocabulary), dtype=np.int64)
        for ids, _ in self.blocks():
            counts += np.bincount(ids, minlength=len(counts))
        counts[self.vocabulary.boundary_id] += self.n_sentences
        return counts

    def describe(self, n_words: int = 10) -> dict[str, Any]:
        """Sizes, the share of tokens outside the vocabulary, and the most frequent words.

        A dictionary for JSON: n_tokens, n_sentences, n_types, oov_rate, longest_sentence, top_words
        (word and count), and what ``origin`` holds.
        """
        counts = self.type_counts.copy()
        oov = int(counts[self.vocabulary.oov_ids].sum())
        counts[self.vocabulary.boundary_id] -= self.n_sentences
        top = np.argsort(-counts, kind="stable")[:n_words].tolist()
        return {
            "n_tokens": self.n_tokens,
            "n_sentences": self.n_sentences,
            "n_types": len(self.vocabulary),
            "oov_rate": oov / self.n_tokens,
            "longest_sentence": int(np.diff(self.offsets).max()),
            "top_words": [(self.vocabulary.words[i], int(counts[i])) for i in top if counts[i]],
            **self.origin,
        }

    def __repr__(self) -> str:
        return (
            f"Corpus({self.n_tokens:,} tokens, {self.n_sentences:,} sentences, "
            f"{len(self.vocabulary):,} types)"
        )


def at_least_one(value: int, name: str) -> int:
    """The value, if it is at least 1; CorpusError otherwise."""
    if value < 1:
        raise CorpusError(f"{name} is {value}; it must be at least 1")
    return value
