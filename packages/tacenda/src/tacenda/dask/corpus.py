"""`ClusterCorpus`: a text that is on the workers of a Dask cluster as word ids, and sums over its parts.

Every partition of the files is read and tokenized once, on a worker, and stays there with provisional ids. The counts
of its strings are summed over the cluster, where a worker chooses the vocabulary from them as one process does; then
the provisional ids are replaced by the final ones. The client gets the vocabulary, and never the text or its strings.

A task is a pure function of a partition, so one that a dead worker took along is done again elsewhere, and one that is
done twice changes nothing. Results are sums of integers, which do not depend on their order. A result comes in
*pieces* (rows of a matrix, a range of n-grams), which are summed each by itself, `FAN_IN` at a time: a worker needs
memory for so many pieces, and Dask writes to its disk what it holds beyond. Pieces of one worker are added up there
before anything is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from operator import getitem
from typing import Any, Final, NamedTuple, Self, Unpack

import dask
import numpy as np
from dask.delayed import Delayed, delayed
from distributed import CancelledError, Client, KilledWorker, as_completed, get_client
from numpy.typing import NDArray

from tacenda.corpus import word_ids
from tacenda.corpus.doubts import doubt_lines, doubt_tokens, look_at
from tacenda.corpus.lines import Marks, check_marks
from tacenda.corpus.word_ids import Selecting, Selection, Types
from tacenda.dask.partitions import Addresses, Partition, partitions
from tacenda.errors import ConfigurationError, CorpusError, FittingError, warn
from tacenda.learned_classes import count_neighbors, merge_classes
from tacenda.progress import Progress, track
from tacenda.tokenizers import Tokenizer, get_tokenizer
from tacenda.vocabulary import UNKNOWN, Vocabulary

PARTITION_BYTES: Final = 64 << 20
FAN_IN: Final = 8  # results that are summed in one task
_RETRIES: Final = 3  # of a task that fails, as storage that is far away sometimes does

Add = Callable[[list[Any]], Any]


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


class ClusterCorpus:
    """A tokenized text on a cluster, in which `tacenda_embeddings.dask` and `tacenda_lm.dask` count what models need.

    Attributes
    ----------
    client
        The cluster.
    parts
        A future of a `Part` for every partition, in the order of the text.
    vocabulary, origin
        As in `tacenda.Corpus`.
    placed_vocabulary
        The vocabulary as a future for tasks.
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
        placed_vocabulary: Any,
        origin: dict[str, Any],
    ) -> None:
        self.client = client
        self.parts = parts
        self.placed_vocabulary = placed_vocabulary
        self.vocabulary = vocabulary
        self.origin = origin
        facts = client.gather(client.map(_measure, parts, pure=False))
        self.part_tokens = [n_tokens for n_tokens, _, _ in facts]
        self.n_tokens = sum(self.part_tokens)
        self.n_sentences = sum(n_sentences for _, n_sentences, _ in facts)
        n_unknown = sum(n for _, _, n in facts)
        if not self.n_tokens:
            raise _no_tokens(origin["sources"])
        if n_unknown:
            self.origin["written_unknown"] = n_unknown
        counts = [delayed(_count_types)(part, len(self.vocabulary)) for part in parts]
        self.type_counts: NDArray[np.int64] = compute(
            client, add_in_tree(counts, sum, find_holders(client, parts))
        )
        self.type_counts[self.vocabulary.boundary_id] += self.n_sentences

    @classmethod
    def from_text(
        cls,
        addresses: Addresses,
        *,
        client: Client | None = None,
        partition_bytes: int = PARTITION_BYTES,
        storage_options: Mapping[str, Any] | None = None,
        tokenizer: str | Tokenizer = "whitespace",
        encoding: str = "utf-8",
        errors: str = "strict",
        marks: Marks = "keep",
        text_field: str | None = None,
        **selection: Unpack[Selecting],
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
        partition_bytes
            How much text a task reads. A compressed file is never cut: save its parts as separate files.
        storage_options
            For the file system of the addresses, such as an endpoint or credentials.
        tokenizer, encoding, errors, marks, text_field, selection
            As of `tacenda.Corpus.from_text`. A tokenizer that is a function is sent to the workers.

        Raises
        ------
        CorpusError
            A file cannot be reached or read, holds undecodable bytes or a mark that is refused, or there are no tokens.
        ConfigurationError
            There is no client, or no package for this kind of address.
        FittingError
            The cluster gave up.
        """
        if client is None:
            try:
                client = get_client()
            except ValueError as error:
                raise ConfigurationError(
                    "there is no current Dask client: make one with dask.distributed.Client(...), or give client="
                ) from error
        check_marks(marks)
        get_tokenizer(tokenizer)
        chosen = Selection(**selection)
        vocabulary = chosen.vocabulary
        plan = partitions(addresses, partition_bytes, encoding, storage_options)
        name = tokenizer if isinstance(tokenizer, str) else getattr(tokenizer, "name", "callable")
        sources = [each.name.rpartition("/")[2] for each in plan if not each.begin]
        sizes = [each.n_bytes for each in plan]
        coded: list[Any] = [
            delayed(_code)(each, tokenizer, (encoding, errors, marks, text_field)) for each in plan
        ]
        if vocabulary is None:
            coded = _finish(client, coded, "Tokenizing", sizes)
            tallies = [delayed(_tally)(each) for each in coded]
            holders = find_holders(client, coded)
            total = add_in_tree(tallies, _add_tallies, holders)
            vocabulary, said = compute(client, delayed(_choose)(total, chosen, name))
            if vocabulary is None:
                raise _no_tokens(sources)
            if said:
                warn(said)
            if chosen.oov == "learned":
                counted = [delayed(_count_neighbors)(each, vocabulary) for each in coded]
                neighbors = compute(client, add_in_tree(counted, sum, holders))
                vocabulary = merge_classes(vocabulary, neighbors, chosen.min_class_count)
        # What ``scatter`` places dies with the workers that hold it; the result of a task does not. It travels once,
        # and Dask would advise to scatter it.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 GiB"}):
            there = client.submit(lambda value: value, vocabulary, pure=False, retries=_RETRIES)
        parts = [delayed(_renumber)(each, there) for each in coded]
        coded.clear()  # none but the parts needs them now: each goes when its part is there
        parts = _finish(client, parts, "Numbering", sizes)
        origin = {"sources": sources, "tokenizer": name, **chosen.cutoff}
        return cls(client, parts, vocabulary, there, origin)

    def sum_pieces(
        self,
        count: Callable[..., list[Any]],
        n_pieces: int,
        add: Add,
        description: str,
        given: Sequence[Any] = (),
    ) -> Iterator[Any]:
        """Count every part on its worker, and return the sums of the counts' pieces, fetched one by one in order.

        Parameters
        ----------
        count
            Takes a part, the vocabulary and what is given for the part; returns ``n_pieces`` pieces of its counts.
        n_pieces
            Their number.
        add
            Returns the sum of a list of pieces, such as sorted arrays that it merges.
        description
            Of the progress bar.
        given
            An argument of ``count`` for each part, if it takes one.
        """
        runs = [
            delayed(count)(part, self.placed_vocabulary, *given[i : i + 1])
            for i, part in enumerate(self.parts)
        ]
        places = find_holders(self.client, self.parts)
        # small results, which tell how far the counting is
        done = [delayed(bool)(run) for run in runs]
        sums = []
        for i in range(n_pieces):
            sums.append(add_in_tree([delayed(getitem)(run, i) for run in runs], add, places))
        # in one graph, so that Dask sums what is there before it counts more
        futures = self.client.compute([*done, *sums], retries=_RETRIES)
        _watch(self.client, futures[: len(runs)], description, self.part_tokens, "token")
        return _fetch(futures[len(runs) :])

    def __repr__(self) -> str:
        return (
            f"ClusterCorpus({self.n_tokens:,} tokens, {self.n_sentences:,} sentences, {len(self.vocabulary):,} types, "
            f"{len(self.parts)} parts)"
        )


@contextmanager
def connected(address: str) -> Iterator[Client]:
    """Make a client of a scheduler's address, or of workers on this machine for ``"local"``, one for each processor.

    Raises ConfigurationError if no scheduler answers there.
    """
    try:
        if address == "local":  # one thread each: splitting lines keeps a Python process to itself
            client = Client(threads_per_worker=1, dashboard_address=None, set_as_default=False)
        else:
            client = Client(address, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"no Dask scheduler answers at {address!r} ({error}): give its address, such as tcp://host:8786, or local"
        ) from error
    with client:
        yield client


# -- the client's side -------------------------------------------------------------------------------


def find_holders(client: Client, futures: Sequence[Any]) -> list[str]:
    """Return the worker that holds each result; an empty string where it is not there, or no longer."""
    with _explain():
        found = client.who_has(futures)
    return [min(found.get(future.key, ()), default="") for future in futures]


def add_in_tree(results: Sequence[Delayed], add: Add, places: Sequence[str] = ()) -> Delayed:
    """Return the sum of results, each `FAN_IN` of them by one call of ``add``.

    ``places`` says where each result will be: those of one place are added up first, so that a sum is sent instead of
    what it is made of.
    """

    def total(level: list[Delayed]) -> Delayed:
        while len(level) > 1:
            groups = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
            level = [delayed(add)(group) if len(group) > 1 else group[0] for group in groups]
        return level[0]

    by_place: dict[str, list[Delayed]] = {}
    for result, place in zip(results, places or [""] * len(results), strict=True):
        by_place.setdefault(place, []).append(result)
    return total([total(level) for level in by_place.values()])


def compute(client: Client, result: Delayed) -> Any:
    """Compute one result on the cluster. Raises what a task raises, or FittingError where the cluster gives up."""
    with _explain():
        return client.compute(result, retries=_RETRIES).result()


def _finish(
    client: Client, results: list[Delayed], description: str, sizes: Sequence[int]
) -> list[Any]:
    """Compute results on the cluster, with a bar, and return their futures when all are there.

    The list is emptied, so that what the results were made of is forgotten as soon as they are there.
    """
    futures: list[Any] = client.compute(results, retries=_RETRIES)
    results.clear()
    _watch(client, futures, description, sizes, "B")
    return futures


def _watch(
    client: Client, futures: list[Any], description: str, sizes: Sequence[int], unit: str
) -> None:
    """Wait for futures, each of a known size, with a bar. Raises what a task raises."""
    size_of = dict(zip(futures, sizes, strict=True))
    bar: Progress[Any] = track(None, description, total=sum(sizes), unit=unit)
    with closing(bar), _explain():
        for future in as_completed(futures, loop=client.loop):
            if future.status != "finished":
                future.result()
            bar.update(size_of[future])


def _fetch(futures: list[Any]) -> Iterator[Any]:
    """Yield results, and let go of each on the cluster; the next one is on its way while one is in use."""
    futures.reverse()

    def fetch(future: Any) -> Any:
        with _explain():
            found = future.result()
        future.release()
        return found

    with ThreadPoolExecutor(1, thread_name_prefix="tacenda-fetch") as ahead:
        coming = (ahead.submit(fetch, futures.pop()) for _ in range(len(futures)))
        yield from word_ids.results_in_order(coming, 2)


@contextmanager
def _explain() -> Iterator[None]:
    """Say in one sentence what is wrong where a cluster gives up."""
    try:
        yield
    except KilledWorker as error:
        raise FittingError(
            f"workers of the cluster died again and again over one task ({error.task}): give them more memory, or make "
            "partitions smaller with partition_bytes"
        ) from error
    except CancelledError as error:
        raise FittingError(
            "the cluster has given up the work: its scheduler, or this client, was closed; start again"
        ) from error


def _no_tokens(sources: list[str]) -> CorpusError:
    what = ", ".join(sources)
    return CorpusError(f"there are no tokens in {what}; give a text with at least one word")


# -- tasks -------------------------------------------------------------------------------------------


class _Coded(NamedTuple):
    """A partition with ids of its own: places in a list of its distinct strings."""

    words: list[str]
    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]
    first: list[str]  # lines, if it is the first of its file


class _Tally(NamedTuple):
    """Counts of strings as they were written, and of sentences."""

    words: list[str]
    counts: NDArray[np.int64]  # (words,)
    n_sentences: int
    first: list[str]  # lines of the text


def _code(partition: Partition, tokenizer: str | Tokenizer, reading: tuple[Any, ...]) -> _Coded:
    types = Types()
    ids: list[NDArray[np.int32]] = [np.empty(0, np.int32)]
    lengths: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    first: list[str] = []
    lines = look_at(partition.blocks(*reading), first)
    for block_ids, block_lengths in word_ids.code_lines(lines, tokenizer, types, 1):
        ids.append(block_ids)
        lengths.append(block_lengths[block_lengths > 0])
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(lengths))])
    return _Coded(list(types), np.concatenate(ids), offsets, [] if partition.begin else first)


def _tally(coded: _Coded) -> _Tally:
    counts = np.bincount(coded.ids, minlength=len(coded.words))
    return _Tally(coded.words, counts, len(coded.offsets) - 1, coded.first)


def _add_tallies(tallies: list[_Tally]) -> _Tally:
    types = Types()
    places = [
        np.fromiter(map(types.__getitem__, each.words), np.int64, len(each.words))
        for each in tallies
    ]
    counts = np.zeros(len(types), np.int64)
    for at, each in zip(places, tallies, strict=True):
        counts[at] += each.counts  # a tally has each string once
    first = next((each.first for each in tallies if each.first), [])
    return _Tally(list(types), counts, sum(each.n_sentences for each in tallies), first)


def _choose(
    tally: _Tally, selection: Selection, tokenizer: str
) -> tuple[Vocabulary | None, str | None]:
    """Return the vocabulary of a whole text, None if it has no words, and a warning for the client."""
    if not tally.words:
        return None, None
    counts = dict(zip(tally.words, tally.counts.tolist(), strict=True))
    said = doubt_lines(tally.first) or doubt_tokens(counts, tally.n_sentences, tokenizer)
    return selection.choose(counts, tally.n_sentences), said


def _count_neighbors(coded: _Coded, vocabulary: Vocabulary) -> NDArray[np.int64]:
    table = vocabulary.encode(coded.words, remember=False)
    return count_neighbors([table[coded.ids]], coded.offsets, vocabulary)


def _renumber(coded: _Coded, vocabulary: Vocabulary) -> Part:
    table = vocabulary.encode(coded.words, remember=False)
    n_unknown = 0
    if UNKNOWN in coded.words:
        n_unknown = int(np.count_nonzero(coded.ids == coded.words.index(UNKNOWN)))
    return Part(table[coded.ids], coded.offsets, n_unknown)


def _measure(part: Part) -> tuple[int, int, int]:
    return len(part.ids), len(part.offsets) - 1, part.n_unknown


def _count_types(part: Part, n_types: int) -> NDArray[np.int64]:
    return np.bincount(part.ids, minlength=n_types)
