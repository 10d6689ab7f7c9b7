"""The solves on the CPU: the factors a row has targets for gathered, their product, Cholesky in float64."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.ratings.solves.naive import check

_Array = NDArray[Any]


_REORDERED = {"contract", "reassoc", "nsz"}  # sums in any order, so that they are vectorised
_LANES = 16
_NARROW = 24  # up to this width our own loop for Z^T Z beats calls of BLAS, one a row


@njit(fastmath=_REORDERED)
def _dot(a, b, n):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(n):
        total += a[k] * b[k]
    return total


@njit
def _cholesky(A):  # type: ignore[no-untyped-def]
    """A becomes L below its diagonal; False if it is not positive definite."""
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
    """The solution of L^T x = y in the place of y, a row of L at a time."""
    for i in range(len(y) - 1, -1, -1):
        y[i] /= A[i, i]
        for j in range(i):
            y[j] -= A[i, j] * y[i]


@njit(fastmath=_REORDERED)
def _narrow_gram(z, targets, n, width, gram, projected):  # type: ignore[no-untyped-def]
    """Z^T Z and Z^T t; four rows at a time, so that the sums are loaded and stored a quarter as often."""
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
def _solve(offsets, ids, targets, table, means, precision, weight, noise, noisy, scaled, out):  # type: ignore[no-untyped-def]
    """The first row that cannot be solved, or -1. ``table`` has columns of zeros beyond the width."""
    width, padded = out.shape[1], table.shape[1]
    longest = 0
    for u in range(len(out)):
        longest = max(longest, offsets[u + 1] - offsets[u])
    gathered = np.empty((longest, padded), np.float32)
    A, y = np.empty((width, width)), np.empty(width)
    gram, projected = np.empty((width, padded), np.float32), np.empty(padded, np.float32)
    for u in range(len(out)):
        start, n = offsets[u], offsets[u + 1] - offsets[u]
        if scaled and n == 0:
            continue
        for k in range(n):
            row = table[ids[start + k]]
            for j in range(padded):
                gathered[k, j] = row[j]
        scale = float(n) if scaled else 1.0
        for i in range(width):
            total = 0.0
            for j in range(width):
                A[i, j] = scale * precision[i, j]
                total += A[i, j] * means[u, j]
            y[i] = total
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


def solve(
    offsets: _Array,
    ids: _Array,
    targets: _Array,
    table: _Array,
    means: _Array,
    precision: _Array,
    weight: float = 1.0,
    noise: _Array | None = None,
    scaled: bool = False,
) -> NDArray[np.float32]:
    """See `tacenda.kernels.ratings.solves.solve`."""
    given = check(offsets, ids, targets, table, means, precision, noise)
    out = given.means.copy()
    e = np.empty((0, 0), np.float32) if given.noise is None else given.noise
    table = given.table
    if (spare := -table.shape[1] % _LANES) and table.shape[1] <= _NARROW:
        table = np.pad(table, ((0, 0), (0, spare)))
    failed = _solve(
        *given[:3], table, *given[4:-1], float(weight), e, given.noise is not None, bool(scaled),
        out,
    )  # fmt: skip
    if failed >= 0:
        raise KernelError(f"the system of row {failed} is not positive definite")
    return out
