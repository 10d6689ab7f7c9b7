"""Lagged counts on a Dask cluster, equal to those of one machine (extra ``dask``).

A worker counts the pairs inside each part of the text, which needs nothing from its neighbours. It sends the first and
the last words of the part along, and the client counts the few pairs that lie across a seam. Counts are integers, and
each row's columns ascend, so the sum is the same, bit for bit, however the text is cut and the parts are added up.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse
from dask.delayed import delayed

from tacenda.corpus import Corpus
from tacenda.corpus.pair_counts import RunStore, block_length, write
from tacenda.dask import ClusterCorpus, Part
from tacenda.dask.sums import Run, summed
from tacenda.errors import ConfigurationError
from tacenda.kernels.dynamics.lagged_counts import Counts, lagged_counts, merge_counts
from tacenda.vocabulary import Vocabulary
from tacenda_embeddings.lds.lagged_counts import DEFAULT_BUDGET, LaggedCounts
from tacenda_embeddings.lds.model import LDS

__all__ = ["check_model", "count_lags", "fit"]

_PIECE_BYTES: Final = 256 << 20  # of the counts that are summed in one task, at most about
_ENTRY_BYTES: Final = 8

Ids = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int64]


class _Ends(NamedTuple):
    """What the neighbours of a part need to know of its stream."""

    head: Ids  # its first ids, one for each lag
    tail: Ids  # its last ids, likewise; all, if there are no more


def count_lags(
    corpus: ClusterCorpus, n_lags: int = 7, *, scratch: str | os.PathLike[str] | None = None
) -> LaggedCounts:
    """Count a text on the cluster that holds it.

    Parameters
    ----------
    corpus
        The text; its client is used.
    n_lags
        As of `LaggedCounts.from_corpus`, which gives the same counts for the same files.
    scratch
        A folder of the client for the sums; the system's place for temporary folders if None. They are mapped from
        there, and gone with the counts.

    Raises
    ------
    ConfigurationError
        ``n_lags`` is below 1.
    DataError
        The client's disk is full.
    FittingError
        The cluster gave up.
    """
    if n_lags < 1:
        raise ConfigurationError(f"cannot count {n_lags} lags: give at least 1")
    bounds = _row_bounds(corpus.type_counts)
    n_blocks = len(bounds) - 1
    count, merged = delayed(_count), partial(merge_counts, vocabulary=len(corpus.vocabulary))
    runs = [count(part, corpus.placed_vocabulary, n_lags, bounds) for part in corpus.parts]
    ends, pieces = summed(
        corpus.client,
        runs,
        n_lags * n_blocks,
        merged,
        "counting pairs",
        corpus.part_tokens,
        "token",
    )
    seams = _across_seams(ends, n_lags, len(corpus.vocabulary))
    storage = tempfile.TemporaryDirectory(prefix="tacenda-counts-", dir=scratch)
    lags = []
    for k, seam in enumerate(seams, start=1):
        blocks = (merged([next(pieces), _rows(seam, *_pair(bounds, i))]) for i in range(n_blocks))
        lags.append(write(Path(storage.name) / f"lag-{k}", blocks).mapped())
    counts = LaggedCounts(corpus.vocabulary, lags, corpus.type_counts, storage=storage)
    counts.fitted_on |= corpus.origin
    return counts


def fit(model: LDS, corpus: ClusterCorpus) -> LDS:
    """Fit an LDS to a text on a cluster, which counts it; the rest takes as long as for any text, on the client.

    Returns the model itself, with the parameters that it would have learned from the same files on one machine. Raises
    ConfigurationError for another model, and what `count_lags` raises.
    """
    check_model(model)
    return model.fit(count_lags(corpus, model.settings.n_lags))


def check_model(model: object) -> None:
    """Raise ConfigurationError for a model that cannot be fitted to counts of a cluster."""
    if not isinstance(model, LDS):
        raise ConfigurationError(
            f"a cluster can count for an lds, not for {getattr(model, 'name', model)!r}, which is trained in "
            "steps: fit it to a Corpus on one machine"
        )


# -- tasks -------------------------------------------------------------------------------------------


def _count(part: Part, vocabulary: Vocabulary, n_lags: int, bounds: Rows) -> Run:
    """The pairs inside a part: a piece for each lag and each block of rows."""
    store = RunStore(len(vocabulary), DEFAULT_BUDGET // 3)
    head = tail = np.empty(0, np.int32)
    corpus = Corpus(part.ids, part.offsets, vocabulary)
    for piece in corpus.stream(block_length(DEFAULT_BUDGET, n_lags, 1)):
        stream = np.concatenate([tail, piece])
        store.add(lagged_counts(stream, n_lags, len(vocabulary), len(tail)))
        head = stream[:n_lags] if len(head) < n_lags else head
        tail = stream[-n_lags:]
    lags, storage = store.finish()
    if not lags:  # a part without a sentence
        nothing = np.zeros(len(vocabulary) + 1, np.int64), np.empty(0, np.int32)
        lags = [Counts(*nothing, np.empty(0, np.int32))] * n_lags
    pieces = [_rows(lag, *_pair(bounds, i)) for lag in lags for i in range(len(bounds) - 1)]
    del lags, storage
    return Run(pieces, _Ends(head.copy(), tail.copy()))


# -- blocks of rows ----------------------------------------------------------------------------------


def _row_bounds(type_counts: npt.NDArray[np.int64]) -> Rows:
    """Cut the rows of a lag so that no block has many more than `_PIECE_BYTES`, (blocks + 1,).

    A row has at most as many entries as its word has occurrences, and as there are types.
    """
    most = np.cumsum(np.minimum(type_counts, len(type_counts)))
    n_blocks = max(1, -(-int(most[-1]) * _ENTRY_BYTES // _PIECE_BYTES))
    inner = np.searchsorted(most, most[-1] * np.arange(1, n_blocks) // n_blocks)
    return np.unique(np.concatenate([[0], inner, [len(type_counts)]])).astype(np.int64)


def _pair(bounds: Rows, i: int) -> tuple[int, int]:
    return int(bounds[i]), int(bounds[i + 1])


def _rows(counts: Counts, first: int, last: int) -> Counts:
    """Copy rows, so that the whole matrix can go."""
    begin, end = int(counts.indptr[first]), int(counts.indptr[last])
    return Counts(
        counts.indptr[first : last + 1] - begin,
        np.array(counts.indices[begin:end]),
        np.array(counts.data[begin:end]),
    )


# -- seams -------------------------------------------------------------------------------------------


def _across_seams(ends: Sequence[_Ends], n_lags: int, n_types: int) -> Iterator[Counts]:
    """Yield, for each lag, the pairs of a circular stream whose later word is in one part and whose earlier is not."""
    heads = [each.head for each in ends]
    histories = list(_histories([each.tail for each in ends], n_lags))
    for k in range(1, n_lags + 1):
        later = [head[:k] for head in heads]
        earlier = [
            before[n_lags - k :][: len(head[:k])]
            for before, head in zip(histories, heads, strict=True)
        ]
        rows, columns = np.concatenate(later), np.concatenate(earlier)
        ones = np.ones(len(rows), np.int32)
        found = scipy.sparse.coo_array((ones, (rows, columns)), (n_types, n_types)).tocsr()
        found.sort_indices()
        yield Counts(found.indptr.astype(np.int64), found.indices.astype(np.int32), found.data)


def _histories(tails: Sequence[Ids], n_lags: int) -> Iterator[Ids]:
    """Yield the last ``n_lags`` ids before each part, in a stream that is a circle of at least one id."""
    history = np.empty(0, np.int32)
    while len(history) < n_lags:  # a stream shorter than the lags goes round more than once
        for tail in tails:
            history = np.concatenate([history, tail])[-n_lags:]
    for tail in tails:
        yield history
        history = np.concatenate([history, tail])[-n_lags:]
