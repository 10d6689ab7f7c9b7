"""`Corpus`: tokenized text as int32 ids with int64 sentence offsets, in memory or memory-mapped."""

import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tacenda.corpus import cache as caches
from tacenda.corpus import word_ids
from tacenda.corpus.lines import Lines, text_blocks, text_files
from tacenda.corpus.marks import START, Marks, check_marks, refusal
from tacenda.corpus.storage import GrowingArray, Place, forget_pages
from tacenda.corpus.word_ids import CodedBlock, Selection, Types
from tacenda.errors import CorpusError
from tacenda.lookup import Oov
from tacenda.store import path_of
from tacenda.tokenizers import ASCII_WHITESPACE, Tokenizer, get_tokenizer, tokenizer_version
from tacenda.vocabulary import Vocabulary

__all__ = ["Corpus"]

Folder = str | os.PathLike[str]
Ids = NDArray[np.int32]
Offsets = NDArray[np.int64]


class Corpus:
    """A tokenized text.

    Parameters
    ----------
    ids
        int32 (tokens,): the whole text without boundaries; read-only, a memory map where large.
    offsets
        int64 (sentences + 1,): sentence ``i`` is ``ids[offsets[i] : offsets[i + 1]]``, never empty.
    vocabulary
        What the ids mean. Its counts are those of the text it was built from, which is another text where
        ``vocabulary=`` was given; `type_counts` counts this one.
    origin
        Where the text came from (names of files, tokenizer), as JSON, for the record.
    place
        The folder of the arrays; a temporary one lives as long as a corpus that needs it.
    """

    def __init__(
        self,
        ids: Ids,
        offsets: Offsets,
        vocabulary: Vocabulary,
        origin: dict[str, Any] | None = None,
        *,
        place: Place | None = None,
    ) -> None:
        self.ids = ids
        self.offsets = offsets
        self.vocabulary = vocabulary
        self.origin = dict(origin or {})
        self._place = place

    @classmethod
    def from_text(
        cls,
        text: Lines,
        *,
        tokenizer: str | Tokenizer = "whitespace",
        vocabulary: Vocabulary | None = None,
        max_vocabulary: int | None = None,
        min_count: int = 1,
        digits: bool = False,
        lowercase: bool = False,
        oov: Oov = "single",
        min_class_count: int = 50,
        cache: Folder | None = None,
        cache_key: str | None = None,
        encoding: str = "utf-8",
        errors: str = "strict",
        marks: Marks = "keep",
        processes: int = 1,
    ) -> Self:
        """Tokenize text in one pass: a line is a sentence, empty lines are skipped.

        Text that is split at whitespace and looks as if it was not tokenized causes a warning.

        Parameters
        ----------
        text
            A ``Path`` or a list of them (plain text or .xz, .gz, .bz2), a string, or an iterable of lines. A path
            is a file and a string is text, here as everywhere in Tacenda.
        tokenizer
            ``"whitespace"``, ``"words"``, ``"spacy:en"`` or a callable; see `tacenda.tokenizers`.
        vocabulary
            The vocabulary to use, as for a held-out text; it settles the next six options.
        max_vocabulary
            How many proper words become types, the most frequent first; ``</s>``, ``<unk>`` and the OOV classes
            come on top. None keeps all.
        min_count
            Words that occur less often are left out.
        digits
            Turn each run of digits into ``NUM``.
        lowercase
            Turn all words into lower case.
        oov
            ``"single"`` maps all other words to ``<unk>``; ``"classes"`` to about a hundred classes of shapes and
            suffixes.
        min_class_count
            Classes with fewer occurrences are merged into coarser ones.
        cache
            A folder for the result, which is memory-mapped. A corpus found there is used again if it came from
            the same files (path, size, times) with the same settings, and built anew otherwise. Without it, up
            to 32M tokens stay in memory and more go to a temporary folder.
        cache_key
            A name for the version of a source or tokenizer that cannot be compared (an iterable, a callable);
            without one such a corpus is built anew every time.
        encoding, errors
            Of files, as for ``open()``.
        marks
            What is done with ``<s>`` and ``</s>`` that are written in the text: ``"refuse"`` raises an error, which
            names the line, ``"skip"`` reads them as spaces, and ``"keep"`` as the words that they spell.
        processes
            Processes that tokenize; the result does not depend on it. They pay for slow tokenizers, which must be
            names or functions of a module.

        Raises
        ------
        CorpusError
            A file is missing, a directory, or holds undecodable bytes (the message names line and byte), a string
            is the name of a file, the text has no tokens or a mark that is refused, the settings contradict each other,
            or the cache folder holds something that is not ours.
        """
        check_marks(marks)
        selection = Selection(
            max_vocabulary, min_count, digits, lowercase, oov, min_class_count
        ).settled_by(vocabulary)
        at_least_one(processes, "processes")
        get_tokenizer(tokenizer)
        paths = text_files(text)

        def coder(types: Types) -> Iterator[CodedBlock]:
            blocks = text_blocks(text, encoding, errors, marks)
            return word_ids.code_lines(blocks, tokenizer, types, processes)

        fingerprint = caches.fingerprint(
            paths=paths,
            tokenizer=tokenizer_version(tokenizer),
            selection=selection,
            vocabulary=vocabulary,
            reading=(encoding, errors, *([] if marks == "keep" else [marks])),
            cache_key=cache_key,
        )
        name = tokenizer if isinstance(tokenizer, str) else getattr(tokenizer, "name", "callable")
        origin = {"sources": [path.name for path in paths or ()], "tokenizer": name}
        return cls._build(coder, selection, vocabulary, cache, fingerprint, origin)

    @classmethod
    def from_sentences(
        cls,
        sentences: Iterable[Sequence[str]],
        *,
        vocabulary: Vocabulary | None = None,
        max_vocabulary: int | None = None,
        min_count: int = 1,
        digits: bool = False,
        lowercase: bool = False,
        oov: Oov = "single",
        min_class_count: int = 50,
        cache: Folder | None = None,
        cache_key: str | None = None,
        marks: Marks = "keep",
    ) -> Self:
        """Make a corpus of sentences that are tokenized already, read once; empty ones are skipped.

        Tokens are any strings, with spaces or line ends inside if need be. Options and errors are those of
        `from_text`.
        """
        selection = Selection(
            max_vocabulary, min_count, digits, lowercase, oov, min_class_count
        ).settled_by(vocabulary)
        check_marks(marks)

        def coder(types: Types) -> Iterator[CodedBlock]:
            return word_ids.code_sentences(sentences, types, marks)

        fingerprint = caches.fingerprint(
            paths=None,
            tokenizer=None,
            selection=selection,
            vocabulary=vocabulary,
            reading=("", "", *([] if marks == "keep" else [marks])),
            cache_key=cache_key,
        )
        origin: dict[str, Any] = {"sources": [], "tokenizer": None}
        return cls._build(coder, selection, vocabulary, cache, fingerprint, origin)

    @classmethod
    def _build(
        cls,
        coder: Callable[[Types], Iterator[CodedBlock]],
        selection: Selection,
        vocabulary: Vocabulary | None,
        cache: Folder | None,
        fingerprint: str | None,
        origin: dict[str, Any],
    ) -> Self:
        """Build a corpus, or take it from the cache if the one there has the same fingerprint."""

        def assemble(place: Place) -> tuple[Ids, Offsets, Vocabulary]:
            types = Types()
            what = ", ".join(origin["sources"]) or "the text"
            is_split_at_whitespace = origin["tokenizer"] in ("whitespace", ASCII_WHITESPACE)
            ids, offsets, words, n_unknown = word_ids.assemble(
                coder(types), types, place, selection, vocabulary, what, is_split_at_whitespace
            )
            if n_unknown:
                origin["written_unknown"] = n_unknown
            return ids, offsets, words

        if cache is None:
            place = Place()
            return cls(*assemble(place), origin, place=place)
        folder = path_of(cache, CorpusError)
        found = caches.reusable(folder, fingerprint)
        if found is not None:
            # the fingerprint covers a given vocabulary's words, not its counts: keep the one given
            known = found.vocabulary if vocabulary is None else vocabulary
            return cls(found.ids, found.offsets, known, found.manifest.origin)
        with caches.new_data(folder) as data:
            ids, offsets, words = assemble(Place(data))
            caches.commit(data, len(ids), len(offsets) - 1, words, origin, fingerprint)
        return cls(ids, offsets, words, origin)

    @classmethod
    def open(cls, folder: Folder) -> Self:
        """Open the corpus that ``cache=folder`` left; CorpusError if it is missing or damaged."""
        stored = caches.open_folder(path_of(folder, CorpusError))
        return cls(stored.ids, stored.offsets, stored.vocabulary, stored.manifest.origin)

    def refuse_marks(self) -> None:
        """Raise CorpusError, which names the sentence, if ``<s>`` or ``</s>`` is a token of the text."""
        marks = [self.vocabulary.boundary_id]
        if START in self.vocabulary:
            marks.append(self.vocabulary.id_of(START))
        n_before = 0
        for ids, offsets in self.blocks():
            for mark in marks:
                places = np.flatnonzero(ids == mark)
                if len(places):
                    number = n_before + int(np.searchsorted(offsets, places[0], side="right"))
                    raise refusal(self.vocabulary.words[mark], f"sentence {number} of the corpus")
            n_before += len(offsets) - 1

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
        """Return the ids of sentence ``i``, from the end if negative: int32 (tokens,). Raises IndexError."""
        n = self.n_sentences
        if not -n <= i < n:
            raise IndexError(f"there is no sentence {i} in a corpus of {n}")
        return self.ids[self.offsets[i % n] : self.offsets[i % n + 1]]

    def sentences(self) -> Iterator[NDArray[np.int32]]:
        """Yield the ids of one sentence after the other, int32 (tokens,)."""
        for ids, offsets in self.blocks(1 << 18):
            for start, end in pairwise(offsets.tolist()):
                yield ids[start:end]

    def __iter__(self) -> Iterator[NDArray[np.int32]]:
        return self.sentences()

    def blocks(
        self, n_tokens: int = 1 << 20
    ) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int64]]]:
        """Yield blocks of whole sentences, at most ``n_tokens`` tokens each; a longer sentence is a block by itself.

        A block is int32 ids (tokens,) and int64 offsets (sentences + 1,) that start at 0.
        """
        at_least_one(n_tokens, "n_tokens")
        return self._blocks(n_tokens)

    def _blocks(self, n_tokens: int) -> Iterator[tuple[Ids, Offsets]]:
        first = 0
        while first < self.n_sentences:
            limit = int(self.offsets[first]) + n_tokens
            # the first offset beyond the limit; the one before it ends the block
            beyond = bisect_left(self.offsets, limit + 1, first + 1, self.n_sentences + 1)
            last = max(beyond - 1, first + 1)
            bounds = np.asarray(self.offsets[first : last + 1])
            yield np.asarray(self.ids[bounds[0] : bounds[-1]]), bounds - bounds[0]
            forget_pages(self.ids)
            first = last

    def stream(
        self, n_tokens: int = 1 << 20, *, backwards: bool = False
    ) -> Iterator[NDArray[np.int32]]:
        """Yield the text as one stream, the boundary's id before every sentence, ``n_tokens`` ids at a time.

        The stream is a circle: the boundary before the first sentence also follows the last. The arrays are int32,
        one of them may be shorter; together they have tokens + sentences ids. ``backwards`` begins with the last id
        and ends with the first.
        """
        at_least_one(n_tokens, "n_tokens")
        return self._stream(n_tokens, backwards)

    def _stream(self, n_tokens: int, backwards: bool) -> Iterator[Ids]:
        n, offsets = self.n_sentences, self.offsets

        def boundaries_before(position: int) -> int:
            # sentence i has i boundaries before its own, which stands at offsets[i] + i of the stream
            return bisect_left(range(n), position, key=lambda i: int(offsets[i]) + i)

        begins = range(0, self.n_tokens + n, n_tokens)
        for begin in reversed(begins) if backwards else begins:
            end = min(begin + n_tokens, self.n_tokens + n)
            i, j = boundaries_before(begin), boundaries_before(end)
            piece = np.empty(end - begin, dtype=np.int32)
            is_token = np.ones(end - begin, dtype=bool)
            is_token[offsets[i:j] + np.arange(i, j) - begin] = False
            piece[~is_token] = self.vocabulary.boundary_id
            piece[is_token] = self.ids[begin - i : end - j]
            forget_pages(self.ids)
            yield piece[::-1] if backwards else piece

    def head(self, n_sentences: int) -> Self:
        """Return the first ``n_sentences`` sentences, or all if there are fewer; ids and vocabulary are shared."""
        at_least_one(n_sentences, "n_sentences")
        n = min(n_sentences, self.n_sentences)
        offsets = self.offsets[: n + 1]
        ids = self.ids[: offsets[-1]]
        origin = self.origin if n == self.n_sentences else self._origin_of_a_part()
        return type(self)(ids, offsets, self.vocabulary, origin, place=self._place)

    def split(self, fraction: float, seed: int = 0) -> tuple[Self, Self]:
        """Return two corpora of whole sentences in order: the rest, and a random ``fraction`` of the sentences.

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
        """Copy the sentences where ``keep`` (sentences,) is true, in order, to a place of their own."""
        place = Place()
        kept_ids = GrowingArray("ids", np.int32, place)
        kept_offsets = GrowingArray("offsets", np.int64, place)
        try:
            kept_offsets.append(np.zeros(1, dtype=np.int64))
            first = 0
            for block, bounds in self.blocks():
                wanted = keep[first : first + len(bounds) - 1]
                lengths = np.diff(bounds)
                kept_offsets.append(len(kept_ids) + np.cumsum(lengths[wanted]))
                kept_ids.append(block[np.repeat(wanted, lengths)])
                first += len(lengths)
            ids, offsets = kept_ids.finish(), kept_offsets.finish()
        finally:
            kept_ids.close()
            kept_offsets.close()
        return type(self)(ids, offsets, self.vocabulary, self._origin_of_a_part(), place=place)

    def _origin_of_a_part(self) -> dict[str, Any]:
        """Return the origin without the written unknown words, which in a part nobody can tell from rare ones."""
        return {name: fact for name, fact in self.origin.items() if name != "written_unknown"}

    @cached_property
    def type_counts(self) -> NDArray[np.int64]:
        """How often each type occurs in this text, int64 (types,); ``</s>`` counts once for each sentence."""
        counts = np.zeros(len(self.vocabulary), dtype=np.int64)
        for ids, _ in self.blocks():
            counts += np.bincount(ids, minlength=len(counts))
        counts[self.vocabulary.boundary_id] += self.n_sentences
        return counts

    def describe(self, n_words: int = 10) -> dict[str, Any]:
        """Return sizes, the share of tokens outside the vocabulary, and the most frequent words, as JSON values.

        The keys are n_tokens, n_sentences, n_types, oov_rate, longest_sentence, top_words (word and count), and those
        of ``origin``.
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


def at_least_one(value: int, name: str) -> None:
    """Raise CorpusError unless the value is at least 1."""
    if value < 1:
        raise CorpusError(f"{name} is {value}; it must be at least 1")
