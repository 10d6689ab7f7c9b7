"""Lagged counts on a Dask cluster, equal to those of one machine (extra ``dask``).

A worker counts the pairs inside each part of the text, which needs nothing from its neighbors. The few pairs
across a seam follow from the first and the last words of each part, and are added as one more part. Counts are
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
from typing import Final

import numpy as np
import numpy.typing as npt
import scipy.sparse
from dask.delayed import delayed

from tacenda.corpus import Corpus
from tacenda.corpus.pair_counts import RunStore, block_length, write
from tacenda.dask import ClusterCorpus, Part
from tacenda.errors import ConfigurationError
from tacenda.kernels.sequences import Counts, lagged_counts, merge_counts
from tacenda.vocabulary import Vocabulary
from tacenda_embeddings.lds.lagged_counts import DEFAULT_BUDGET, LaggedCounts, Place
from tacenda_embeddings.lds.model import LDS
from tacenda_embeddings.lds.settings import N_LAGS

_PIECE_BYTES: Final = 256 << 20  # of the counts that are summed in one task, at most about
_ENTRY_BYTES: Final = 8

Ids = npt.NDArray[np.int32]
_NOTHING = np.empty(0, np.int32)


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
        A folder of the client for the sums; the system's default for temporary folders if None. The sums are mapped
        from there, and deleted with the counts.

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
    client, vocabulary, n_types = corpus.client, corpus.placed_vocabulary, len(corpus.vocabulary)
    ends = client.gather(
        client.map(_ends, corpus.parts, vocabulary=vocabulary, n=n_lags, pure=False)
    )
    blocks = list(pairwise(_row_bounds(corpus.type_counts).tolist()))
    across = delayed(_count_across_seams)
    pieces = corpus.sum_pieces(
        partial(_count, n_lags=n_lags, blocks=blocks),
        n_lags * len(blocks),
        partial(merge_counts, vocabulary=n_types),
        "counting pairs",
        more=[
            across(*pairs, *block, n_types) for pairs in _seams(ends, n_lags) for block in blocks
        ],
    )
    storage = tempfile.TemporaryDirectory(prefix="tacenda-counts-", dir=scratch)
    lags = [
        write(Path(storage.name) / f"lag-{k}", islice(pieces, len(blocks)))
        for k in range(1, n_lags + 1)
    ]
    place, origin = Place(storage=storage), corpus.origin
    return LaggedCounts(corpus.vocabulary, lags, corpus.type_counts, origin=origin, place=place)


def fit(model: LDS, corpus: ClusterCorpus) -> LDS:
    """Fit an LDS to a text on a cluster, which counts it; the rest runs on the client, as for any text.

    Returns the model itself, with the parameters that it would have learned from the same files on one machine. Raises
    ConfigurationError for another model, and what `count_lags` raises.
    """
    check_model(model)
    return model.fit(count_lags(corpus, N_LAGS))


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
    """Count the pairs inside a part: one piece for each lag and each block of rows."""
    store = RunStore(len(vocabulary), DEFAULT_BUDGET // 3)
    tail = _NOTHING
    corpus = Corpus(part.ids, part.offsets, vocabulary)
    for piece in corpus.stream(block_length(DEFAULT_BUDGET, n_lags, 1)):
        stream = np.concatenate([tail, piece])
        store.add(lagged_counts(stream, n_lags, len(vocabulary), len(tail)))
        tail = stream[-n_lags:]
    lags, storage = store.finish()
    if not lags:  # a part without a sentence
        lags = [Counts(np.zeros(len(vocabulary) + 1, np.int64), _NOTHING, _NOTHING)] * n_lags
    # copied, so that the whole matrix can go
    pieces = [Counts(*map(np.array, lag.rows(*block))) for lag in lags for block in blocks]
    del lags, storage
    return pieces


def _ends(part: Part, vocabulary: Vocabulary, n: int) -> tuple[Ids, Ids]:
    """Return the first and the last n ids of a part, each in the order of the text; all, if there are no more."""
    corpus = Corpus(part.ids, part.offsets, vocabulary)
    last = np.concatenate([_NOTHING, *islice(corpus.stream(n, backwards=True), 2)])[:n]
    return np.concatenate([_NOTHING, *islice(corpus.stream(n), 1)]), last[::-1].copy()


def _row_bounds(type_counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Cut the rows of a lag so that no block has many more than `_PIECE_BYTES`, (blocks + 1,).

    A row has at most as many entries as its word has occurrences, and as there are types.
    """
    most = np.cumsum(np.minimum(type_counts, len(type_counts)))
    n_blocks = max(1, -(-int(most[-1]) * _ENTRY_BYTES // _PIECE_BYTES))
    inner = np.searchsorted(most, most[-1] * np.arange(1, n_blocks) // n_blocks)
    return np.unique(np.concatenate([[0], inner, [len(type_counts)]])).astype(np.int64)


# -- seams -------------------------------------------------------------------------------------------


def _seams(ends: Sequence[tuple[Ids, Ids]], n_lags: int) -> Iterator[tuple[Ids, Ids]]:
    """Yield, for each lag, the pairs of a circular stream whose later word is in one part and whose earlier is not."""
    heads, tails = zip(*ends, strict=True)
    history, histories = _NOTHING, []  # the last n_lags ids before each part
    while len(history) < n_lags:  # a stream shorter than the lags goes round more than once
        for tail in tails:
            history = np.concatenate([history, tail])[-n_lags:]
    for tail in tails:
        histories.append(history)
        history = np.concatenate([history, tail])[-n_lags:]
    for k in range(1, n_lags + 1):
        earlier = [
            before[n_lags - k :][: len(head[:k])]
            for before, head in zip(histories, heads, strict=True)
        ]
        yield np.concatenate([head[:k] for head in heads]), np.concatenate(earlier)


def _count_across_seams(later: Ids, earlier: Ids, first: int, last: int, n_types: int) -> Counts:
    """Count such pairs, for a block of rows."""
    some = (later >= first) & (later < last)
    pairs = later[some] - first, earlier[some]
    ones = np.ones(len(pairs[0]), np.int32)
    found = scipy.sparse.coo_array((ones, pairs), (last - first, n_types)).tocsr()
    found.sort_indices()
    return Counts(found.indptr.astype(np.int64), found.indices.astype(np.int32), found.data)
