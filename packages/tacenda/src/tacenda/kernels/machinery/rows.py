"""Building blocks of compiled loops: products and sums of rows of a large table and of vectors, and powers of two.

`multiply_rows` and `add_rows` take four rows at a time, so that the vector, or the sum, is read once for four rows.
Then numba makes these loops as fast as loops over vectors written by hand (see docs/kernels.md). Tables are read at two
indices instead of through views of their rows, because numba counts references to views, at the price of a locked
instruction each. Import this module only from ``cpu.py`` files: it imports numba.
"""

import numpy as np

from tacenda.kernels.machinery.compiled import njit


@njit(fastmath={"contract", "reassoc"})
def multiply_rows(vectors, t, table, numbers, first, n, out, place):
    """Fill ``out[place + j] = vectors[t] . table[numbers[first + j]]`` for j = 0 .. n - 1."""
    zero = np.float32(0)
    j = 0
    while j + 4 <= n:
        i0, i1 = numbers[first + j], numbers[first + j + 1]
        i2, i3 = numbers[first + j + 2], numbers[first + j + 3]
        s0, s1, s2, s3 = zero, zero, zero, zero
        for d in range(table.shape[1]):
            x = vectors[t, d]
            s0 += x * table[i0, d]
            s1 += x * table[i1, d]
            s2 += x * table[i2, d]
            s3 += x * table[i3, d]
        out[place + j], out[place + j + 1], out[place + j + 2], out[place + j + 3] = s0, s1, s2, s3
        j += 4
    for k in range(j, n):
        i0, s0 = numbers[first + k], zero
        for d in range(table.shape[1]):
            s0 += vectors[t, d] * table[i0, d]
        out[place + k] = s0


@njit(fastmath={"contract"})
def add_rows(table, numbers, first, weights, place, n, out, k):
    """Add ``weights[place + j] table[numbers[first + j]]`` to ``out[k]``, j = 0 .. n - 1, in this order.

    The weights are float32, or int32, which are rounded to float32.
    """
    j = 0
    while j + 4 <= n:
        i0, i1 = numbers[first + j], numbers[first + j + 1]
        i2, i3 = numbers[first + j + 2], numbers[first + j + 3]
        w0, w1 = np.float32(weights[place + j]), np.float32(weights[place + j + 1])
        w2, w3 = np.float32(weights[place + j + 2]), np.float32(weights[place + j + 3])
        for d in range(table.shape[1]):
            x = out[k, d] + w0 * table[i0, d]
            x = x + w1 * table[i1, d]
            x = x + w2 * table[i2, d]
            out[k, d] = x + w3 * table[i3, d]
        j += 4
    for i in range(j, n):
        i0, w0 = numbers[first + i], np.float32(weights[place + i])
        for d in range(table.shape[1]):
            out[k, d] += w0 * table[i0, d]


@njit(fastmath={"contract", "reassoc", "nsz"})
def dot(x, y):
    """Return the inner product of x and y, in float32."""
    total = np.float32(0)
    for j in range(len(x)):
        total += x[j] * y[j]
    return total


@njit
def add_scaled(scale, x, y):
    """Add scale x to y."""
    for j in range(len(x)):
        y[j] += scale * x[j]


@njit(inline=True)
def exp2_of_fraction(f):
    """Return 2^f of a float32 from -1/2 to 1/2, by a polynomial that compiles to vectors (Cephes' exp2f)."""
    p = np.float32(1.535336188319500e-4)
    p = p * f + np.float32(1.339887440266574e-3)
    p = p * f + np.float32(9.618437357674640e-3)
    p = p * f + np.float32(5.550332471162809e-2)
    p = p * f + np.float32(2.402264791363012e-1)
    p = p * f + np.float32(6.931472028550421e-1)
    return p * f + np.float32(1)
