"""Operations of several models on the CPU."""

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.memory import WIDE, aligned, aligned_zeros
from tacenda.kernels.machinery.rows import add_rows
from tacenda.kernels.machinery.threads import in_parts, over_ranges
from tacenda.kernels.shared import BETA_1, BETA_2, EPSILON

# -- adagrad ----------------------------------------------------------------------------------------
#
# The step on rows on the CPU: one pass over each row.


_WORTH_THREADS = 1 << 20  # numbers: fewer are stepped by one thread


@njit(fastmath={"contract", "reassoc"})
def _step_rows(table, sums, rows, gradient, rate, first, last):
    """Step the rows ``rows[first:last]`` of the table."""
    real = table.dtype.type
    rate, epsilon = real(rate), real(EPSILON)
    if table.shape[1] == 0:
        return
    for k in range(first, last):
        j, square = rows[k], rate - rate  # zero in the dtype of the table
        for d in range(table.shape[1]):
            square += gradient[k, d] * gradient[k, d]
        sums[j] += square / table.shape[1]
        step = rate / (math.sqrt(sums[j]) + epsilon)
        for d in range(table.shape[1]):
            table[j, d] -= step * gradient[k, d]


def adagrad(table, sums, rows, gradient, rate, threads=1):
    if threads < 1:
        raise KernelError(f"threads must be at least 1, not {threads}")
    if threads > 1 and gradient.size >= _WORTH_THREADS:
        in_parts(_step_rows, len(rows), threads, table, sums, rows, gradient, rate)
    else:
        _step_rows(table, sums, rows, gradient, rate, 0, len(rows))
    return table, sums


# -- adam -------------------------------------------------------------------------------------------
#
# The step of Adam on the CPU: one pass over arrays that no cache holds.


def adam(table, mean, square, gradient, rate, t):
    correction = 1.0 / (1.0 - BETA_2**t) ** 0.5, rate / (1.0 - BETA_1**t)
    numbers = 1.0 - BETA_1, BETA_2, 1.0 - BETA_2, EPSILON, *correction
    changed = [np.ascontiguousarray(array) for array in (table, mean, square)]
    rows = [array.reshape(-1) for array in (*changed, np.ascontiguousarray(gradient))]
    _step_all(*rows, tuple(map(table.dtype.type, numbers)))
    for given, in_order in zip((table, mean, square), changed, strict=True):
        if in_order is not given:  # a copy, of an array that is not in C order
            given[...] = in_order
    return table, mean, square


@njit
def _step_all(w, m, v, g, numbers):
    """Step all numbers; the last two of ``numbers`` correct sqrt(v) and m for their start from zero."""
    update, keep_square, update_square, epsilon, correct_root, rate = numbers
    for i in range(len(w)):
        m[i] += update * (g[i] - m[i])
        v[i] = v[i] * keep_square + update_square * (g[i] * g[i])
        w[i] -= m[i] / (np.sqrt(v[i]) * correct_root + epsilon) * rate


# -- sparse product ---------------------------------------------------------------------------------
#
# Sparse times dense on the CPU: about 3-4 times scipy's rate for word co-occurrence counts.
#
# Measured with 40k x 40k counts of 6.5M nonzeros and width 200, these made it faster: four nonzeros at a time; rows of
# the dense operand padded to whole cache lines; the columns in two tiles, the first of them small enough to stay in the
# second-level cache (ids are sorted by frequency, so it holds nearly half of the nonzeros). Finer tiles, software
# prefetch and dense blocks for the frequent words were slower or no faster.


_HOT_BYTES = 1 << 20
"""Bytes of the dense operand in the first tile, near the size of a second-level cache."""
_SHARES_PER_THREAD = 8


@njit
def _split_rows(indptr, indices, bounds, first, last, splits):
    """Fill splits[t, i], the place where row i enters tile t; return the first row with a bad index, or -1."""
    tiles = len(bounds) - 1
    for i in range(first, last):
        p = indptr[i]
        end = indptr[i + 1]
        previous = 0  # so that a negative first index is out of order
        splits[0, i] = p
        for t in range(tiles):
            bound = bounds[t + 1]
            while p < end:
                index = indices[p]
                if index >= bound:
                    break
                if index < previous:
                    return i
                previous = index
                p += 1
            splits[t + 1, i] = p
        if p < end:
            return i
    return -1


@njit
def _pack(dense, scale, table, first, last):
    """Fill table[k] = scale[k] dense[k], padded with zeros to whole vectors."""
    width = dense.shape[1]
    for k in range(first, last):
        for j in range(width):
            table[k, j] = dense[k, j] * scale[k]
        for j in range(width, table.shape[1]):
            table[k, j] = 0.0


@njit
def _gather_rows(splits, indices, data, table, scale, first, last, out):
    """Fill out[i] = scale[i] sum_p data[p] table[indices[p]] for the rows first .. last, tile by tile of columns."""
    width, tiles = out.shape[1], splits.shape[0] - 1
    row = np.empty((1, table.shape[1]), np.float32)
    for t in range(tiles):
        for i in range(first, last):
            p, count = splits[t, i], splits[t + 1, i] - splits[t, i]
            # Continue the sum of the tile before, in a row as wide as the table.
            row[:] = 0
            if t > 0:
                for j in range(width):
                    row[0, j] = out[i, j]
            add_rows(table, indices, p, data, p, count, row, 0)
            factor = scale[i] if t == tiles - 1 else np.float32(1)
            for j in range(width):
                out[i, j] = factor * row[0, j]


def sparse_product(indptr, indices, data, dense, row_scale, column_scale, threads):
    if dense.dtype != np.float32:
        raise UnsupportedShape(f"dense is {dense.dtype}, and only float32 is served")
    rows, (columns, width) = len(indptr) - 1, dense.shape
    starts = np.ascontiguousarray(indptr, np.int64)
    narrow = np.ascontiguousarray(indices, np.int32)  # may wrap around: `indices` are checked
    data = np.ascontiguousarray(data, None if data.dtype == np.int32 else np.float32)
    scale = (
        np.ones(rows, np.float32)
        if row_scale is None
        else np.ascontiguousarray(row_scale, np.float32)
    )
    # rows of whole lines of the cache
    if column_scale is None:
        table = aligned(dense, WIDE)
    else:
        table = aligned_zeros(columns, -(-width // WIDE) * WIDE)
        factors = np.ascontiguousarray(column_scale, np.float32)
        in_parts(_pack, columns, threads, np.ascontiguousarray(dense), factors, table)
    # Two tiles of columns: the cache holds the dense rows of the first.
    hot = min(max(1, _HOT_BYTES // max(4 * table.shape[1], 1)), columns)
    bounds = np.array([0, hot, columns] if hot < columns else [0, columns])
    splits, out = np.empty((len(bounds), rows), np.int64), np.empty((rows, width), np.float32)
    bad_rows: list[int] = []

    def work(first: int, last: int) -> None:
        bad_row = _split_rows(starts, indices, bounds, first, last, splits)
        if bad_row >= 0:
            bad_rows.append(int(bad_row))
        else:
            _gather_rows(splits, narrow, data, table, scale, first, last, out)

    # Rows of frequent words have more columns in the cache, and take less time: with more shares than threads, no
    # thread waits long for the others.
    shares = _SHARES_PER_THREAD * threads if threads > 1 else 1
    over_ranges(work, _share_rows(starts, shares), threads)
    if bad_rows:
        raise KernelError(
            f"row {min(bad_rows)} of the sparse operand has column indices that do not ascend or are "
            f"outside 0 .. {columns - 1}: sort the indices of every row and check the shape"
        )
    return out


def _share_rows(indptr: NDArray[np.int64], n: int) -> list[tuple[int, int]]:
    """Return up to n ranges of rows of about equal work: a nonzero counts one, and so does a row."""
    rows = len(indptr) - 1
    work = indptr + np.arange(rows + 1)
    cuts = np.searchsorted(work, np.linspace(0, work[-1], n + 1)[1:-1])
    ends = np.r_[0, np.clip(cuts, 0, rows), rows]
    return [(int(a), int(b)) for a, b in pairwise(ends) if a < b]
