"""`ClusterCorpus`: a text that lies on the workers of a Dask cluster as word ids.

Every partition of the files is read and tokenized once, on a worker, and stays there with provisional ids. The counts
of its strings are summed over the cluster, where a worker chooses the vocabulary from them as one process does; then
the provisional ids are replaced by the final ones. The client gets the vocabulary, and never the text or its strings.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self

import numpy as np
from dask.delayed import delayed
from distributed import Client
from numpy.typing import NDArray

from tacenda.corpus import word_ids
from tacenda.corpus.lines import Marks, check_marks
from tacenda.corpus.word_ids import Selection, Types
from tacenda.dask.partitions import Addresses, Partition, partitions
from tacenda.dask.sums import (
    client_or_current,
    computed,
    finished,
    holders,
    placed,
    tree,
)
from tacenda.errors import CorpusError
from tacenda.tokenizers import ASCII_WHITESPACE, Tokenizer, get_tokenizer
from tacenda.vocabulary import UNKNOWN, Oov, Vocabulary

__all__ = ["ClusterCorpus", "Part"]

PARTITION_BYTES: Final = 64 << 20


class Part(NamedTuple):
    """A partition of a text, as a worker holds it.

    Attributes
    ----------
    ids
        int32 (tokens,), without boundaries.
    offsets
        int64 (sentences + 1,): sentence ``i`` is ``ids[offsets[i] : offsets[i + 1]]``, never empty; there may be none.
    n_unknown
        How many ``<unk>`` were written in it.
    """

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]
    n_unknown: int


class _Coded(NamedTuple):
    """A partition with ids of its own: places in a list of its distinct strings."""

    words: list[str]
    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]


class _Tally(NamedTuple):
    """Counts of strings as they were written, and of sentences."""

    words: list[str]
    counts: NDArray[np.int64]  # (words,)
    n_sentences: int


class _Reading(NamedTuple):
    """How lines are read and split."""

    tokenizer: str | Tokenizer
    encoding: str
    errors: str
    marks: Marks


class ClusterCorpus:
    """A tokenized text on a cluster, of which `tacenda_embeddings.dask` and `tacenda_lm.dask` count what models need.

    Attributes
    ----------
    parts
        A future of a `Part` for every partition, in the order of the text.
    vocabulary
        What the ids mean, as in `tacenda.Corpus`.
    origin
        Where the text came from, as in `tacenda.Corpus`.
    n_tokens, n_sentences
        Sizes of the whole text.
    part_tokens
        How many tokens each part has.
    type_counts
        int64 (types,), how often each type occurs; ``</s>`` counts once for each sentence.
    """

    def __init__(
        self,
        client: Client,
        parts: list[Any],
        vocabulary: Vocabulary,
        origin: dict[str, Any],
        placed_vocabulary: Any,
    ) -> None:
        self.client = client
        self.parts = parts
        self.vocabulary = vocabulary
        self.origin = origin
        self.placed_vocabulary = placed_vocabulary  # the same, as a future for tasks
        facts = client.gather(client.map(_facts, parts, pure=False))
        self.part_tokens = [n_tokens for n_tokens, _, _ in facts]
        self.n_tokens = sum(self.part_tokens)
        self.n_sentences = sum(n_sentences for _, n_sentences, _ in facts)
        n_unknown = sum(n for _, _, n in facts)
        if not self.n_tokens:
            raise _no_tokens(origin["sources"])
        if n_unknown:
            self.origin["written_unknown"] = n_unknown
        counts = [delayed(_type_counts)(part, len(vocabulary)) for part in parts]
        total = tree(counts, sum, holders(client, parts))
        self.type_counts: NDArray[np.int64] = computed(client, total)
        self.type_counts[vocabulary.boundary_id] += self.n_sentences

    @classmethod
    def from_text(
        cls,
        addresses: Addresses,
        *,
        client: Client | None = None,
        tokenizer: str | Tokenizer = "whitespace",
        vocabulary: Vocabulary | None = None,
        max_vocabulary: int | None = None,
        min_count: int = 1,
        digits: bool = False,
        lowercase: bool = False,
        oov: Oov = "single",
        min_class_count: int = 50,
        encoding: str = "utf-8",
        errors: str = "strict",
        marks: Marks = "keep",
        partition_bytes: int = PARTITION_BYTES,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Read and tokenize files on a cluster: a line is a sentence, empty lines are skipped.

        The vocabulary and all ids are those that `tacenda.Corpus.from_text` gives the same files.

        Parameters
        ----------
        addresses
            One or more fsspec addresses, such as ``"s3://bucket/news-*.txt"``, a path, or a glob; plain or compressed
            (gzip, bzip2, xz). Every worker must be able to reach them.
        client
            The cluster; the current client if None.
        tokenizer, vocabulary, max_vocabulary, min_count, digits, lowercase, oov, min_class_count, encoding, errors, \
marks
            As of `tacenda.Corpus.from_text`. A tokenizer that is a function is sent to the workers.
        partition_bytes
            How much text a task reads. A compressed file is never cut: make its parts files of their own.
        storage_options
            For the file system of the addresses, such as an endpoint or credentials.

        Raises
        ------
        CorpusError
            A file cannot be reached or read, holds undecodable bytes or a mark that is refused, or there are no tokens.
        ConfigurationError
            There is no client, or no package for this kind of address.
        FittingError
            The cluster gave up.
        """
        client = client_or_current(client)
        reading = _Reading(tokenizer, encoding, errors, check_marks(marks))
        get_tokenizer(tokenizer)
        selection = Selection(
            max_vocabulary, min_count, digits, lowercase, oov, min_class_count
        ).settled_by(vocabulary)
        plan = partitions(addresses, partition_bytes, encoding, storage_options)
        name = tokenizer if isinstance(tokenizer, str) else getattr(tokenizer, "name", "callable")
        sources = [each.name.rpartition("/")[2] for each in plan if not each.begin]
        sizes = [each.n_bytes for each in plan]
        coded: list[Any] = [delayed(_code)(each, reading) for each in plan]
        if vocabulary is None:
            coded = finished(client, coded, "Tokenizing", sizes, "B")
            tallies = [delayed(_tally)(each) for each in coded]
            total = tree(tallies, _added, holders(client, coded))
            is_split_at_whitespace = tokenizer in ("whitespace", ASCII_WHITESPACE)
            chosen = delayed(_chosen)(total, selection, is_split_at_whitespace)
            vocabulary, said = computed(client, chosen)
            if vocabulary is None:
                raise _no_tokens(sources)
            if said:
                warnings.warn(said, stacklevel=2)
        there = placed(client, vocabulary)
        parts = [delayed(_renumbered)(each, there) for each in coded]
        coded.clear()  # none but the parts needs them now: each goes when its part is there
        return cls(
            client,
            finished(client, parts, "Numbering", sizes, "B"),
            vocabulary,
            {"sources": sources, "tokenizer": name},
            there,
        )

    def __repr__(self) -> str:
        return (
            f"ClusterCorpus({self.n_tokens:,} tokens, {self.n_sentences:,} sentences, {len(self.vocabulary):,} types, "
            f"{len(self.parts)} parts)"
        )


# -- tasks -------------------------------------------------------------------------------------------


def _code(partition: Partition, reading: _Reading) -> _Coded:
    types = Types()
    lines = partition.blocks(reading.encoding, reading.errors, reading.marks)
    ids: list[NDArray[np.int32]] = [np.empty(0, np.int32)]
    lengths: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    for block_ids, block_lengths in word_ids.code_lines(lines, reading.tokenizer, types, 1):
        ids.append(block_ids)
        lengths.append(block_lengths[block_lengths > 0])
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(lengths))])
    return _Coded(list(types), np.concatenate(ids), offsets)


def _tally(coded: _Coded) -> _Tally:
    counts = np.bincount(coded.ids, minlength=len(coded.words))
    return _Tally(coded.words, counts, len(coded.offsets) - 1)


def _added(tallies: list[_Tally]) -> _Tally:
    types = Types()
    places = [
        np.fromiter(map(types.__getitem__, each.words), np.int64, len(each.words))
        for each in tallies
    ]
    counts = np.zeros(len(types), np.int64)
    for at, each in zip(places, tallies, strict=True):
        counts[at] += each.counts  # a tally has each string once
    return _Tally(list(types), counts, sum(each.n_sentences for each in tallies))


def _chosen(
    tally: _Tally, selection: Selection, is_split_at_whitespace: bool
) -> tuple[Vocabulary | None, str | None]:
    """The vocabulary of a whole text, None if it has no words, and what the client is to be warned of."""
    if not tally.words:
        return None, None
    counts = dict(zip(tally.words, tally.counts.tolist(), strict=True))
    said = word_ids.about_running_text(counts) if is_split_at_whitespace else None
    return word_ids.choose(counts, tally.n_sentences, selection), said


def _renumbered(coded: _Coded, vocabulary: Vocabulary) -> Part:
    table = vocabulary.encode(coded.words, remember=False)
    n_unknown = 0
    if UNKNOWN in coded.words:
        n_unknown = int(np.count_nonzero(coded.ids == coded.words.index(UNKNOWN)))
    return Part(table[coded.ids], coded.offsets, n_unknown)


def _no_tokens(sources: list[str]) -> CorpusError:
    what = ", ".join(sources)
    return CorpusError(f"there are no tokens in {what}; give a text with at least one word")


def _facts(part: Part) -> tuple[int, int, int]:
    return len(part.ids), len(part.offsets) - 1, part.n_unknown


def _type_counts(part: Part, n_types: int) -> NDArray[np.int64]:
    return np.bincount(part.ids, minlength=n_types)
