"""The modal recurrence on the CPU: one pass over memory, vectorised across states."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.dynamics.modal_recurrence import Scan
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.vectors import prefetch

_Array = NDArray[Any]
_AHEAD = 3  # tokens whose rows are asked for beforehand: about the time a row takes to come


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
    """See `tacenda.kernels.dynamics.modal_recurrence.scan`."""
    decay = np.concatenate([real, complex[:, 0], complex[:, 0]]).astype(table.dtype)
    rotation = np.ascontiguousarray(complex[:, 1], table.dtype)
    last = np.empty_like(initial)
    target = np.empty((0, 0), table.dtype) if out is None else out
    _scan(
        decay, rotation, len(real), table, ids, offsets, initial, reverse, target, column,
        out is not None, last,
    )  # fmt: skip
    return Scan(out, last)


@njit
def _scan(decay, rotation, n_real, table, ids, offsets, initial, reverse, out, column, keep, last):  # type: ignore[no-untyped-def]
    """Fill out[t] with what comes into token t, and last[s] with what goes on from the last token, undecayed."""
    states = len(decay)
    before = np.empty_like(decay)
    for s in range(len(offsets) - 1):
        start, end = offsets[s], offsets[s + 1]
        # ``total`` is what a token hands on: what came into it plus its own input.
        total = last[s]
        for j in range(states):
            total[j] = before[j] = initial[s, j]
        for i in range(end - start):
            t = end - 1 - i if reverse else start + i
            # Rows of the table are read in the order of the text, which no hardware prefetcher can foresee.
            later = t - _AHEAD if reverse else t + _AHEAD
            if 0 <= later < len(ids):
                prefetch(table, np.int64(ids[later]) * states, states)
            # before = Lambda total, except at the first token, whose ``before`` is the initial state itself. Each
            # loop writes one array, which lets the compiler vectorise it.
            if i > 0:
                for j in range(states):
                    before[j] = decay[j] * total[j]
                _rotate(rotation, n_real, total, before)
            if keep:
                row = out[t, column : column + states]
                for j in range(states):
                    row[j] = before[j]
            word = table[ids[t]]
            for j in range(states):
                total[j] = before[j] + word[j]


@njit
def _rotate(rotation, n_real, before, row):  # type: ignore[no-untyped-def]
    """Add to each coordinate of a pair what comes from the other one."""
    pairs = len(rotation)
    x, y = row[n_real : n_real + pairs], row[n_real + pairs :]
    before_x, before_y = before[n_real : n_real + pairs], before[n_real + pairs :]
    for j in range(pairs):
        x[j] += rotation[j] * before_y[j]
    for j in range(pairs):
        y[j] -= rotation[j] * before_x[j]
