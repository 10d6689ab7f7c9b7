"""Lagged counts on a Dask cluster, equal to the counts of one machine (extra ``dask``).

A worker counts the pairs of each part of the text, given the last words of the part before it. Counts are integers, and
the columns of each row ascend, so the sum is the same, bit for bit, for every split of the text and every order of the
additions.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice, pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
from dask.delayed import delayed

from tacenda import reading, store
from tacenda.corpus import Corpus
from tacenda.corpus.pair_counts import RunStore, block_length, stack_row_blocks
from tacenda.dask import ClusterCorpus, Part
from tacenda.dask.corpus import check_corpus, check_model, compute
from tacenda.errors import DataError, check_whole
from tacenda.kernels.counts import Counts, lagged_counts, merge_counts
from tacenda.vocabulary import Vocabulary
from tacenda_embeddings.lds import N_LAGS
from tacenda_embeddings.lds.lagged_counts import DEFAULT_BUDGET, LaggedCounts
from tacenda_embeddings.lds.model import LDS

_BLOCK_BYTES: Final = 256 << 20  # of the counts that are summed in one task, about
_ENTRY_BYTES: Final = 8  # an int32 column and an int32 count
_ADVICE: Final = "; name a folder with room as scratch"

Ids = npt.NDArray[np.int32]
_NO_IDS = np.empty(0, np.int32)


def count_lags(
    corpus: ClusterCorpus, n_lags: int = N_LAGS, *, scratch: str | os.PathLike[str] | None = None
) -> LaggedCounts:
    """Count a text on the cluster that holds it.

    Parameters
    ----------
    corpus
        The text; its client is used.
    n_lags
        As in `LaggedCounts.from_corpus`, which returns the same counts for the same files.
    scratch
        A folder on the client for the sums; the system's default for temporary folders if None. The sums are mapped
        from there, and deleted with the counts.

    Raises
    ------
    ConfigurationError
        ``n_lags`` is not a whole number of at least 1.
    CorpusError
        The text is not a `ClusterCorpus`.
    DataError
        The folder cannot be written to, or the client's disk is full.
    FittingError
        Workers kept dying or the scheduler closed.
    """
    check_whole("n_lags", n_lags)
    check_corpus(corpus)
    folder = reading.path_of(tempfile.gettempdir() if scratch is None else scratch, DataError)
    # before the work, so that a folder that cannot be written to is reported early
    with store.writing(f"counts to {folder}", advice=_ADVICE), tempfile.TemporaryFile(dir=folder):
        pass
    vocabulary, n_types = corpus.placed_vocabulary, len(corpus.vocabulary)
    tails = [delayed(_find_last_ids)(part, vocabulary, n_lags) for part in corpus.parts]
    blocks = list(pairwise(_choose_row_bounds(corpus.type_counts).tolist()))
    pieces = corpus.sum_pieces(
        partial(_count, n_lags=n_lags, blocks=blocks),
        n_lags * len(blocks),
        partial(merge_counts, vocabulary=n_types),
        "counting pairs",
        given=list(_iterate_histories(compute(corpus.client, delayed(list)(tails)), n_lags)),
    )
    stack = partial(stack_row_blocks, in_memory=0, scratch=folder, advice=_ADVICE)
    lags = [stack(islice(pieces, len(blocks))) for _ in range(n_lags)]
    return LaggedCounts(corpus.vocabulary, lags, corpus.type_counts, origin=corpus.origin)


def fit(model: LDS, corpus: ClusterCorpus) -> LDS:
    """Fit an LDS to a text on a cluster, which counts it; the rest runs on the client, as for any text.

    Returns the model itself, with the same parameters as a fit to the same files on one machine. Raises
    ConfigurationError if the model is not an LDS, and the errors of `count_lags`.
    """
    check_model(model, LDS)
    return model.fit(count_lags(corpus))


# -- tasks -------------------------------------------------------------------------------------------


def _count(
    part: Part, vocabulary: Vocabulary, tail: Ids, n_lags: int, blocks: list[tuple[int, int]]
) -> list[Counts]:
    """Count the pairs whose later word is in a part, and return one piece for each lag and each block of rows.

    ``tail`` (n_lags,) are the ids before the part.
    """
    runs = RunStore(len(vocabulary), DEFAULT_BUDGET // 3)
    corpus = Corpus(part.ids, part.offsets, vocabulary)
    for piece in corpus.stream(block_length(DEFAULT_BUDGET, n_lags, 1)):
        stream = np.concatenate([tail, piece])
        runs.add(lagged_counts(stream, n_lags, len(vocabulary), len(tail)))
        tail = stream[-n_lags:]
    lags = runs.finish()
    if not lags:  # a part without a sentence
        lags = [Counts(np.zeros(len(vocabulary) + 1, np.int64), _NO_IDS, _NO_IDS)] * n_lags
    # copied, so that the whole matrices can be freed
    return [Counts(*map(np.array, lag.rows(*block))) for lag in lags for block in blocks]


def _find_last_ids(part: Part, vocabulary: Vocabulary, n: int) -> Ids:
    """Return the last n ids of a part in the order of the text; all ids of a shorter part."""
    corpus = Corpus(part.ids, part.offsets, vocabulary)
    # two pieces, because the last piece of the text, which comes first, may be short
    last = np.concatenate([_NO_IDS, *islice(corpus.stream(n, backwards=True), 2)])[:n]
    return last[::-1].copy()


def _iterate_histories(tails: Sequence[Ids], n: int) -> Iterator[Ids]:
    """Yield the n ids before each part of a circular stream."""
    history = _NO_IDS
    while len(history) < n:  # a stream that is shorter than the lags is repeated
        history = np.concatenate([*tails, history])[-n:]
    for tail in tails:
        yield history
        history = np.concatenate([history, tail])[-n:]


def _choose_row_bounds(type_counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the bounds (blocks + 1,) of blocks of rows of a lag, none of much more than `_BLOCK_BYTES`.

    A row has at most as many entries as its word has occurrences, and at most one for each type.
    """
    entries = np.cumsum(np.minimum(type_counts, len(type_counts)))  # at most, up to each row
    n_blocks = max(1, -(-int(entries[-1]) * _ENTRY_BYTES // _BLOCK_BYTES))
    inner = np.searchsorted(entries, entries[-1] * np.arange(1, n_blocks) // n_blocks)
    return np.unique(np.concatenate([[0], inner, [len(type_counts)]])).astype(np.int64)
