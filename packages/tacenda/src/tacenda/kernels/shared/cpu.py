"""Operations of several models on the CPU."""

import math
from itertools import pairwise

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.memory import WIDE, aligned, aligned_zeros
from tacenda.kernels.machinery.rows import add_rows
from tacenda.kernels.machinery.threads import in_parts, over_ranges
from tacenda.kernels.machinery.vectors import (
    LANES,
    add,
    add_exponents,
    as_floats,
    load,
    mantissas,
    multiply,
    multiply_add,
    no_sums,
    spread,
    store,
)
from tacenda.kernels.shared import BETA_1, BETA_2, EPSILON, TINY

# -- adagrad ----------------------------------------------------------------------------------------
#
# The step on rows on the CPU: one pass over each row.


_SHARED = 1 << 20  # elements that are worth another thread


@njit(fastmath={"contract", "reassoc"})
def _steps(table, sums, rows, gradient, rate, first, last):
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
    if threads > 1 and gradient.size >= _SHARED:
        in_parts(_steps, len(rows), threads, table, sums, rows, gradient, rate)
    else:
        _steps(table, sums, rows, gradient, rate, 0, len(rows))
    return table, sums


# -- adam -------------------------------------------------------------------------------------------
#
# The step of Adam on the CPU: one pass over arrays that no cache holds.


def adam(table, mean, square, gradient, rate, t):
    correction = 1.0 / (1.0 - BETA_2**t) ** 0.5, rate / (1.0 - BETA_1**t)
    numbers = 1.0 - BETA_1, BETA_2, 1.0 - BETA_2, EPSILON, *correction
    changed = [np.ascontiguousarray(array) for array in (table, mean, square)]
    rows = [array.reshape(-1) for array in (*changed, np.ascontiguousarray(gradient))]
    _adam(*rows, tuple(map(table.dtype.type, numbers)))
    for given, own in zip((table, mean, square), changed, strict=True):
        if own is not given:  # it was not in C order
            given[...] = own
    return table, mean, square


@njit
def _adam(w, m, v, g, numbers):
    fresh, kept, fresh_square, epsilon, of_square, rate = numbers
    for i in range(len(w)):
        m[i] += fresh * (g[i] - m[i])
        v[i] = v[i] * kept + fresh_square * (g[i] * g[i])
        w[i] -= m[i] / (np.sqrt(v[i]) * of_square + epsilon) * rate


# -- sparse product ---------------------------------------------------------------------------------
#
# Sparse times dense on the CPU: about 3-4 times scipy's rate for word co-occurrence counts.
#
# What was measured to matter (40k x 40k counts, 6.5M nonzeros, width 200): four nonzeros at a time;
# rows of the dense operand padded to whole cache lines; the columns taken in two tiles, the first of
# them small enough to stay in the second-level cache (ids are sorted by frequency, so it holds nearly
# half of the nonzeros). Finer tiles, software prefetch and dense blocks for the frequent words were
# slower or no faster.


_Float = NDArray[np.float32]
_Int = NDArray[np.int64]
_HOT_BYTES = 1 << 20
"""Bytes of the dense operand in the first tile, near the size of a second-level cache."""


@njit
def _split_rows(indptr, indices, bounds, first, last, splits):
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
def _pack(dense, scale, table, first, last):
    """table[k] = scale[k] dense[k], padded with zeros to whole vectors."""
    width = dense.shape[1]
    for k in range(first, last):
        for j in range(width):
            table[k, j] = dense[k, j] * scale[k]
        for j in range(width, table.shape[1]):
            table[k, j] = 0.0


@njit
def _gather_rows(splits, indices, data, table, scale, first, last, out):
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


def sparse_product(indptr, indices, data, dense, row_scale, column_scale, threads):
    if dense.dtype != np.float32:
        raise UnsupportedShape(f"dense is {dense.dtype}, and only float32 is served")
    rows, (columns, width) = len(indptr) - 1, dense.shape
    if dense.size == 0 or len(indices) == 0:
        return np.zeros((rows, width), np.float32)
    starts = np.ascontiguousarray(indptr, np.int64)
    indices = np.ascontiguousarray(indices, np.int32)
    data = np.ascontiguousarray(data, None if data.dtype == np.int32 else np.float32)
    scale = (
        np.ones(rows, np.float32)
        if row_scale is None
        else np.ascontiguousarray(row_scale, np.float32)
    )
    table = _padded(dense, column_scale, threads)
    # Two tiles of columns: those of which the cache holds the dense rows, and the others.
    hot = min(max(1, _HOT_BYTES // table[0].nbytes), columns)
    bounds = np.array([0, hot, columns] if hot < columns else [0, columns])
    splits, out = np.empty((len(bounds), rows), np.int64), np.empty((rows, width), np.float32)
    wrong: list[int] = []

    def work(first: int, last: int) -> None:
        bad = _split_rows(starts, indices, bounds, first, last, splits)
        if bad >= 0:
            wrong.append(int(bad))
        else:
            _gather_rows(splits, indices, data, table, scale, first, last, out)

    # Rows of frequent words meet columns that lie in the cache: more shares than threads even that out.
    over_ranges(work, _shares(starts, 8 * threads if threads > 1 else 1), threads)
    if wrong:
        raise KernelError(
            f"row {min(wrong)} of the sparse operand has column indices that do not ascend or lie "
            f"outside 0 .. {columns - 1}: sort the indices of every row and check the shape"
        )
    return out


def _shares(indptr: _Int, n: int) -> list[tuple[int, int]]:
    """Ranges of rows of about equal work: a nonzero counts one, and so does a row."""
    rows = len(indptr) - 1
    work = indptr + np.arange(rows + 1)
    cuts = np.searchsorted(work, np.linspace(0, work[-1], n + 1)[1:-1])
    ends = np.r_[0, np.clip(cuts, 0, rows), rows]
    return [(int(a), int(b)) for a, b in pairwise(ends) if a < b]


def _padded(dense: _Float, scale: _Float | None, threads: int) -> _Float:
    """``dense`` scaled by rows, its rows padded to whole lines of the cache."""
    if scale is None:
        return aligned(dense, WIDE)
    rows, width = dense.shape
    table = aligned_zeros(rows, -(-width // WIDE) * WIDE)
    dense, scale = np.ascontiguousarray(dense), np.ascontiguousarray(scale, np.float32)
    in_parts(_pack, rows, threads, dense, scale, table)
    return table


# -- rows of unit length ------------------------------------------------------------------------------


def unit_rows(X):
    step, rest = divmod(X.strides[0], X.itemsize)
    if rest or step < X.shape[1] or X.strides[1] != X.itemsize or not X.size:
        squared = np.einsum("ij,ij->i", X, X)
        X *= (1 / np.sqrt(np.maximum(squared, TINY))).astype(X.dtype)[:, None]
        return X
    # as one vector, so that the compiler knows that the elements of a row are next to each other
    flat = as_strided(X, ((len(X) - 1) * step + X.shape[1],), (X.itemsize,))
    _unit_rows(flat, step, len(X), X.shape[1], X.dtype.type(TINY))
    return X


@njit(fastmath={"contract", "reassoc"})
def _unit_rows(flat, step, n_rows, n_columns, tiny):
    """Bring each row to unit length: row i is ``flat[i step : i step + n_columns]``."""
    one = flat.dtype.type(1)
    for i in range(n_rows):
        row = flat[i * step : i * step + n_columns]
        squared = flat.dtype.type(0)
        for j in range(n_columns):
            squared += row[j] * row[j]
        factor = one / np.sqrt(max(squared, tiny))
        for j in range(n_columns):
            row[j] *= factor


# -- hidden sums ------------------------------------------------------------------------------------
#
# The sums over hidden units on the CPU: products of sixteen words and four contexts at a time.
#
# The factor of a unit is scaled by exp(-m), where m is the middle of log(1 + exp(a + b)) over the words:
#
#     exp(-m) (1 + exp(a + b)) = g + x y,    x = exp(a - c),  y = exp(b + c - m),  g = exp(-m),
#
# with c the middle of a. It then lies between exp(-r) and exp(r), where r, half the range of the logarithm, is at most
# half the range of a, whatever b is. So many factors are multiplied that their product stays normal; then its exponent
# is added to a sum of whole numbers, and the product goes on from its mantissa.


_TOGETHER = 4  # contexts
_NORMAL = 85.0  # exp of this and of its negative is normal in float32, times a mantissa too
_LN2 = np.float32(np.log(2))
# log of 1 .. 2 as a polynomial of u = 2 mantissa - 3, from -1 to 1: right to one unit in the last place of float32
_LOGARITHM = (
    np.polynomial.chebyshev.Chebyshev.interpolate(lambda u: np.log((u + 3) / 2), 9)
    .convert(kind=np.polynomial.Polynomial)
    .coef[::-1]
    .astype(np.float32)
)


@njit
def _finish(product, exponents, polynomial, ln2, middle, out, place):
    """Write the logarithms of the products to ``out``, with what their factors were scaled by."""
    exponents = add_exponents(exponents, product)
    u = multiply_add(mantissas(product), spread(np.float32(2)), spread(np.float32(-3)))
    total = spread(polynomial[0])
    for k in range(1, len(polynomial)):
        total = multiply_add(total, u, spread(polynomial[k]))
    total = multiply_add(as_floats(exponents), spread(ln2), total)
    store(add(total, spread(middle)), out, place, LANES)


@njit
def _hidden_sums(panels, y, g, middles, every, polynomial, ln2, out):
    """Fill ``out`` (contexts, words of all panels); the rows of y, g and out are a multiple of four."""
    hidden, width = panels.shape[1], out.shape[1]
    for panel in range(len(panels)):
        first = panel * hidden * LANES
        for t in range(0, len(out), _TOGETHER):
            p0 = p1 = p2 = p3 = spread(np.float32(1))
            e0 = e1 = e2 = e3 = no_sums()
            for start in range(0, hidden, every):
                for j in range(start, min(start + every, hidden)):
                    x = load(panels, first + j * LANES, LANES)
                    p0 = multiply(p0, multiply_add(x, spread(y[t, j]), spread(g[t, j])))
                    p1 = multiply(p1, multiply_add(x, spread(y[t + 1, j]), spread(g[t + 1, j])))
                    p2 = multiply(p2, multiply_add(x, spread(y[t + 2, j]), spread(g[t + 2, j])))
                    p3 = multiply(p3, multiply_add(x, spread(y[t + 3, j]), spread(g[t + 3, j])))
                e0, e1 = add_exponents(e0, p0), add_exponents(e1, p1)
                e2, e3 = add_exponents(e2, p2), add_exponents(e3, p3)
                p0, p1, p2, p3 = mantissas(p0), mantissas(p1), mantissas(p2), mantissas(p3)
            place = t * width + panel * LANES
            _finish(p0, e0, polynomial, ln2, middles[t], out, place)
            _finish(p1, e1, polynomial, ln2, middles[t + 1], out, place + width)
            _finish(p2, e2, polynomial, ln2, middles[t + 2], out, place + 2 * width)
            _finish(p3, e3, polynomial, ln2, middles[t + 3], out, place + 3 * width)


def hidden_sums(words, contexts):
    types, (rows, hidden) = len(words.inputs), contexts.shape
    if not len(words.panels):
        raise UnsupportedShape(
            f"{words.inputs.dtype} inputs, or inputs of a hidden unit that are too far apart"
        )
    low, high = (np.logaddexp(np.float32(0), contexts + end) for end in (words.lows, words.highs))
    middle, centre = (low + high) / 2, (words.lows + words.highs) / 2
    half = float((high - low).max(initial=0)) / 2
    padded = -(-rows // _TOGETHER) * _TOGETHER
    y, g = np.zeros((padded, hidden), np.float32), np.ones((padded, hidden), np.float32)
    np.exp(contexts + centre - middle, out=y[:rows])
    np.exp(-middle, out=g[:rows])
    middles = np.zeros(padded, np.float32)
    middles[:rows] = middle.sum(axis=1, dtype=np.float64)
    out = np.empty((padded, len(words.panels) * LANES), np.float32)
    every = max(1, int(min(_NORMAL / max(half, 1e-3), hidden)))
    _hidden_sums(words.panels, y, g, middles, every, _LOGARITHM, _LN2, out)
    return out[:rows, :types]
