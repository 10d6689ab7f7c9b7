"""The solves on the CPU: a row's factors gathered for one BLAS product, then Cholesky in float64."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import KernelError
from tacit.kernels.compiled import njit
from tacit.kernels.rating_solves.naive import check

_Array = NDArray[Any]


@njit
def _cholesky(A):  # type: ignore[no-untyped-def]
    """A becomes L below its diagonal; False if it is not positive definite."""
    for i in range(len(A)):
        for j in range(i + 1):
            total = A[i, j]
            for k in range(j):
                total -= A[i, k] * A[j, k]
            if i > j:
                A[i, j] = total / A[j, j]
            elif total > 0:
                A[i, i] = np.sqrt(total)
            else:
                return False
    return True


@njit
def _solve(offsets, ids, targets, table, means, precision, weight, noise, noisy, scaled, out):  # type: ignore[no-untyped-def]
    """The first row that cannot be solved, or -1."""
    width = table.shape[1]
    longest = 0
    for u in range(len(out)):
        longest = max(longest, offsets[u + 1] - offsets[u])
    gathered = np.empty((longest, width), np.float32)
    A, y = np.empty((width, width)), np.empty(width)
    for u in range(len(out)):
        start, n = offsets[u], offsets[u + 1] - offsets[u]
        if scaled and n == 0:
            continue
        for k in range(n):
            gathered[k] = table[ids[start + k]]
        z = gathered[:n]
        scale = float(n) if scaled else 1.0
        for i in range(width):
            total = 0.0
            for j in range(width):
                A[i, j] = scale * precision[i, j]
                total += A[i, j] * means[u, j]
            y[i] = total
        if n > 0:
            gram, projected = np.dot(z.T, z), np.dot(z.T, targets[start : start + n])
            for i in range(width):
                y[i] += weight * projected[i]
                for j in range(i + 1):
                    A[i, j] += weight * gram[i, j]
        if not _cholesky(A):
            return u
        for i in range(width):
            total = y[i]
            for j in range(i):
                total -= A[i, j] * y[j]
            y[i] = total / A[i, i]
        if noisy:
            for i in range(width):
                y[i] += noise[u, i]
        for i in range(width - 1, -1, -1):
            total = y[i]
            for j in range(i + 1, width):
                total -= A[j, i] * y[j]
            y[i] = total / A[i, i]
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
    """See `tacit.kernels.rating_solves.solve`."""
    given = check(offsets, ids, targets, table, means, precision, noise)
    out = given.means.copy()
    e = np.empty((0, 0), np.float32) if given.noise is None else given.noise
    failed = _solve(*given[:-1], float(weight), e, given.noise is not None, bool(scaled), out)
    if failed >= 0:
        raise KernelError(f"the system of row {failed} is not positive definite")
    return out
