"""`Corpus`: tokenized text as int32 ids with int64 sentence offsets, in memory or memory-mapped."""

import hashlib
import json
import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import pairwise
from numbers import Real
from pathlib import Path
from typing import Any, Final, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from tacenda import reading, store, tokenizers
from tacenda.corpus import storage, word_ids
from tacenda.corpus.doubts import collect_first_lines
from tacenda.corpus.lines import Lines, field_of, open_text, text_blocks
from tacenda.corpus.marks import START, Marks, check_marks, refusal
from tacenda.corpus.split_words import SplitWordCounter
from tacenda.corpus.word_ids import CodedBlock, Selecting, Selection, Types
from tacenda.errors import ArtifactError, CorpusError, check_whole, warn
from tacenda.forks import cached_property
from tacenda.offsets import check_offsets, runs
from tacenda.tokenizers import SPLIT_AT_SPACES, Tokenizer
from tacenda.vocabulary import Vocabulary, no_vocabulary
from tacenda.word_classes import CLASSES

_SPLIT_WORDS: Final = "split_words.json"
_BUILD_VERSION = 2  # raise it when the code makes another corpus of the same sources and settings

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
        The words of the ids. Its counts are from the text it was built from, which is a different text if
        ``vocabulary=`` was given; `type_counts` counts this text.
    origin
        Where the text came from, as JSON, for the record: names of files, tokenizer, and the ``min_count`` and
        ``max_vocabulary`` that left words out of the vocabulary.

    Attributes
    ----------
    n_tokens
        The number of tokens, without sentence boundaries.
    n_sentences
        The number of sentences; each has at least one token.

    Raises
    ------
    CorpusError
        An array has another dtype or shape, the offsets do not rise from 0 to the number of ids, an id has no word, or
        ``vocabulary`` is no `Vocabulary`.
    """

    def __init__(
        self,
        ids: Ids,
        offsets: Offsets,
        vocabulary: Vocabulary,
        origin: dict[str, Any] | None = None,
    ) -> None:
        for name, array, dtype in (("ids", ids, np.int32), ("offsets", offsets, np.int64)):
            if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype != dtype:
                raise CorpusError(
                    f"the {name} of a corpus must be an array of {dtype.__name__} in one dimension, not {array!r:.80}"
                )
        if not isinstance(vocabulary, Vocabulary):
            raise no_vocabulary(vocabulary)
        what = "the sentence offsets"
        check_offsets(offsets, len(ids), what=what, strictly=True, error=CorpusError)
        for start in range(0, len(ids), storage.PASS_ITEMS):
            block = ids[start : start + storage.PASS_ITEMS]
            if block.min() < 0 or block.max() >= len(vocabulary):
                raise CorpusError(f"ids are beyond the {len(vocabulary)} types of the vocabulary")
        self.ids, self.offsets = ids.view(), offsets.view()
        for array in (self.ids, self.offsets):
            array.flags.writeable = False
        self.n_tokens, self.n_sentences = len(ids), len(offsets) - 1
        self.vocabulary = vocabulary
        self.origin = dict(origin or {})

    @classmethod
    def from_text(
        cls,
        text: Lines,
        *,
        tokenizer: str | Tokenizer = "whitespace",
        cache: Folder | None = None,
        cache_key: str | None = None,
        encoding: str = "utf-8",
        errors: str = "strict",
        marks: Marks = "keep",
        text_field: str | None = None,
        processes: int = 1,
        count_words: bool = False,
        **selection: Unpack[Selecting],
    ) -> Self:
        """Tokenize text in one pass: a line is a sentence, empty lines are skipped.

        Text that does not look like one sentence of words per line causes a warning that says what to do; see
        `tacenda.corpus.doubts`.

        Parameters
        ----------
        text
            A ``Path`` or a list of them (plain text, one JSON object per line in files named .jsonl, or either of
            these in .xz, .gz, .bz2 or .zip), a string, or an iterable of lines. As everywhere in Tacenda, a path is a
            file and a string is text.
        tokenizer
            ``"whitespace"``, ``"words"``, ``"spacy:en"`` or a callable; see `tacenda.tokenizers`.
        cache
            A folder for the result, which is memory-mapped. If it holds a corpus of the same files (path, size, times)
            with the same settings, that corpus is used; otherwise it is built again. Without it, up
            to 32M tokens stay in memory and more go to a temporary folder.
        cache_key
            A name for the version of a source or tokenizer that cannot be compared (an iterable, a callable);
            without a key, such a corpus is built again every time.
        encoding, errors
            Of files, as for ``open()``.
        marks
            How to read ``<s>`` and ``</s>`` that are written in the text: ``"refuse"`` raises an error that names the
            line, ``"skip"`` reads them as spaces, and ``"keep"`` reads them as ordinary words.
        text_field
            The field that holds the text, if the lines are JSON objects. By default, files named ``*.jsonl`` or
            ``*.ndjson`` are read as JSON with the field ``"text"``, and all others as plain text.
        processes
            Number of processes that tokenize; it does not change the result. More than one is worthwhile for slow
            tokenizers, which must be names or functions of a module.
        count_words
            Count the words that the tokenizer splits into several tokens, such as *don't*, for the frequencies that
            `tacenda_lm.surprisal_table` gives; reading takes longer. A given ``vocabulary`` keeps its own counts.
        vocabulary
            The vocabulary to use, for example for a held-out text; the options below then come from it.
        max_vocabulary
            Keep this many words, the most frequent ones; ``</s>``, ``<unk>`` and the OOV classes are not counted.
            None keeps all.
        min_count
            Leave out words that occur less often.
        digits
            Turn each run of digits into ``NUM``.
        lowercase
            Turn all words into lower case.
        oov
            ``"single"`` maps all other words to ``<unk>``; ``"learned"`` to at most 400 classes of shapes and
            suffixes, using the suffixes that are most informative about neighboring words in this text; ``"classes"``
            to classes of shapes and English suffixes.
        min_class_count
            Classes with fewer occurrences are merged into coarser ones.

        Raises
        ------
        CorpusError
            A file is missing, a directory, or holds undecodable bytes (the message names line and byte), a string
            is the name of a file, the text has no tokens or a mark that is refused, the settings contradict each other,
            or the cache folder holds something that is not ours.
        """
        check_marks(marks)
        check_whole("processes", processes, error=CorpusError)
        choices = Selection(**selection)
        tokenizers.get_tokenizer(tokenizer)
        source, _ = open_text(text)
        paths = source if isinstance(source, list) else []
        types = Types()
        first_lines: list[str] = []
        blocks = text_blocks(source, encoding, errors, marks, text_field)
        blocks = collect_first_lines(blocks, first_lines)
        counter = None
        if count_words and choices.vocabulary is None and tokenizer not in SPLIT_AT_SPACES:
            counter = SplitWordCounter(tokenizer, types)
            blocks = counter.count_while_reading(blocks)
        coded = word_ids.encode_lines(blocks, tokenizer, types, processes)
        origin = {
            "sources": [path.name for path in paths],
            "tokenizer": tokenizers.record_tokenizer(tokenizer),
            **choices.cutoff,
        }
        fingerprint = None
        if cache is not None:
            fields = [field_of(path.name, text_field) for path in paths] or [text_field]
            settings = (encoding, errors, marks, fields, count_words)
            rules = tokenizers.fingerprint_tokenizer(tokenizer)
            fingerprint = _fingerprint(choices, cache_key, settings, paths, rules)
        return cls._build(coded, types, choices, origin, cache, fingerprint, first_lines, counter)

    @classmethod
    def from_sentences(
        cls,
        sentences: Iterable[Sequence[str]],
        *,
        cache: Folder | None = None,
        cache_key: str | None = None,
        marks: Marks = "keep",
        **selection: Unpack[Selecting],
    ) -> Self:
        """Build a corpus from tokenized sentences, which are read once; empty sentences are skipped.

        Tokens are any strings, even with spaces or line ends inside. Options and errors are the same as in `from_text`.
        """
        check_marks(marks)
        choices, types = Selection(**selection), Types()
        coded = word_ids.encode_sentences(sentences, types, marks)
        origin: dict[str, Any] = {"sources": [], "tokenizer": None, **choices.cutoff}
        fingerprint = None if cache is None else _fingerprint(choices, cache_key, (marks,))
        return cls._build(coded, types, choices, origin, cache, fingerprint)

    @classmethod
    def _build(
        cls,
        coded: Iterable[CodedBlock],
        types: Types,
        selection: Selection,
        origin: dict[str, Any],
        cache: Folder | None,
        fingerprint: str | None,
        first_lines: Sequence[str] = (),
        counter: SplitWordCounter | None = None,
    ) -> Self:
        """Build a corpus, or open the one in the cache if it has the same fingerprint."""
        folder = None if cache is None else reading.path_of(cache, CorpusError)
        if folder is not None and (folder / storage.MANIFEST).exists():
            # raises for foreign, unreadable and later manifests, so that their folders are not overwritten
            manifest = storage.read_manifest(folder)
            if fingerprint is not None and fingerprint == manifest.fingerprint:
                try:
                    found = cls._open(folder, manifest)
                    # the fingerprint covers a given vocabulary's words, not its counts: keep the one given
                    found.vocabulary = selection.vocabulary or found.vocabulary
                    return found
                except CorpusError as error:
                    warn(f"{error}: building it again now")
        with nullcontext() if folder is None else storage.new_data(folder) as data:
            text = word_ids.assemble(coded, types, data, selection, origin, first_lines)
            if counter is not None:
                text.vocabulary.split_words = counter.counts(text.vocabulary.normalization)
            corpus = cls(*text)
            if data is not None:
                corpus._commit(data, fingerprint)
        return corpus

    @classmethod
    def open(cls, folder: Folder) -> Self:
        """Open a corpus stored with ``cache=folder``. Raises CorpusError if it is missing or damaged."""
        folder = reading.path_of(folder, CorpusError)
        return cls._open(folder, storage.read_manifest(folder))

    @classmethod
    def _open(cls, folder: Path, manifest: storage.Manifest) -> Self:
        """Open the corpus that a manifest describes, which may have been replaced in the folder since."""
        sizes: dict[str, tuple[type[np.generic], int]] = {
            "ids": (np.int32, manifest.n_tokens),
            "offsets": (np.int64, manifest.n_sentences + 1),
            "vocabulary.text": (np.uint8, manifest.n_text_bytes),
            "vocabulary.offsets": (np.int64, manifest.n_types + 1),
            "vocabulary.counts": (np.int64, manifest.n_types),
        }
        data = folder / manifest.data
        arrays = {
            name: storage.load_array(data / f"{name}.npy", *kind) for name, kind in sizes.items()
        }
        try:
            vocabulary = Vocabulary.from_arrays(manifest.vocabulary, arrays, at_once=True)
            if (data / _SPLIT_WORDS).exists():
                # of any size, unlike a manifest
                with reading.open_regular(data / _SPLIT_WORDS) as file:
                    words = vocabulary.split_words = reading.parse_json(file.read())
                if not isinstance(words, dict) or not all(
                    type(n) is int and n > 0 for n in words.values()
                ):
                    raise ValueError(f"{_SPLIT_WORDS} holds no counts of words")
            return cls(arrays["ids"], arrays["offsets"], vocabulary, manifest.origin)
        except (ArtifactError, CorpusError, OSError, ValueError) as error:
            raise CorpusError(
                f"the corpus in {folder} is damaged ({error}); build it again"
            ) from error

    def _commit(self, data: Path, fingerprint: str | None) -> None:
        """Write the vocabulary next to the arrays of the corpus, then the manifest of the folder."""
        arrays = self.vocabulary.arrays()
        manifest = storage.Manifest(
            data=data.name,
            n_tokens=self.n_tokens,
            n_sentences=self.n_sentences,
            n_types=len(self.vocabulary),
            n_text_bytes=len(arrays["vocabulary.text"]),
            vocabulary=self.vocabulary.config_dict(),
            origin=self.origin,
            fingerprint=fingerprint,
        )
        with storage.writing(data):
            for name, array in arrays.items():
                np.save(data / f"{name}.npy", array, allow_pickle=False)
            if self.vocabulary.split_words is not None:
                words = json.dumps(dict(self.vocabulary.split_words))
                (data / _SPLIT_WORDS).write_text(words, encoding="utf-8")
            store.sync(data)
            text = json.dumps(vars(manifest), indent=1)
            store.write_file(data.parent / storage.MANIFEST, text.encode("utf-8"))

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
                    place, word = f"sentence {number} of the corpus", self.vocabulary.words[mark]
                    raise refusal(word, place, 'make the corpus with marks="skip"')
            n_before += len(offsets) - 1

    def __len__(self) -> int:
        return self.n_sentences

    def sentence(self, i: int) -> NDArray[np.int32]:
        """Return the ids of sentence ``i``, from the end if negative: int32 (tokens,). Raises IndexError."""
        n = self.n_sentences
        if not -n <= i < n:
            raise IndexError(f"there is no sentence {i} in a corpus of {n}")
        return self.ids[self.offsets[i % n] : self.offsets[i % n + 1]]

    def sentences(self) -> Iterator[NDArray[np.int32]]:
        """Yield the ids of each sentence in turn, int32 (tokens,)."""
        for ids, offsets in self.blocks(1 << 18):
            for start, end in pairwise(offsets.tolist()):
                yield ids[start:end]

    __iter__ = sentences

    def blocks(
        self, n_tokens: int = 1 << 20
    ) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int64]]]:
        """Yield blocks of whole sentences, at most ``n_tokens`` tokens each; a longer sentence is a block by itself.

        A block is int32 ids (tokens,) and int64 offsets (sentences + 1,) that start at 0.
        """
        check_whole("n_tokens", n_tokens, error=CorpusError)
        for first, last in runs(self.offsets, n_tokens):
            bounds = np.asarray(self.offsets[first : last + 1])
            yield np.asarray(self.ids[bounds[0] : bounds[-1]]), bounds - bounds[0]
            storage.forget_pages(self.ids)

    def stream(
        self, n_tokens: int = 1 << 20, *, backwards: bool = False
    ) -> Iterator[NDArray[np.int32]]:
        """Yield the text as one stream, with the boundary's id before every sentence, ``n_tokens`` ids at a time.

        The stream is circular: the boundary before the first sentence also follows the last. The arrays are int32, and
        the last of the stream may be shorter; together they have tokens + sentences ids. ``backwards`` yields the
        reversed stream.
        """
        check_whole("n_tokens", n_tokens, error=CorpusError)
        n, offsets = self.n_sentences, self.offsets

        def boundaries_before(position: int) -> int:
            # i boundaries precede that of sentence i, whose position in the stream is therefore offsets[i] + i
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
            storage.forget_pages(self.ids)
            yield piece[::-1] if backwards else piece

    def head(self, n_sentences: int) -> Self:
        """Return the first ``n_sentences`` sentences, or all if there are fewer; ids and vocabulary are shared."""
        check_whole("n_sentences", n_sentences, error=CorpusError)
        n = min(n_sentences, self.n_sentences)
        offsets = self.offsets[: n + 1]
        ids = self.ids[: offsets[-1]]
        origin = self.origin if n == self.n_sentences else self._origin_of_a_part()
        return type(self)(ids, offsets, self.vocabulary, origin)

    def split(self, fraction: float, seed: int = 0) -> tuple[Self, Self]:
        """Return two corpora of whole sentences in order: the rest, and a random ``fraction`` of the sentences.

        Both keep the vocabulary of the whole. Raises CorpusError if either would be empty, or the seed is negative.
        """
        check_whole("seed", seed, 0, CorpusError)
        is_fraction = isinstance(fraction, Real) and 0 < fraction < 1
        n_held_out = round(fraction * self.n_sentences) if is_fraction else 0
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
        """Copy the sentences where ``keep`` (sentences,) is true, in order."""
        ids, offsets = storage.GrowingArray(np.int32), storage.GrowingArray(np.int64)
        offsets.append(np.zeros(1, dtype=np.int64))
        first = 0
        for block, bounds in self.blocks():
            wanted = keep[first : first + len(bounds) - 1]
            lengths = np.diff(bounds)
            offsets.append(ids.size + np.cumsum(lengths[wanted]))
            ids.append(block[np.repeat(wanted, lengths)])
            first += len(lengths)
        origin = self._origin_of_a_part()
        return type(self)(ids.finish(), offsets.finish(), self.vocabulary, origin)

    def _origin_of_a_part(self) -> dict[str, Any]:
        """Return the origin without the number of written ``<unk>``, which is unknown for a part of the text."""
        return {name: fact for name, fact in self.origin.items() if name != "written_unknown"}

    @cached_property
    def type_counts(self) -> NDArray[np.int64]:
        """The number of occurrences of each type, int64 (types,); ``</s>`` counts once for each sentence."""
        counts = np.zeros(len(self.vocabulary), dtype=np.int64)
        for ids, _ in self.blocks():
            counts += np.bincount(ids, minlength=len(counts))
        counts[self.vocabulary.boundary_id] += self.n_sentences
        return counts

    def describe(self, n_words: int = 10) -> dict[str, Any]:
        """Return sizes, the share of tokens outside the vocabulary, and the most frequent words, as JSON values.

        The keys are n_tokens, n_sentences, n_types, oov_rate, longest_sentence, top_words (word and count), and the
        keys of ``origin``. Raises CorpusError if ``n_words`` is negative.
        """
        check_whole("n_words", n_words, 0, CorpusError)
        counts = self.type_counts.copy()
        oov = int(counts[self.vocabulary.oov_ids].sum())
        counts[self.vocabulary.boundary_id] -= self.n_sentences
        top = np.argsort(-counts, kind="stable")[:n_words].tolist()
        return {
            "n_tokens": self.n_tokens,
            "n_sentences": self.n_sentences,
            "n_types": len(self.vocabulary),
            "oov_rate": oov / max(self.n_tokens, 1),
            "longest_sentence": int(np.diff(self.offsets).max(initial=0)),
            "top_words": [(self.vocabulary.words[i], int(counts[i])) for i in top if counts[i]],
            **self.origin,
        }

    def __reduce__(self) -> tuple[Any, ...]:  # so that the arrays of a copy are read-only too
        return type(self), (self.ids, self.offsets, self.vocabulary, self.origin)

    def __repr__(self) -> str:
        return f"Corpus({self.n_tokens:,} tokens, {self.n_sentences:,} sentences, {len(self.vocabulary):,} types)"


def _fingerprint(
    selection: Selection,
    cache_key: str | None,
    settings: tuple[object, ...],
    paths: Sequence[Path] = (),
    tokenizer: str | None = None,
) -> str | None:
    """Return a sha256 (hex) of sources and settings, which is equal only if the corpora are.

    Files are identified by absolute path, size and times of change. ``settings`` has all other settings, as JSON. The
    result is None for an iterable (without ``paths``) and a callable tokenizer (``tokenizer``, its fingerprint, is
    None), unless the user gives a ``cache_key`` for them.
    """
    if cache_key is None and (not paths or tokenizer is None):
        return None
    states = [(path.resolve(), path.stat()) for path in paths]
    files = [[str(path), s.st_size, s.st_mtime_ns, s.st_ctime_ns] for path, s in states]
    choices = dict(vars(selection))
    vocabulary = choices.pop("vocabulary")
    facts = {
        "build": _BUILD_VERSION,
        "classes": CLASSES,
        "files": files or None,
        "tokenizer": tokenizer,
        "selection": choices,
        "vocabulary": None if vocabulary is None else vocabulary.fingerprint,
        "reading": settings,
        "key": cache_key,
    }
    try:
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    except (TypeError, ValueError):  # everything else is JSON already
        raise CorpusError(f"cache_key is {cache_key!r:.80}; give a text") from None
