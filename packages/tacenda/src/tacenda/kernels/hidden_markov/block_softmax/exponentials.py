"""exp over rows of a small matrix, in a form that compilers turn into vector instructions.

exp(x) = 2^n 2^f with n the nearest whole number to x / log 2: 2^f is a polynomial (Cephes' expf, of degree 6 here for
2^f), and 2^n is added to the exponent bits. numba's own exp is a call for each number unless Intel's SVML is
installed.
"""

import math

import numpy as np

from tacenda.kernels.machinery.compiled import njit

__all__ = ["divide", "exponentials", "largest"]

_FAST = {"contract", "reassoc"}


@njit(fastmath=_FAST)
def largest(block, out):  # type: ignore[no-untyped-def]
    """The maximum of each column of (rows, k), into ``out`` (k,)."""
    for i in range(block.shape[1]):
        out[i] = block[0, i]
    for j in range(1, block.shape[0]):
        row = block[j]
        for i in range(block.shape[1]):
            out[i] = max(out[i], row[i])


@njit(fastmath=_FAST)
def exponentials(block, bits, powers, shift):  # type: ignore[no-untyped-def]
    """exp(block - shift) in place, NaN kept; ``bits`` is its memory as int32, ``powers`` (rows, k) int32 scratch."""
    k = block.shape[1]
    if block.itemsize == 8:
        for j in range(block.shape[0]):
            for i in range(k):
                block[j, i] = math.exp(block[j, i] - shift[i])
        return
    for j in range(block.shape[0]):
        row, power = block[j], powers[j]
        for i in range(k):
            given = (np.float32(row[i]) - np.float32(shift[i])) * np.float32(1.4426950408889634)
            x = given if given > np.float32(-126) else np.float32(-126)  # also for NaN
            x = x if x < np.float32(127) else np.float32(127)
            n = np.floor(x + np.float32(0.5))
            f = x - n
            p = np.float32(1.535336188319500e-4)
            p = p * f + np.float32(1.339887440266574e-3)
            p = p * f + np.float32(9.618437357674640e-3)
            p = p * f + np.float32(5.550332471162809e-2)
            p = p * f + np.float32(2.402264791363012e-1)
            p = p * f + np.float32(6.931472028550421e-1)
            number = given == given  # NaN alone is not, and stays
            row[i] = p * f + np.float32(1) if number else given
            power[i] = np.int32(n) if number else 0
    for j in range(block.shape[0]):
        row, power = bits[j], powers[j]
        for i in range(k):
            row[i] += power[i] << 23


@njit(fastmath=_FAST)
def divide(block, sums, weights):  # type: ignore[no-untyped-def]
    """Columns scaled to sum to ``weights`` (k,); ``sums`` (k,) is scratch."""
    k = block.shape[1]
    sums[:] = 0
    for j in range(block.shape[0]):
        row = block[j]
        for i in range(k):
            sums[i] += row[i]
    for i in range(k):
        sums[i] = weights[i] / sums[i]
    for j in range(block.shape[0]):
        row = block[j]
        for i in range(k):
            row[i] *= sums[i]
