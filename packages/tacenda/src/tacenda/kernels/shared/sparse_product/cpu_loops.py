"""The compiled loops of the sparse product: rows cut at column tiles, the dense operand packed, both products."""

import numpy as np

from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.shared.sparse_product.registers import LANES, MAX_VECTORS, gather, scatter


@njit
def split_rows(indptr, indices, bounds, first, last, splits):  # type: ignore[no-untyped-def]
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
def pack(dense, scale, table, first, last):  # type: ignore[no-untyped-def]
    """table[k] = scale[k] dense[k], padded with zeros to whole vectors."""
    width = dense.shape[1]
    for k in range(first, last):
        for j in range(width):
            table[k, j] = dense[k, j] * scale[k]
        for j in range(width, table.shape[1]):
            table[k, j] = 0.0


@njit
def gather_rows(splits, indices, data, table, scale, panels, first, last, out):  # type: ignore[no-untyped-def]
    """out[i] = scale[i] sum_p data[p] table[indices[p]] for the rows first .. last."""
    width = out.shape[1]
    stride = table.shape[1] * 4
    row = np.empty(MAX_VECTORS * LANES + LANES, np.float32)
    offset = (-row.ctypes.data // 4) % LANES
    row = row[offset : offset + MAX_VECTORS * LANES]
    for q in range(len(panels) - 1):
        n = panels[q + 1] - panels[q]
        lo = panels[q] * LANES
        used = min(width - lo, n * LANES)
        for t in range(splits.shape[0] - 1):
            for i in range(first, last):
                p = splits[t, i]
                count = splits[t + 1, i] - p
                if t == 0:
                    row[:] = 0.0
                elif count > 0:
                    for j in range(used):
                        row[j] = out[i, lo + j]
                if count > 0:
                    gather(
                        n, row.ctypes.data, table.ctypes.data + lo * 4, stride,
                        indices.ctypes.data + p * 4, data.ctypes.data + p * 4, count, scale[i],
                        data,
                    )  # fmt: skip
                if t == 0 or count > 0:
                    for j in range(used):
                        out[i, lo + j] = row[j]


@njit
def scatter_columns(splits, indices, data, rows, scale, panels, tiles, table):  # type: ignore[no-untyped-def]
    """table[indices[p]] += data[p] scale[i] rows[i] for the nonzeros of the given column tiles."""
    stride = table.shape[1] * 4
    for q in range(len(panels) - 1):
        n = panels[q + 1] - panels[q]
        lo = panels[q] * LANES
        for t in tiles:
            for i in range(splits.shape[1]):
                p = splits[t, i]
                count = splits[t + 1, i] - p
                if count > 0:
                    scatter(
                        n, rows.ctypes.data + i * stride + lo * 4, table.ctypes.data + lo * 4,
                        stride, indices.ctypes.data + p * 4, data.ctypes.data + p * 4, count,
                        scale[i], data,
                    )  # fmt: skip
