"""Sparse times dense on the CPU: about 3-4 times scipy's rate for word co-occurrence counts.

What was measured to matter (40k x 40k counts, 6.5M nonzeros, width 200): four nonzeros at a time;
rows of the dense operand padded to whole cache lines; the columns taken in two tiles, the first of
them small enough to stay in the second-level cache (ids are sorted by frequency, so it holds nearly
half of the nonzeros). Finer tiles, software prefetch and dense blocks for the frequent words were
slower or no faster.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.memory import WIDE, aligned, aligned_zeros
from tacenda.kernels.machinery.rows import add_rows

_Float = NDArray[np.float32]
_Int = NDArray[np.int64]

_HOT_BYTES = 1 << 20
"""Bytes of the dense operand in the first tile, near the size of a second-level cache."""


class _Product(NamedTuple):
    """The arguments with the dtypes and the memory order that the loops are compiled for."""

    indptr: _Int
    indices: NDArray[np.int32]
    data: NDArray[np.number]
    dense: _Float
    out: _Float
    row_scale: _Float | None
    column_scale: _Float | None


@njit
def _split_rows(indptr, indices, bounds, first, last, splits):  # type: ignore[no-untyped-def]
    """splits[t, i] = where row i enters tile t; -1, or the first row with a bad index."""
    tiles = len(bounds) - 1
    for i in range(first, last):
        p = indptr[i]
        end = indptr[i + 1]
        if p < 0 or end < p or end > len(indices):
            return i
        previous = 0  # a negative first index is out of order too
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
def _pack(dense, scale, table, first, last):  # type: ignore[no-untyped-def]
    """table[k] = scale[k] dense[k], padded with zeros to whole vectors."""
    width = dense.shape[1]
    for k in range(first, last):
        for j in range(width):
            table[k, j] = dense[k, j] * scale[k]
        for j in range(width, table.shape[1]):
            table[k, j] = 0.0


@njit
def _gather_rows(splits, indices, data, table, scale, first, last, out):  # type: ignore[no-untyped-def]
    """out[i] = scale[i] sum_p data[p] table[indices[p]] for the rows first .. last, one column tile after another."""
    width, tiles = out.shape[1], splits.shape[0] - 1
    row = np.empty((1, table.shape[1]), np.float32)
    for t in range(tiles):
        for i in range(first, last):
            p, count = splits[t, i], splits[t + 1, i] - splits[t, i]
            # The sum goes on where the tile before left it, in a row as wide as the table.
            row[:] = 0
            if t > 0:
                for j in range(width):
                    row[0, j] = out[i, j]
            add_rows(table, indices, p, data, p, count, row, 0)
            factor = scale[i] if t == tiles - 1 else np.float32(1)
            for j in range(width):
                out[i, j] = factor * row[0, j]


@njit(fastmath={"contract"})
def _scatter_columns(splits, indices, data, rows, tiles, table):  # type: ignore[no-untyped-def]
    """table[indices[p]] += data[p] rows[i] for the nonzeros of the given column tiles."""
    for t in tiles:
        for i in range(splits.shape[1]):
            for p in range(splits[t, i], splits[t + 1, i]):
                k, value = indices[p], np.float32(data[p])
                for j in range(table.shape[1]):
                    table[k, j] += value * rows[i, j]


def multiply(
    indptr: NDArray[np.integer],
    indices: NDArray[np.integer],
    data: NDArray[np.number],
    dense: NDArray[np.float32],
    out: _Float,
    transpose: bool,
    row_scale: _Float | None,
    column_scale: _Float | None,
    columns: int,
    threads: int,
) -> _Float:
    """See `tacenda.kernels.shared.sparse_product.multiply`."""
    if dense.dtype != np.float32:
        raise UnsupportedShape(f"dense is {dense.dtype}, and only float32 is served")
    product = _Product(
        np.ascontiguousarray(indptr, np.int64),
        np.ascontiguousarray(indices, np.int32),
        np.ascontiguousarray(data, None if data.dtype == np.int32 else np.float32),
        np.ascontiguousarray(dense),
        out if out.flags.c_contiguous else np.empty(out.shape, np.float32),
        None if row_scale is None else np.ascontiguousarray(row_scale, np.float32),
        None if column_scale is None else np.ascontiguousarray(column_scale, np.float32),
    )
    if dense.size == 0 or len(indices) == 0:
        product.out[...] = 0.0
    elif out.size > 0:
        run = _multiply_transposed if transpose else _multiply
        if threads == 1:
            run(product, lambda work, parts: [work(part) for part in parts], 1)
        else:
            with ThreadPoolExecutor(threads) as pool:
                run(product, lambda work, parts: list(pool.map(work, parts)), threads)
    if product.out is not out:
        out[...] = product.out
    return out


_Map = Callable[[Callable[..., int | None], Sequence[tuple[int, int]]], list[int | None]]


def _multiply(product: _Product, each: _Map, threads: int) -> None:
    rows, columns = len(product.indptr) - 1, len(product.dense)
    table = _padded(product.dense, product.column_scale, each, threads)
    hot = min(max(1, _HOT_BYTES // table[0].nbytes), columns)
    bounds = np.array([0, hot, columns] if hot < columns else [0, columns])
    splits = np.empty((len(bounds), rows), np.int64)
    scale = _or_ones(product.row_scale, rows)

    def work(part: tuple[int, int]) -> int:
        bad = _split_rows(product.indptr, product.indices, bounds, *part, splits)
        if bad < 0:
            _gather_rows(splits, product.indices, product.data, table, scale, *part, product.out)
        return int(bad)

    # Rows of frequent words meet columns that lie in the cache: more shares than threads even that out.
    _raise_for(each(work, _shares(product.indptr, 8 * threads if threads > 1 else 1)), columns)


def _multiply_transposed(product: _Product, each: _Map, threads: int) -> None:
    rows, columns = len(product.indptr) - 1, len(product.out)
    dense = _padded(product.dense, product.row_scale, each, threads)
    table = aligned_zeros(columns, dense.shape[1])
    bounds = _column_tiles(product.indices, columns, dense[0].nbytes, threads)
    splits = np.empty((len(bounds), rows), np.int64)
    shares = _shares(product.indptr, threads)
    _raise_for(
        each(
            lambda part: _split_rows(product.indptr, product.indices, bounds, *part, splits),
            shares,
        ),
        columns,
    )

    def work(part: tuple[int, int]) -> None:
        tiles = np.arange(*part)
        _scatter_columns(splits, product.indices, product.data, dense, tiles, table)

    tiles = np.linspace(0, len(bounds) - 1, threads + 1).astype(int)
    each(work, [(int(a), int(b)) for a, b in pairwise(tiles) if a < b])
    width = product.out.shape[1]
    scale = _or_ones(product.column_scale, columns)
    np.multiply(table[:, :width], scale[:, None], out=product.out)


def _column_tiles(indices: NDArray[np.int32], columns: int, row_bytes: int, threads: int) -> _Int:
    """Bounds of column tiles that hold about equally many nonzeros, the hot one first."""
    hot = min(max(1, _HOT_BYTES // row_bytes), columns)
    sample = np.sort(indices[:: max(1, len(indices) // 65536)])
    share = np.linspace(0, len(sample) - 1, 2 * threads + 1).astype(int)[1:-1]
    inner = np.clip(sample[share], 1, columns)
    return np.unique(np.r_[0, hot, inner, columns])


def _shares(indptr: _Int, threads: int) -> list[tuple[int, int]]:
    """Row ranges of about equal work: a nonzero counts one, and so does a row."""
    rows = len(indptr) - 1
    work = indptr + np.arange(rows + 1)
    cuts = np.searchsorted(work, np.linspace(0, work[-1], threads + 1)[1:-1])
    ends = np.r_[0, np.clip(cuts, 0, rows), rows]
    return [(int(a), int(b)) for a, b in pairwise(ends) if a < b]


def _padded(dense: _Float, scale: _Float | None, each: _Map, threads: int) -> _Float:
    """``dense`` scaled by rows, its rows padded to whole lines of the cache."""
    if scale is None:
        return aligned(dense, WIDE)
    rows, width = dense.shape
    table = aligned_zeros(rows, -(-width // WIDE) * WIDE)
    scale = _or_ones(scale, rows)
    ends = np.linspace(0, rows, threads + 1).astype(int)
    each(lambda part: _pack(dense, scale, table, *part), list(pairwise(ends)))
    return table


def _or_ones(scale: _Float | None, length: int) -> _Float:
    return np.ones(length, np.float32) if scale is None else scale


def _raise_for(bad: list[int | None], columns: int) -> None:
    rows = [row for row in bad if row is not None and row >= 0]
    if rows:
        raise KernelError(
            f"row {min(rows)} of the sparse operand has column indices that do not ascend or lie "
            f"outside 0 .. {columns - 1}: sort the indices of every row and check the shape"
        )
