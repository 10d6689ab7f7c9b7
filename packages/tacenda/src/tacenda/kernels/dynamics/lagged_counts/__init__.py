"""Lagged co-occurrence counts of a stream of word ids, and their sum over pieces of the stream.

For a stream w_0 .. w_{n-1} and the lags k = 1 .. r the counts are

    N_k[i, j] = #{ t : w_t = i, w_{t-k} = j }          row = later word, column = earlier word

so that N_k / n estimates E[w_{t+k} w_t^T] = Psi_k of Martens, "Learning the Linear Dynamical System
with ASOS" (ICML 2010, section 3) and of Belanger and Kakade, "A Linear Dynamical System Model for
Text" (ICML 2015, equation 3). Equations 14 and 16 of the latter print the transpose.

Backends offer two operations, ``lagged_counts`` and ``merge_counts``, with the arguments and
results of the public functions here. Both are single-threaded, release the GIL and are re-entrant.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve

__all__ = ["Counts", "lagged_counts", "merge_counts"]

_MAX_STREAM = 2**31 - 2
_SUMMED = frozenset({"int32", "float32"})


class Counts(NamedTuple):
    """A sparse matrix of counts in CSR form: the columns of each row ascend, no count is zero."""

    indptr: npt.NDArray[np.int64]
    """Where each row begins (rows + 1,), from 0."""
    indices: npt.NDArray[np.int32]
    """Columns (nonzeros,)."""
    data: npt.NDArray[Any]
    """Counts (nonzeros,): int32 as counted, float32 where counts were scaled."""

    def rows(self, first: int, last: int) -> "Counts":
        """Return the rows from ``first`` to ``last`` as a matrix of their own, which shares columns and counts."""
        begin, end = int(self.indptr[first]), int(self.indptr[last])
        indptr = self.indptr[first : last + 1] - begin
        return Counts(indptr, self.indices[begin:end], self.data[begin:end])


def lagged_counts(
    stream: npt.NDArray[np.int32], n_lags: int, vocabulary: int, n_history: int = 0
) -> list[Counts]:
    """Count the pairs (row = w_t, column = w_{t-k}) for every lag k = 1 .. n_lags.

    Parameters
    ----------
    stream
        int32 (length,), ids in 0 .. vocabulary - 1, at most 2^31 - 2 of them.
    n_lags
        r, at least 1.
    vocabulary
        The number of rows and of columns.
    n_history
        The first ``n_history`` ids are context only: pairs are counted for n_history <= t < length,
        as far as t - k >= 0. Blocks of a long stream that each repeat the last r ids of the block
        before them as history count every pair once; put the last r ids of the whole stream before
        its first block to count circularly, whereupon row and column sums of every N_k agree.

    Returns
    -------
    list of Counts
        N_1 .. N_r, each (vocabulary, vocabulary) with int32 data.

    Raises
    ------
    KernelError
        The stream is not one-dimensional int32, holds an id outside the vocabulary or is too long, or a number is
        out of range.
    """
    stream = _checked_stream(stream, vocabulary)
    if n_lags < 1 or not 0 <= n_history <= len(stream):
        raise KernelError(
            f"lagged_counts was asked for {n_lags} lags and {n_history} ids of history in a stream "
            f"of {len(stream)}: give at least one lag, and no more history than stream"
        )
    counts: list[Counts] = resolve("lagged_counts")(stream, n_lags, vocabulary, n_history)
    return counts


def merge_counts(parts: Sequence[Counts], vocabulary: int) -> Counts:
    """Sum count matrices over the same rows.

    Parameters
    ----------
    parts
        At least one; all with the same number of rows and the same dtype of data, int32 or float32.
        They may be blocks of consecutive rows of larger matrices.
    vocabulary
        The number of columns.

    Returns
    -------
    Counts
        The sum, in the dtype of the parts. Integer sums are exact; floating sums are accumulated in
        double precision in the order of the parts, then rounded once.

    Raises
    ------
    KernelError
        Rows or dtypes differ, a column is outside the vocabulary, or a sum exceeds int32.
    """
    if not parts:
        raise KernelError("merge_counts was given nothing to sum: give at least one matrix")
    rows, dtype = len(parts[0].indptr), parts[0].data.dtype
    for part in parts:
        if len(part.indptr) != rows or part.data.dtype != dtype or dtype.name not in _SUMMED:
            raise KernelError(
                f"merge_counts was given {len(part.indptr) - 1} rows of {part.data.dtype} beside "
                f"{rows - 1} rows of {dtype}: all must have the same rows and be int32 or float32"
            )
        if len(part.indices) != part.indptr[-1] or len(part.data) != part.indptr[-1]:
            raise KernelError(
                f"merge_counts was given {len(part.indices)} columns and {len(part.data)} counts "
                f"where indptr ends at {part.indptr[-1]}: all three must agree"
            )
        _check_ids(part.indices, vocabulary, "a column")
    merged: Counts = resolve("merge_counts")(list(parts), vocabulary)
    return merged


def _checked_stream(stream: npt.NDArray[np.int32], vocabulary: int) -> npt.NDArray[np.int32]:
    """The stream in C order, if it is one that can be counted."""
    if not isinstance(stream, np.ndarray) or stream.ndim != 1 or stream.dtype != np.int32:
        got = f"{stream.dtype} {stream.shape}" if isinstance(stream, np.ndarray) else type(stream)
        raise KernelError(f"lagged_counts was given {got}: give a one-dimensional int32 array")
    if len(stream) > _MAX_STREAM:
        raise KernelError(
            f"lagged_counts was given {len(stream)} ids at once: count blocks of at most "
            f"{_MAX_STREAM} and add them with merge_counts"
        )
    _check_ids(stream, vocabulary, "an id")
    return np.ascontiguousarray(stream)


def _check_ids(ids: npt.NDArray[np.int32], vocabulary: int, what: str) -> None:
    """Raise `KernelError` for an id outside the vocabulary: compiled loops index with ids and do not look at them."""
    if len(ids) and not (ids.min() >= 0 and ids.max() < vocabulary):
        wrong = ids.min() if ids.min() < 0 else ids.max()
        raise KernelError(f"{what} is {wrong}, outside a vocabulary of {vocabulary} words")
