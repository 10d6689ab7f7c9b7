"""The linear recurrence on the CPU: time-major steps over packed sequences, one GEMM each.

Sequences are sorted by length and run in batches of `BATCH`: step t multiplies the states of those
that still run, so that nothing is padded and the states of a step stay in the second-level cache.
Where only a few long sequences are left, a step would be one matrix-vector product; these are cut
into chunks that run side by side from a zero state, the states at their ends are then corrected
one after another with a power of F, and a second run without input adds what each chunk inherits:
twice the flops at many times the rate.

Arithmetic is BLAS and IEEE; NaN and infinity propagate within their sequence.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dynamics.linear_recurrence.arguments import (
    check_like,
    check_out,
    check_packed,
    square,
)
from tacenda.kernels.dynamics.linear_recurrence.naive import Gradients
from tacenda.kernels.machinery.compiled import njit

_Array = NDArray[Any]
_Int = NDArray[np.int64]

BATCH = 256
"""Sequences in one packed batch: enough for BLAS, few enough for the second-level cache."""

FEW = 8
"""With fewer sequences left than this a step costs more than the second run of the chunked form."""

LONG = 1024
"""Steps with few sequences that pay for the chunked form."""


class _Runs(NamedTuple):
    """Token t of run i is row ``first[i] + step t`` for t < lengths[i]; its initial state is a row
    of ``initial`` (runs, states), or zero.
    """

    first: _Int
    lengths: _Int
    step: int
    initial: _Array | None

    def take(self, which: _Int) -> "_Runs":
        initial = None if self.initial is None else self.initial[which]
        return _Runs(self.first[which], self.lengths[which], self.step, initial)


@njit
def _add_input(product, first, offset, u, out, state):  # type: ignore[no-untyped-def]
    """Set state = product + the runs' rows of u at this step, and so the rows of out."""
    for i in range(len(first)):
        t = first[i] + offset
        for j in range(u.shape[1]):
            state[i, j] = product[i, j] + u[t, j]
        for j in range(u.shape[1]):
            out[t, j] = state[i, j]


@njit
def _add_to_output(product, first, offset, out):  # type: ignore[no-untyped-def]
    """Add the product to the runs' rows of out at this step."""
    for i in range(len(first)):
        t = first[i] + offset
        for j in range(out.shape[1]):
            out[t, j] += product[i, j]


def _run_batch(F_T: _Array, runs: _Runs, u: _Array | None, out: _Array) -> None:
    """One batch of runs, longest first; without ``u``, add what ``initial`` alone gives."""
    n, states = len(runs.first), len(F_T)
    product, state = np.zeros((n, states), F_T.dtype), np.empty((n, states), F_T.dtype)
    active = np.searchsorted(-runs.lengths, -np.arange(runs.lengths[0]))
    for t, running in enumerate(active):
        before = state if t else runs.initial
        if before is not None:
            np.matmul(before[:running], F_T, out=product[:running])
        first, offset = runs.first[:running], runs.step * t
        if u is None:
            _add_to_output(product[:running], first, offset, out)
            product, state = state, product
        else:
            _add_input(product[:running], first, offset, u, out, state[:running])


def _run(
    F_T: _Array, runs: _Runs, u: _Array | None, out: _Array, each: Callable[..., None]
) -> None:
    """Every run, in batches of similar length, which ``each`` may share between threads."""
    order = np.argsort(-runs.lengths, kind="stable")
    order = order[: np.count_nonzero(runs.lengths)]
    batches = [order[i : i + BATCH] for i in range(0, len(order), BATCH)]
    each(lambda batch: _run_batch(F_T, runs.take(batch), u, out), batches)


def _run_in_chunks(
    F: _Array, runs: _Runs, u: _Array, out: _Array, each: Callable[..., None]
) -> None:
    """A few long runs, cut into chunks of ``size`` tokens."""
    F_T = np.ascontiguousarray(F.T)
    size = int(np.clip(runs.lengths.sum() // BATCH, 16, 128))
    counts = -(-runs.lengths // size)
    owner = np.repeat(np.arange(len(counts)), counts)
    heads = np.r_[0, np.cumsum(counts)[:-1]]  # the first chunk of every run
    position = (np.arange(len(owner)) - heads[owner]) * size
    initial = np.zeros((len(owner), len(F)), F.dtype)
    if runs.initial is not None:
        initial[heads] = runs.initial
    chunks = _Runs(
        runs.first[owner] + runs.step * position,
        np.minimum(size, runs.lengths[owner] - position),
        runs.step,
        initial,
    )
    _run(F_T, chunks, u, out, each)
    # In float64, where |F|^128 does not overflow before the states themselves do in float32.
    power = np.linalg.matrix_power(F.astype(np.float64), size)
    inherited = np.zeros((len(owner), len(F)))
    ends = chunks.first + runs.step * (chunks.lengths - 1)
    for i in range(1, len(owner)):
        if owner[i] == owner[i - 1]:
            inherited[i] = out[ends[i - 1]] + power @ inherited[i - 1]
    heirs = np.flatnonzero(position)
    inherited = inherited.astype(F.dtype)
    _run(F_T, chunks._replace(initial=inherited).take(heirs), None, out, each)


def forward(
    F: _Array,
    u: _Array,
    offsets: _Array,
    initial: _Array | None = None,
    reverse: bool = False,
    out: _Array | None = None,
    threads: int = 1,
) -> _Array:
    """See `tacenda.kernels.dynamics.linear_recurrence.forward`."""
    u, offsets = check_packed(u, offsets, "u")
    F = square(F, u)
    if initial is not None:
        initial = check_like(initial, (len(offsets) - 1, u.shape[1]), u, "initial")
    if threads < 1:
        raise KernelError(f"threads must be at least 1, not {threads}")
    result = check_out(out, u)
    if out is not u and np.may_share_memory(u, result):
        raise KernelError("out overlaps u without being u: pass u itself or another array")
    u = np.ascontiguousarray(u)
    first = offsets[1:] - 1 if reverse else offsets[:-1]
    runs = _Runs(first, np.diff(offsets), -1 if reverse else 1, initial)
    is_long = _few_and_long(runs.lengths)
    with ThreadPoolExecutor(threads) as pool:

        def each(work: Callable[[_Int], None], batches: list[_Int]) -> None:
            if threads == 1:
                for batch in batches:
                    work(batch)
            else:
                list(pool.map(work, batches))

        _run(np.ascontiguousarray(F.T), runs.take(np.flatnonzero(~is_long)), u, result, each)
        if is_long.any():
            _run_in_chunks(F, runs.take(np.flatnonzero(is_long)), u, result, each)
    return result


def _few_and_long(lengths: _Int) -> NDArray[np.bool_]:
    """The sequences, fewer than `FEW`, that would run on alone for at least `LONG` steps."""
    if len(lengths) == 0:
        return np.zeros(0, bool)
    accompanied = np.sort(lengths)[-FEW] if len(lengths) >= FEW else 0
    return lengths >= accompanied + LONG


def backward(
    F: _Array,
    a: _Array,
    offsets: _Array,
    grad: _Array,
    initial: _Array | None = None,
    reverse: bool = False,
    threads: int = 1,
) -> Gradients:
    """See `tacenda.kernels.dynamics.linear_recurrence.backward`."""
    a, offsets = check_packed(a, offsets, "a")
    F = square(F, a)
    grad = check_like(grad, a.shape, a, "grad")
    start = check_like(initial, (len(offsets) - 1, a.shape[1]), a, "initial")
    adjoint = forward(F.T, grad, offsets, None, not reverse, threads=threads)
    filled = np.flatnonzero(np.diff(offsets))
    first = (offsets[1:] - 1 if reverse else offsets[:-1])[filled]
    d_initial = np.zeros_like(start)
    d_initial[filled] = adjoint[first] @ F
    d_F = _sum_of_products(adjoint, a, first, start[filled], reverse)
    return Gradients(d_F.astype(a.dtype), adjoint, d_initial)


def _sum_of_products(
    adjoint: _Array, a: _Array, first: _Int, start: _Array, reverse: bool, block: int = 4096
) -> NDArray[np.float64]:
    """Add up adjoint_t a_{t-1}^T over all t, where a_{t-1} is ``start`` at the tokens ``first``."""
    total = np.zeros((a.shape[1], a.shape[1]))
    before = np.zeros((min(block, len(a)), a.shape[1]), a.dtype)
    for low in range(0, len(a), block):
        high = min(low + block, len(a))
        shift = 1 if reverse else -1
        inside = slice(max(low + shift, 0), min(high + shift, len(a)))
        at = inside.start - shift - low
        before[at : at + inside.stop - inside.start] = a[inside]
        edges = slice(*np.searchsorted(first, (low, high)))
        before[first[edges] - low] = start[edges]
        total += adjoint[low:high].T @ before[: high - low]
    return total
