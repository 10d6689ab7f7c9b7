"""The solves on the CPU: for each row, gather the factors it has targets for, multiply them, and solve in float64.

Products of float32 factors are in float32. Wide ones are BLAS; up to a width of `_NARROW` a loop of our own is faster
than a call of BLAS for each row. The system is solved by Cholesky, whose factor also turns noise into a draw.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.machinery.compiled import njit

_Array = NDArray[Any]
_REORDERED = {"contract", "reassoc", "nsz"}  # sums in any order, so that they are vectorised
_LANES = 16
_NARROW = 24  # up to this width a loop of our own for Z^T Z beats a call of BLAS for each row


def solve(
    offsets: _Array,
    ids: _Array,
    targets: _Array,
    table: _Array,
    means: _Array,
    precision: _Array,
    weights: _Array,
    noise: _Array | None,
    scaled: bool,
) -> NDArray[np.float32]:
    """See `tacenda.kernels.ratings.solves.solve`."""
    out = means.copy()
    noisy = noise is not None
    e = np.empty((0, 0), np.float32) if noise is None else noise
    # Narrow rows are padded to whole vector registers.
    if (spare := -table.shape[1] % _LANES) and table.shape[1] <= _NARROW:
        table = np.pad(table, ((0, 0), (0, spare)))
    failed = _solve(offsets, ids, targets, table, means, precision, weights, e, noisy, scaled, out)
    if failed >= 0:
        raise KernelError(f"the system of row {failed} is not positive definite")
    return out


@njit(fastmath=_REORDERED)
def _dot(a, b, n):  # type: ignore[no-untyped-def]
    """The inner product of the first n numbers, in float64."""
    total = 0.0
    for k in range(n):
        total += a[k] * b[k]
    return total


@njit
def _cholesky(A):  # type: ignore[no-untyped-def]
    """Turn A into L on and below its diagonal; return False if it is not positive definite."""
    for i in range(len(A)):
        for j in range(i):
            A[i, j] = (A[i, j] - _dot(A[i], A[j], j)) / A[j, j]
        left = A[i, i] - _dot(A[i], A[i], i)
        if not left > 0:
            return False
        A[i, i] = np.sqrt(left)
    return True


@njit(fastmath=_REORDERED)
def _back(A, y):  # type: ignore[no-untyped-def]
    """Solve L^T x = y in the place of y, one row of L at a time."""
    for i in range(len(y) - 1, -1, -1):
        y[i] /= A[i, i]
        for j in range(i):
            y[j] -= A[i, j] * y[i]


@njit(fastmath=_REORDERED)
def _narrow_gram(z, targets, n, width, gram, projected):  # type: ignore[no-untyped-def]
    """Fill Z^T Z and Z^T t, four rows of Z at a time, so that the sums are loaded and stored a quarter as often."""
    padded = z.shape[1]
    for j in range(padded):
        projected[j] = 0
    for i in range(width):
        for j in range(padded):
            gram[i, j] = 0
    whole = n - n % 4
    for k in range(0, whole, 4):
        z0, z1, z2, z3 = z[k], z[k + 1], z[k + 2], z[k + 3]
        t0, t1, t2, t3 = targets[k], targets[k + 1], targets[k + 2], targets[k + 3]
        for j in range(padded):
            projected[j] += t0 * z0[j] + t1 * z1[j] + t2 * z2[j] + t3 * z3[j]
        for i in range(width):
            a0, a1, a2, a3 = z0[i], z1[i], z2[i], z3[i]
            row = gram[i]
            for j in range(padded):
                row[j] += a0 * z0[j] + a1 * z1[j] + a2 * z2[j] + a3 * z3[j]
    for k in range(whole, n):
        z0 = z[k]
        for j in range(padded):
            projected[j] += targets[k] * z0[j]
        for i in range(width):
            row = gram[i]
            for j in range(padded):
                row[j] += z0[i] * z0[j]


@njit
def _solve(offsets, ids, targets, table, means, precision, weights, noise, noisy, scaled, out):  # type: ignore[no-untyped-def]
    """Fill out; return the first row that cannot be solved, or -1. ``table`` has columns of zeros beyond the width."""
    width, padded = out.shape[1], table.shape[1]
    longest = 0
    for u in range(len(out)):
        longest = max(longest, offsets[u + 1] - offsets[u])
    gathered = np.empty((longest, padded), np.float32)
    A, y = np.empty((width, width)), np.empty(width)
    gram, projected = np.empty((width, padded), np.float32), np.empty(padded, np.float32)
    for u in range(len(out)):
        start, n, weight = offsets[u], offsets[u + 1] - offsets[u], weights[u]
        if scaled and n == 0:
            continue
        # Lay the factors z_i of the row's targets one after another.
        for k in range(n):
            row = table[ids[start + k]]
            for j in range(padded):
                gathered[k, j] = row[j]
        # The prior's part: A = s_u P, y = s_u P m_u.
        scale = float(n) if scaled else 1.0
        for i in range(width):
            total = 0.0
            for j in range(width):
                A[i, j] = scale * precision[i, j]
                total += A[i, j] * means[u, j]
            y[i] = total
        # The targets' part: alpha Z^T Z, of which the lower triangle is enough, and alpha Z^T t.
        if n > 0:
            z = gathered[:n]
            if width <= _NARROW:
                _narrow_gram(z, targets[start:], n, width, gram, projected)
            else:
                gram, projected = np.dot(z.T, z), np.dot(z.T, targets[start : start + n])
            for i in range(width):
                y[i] += weight * projected[i]
                for j in range(i + 1):
                    A[i, j] += weight * gram[i, j]
        # A = L L^T; solve L v = y, add the noise where there is any, and solve L^T x = v: the noise becomes L^{-T} e.
        if not _cholesky(A):
            return u
        for i in range(width):
            y[i] = (y[i] - _dot(A[i], y, i)) / A[i, i]
        if noisy:
            for i in range(width):
                y[i] += noise[u, i]
        _back(A, y)
        for i in range(width):
            out[u, i] = y[i]
    return -1
