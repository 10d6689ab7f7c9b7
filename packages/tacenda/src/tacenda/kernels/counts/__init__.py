"""Sparse counts of pairs of words in one stream of ids, at every lag, and their sums. Re-entrant; releases the GIL."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.arrays import Array, Int32
from tacenda.errors import KernelError
from tacenda.kernels.machinery.arguments import check_range, host
from tacenda.kernels.operation import operation
from tacenda.offsets import check_offsets

#: The dtypes of counts: as counted, and where counts were scaled.
_COUNTED = np.dtype(np.int32), np.dtype(np.float32)
#: Positions are int32.
_MAX_STREAM = 2**31 - 2


class Counts(NamedTuple):
    """A sparse matrix of counts in CSR form: the columns of each row ascend, no count is zero."""

    #: The first entry of each row, from 0, and the number of entries (rows + 1,).
    indptr: NDArray[np.int64]
    #: Columns (nonzeros,).
    indices: NDArray[np.int32]
    #: Counts (nonzeros,): int32 or float32.
    data: NDArray[Any]

    def rows(self, first: int, last: int) -> "Counts":
        """Return the rows ``first`` to ``last - 1`` as a matrix, which shares columns and counts with this one."""
        begin, end = int(self.indptr[first]), int(self.indptr[last])
        indptr = self.indptr[first : last + 1] - begin
        return Counts(indptr, self.indices[begin:end], self.data[begin:end])


def _check_stream(stream: Any, n_lags: int, vocabulary: int, n_history: int) -> None:
    if len(stream) > _MAX_STREAM:
        raise KernelError(
            f"lagged_counts was given {len(stream)} ids at once: count blocks of at most "
            f"{_MAX_STREAM} and add them with merge_counts"
        )
    if vocabulary < 0:
        raise KernelError(f"lagged_counts: vocabulary must be at least 0, not {vocabulary}")
    check_range(stream, vocabulary, "ids")
    if n_lags < 1 or not 0 <= n_history <= len(stream):
        raise KernelError(
            f"lagged_counts was asked for {n_lags} lags and {n_history} ids of history in a stream "
            f"of {len(stream)}: give at least one lag, and no more history than stream"
        )


@operation(prepare=_check_stream)
def lagged_counts(
    stream: Int32[Array, "length", host], n_lags: int, vocabulary: int, n_history: int = 0
) -> list[Counts]:
    """Count the pairs (row = w_t, column = w_{t-k}) of a stream of word ids for every lag k = 1 .. n_lags.

        N_k[i, j] = #{ t >= n_history : w_t = i, w_{t-k} = j }

    so that N_k / n estimates E[w_{t+k} w_t^T] = Psi_k of Martens, "Learning the Linear Dynamical System with ASOS"
    (ICML 2010, section 3) and of Belanger and Kakade, "A Linear Dynamical System Model for Text" (ICML 2015,
    equation 3). Equations 14 and 16 of the latter print the transpose.

    The stream has at most 2^31 - 2 ids, in 0 .. vocabulary - 1. The first ``n_history`` ids are context only: pairs
    are counted for n_history <= t < length, as far as t - k >= 0. Blocks of a long stream that each repeat the last r
    ids of the block before them as history count every pair once. To count circularly, put the last r ids of the
    whole stream before its first block; then row and column sums of every N_k agree.

    Returns N_1 .. N_r for r lags, each (vocabulary, vocabulary) with int32 data.
    """
    w = stream.tolist()
    counts = []
    for k in range(1, n_lags + 1):
        N: Counter[tuple[int, int]] = Counter()
        for t in range(n_history, len(w)):
            if t - k >= 0:
                N[w[t], w[t - k]] += 1
        counts.append(_to_csr(N, vocabulary, np.dtype(np.int32)))
    return counts


def _check_parts(parts: Sequence[Counts], vocabulary: int) -> None:
    if not isinstance(parts, Sequence) or not all(isinstance(part, Counts) for part in parts):
        raise KernelError("merge_counts: parts must be a list of Counts")
    if vocabulary < 0:
        raise KernelError(f"merge_counts: vocabulary must be at least 0, not {vocabulary}")
    if not parts:
        raise KernelError("merge_counts was given nothing to sum: give at least one matrix")
    rows, dtype = len(parts[0].indptr), parts[0].data.dtype
    for indptr, indices, data in parts:
        if len(indptr) != rows or data.dtype != dtype or dtype not in _COUNTED:
            raise KernelError(
                f"merge_counts was given {len(indptr) - 1} rows of {data.dtype} and "
                f"{rows - 1} rows of {dtype}: all must have the same rows and be int32 or float32"
            )
        if len(indices) != len(data):
            raise KernelError(
                f"merge_counts was given {len(indices)} columns and {len(data)} counts: they must agree"
            )
        check_offsets(indptr, len(data), what="merge_counts: indptr", error=KernelError)
        check_range(indices, vocabulary, "merge_counts: columns")
        if dtype == np.int32 and data.min(initial=0) < 0:
            raise KernelError(f"merge_counts was given a count of {data.min()}: none is negative")


@operation(prepare=_check_parts)
def merge_counts(parts: Sequence[Counts], vocabulary: int) -> Counts:
    """Sum count matrices over the same rows; ``vocabulary`` is the number of columns.

    There is at least one part, and all have the same number of rows and the same dtype of data, int32 or float32, which
    is that of the sum. They may be blocks of consecutive rows of larger matrices. Integer sums are exact; floating sums
    are accumulated in double precision in the order of the parts, then rounded once.

    Raises KernelError if rows or dtypes differ, ``indptr`` falls, a column is outside the vocabulary, an int32 count is
    negative, or a sum exceeds int32.
    """
    N: Counter[tuple[int, int]] = Counter()
    rows = len(parts[0].indptr) - 1
    for indptr, indices, data in parts:
        for i in range(rows):
            for s in range(indptr[i], indptr[i + 1]):
                N[i, int(indices[s])] += data[s].item()
    dtype = parts[0].data.dtype
    if dtype == np.int32 and N and max(N.values()) > np.iinfo(np.int32).max:
        raise KernelError("a sum of counts exceeds int32: scale the counts, which makes them float")
    return _to_csr(N, rows, dtype)


def _to_csr(N: Mapping[tuple[int, int], float], rows: int, dtype: np.dtype[Any]) -> Counts:
    """Return the entries N[i, j] in CSR form."""
    entries = sorted(N)
    indptr = np.zeros(rows + 1, np.int64)
    for i, _ in entries:
        indptr[i + 1] += 1
    indices = np.array([j for _, j in entries], np.int32)
    data = np.array([N[entry] for entry in entries], dtype)
    return Counts(np.cumsum(indptr), indices, data)
