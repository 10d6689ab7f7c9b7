"""Lagged counts on a Dask cluster, equal to those of one machine (extra ``dask``).

A worker counts the pairs inside each part of the text, which needs nothing from its neighbours. The few pairs that lie
across a seam follow from the first and the last words of each part, and belong to the sums as one part more. Counts are
integers, and each row's columns ascend, so the sum is the same, bit for bit, however the text is cut and the parts are
added up.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse
from dask.delayed import delayed

from tacenda.corpus import Corpus
from tacenda.corpus.pair_counts import RunStore, block_length, write
from tacenda.dask import ClusterCorpus, Part
from tacenda.dask.sums import holders, summed
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
    """The ends of the stream of a part, which its neighbours need."""

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
    client, vocabulary = corpus.client, corpus.placed_vocabulary
    ends = client.gather(
        client.map(_ends, corpus.parts, vocabulary=vocabulary, n=n_lags, pure=False)
    )
    bounds = _row_bounds(corpus.type_counts)
    blocks = [(int(first), int(last)) for first, last in pairwise(bounds)]
    count, across = delayed(_count), delayed(_across_seams)
    pieces = summed(
        client,
        [count(part, vocabulary, n_lags, blocks) for part in corpus.parts],
        n_lags * len(blocks),
        partial(merge_counts, vocabulary=len(corpus.vocabulary)),
        "counting pairs",
        corpus.part_tokens,
        "token",
        places=holders(client, corpus.parts),
        more=[
            across(*pairs, *block, len(corpus.vocabulary))
            for pairs in _seams(ends, n_lags)
            for block in blocks
        ],
    )
    storage = tempfile.TemporaryDirectory(prefix="tacenda-counts-", dir=scratch)
    lags = [
        write(Path(storage.name) / f"lag-{k}", islice(pieces, len(blocks))).mapped()
        for k in range(1, n_lags + 1)
    ]
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


def _count(
    part: Part, vocabulary: Vocabulary, n_lags: int, blocks: list[tuple[int, int]]
) -> list[Counts]:
    """The pairs inside a part: a piece for each lag and each block of rows."""
    store = RunStore(len(vocabulary), DEFAULT_BUDGET // 3)
    tail = np.empty(0, np.int32)
    corpus = Corpus(part.ids, part.offsets, vocabulary)
    for piece in corpus.stream(block_length(DEFAULT_BUDGET, n_lags, 1)):
        stream = np.concatenate([tail, piece])
        store.add(lagged_counts(stream, n_lags, len(vocabulary), len(tail)))
        tail = stream[-n_lags:]
    lags, storage = store.finish()
    if not lags:  # a part without a sentence
        nothing = np.zeros(len(vocabulary) + 1, np.int64), np.empty(0, np.int32)
        lags = [Counts(*nothing, np.empty(0, np.int32))] * n_lags
    # copied, so that the whole matrix can go
    pieces = [Counts(*map(np.array, lag.rows(*block))) for lag in lags for block in blocks]
    del lags, storage
    return pieces


def _ends(part: Part, vocabulary: Vocabulary, n: int) -> _Ends:
    """The first and the last ids of a part, each in the order of the text; all, if there are no more."""
    corpus = Corpus(part.ids, part.offsets, vocabulary)
    nothing = np.empty(0, np.int32)
    last = np.concatenate([nothing, *islice(corpus.stream(n, backwards=True), 2)])[:n]
    return _Ends(np.concatenate([nothing, *islice(corpus.stream(n), 1)]), last[::-1].copy())


# -- blocks of rows ----------------------------------------------------------------------------------


def _row_bounds(type_counts: npt.NDArray[np.int64]) -> Rows:
    """Cut the rows of a lag so that no block has many more than `_PIECE_BYTES`, (blocks + 1,).

    A row has at most as many entries as its word has occurrences, and as there are types.
    """
    most = np.cumsum(np.minimum(type_counts, len(type_counts)))
    n_blocks = max(1, -(-int(most[-1]) * _ENTRY_BYTES // _PIECE_BYTES))
    inner = np.searchsorted(most, most[-1] * np.arange(1, n_blocks) // n_blocks)
    return np.unique(np.concatenate([[0], inner, [len(type_counts)]])).astype(np.int64)


# -- seams -------------------------------------------------------------------------------------------


def _seams(ends: Sequence[_Ends], n_lags: int) -> Iterator[tuple[Ids, Ids]]:
    """Yield, for each lag, the pairs of a circular stream whose later word is in one part and whose earlier is not."""
    heads = [each.head for each in ends]
    histories = list(_histories([each.tail for each in ends], n_lags))
    for k in range(1, n_lags + 1):
        later = [head[:k] for head in heads]
        earlier = [
            before[n_lags - k :][: len(head[:k])]
            for before, head in zip(histories, heads, strict=True)
        ]
        yield np.concatenate(later), np.concatenate(earlier)


def _across_seams(later: Ids, earlier: Ids, first: int, last: int, n_types: int) -> Counts:
    """The counts of such pairs, for a block of rows."""
    some = (later >= first) & (later < last)
    pairs = later[some] - first, earlier[some]
    ones = np.ones(len(pairs[0]), np.int32)
    found = scipy.sparse.coo_array((ones, pairs), (last - first, n_types)).tocsr()
    found.sort_indices()
    return Counts(found.indptr.astype(np.int64), found.indices.astype(np.int32), found.data)


def _histories(tails: Sequence[Ids], n_lags: int) -> Iterator[Ids]:
    """Yield the last ``n_lags`` ids before each part, in a stream that is a circle of at least one id."""
    history = np.empty(0, np.int32)
    while len(history) < n_lags:  # a stream shorter than the lags goes round more than once
        for tail in tails:
            history = np.concatenate([history, tail])[-n_lags:]
    for tail in tails:
        yield history
        history = np.concatenate([history, tail])[-n_lags:]
