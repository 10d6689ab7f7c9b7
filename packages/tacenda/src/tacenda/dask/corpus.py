"""`ClusterCorpus`: a text as word ids on the workers of a Dask cluster, and sums over its parts.

Every partition of the files is read and tokenized once, on a worker, and stays there with provisional ids. The counts
of its strings are summed over the cluster, and a worker chooses the vocabulary from the sums. Then the provisional ids
are replaced by the final ones. The client receives the vocabulary, and never the text or its strings.

A task is a pure function of a partition, so a task lost with a dead worker is run again elsewhere, and a task that runs
twice changes nothing. Results are sums of integers, which do not depend on their order. A result consists of *pieces*
(rows of a matrix, a range of n-grams), which are summed separately, `FAN_IN` at a time: a worker needs memory for that
many pieces, and Dask moves others to its disk. Pieces on one worker are summed there before anything is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
from tacenda.corpus.doubts import collect_first_lines, doubt_lines, doubt_tokens
from tacenda.corpus.marks import Marks, check_marks
from tacenda.corpus.word_ids import Selecting, Selection, Types
from tacenda.dask.partitions import Addresses, Partition, partitions
from tacenda.errors import ConfigurationError, CorpusError, FittingError, warn
from tacenda.learned_classes import count_neighbors, merge_classes
from tacenda.progress import Progress, track
from tacenda.tokenizers import Tokenizer, get_tokenizer, record_tokenizer
from tacenda.vocabulary import UNKNOWN, Vocabulary

PARTITION_BYTES: Final = 64 << 20
FAN_IN: Final = 8  # results that are summed in one task
_RETRIES: Final = 3  # of a task that fails: remote storage sometimes does

Add = Callable[[list[Any]], Any]


class Part(NamedTuple):
    """A partition of a text on a worker.

    Attributes
    ----------
    ids
        int32 (tokens,), without boundaries.
    offsets
        int64 (sentences + 1,): sentence ``i`` is ``ids[offsets[i] : offsets[i + 1]]``, never empty; there may be none.
    n_unknown
        How often ``<unk>`` is written in it.
    """

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]
    n_unknown: int


class ClusterCorpus:
    """A tokenized text on a cluster, for the counts of `tacenda_embeddings.dask` and `tacenda_lm.dask`.

    Attributes
    ----------
    client
        The cluster.
    parts
        A future of a `Part` for every partition, in the order of the text.
    vocabulary, origin
        As in `tacenda.Corpus`.
    placed_vocabulary
        A future of the vocabulary on the cluster, for tasks.
    n_tokens, n_sentences
        Sizes of the whole text.
    part_tokens
        The number of tokens of each part.
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
        self.origin = dict(origin)
        sizes = compute(client, delayed(list)([delayed(_measure)(part) for part in parts]))
        self.part_tokens, part_sentences, part_unknown = map(list, zip(*sizes, strict=True))
        self.n_tokens, self.n_sentences = sum(self.part_tokens), sum(part_sentences)
        if not self.n_tokens:
            raise word_ids.no_tokens_error(", ".join(origin["sources"]))
        if n_unknown := sum(part_unknown):
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
        tokenizer: str | Tokenizer = "whitespace",
        encoding: str = "utf-8",
        errors: str = "strict",
        marks: Marks = "keep",
        text_field: str | None = None,
        **selection: Unpack[Selecting],
    ) -> Self:
        """Read and tokenize files on a cluster: a line is a sentence, empty lines are skipped.

        The vocabulary and all ids are the same as in `tacenda.Corpus.from_text` of these files.

        Parameters
        ----------
        addresses
            One or more fsspec addresses, such as ``"s3://bucket/news-*.txt"``, a path, or a glob; plain or compressed
            (gzip, bzip2, xz). Every worker must be able to reach them. If the file system needs options, such as an
            endpoint or credentials, give ``fsspec.open_files(address, **options)``.
        client
            The cluster; the current client if None.
        partition_bytes
            Bytes of text per task. Compressed files are not divided: save a large one as several files.
        tokenizer, encoding, errors, marks, text_field, selection
            As of `tacenda.Corpus.from_text`. A tokenizer that is a function is sent to the workers.

        Raises
        ------
        CorpusError
            A file cannot be reached or read, holds undecodable bytes or a mark that is refused, or there are no tokens.
        ConfigurationError
            There is no open client, or no package for this kind of address.
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
        if not isinstance(client, Client) or client.status != "running":
            raise ConfigurationError(
                f"client is {client!r:.80}, not an open Dask client: give dask.distributed.Client(ADDRESS)"
            )
        check_marks(marks)
        get_tokenizer(tokenizer)
        choices = Selection(**selection)
        vocabulary = choices.vocabulary
        files = partitions(addresses, partition_bytes, encoding)
        name = record_tokenizer(tokenizer)
        sources = [file.name.rpartition("/")[2] for file in files if not file.begin]
        sizes = [file.n_bytes for file in files]
        reading = encoding, errors, marks, text_field
        coded: list[Any] = [delayed(_tokenize)(file, tokenizer, reading) for file in files]
        if vocabulary is None:
            coded = _finish(client, coded, "Tokenizing", sizes)
            vocabulary = _choose_vocabulary(client, coded, choices, name)
        placed_vocabulary = _place(client, vocabulary)
        parts = [delayed(_renumber)(each, placed_vocabulary) for each in coded]
        # the parts alone refer to the partitions now, so that the cluster can drop each one when its part is done
        coded.clear()
        parts = _finish(client, parts, "Numbering", sizes)
        origin = {"sources": sources, "tokenizer": name, **choices.cutoff}
        return cls(client, parts, vocabulary, placed_vocabulary, origin)

    def sum_pieces(
        self,
        count: Callable[..., list[Any]],
        n_pieces: int,
        add: Add,
        description: str,
        given: Sequence[Any] = (),
    ) -> Iterator[Any]:
        """Count every part on its worker, and yield the sum of each piece of the counts in order.

        ``count`` takes a part, the vocabulary and, if they are given, the part's element of ``given``; it returns
        ``n_pieces`` pieces. ``add`` returns the sum of a list of pieces, for example by merging sorted arrays.
        ``description`` is for the progress bar. Raises FittingError if the cluster gives up.
        """
        runs = [
            delayed(count)(part, self.placed_vocabulary, *given[i : i + 1])
            for i, part in enumerate(self.parts)
        ]
        holders = find_holders(self.client, self.parts)
        # small results, for the progress bar
        done = [delayed(bool)(run) for run in runs]
        sums = []
        for i in range(n_pieces):
            sums.append(add_in_tree([delayed(getitem)(run, i) for run in runs], add, holders))
        # in one graph, so that Dask sums finished counts before it counts more
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
    """Yield a client of the scheduler at an address, or for ``"local"`` of a worker for each processor of this machine.

    Raises ConfigurationError if no scheduler answers.
    """
    try:
        if address == "local":
            # one thread each, because splitting lines holds the interpreter lock
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


def check_model(model: object, counted: type[Any]) -> None:
    """Raise ConfigurationError for a model of another class than the one that a cluster counts for."""
    if not isinstance(model, counted):
        raise ConfigurationError(
            f"a cluster can count for a model such as {counted.__name__}(), not for {model!r:.80}: fit models that are "
            "trained in steps to a Corpus on one machine"
        )


def check_corpus(corpus: object) -> None:
    """Raise CorpusError for what is not a text on a cluster."""
    if not isinstance(corpus, ClusterCorpus):
        raise CorpusError(
            f"{corpus!r:.80} is no text on a cluster: make one with ClusterCorpus.from_text"
        )


def _choose_vocabulary(
    client: Client, coded: Sequence[Any], choices: Selection, tokenizer: str
) -> Vocabulary:
    """Choose the vocabulary of tokenized partitions, and warn of doubtful text."""
    holders = find_holders(client, coded)
    total = add_in_tree([delayed(_tally)(each) for each in coded], _add_tallies, holders)
    vocabulary: Vocabulary
    vocabulary, warning = compute(client, delayed(_choose)(total, choices, tokenizer))
    if warning is not None:
        warn(warning)
    if choices.oov != "learned":
        return vocabulary
    placed = _place(client, vocabulary)
    counted = [delayed(_count_neighbors)(each, placed) for each in coded]
    neighbors = compute(client, add_in_tree(counted, sum, holders))
    return merge_classes(vocabulary, neighbors, choices.min_class_count)


def _place(client: Client, vocabulary: Vocabulary) -> Any:
    """Return a future of a vocabulary, which is sent to the cluster once.

    It is the result of a task, which can be repeated: values that ``scatter`` places are lost with their workers.
    """
    # Dask would advise to scatter it
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 GiB"}):
        return client.submit(lambda value: value, vocabulary, pure=False, retries=_RETRIES)


def find_holders(client: Client, futures: Sequence[Any]) -> list[str]:
    """Return the address of a worker that has each result, or an empty string if none has it."""
    with _explain_failures():
        holders = client.who_has(futures)
    return [min(holders.get(future.key, ()), default="") for future in futures]


def add_in_tree(results: Sequence[Delayed], add: Add, places: Sequence[str] = ()) -> Delayed:
    """Return the sum of results as one delayed result; each call of ``add`` sums at most `FAN_IN` of them.

    ``places`` are the workers that will have the results. Results on one worker are summed first, so that only their
    sum is sent.
    """

    def build_tree(level: list[Delayed]) -> Delayed:
        while len(level) > 1:
            groups = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
            level = [delayed(add)(group) if len(group) > 1 else group[0] for group in groups]
        return level[0]

    by_place: dict[str, list[Delayed]] = {}
    for result, place in zip(results, places or [""] * len(results), strict=True):
        by_place.setdefault(place, []).append(result)
    return build_tree([build_tree(level) for level in by_place.values()])


def compute(client: Client, result: Delayed) -> Any:
    """Compute one result on the cluster. Raises what a task raises, or FittingError if the cluster gives up."""
    with _explain_failures():
        return client.compute(result, retries=_RETRIES).result()


def _finish(
    client: Client, results: list[Delayed], description: str, sizes: Sequence[int]
) -> list[Any]:
    """Compute results on the cluster with a progress bar, and return their futures when all are done.

    The list of results is emptied, so that the cluster can drop their inputs.
    """
    futures: list[Any] = client.compute(results, retries=_RETRIES)
    results.clear()
    _watch(client, futures, description, sizes, "B")
    return futures


def _watch(
    client: Client, futures: list[Any], description: str, sizes: Sequence[int], unit: str
) -> None:
    """Wait for futures, each of a known size, with a progress bar. Raises what a task raises."""
    size_of = dict(zip(futures, sizes, strict=True))
    bar: Progress[Any] = track(None, description, total=sum(sizes), unit=unit)
    with closing(bar), _explain_failures():
        for future in as_completed(futures, loop=client.loop):
            if future.status != "finished":
                future.result()
            bar.update(size_of[future])


def _fetch(futures: list[Any]) -> Iterator[Any]:
    """Yield results and release each on the cluster; the next one is fetched while one is in use."""
    futures.reverse()

    def fetch(future: Any) -> Any:
        with _explain_failures():
            result = future.result()
        future.release()
        return result

    with ThreadPoolExecutor(1, thread_name_prefix="tacenda-fetch") as pool:
        fetched = (pool.submit(fetch, futures.pop()) for _ in range(len(futures)))
        yield from word_ids.results_in_order(fetched, 2)


@contextmanager
def _explain_failures() -> Iterator[None]:
    """Raise FittingError, with advice, for Dask's errors of a cluster that gives up."""
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


# -- tasks -------------------------------------------------------------------------------------------


class _Coded(NamedTuple):
    """A tokenized partition with provisional ids, which are places in its list of distinct strings."""

    words: list[str]
    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]
    first_lines: list[str]  # of a file; empty for a partition from its middle


class _Tally(NamedTuple):
    """Counts of strings as they were written, and of sentences."""

    words: list[str]
    counts: NDArray[np.int64]  # (words,)
    n_sentences: int
    first_lines: list[str]


def _tokenize(partition: Partition, tokenizer: str | Tokenizer, reading: tuple[Any, ...]) -> _Coded:
    """Read and tokenize a partition; ``reading`` are the arguments of `Partition.blocks`."""
    types = Types()
    first_lines: list[str] = []
    lines = collect_first_lines(partition.blocks(*reading), first_lines)
    coded = list(word_ids.encode_lines(lines, tokenizer, types, 1))
    ids = np.concatenate([np.empty(0, np.int32), *(block for block, _ in coded)])
    lengths = np.concatenate([np.empty(0, np.int64), *(lengths for _, lengths in coded)])
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths[lengths > 0])])
    return _Coded(list(types), ids, offsets, [] if partition.begin else first_lines)


def _tally(coded: _Coded) -> _Tally:
    """Count the strings and sentences of a partition."""
    counts = np.bincount(coded.ids, minlength=len(coded.words))
    return _Tally(coded.words, counts, len(coded.offsets) - 1, coded.first_lines)


def _add_tallies(tallies: list[_Tally]) -> _Tally:
    """Sum counts; the first lines are those of the first file."""
    types = Types()
    places = [
        np.fromiter(map(types.__getitem__, tally.words), np.int64, len(tally.words))
        for tally in tallies
    ]
    counts = np.zeros(len(types), np.int64)
    for at, tally in zip(places, tallies, strict=True):
        # one addition for each string, because a tally has each string once
        counts[at] += tally.counts
    first_lines = next((tally.first_lines for tally in tallies if tally.first_lines), [])
    n_sentences = sum(tally.n_sentences for tally in tallies)
    return _Tally(list(types), counts, n_sentences, first_lines)


def _choose(tally: _Tally, selection: Selection, tokenizer: str) -> tuple[Vocabulary, str | None]:
    """Return the vocabulary of a whole text, and a warning for the client or None."""
    counts = dict(zip(tally.words, tally.counts.tolist(), strict=True))
    warning = doubt_lines(tally.first_lines) or doubt_tokens(counts, tally.n_sentences, tokenizer)
    return selection.choose(counts, tally.n_sentences), warning


def _count_neighbors(coded: _Coded, vocabulary: Vocabulary) -> NDArray[np.int64]:
    """Count the neighbors of the classes in a partition, as `merge_classes` needs them."""
    table = vocabulary.encode(coded.words, remember=False)
    return count_neighbors([table[coded.ids]], coded.offsets, vocabulary)


def _renumber(coded: _Coded, vocabulary: Vocabulary) -> Part:
    """Replace the provisional ids of a partition by those of the vocabulary."""
    table = vocabulary.encode(coded.words, remember=False)
    n_unknown = 0
    if UNKNOWN in coded.words:
        n_unknown = int(np.count_nonzero(coded.ids == coded.words.index(UNKNOWN)))
    return Part(table[coded.ids], coded.offsets, n_unknown)


def _measure(part: Part) -> tuple[int, int, int]:
    """Return the numbers of tokens, of sentences and of written ``<unk>``."""
    return len(part.ids), len(part.offsets) - 1, part.n_unknown


def _count_types(part: Part, n_types: int) -> NDArray[np.int64]:
    return np.bincount(part.ids, minlength=n_types)
