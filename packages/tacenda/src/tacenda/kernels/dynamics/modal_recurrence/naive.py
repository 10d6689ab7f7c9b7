"""The modal recurrence, the specification: a plain loop with the whole matrix Lambda."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.dynamics.modal_recurrence import Scan

_Array = NDArray[Any]


def block_diagonal(real: _Array, complex: _Array) -> NDArray[np.float64]:
    """Lambda (states, states), the states in the order of the package's docstring."""
    n, pairs = len(real), len(complex)
    x, y = n + np.arange(pairs), n + pairs + np.arange(pairs)
    Lambda = np.zeros((n + 2 * pairs, n + 2 * pairs))
    Lambda[np.arange(n), np.arange(n)] = real
    Lambda[x, x] = Lambda[y, y] = complex[:, 0]
    Lambda[x, y], Lambda[y, x] = complex[:, 1], -complex[:, 1]
    return Lambda


def scan(
    real: _Array,
    complex: _Array,
    table: _Array,
    ids: _Array,
    offsets: NDArray[np.int64],
    initial: _Array,
    reverse: bool,
    out: _Array | None,
    column: int,
) -> Scan:
    """before_t = Lambda (before_{t-1} + table[ids[t - 1]])."""
    Lambda, last = block_diagonal(real, complex), np.empty_like(initial)
    for s in range(len(initial)):
        before = total = initial[s].astype(np.float64)
        tokens = range(offsets[s], offsets[s + 1])
        for t in reversed(tokens) if reverse else tokens:
            if out is not None:
                out[t, column : column + len(Lambda)] = before
            total = before + table[ids[t]]
            before = Lambda @ total
        last[s] = total
    return Scan(out, last)
