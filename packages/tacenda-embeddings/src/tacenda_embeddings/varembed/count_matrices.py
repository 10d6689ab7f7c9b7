"""Matrices of co-occurrence counts, balanced for a factorisation; in files where they are large.

A text is counted forwards and backwards: the circle of its words read backwards has every matrix of counts transposed,
so that both a matrix and its transpose are there row by row, and no more than a block of rows is ever in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import add
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse

from tacenda.corpus import Corpus
from tacenda.corpus.pair_counts import row_blocks
from tacenda.corpus.storage import GrowingArray, Place, forget_pages
from tacenda.kernels.dynamics.lagged_counts import Counts
from tacenda_embeddings.lds.lagged_counts import LaggedCounts

__all__ = ["StoredRows", "balanced_counts"]

_COUNTING: Final = 256 << 20  # bytes for counting; the rest goes to a file
_ENTRIES: Final = 1 << 20  # of a block of rows

Float32 = npt.NDArray[np.float32]


class StoredRows:
    """A sparse float32 matrix (rows, columns), written and read in blocks of rows; in files where it is large."""

    def __init__(self, n_columns: int, blocks: Iterable[scipy.sparse.csr_array]) -> None:
        place, lengths = Place(), [np.zeros(1, np.int64)]
        indices = GrowingArray("indices", np.int32, place)
        data = GrowingArray("data", np.float32, place)
        try:
            for block in blocks:
                lengths.append(np.diff(block.indptr).astype(np.int64))
                indices.append(block.indices)
                data.append(block.data)
            indptr = np.cumsum(np.concatenate(lengths))
            self._entries = Counts(indptr, indices.finish(), data.finish())
        finally:
            indices.close()
            data.close()
        self.shape = len(indptr) - 1, n_columns

    def blocks(self) -> Iterator[tuple[int, scipy.sparse.csr_array]]:
        """Yield blocks of rows, each with the number of its first row."""
        for first, last in row_blocks([self._entries.indptr], _ENTRIES):
            yield first, _as_csr(self._entries.rows(first, last), self.shape[1])
            _forget(self._entries)

    def __matmul__(self, dense: Float32) -> Float32:
        """Multiply by (columns, width)."""
        dense = np.ascontiguousarray(dense)
        return np.concatenate([block @ dense for _, block in self.blocks()])

    def scaled(
        self, rows: Float32, columns: Float32, factor: float = 1.0, *, turned: bool = False
    ) -> Self:
        """Return sqrt(x_ij) rows_i columns_j factor; where ``turned``, of a transpose x_ji, and transposed likewise."""

        def blocks() -> Iterator[scipy.sparse.csr_array]:
            for first, block in self.blocks():
                here = slice(first, first + block.shape[0])
                lengths = np.diff(block.indptr)
                if turned:
                    inner, outer = rows[block.indices], np.repeat(columns[here], lengths)
                else:
                    inner, outer = np.repeat(rows[here], lengths), columns[block.indices]
                block.data = np.sqrt(block.data) * inner * outer * np.float32(factor)
                yield block

        return type(self)(self.shape[1], blocks())


def balanced_counts(corpus: Corpus, window: int, adjacent: float) -> list[StoredRows]:
    """Return matrices sqrt(C_ij) / (r_i c_j)^{1/4}, (types, types), of counts C with row sums r and column sums c.

    The first counts words within ``window`` to both sides, a word at distance d as (window - d + 1) / window, and is
    symmetric. Unless ``adjacent`` is 0, two more follow, times ``adjacent``: of the words directly before each, and
    its transpose.
    """
    forwards, backwards = (
        LaggedCounts.from_corpus(each, n_lags=window, memory_budget=_COUNTING)
        for each in (corpus, _Backwards(corpus))
    )
    weights = [np.float32((window - d + 1) / window) for d in range(1, window + 1)]
    near = _summed([(lags, weights) for lags in (forwards.lags, backwards.lags)])
    found = [near.scaled(*_quarter_roots(near))]
    if adjacent > 0:
        one = [np.float32(1)]
        before, after = (_summed([(each.lags[:1], one)]) for each in (forwards, backwards))
        roots = _quarter_roots(before)
        found.append(before.scaled(*roots, adjacent))
        found.append(after.scaled(*roots, adjacent, turned=True))
    return found


class _Backwards:
    """A corpus whose stream begins with its last word."""

    def __init__(self, corpus: Corpus) -> None:
        self.vocabulary = corpus.vocabulary
        self.n_tokens, self.n_sentences = corpus.n_tokens, corpus.n_sentences
        self._corpus = corpus

    def stream(self, n_tokens: int) -> Iterator[npt.NDArray[np.int32]]:
        """Iterate over the circular stream, boundaries in place, in int32 arrays."""
        return self._corpus.stream(n_tokens, backwards=True)


def _summed(groups: Sequence[tuple[Sequence[Counts], Sequence[np.float32]]]) -> StoredRows:
    """Return the sum of square matrices of counts, each times its weight: first of each group, then of the groups."""
    every = [lag for lags, _ in groups for lag in lags]
    n = len(every[0].indptr) - 1

    def blocks() -> Iterator[scipy.sparse.csr_array]:
        for first, last in row_blocks([lag.indptr for lag in every], _ENTRIES):
            sums = (
                reduce(
                    add,
                    (_as_csr(lag.rows(first, last), n) * w for lag, w in zip(*group, strict=True)),
                )
                for group in groups
            )
            yield reduce(add, sums)
            for lag in every:
                _forget(lag)

    return StoredRows(n, blocks())


def _quarter_roots(counts: StoredRows) -> tuple[Float32, Float32]:
    """Return the sums of rows and of columns to the power of -1/4."""
    of_rows = np.zeros(counts.shape[0], np.float32)
    of_columns = np.zeros(counts.shape[1], np.float32)
    for first, block in counts.blocks():
        of_rows[first : first + block.shape[0]] = block.sum(axis=1)
        np.add.at(of_columns, block.indices, block.data)
    return _quarter_root(of_rows), _quarter_root(of_columns)


def _quarter_root(sums: Float32) -> Float32:
    return np.asarray(np.maximum(sums, 1e-12) ** -0.25, np.float32)


def _as_csr(counts: Counts, n_columns: int) -> scipy.sparse.csr_array:
    """Return a block of rows in float32."""
    parts = counts.data.astype(np.float32), counts.indices, counts.indptr.astype(np.int32)
    return scipy.sparse.csr_array(parts, shape=(len(counts.indptr) - 1, n_columns))


def _forget(counts: Counts) -> None:
    forget_pages(counts.indices)
    forget_pages(counts.data)
