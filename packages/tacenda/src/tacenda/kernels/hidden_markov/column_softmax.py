"""The softmax of the columns of a small matrix on the CPU, while it is in cache.

numba's own exp is a call for each number unless Intel's SVML is installed; here exp is written so that compilers turn
it into vector instructions: exp(x) = 2^n 2^f with n the nearest whole number to x / log 2. 2^f is a polynomial (Cephes'
exp2f, of degree 6), and 2^n is added to the exponent bits.
"""

import math

import numpy as np

from tacenda.kernels.machinery.compiled import njit

_FAST = {"contract", "reassoc"}


@njit(fastmath=_FAST)
def column_softmax(block, bits, powers, shift, weights):  # type: ignore[no-untyped-def]
    """Replace a block (rows, k) of scores by their softmax over the rows, times ``weights`` (k,).

    ``bits`` and ``powers`` are as in `exponentials`, and ``shift`` (k,) is scratch.
    """
    k = block.shape[1]
    # The maximum of each column, which keeps the exponentials from overflowing.
    for i in range(k):
        shift[i] = block[0, i]
    for j in range(1, block.shape[0]):
        row = block[j]
        for i in range(k):
            shift[i] = max(shift[i], row[i])
    exponentials(block, bits, powers, shift)
    # The scratch then holds the sums of the columns, and what each column is scaled by.
    shift[:] = 0
    for j in range(block.shape[0]):
        row = block[j]
        for i in range(k):
            shift[i] += row[i]
    for i in range(k):
        shift[i] = weights[i] / shift[i]
    for j in range(block.shape[0]):
        row = block[j]
        for i in range(k):
            row[i] *= shift[i]


@njit(fastmath=_FAST)
def exponentials(block, bits, powers, shift):  # type: ignore[no-untyped-def]
    """Replace a block by exp(block - shift), where NaN stays NaN.

    ``bits`` is the block's memory as int32, and ``powers`` (rows, k) int32 is scratch.
    """
    k = block.shape[1]
    if block.itemsize == 8:
        for j in range(block.shape[0]):
            for i in range(k):
                block[j, i] = math.exp(block[j, i] - shift[i])
        return
    for j in range(block.shape[0]):
        row, power = block[j], powers[j]
        for i in range(k):
            # x / log 2, held where 2^n is a normal number; a comparison with NaN is false, so NaN becomes -126 too.
            given = (np.float32(row[i]) - np.float32(shift[i])) * np.float32(1.4426950408889634)
            x = given if given > np.float32(-126) else np.float32(-126)
            x = x if x < np.float32(127) else np.float32(127)
            # Split into the nearest whole number n and a fraction f, and take 2^f from its polynomial.
            n = np.floor(x + np.float32(0.5))
            f = x - n
            p = np.float32(1.535336188319500e-4)
            p = p * f + np.float32(1.339887440266574e-3)
            p = p * f + np.float32(9.618437357674640e-3)
            p = p * f + np.float32(5.550332471162809e-2)
            p = p * f + np.float32(2.402264791363012e-1)
            p = p * f + np.float32(6.931472028550421e-1)
            number = given == given  # False for NaN alone, which stays
            row[i] = p * f + np.float32(1) if number else given
            power[i] = np.int32(n) if number else 0
    # Multiply by 2^n by adding n to the exponent, which float32 has from bit 23 on. This is a pass of its own, so that
    # each loop reads and writes its numbers as one type and the compiler vectorises both.
    for j in range(block.shape[0]):
        row, power = bits[j], powers[j]
        for i in range(k):
            row[i] += power[i] << 23
