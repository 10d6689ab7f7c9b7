"""The modal recurrence on the CPU: one pass over memory, vectorised across states.

A row is first copied to its place and then updated in place from the row before it, so that the
compiler sees no more than three streams in a loop and vectorises it, whether or not ``out`` is
``u``.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dynamics.linear_recurrence.arguments import check_like, check_out, check_packed
from tacenda.kernels.dynamics.modal_recurrence.arguments import check_eigenvalues, check_scan
from tacenda.kernels.dynamics.modal_recurrence.naive import Gradients, Scan
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.prefetch import prefetch

_Array = NDArray[Any]
_AHEAD = 3  # tokens whose rows are asked for beforehand: about the time a row takes to come


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


@njit
def _run(decay, rotation, n_real, u, offsets, initial, reverse, in_place, out, first, last):  # type: ignore[no-untyped-def]
    """out[t] = Lambda out[t - 1] + u[t] within each of the sequences first .. last."""
    for s in range(first, last):
        start, end = offsets[s], offsets[s + 1]
        before = initial[s]
        for i in range(end - start):
            t = end - 1 - i if reverse else start + i
            row = out[t]
            if not in_place:
                for j in range(len(row)):
                    row[j] = u[t, j]
            for j in range(len(row)):
                row[j] += decay[j] * before[j]
            _rotate(rotation, n_real, before, row)
            before = row


@njit
def _scan(decay, rotation, n_real, table, ids, offsets, initial, reverse, out, column, keep, last):  # type: ignore[no-untyped-def]
    """out[t] = what comes into token t; last[s] = what goes on from the last token, undecayed."""
    states = len(decay)
    before = np.empty_like(decay)
    for s in range(len(offsets) - 1):
        start, end = offsets[s], offsets[s + 1]
        total = last[s]
        for j in range(states):
            total[j] = before[j] = initial[s, j]
        for i in range(end - start):
            t = end - 1 - i if reverse else start + i
            later = t - _AHEAD if reverse else t + _AHEAD
            if 0 <= later < len(ids):
                prefetch(table, np.int64(ids[later]) * states, states)
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
def _eigenvalue_gradients(n_real, pairs, m, offsets, initial, reverse, adjoint, first, last):  # type: ignore[no-untyped-def]
    """Sums over tokens of adjoint[t] times the state before t, in float64.

    (states,) of products with the same state; (n_pairs,) of x with y less y with x.
    """
    same = np.zeros(m.shape[1])
    cross = np.zeros(pairs)
    for s in range(first, last):
        start, end = offsets[s], offsets[s + 1]
        before = initial[s]
        for i in range(end - start):
            t = end - 1 - i if reverse else start + i
            row = adjoint[t]
            for j in range(m.shape[1]):
                same[j] += row[j] * before[j]
            x, y = row[n_real : n_real + pairs], row[n_real + pairs :]
            before_x, before_y = before[n_real : n_real + pairs], before[n_real + pairs :]
            for j in range(pairs):
                cross[j] += x[j] * before_y[j] - y[j] * before_x[j]
            before = m[t]
    return same, cross


def forward(
    real: _Array,
    complex: _Array,
    u: _Array,
    offsets: _Array,
    initial: _Array | None = None,
    reverse: bool = False,
    out: _Array | None = None,
    threads: int = 1,
) -> _Array:
    """See `tacenda.kernels.dynamics.modal_recurrence.forward`."""
    u, offsets = check_packed(u, offsets, "u")
    decay, rotation = _eigenvalues(real, complex, u)
    initial = check_like(initial, (len(offsets) - 1, u.shape[1]), u, "initial")
    in_place = out is u
    result = check_out(out, u)
    if not in_place and np.may_share_memory(u, result):
        raise KernelError("out overlaps u without being u: pass u itself or another array")
    source = u if u.flags.c_contiguous else np.ascontiguousarray(u)

    def work(part: tuple[int, int]) -> None:
        _run(decay, rotation, len(real), source, offsets, initial, reverse, in_place, result, *part)

    _each(work, offsets, threads)
    return result


def scan(
    real: _Array,
    complex: _Array,
    table: _Array,
    ids: _Array,
    offsets: _Array,
    initial: _Array | None = None,
    reverse: bool = False,
    out: _Array | None = None,
    column: int = 0,
) -> Scan:
    """See `tacenda.kernels.dynamics.modal_recurrence.scan`."""
    table, ids, offsets, initial = check_scan(table, ids, offsets, initial, out, column)
    decay, rotation = _eigenvalues(real, complex, table)
    last = np.empty_like(initial)
    keep, target = (True, out) if out is not None else (False, np.empty((0, 0), table.dtype))
    _scan(
        decay, rotation, len(real), table, ids, offsets, initial, reverse, target, column, keep, last
    )  # fmt: skip
    return Scan(out, last)


def backward(
    real: _Array,
    complex: _Array,
    m: _Array,
    offsets: _Array,
    grad: _Array,
    initial: _Array | None = None,
    reverse: bool = False,
    threads: int = 1,
) -> Gradients:
    """See `tacenda.kernels.dynamics.modal_recurrence.backward`."""
    m, offsets = check_packed(m, offsets, "m")
    m = np.ascontiguousarray(m)
    grad = check_like(grad, m.shape, m, "grad")
    decay, rotation = _eigenvalues(real, complex, m)
    initial = check_like(initial, (len(offsets) - 1, m.shape[1]), m, "initial")
    conjugate = np.stack([np.asarray(complex)[:, 0], -np.asarray(complex)[:, 1]], axis=-1)
    adjoint = forward(real, conjugate, grad, offsets, None, not reverse, threads=threads)
    n, pairs = len(real), len(rotation)
    # Sequences are added in a fixed number of shares, so that the threads do not show.
    sums = _each(
        lambda part: _eigenvalue_gradients(n, pairs, m, offsets, initial, reverse, adjoint, *part),
        offsets,
        threads,
        shares=8,
    )
    same = sum((part[0] for part in sums), np.zeros(m.shape[1]))
    cross = sum((part[1] for part in sums), np.zeros(pairs))
    d_complex = np.stack([same[n : n + pairs] + same[n + pairs :], cross], axis=-1)
    filled = np.flatnonzero(np.diff(offsets))
    first = (offsets[1:] - 1 if reverse else offsets[:-1])[filled]
    d_initial = np.zeros_like(initial)
    rows = adjoint[first]
    d_initial[filled] = rows * decay
    x, y = slice(n, n + pairs), slice(n + pairs, None)
    d_initial[filled, x] -= rows[:, y] * rotation
    d_initial[filled, y] += rows[:, x] * rotation
    return Gradients(same[:n].astype(m.dtype), d_complex.astype(m.dtype), adjoint, d_initial)


def _eigenvalues(real: _Array, complex: _Array, u: _Array) -> tuple[_Array, _Array]:
    """Factors of a state by itself (states,) and of its partner (n_pairs,), as u's dtype."""
    real, complex = np.asarray(real), np.asarray(complex)
    check_eigenvalues(real, complex, u.shape[1])
    decay = np.concatenate([real, complex[:, 0], complex[:, 0]]).astype(u.dtype)
    return decay, np.ascontiguousarray(complex[:, 1], u.dtype)


def _each(
    work: Callable[[tuple[int, int]], Any],
    offsets: NDArray[np.int64],
    threads: int,
    shares: int | None = None,
) -> list[Any]:
    """``work`` over ranges of sequences that hold about equally many tokens."""
    if threads < 1:
        raise KernelError(f"threads must be at least 1, not {threads}")
    ends = np.linspace(0, offsets[-1], (shares or threads) + 1)[1:-1]
    cuts = np.r_[0, np.searchsorted(offsets[1:], ends), len(offsets) - 1]
    parts = [(int(a), int(b)) for a, b in pairwise(cuts) if a < b]
    if threads == 1 or len(parts) < 2:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, parts))
