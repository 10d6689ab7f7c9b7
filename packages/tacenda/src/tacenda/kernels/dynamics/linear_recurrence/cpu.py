"""The linear recurrence on the CPU: one matrix product for each step of a batch of sequences.

Sequences are sorted by length and run in batches of `BATCH`. Step t multiplies the states of those that still run, so
nothing is padded and the states of a step stay in the second-level cache. Where only a few long sequences are left, a
step would be no more than a matrix-vector product. Those are cut into chunks that run side by side from a zero state;
then the states at their ends are corrected one after another with a power of F, and a second run without input adds
what each chunk inherits: twice the flops at many times the rate.

Arithmetic is BLAS and IEEE; NaN and infinity propagate within their sequence.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.machinery.compiled import njit

_Array = NDArray[Any]
_Int = NDArray[np.int64]

BATCH = 256
"""Sequences in one batch: enough for BLAS, few enough for the second-level cache."""

FEW = 8
"""With fewer sequences left than this, a step costs more than the second run of the chunked form."""

LONG = 1024
"""Steps with few sequences that pay for the chunked form."""


class _Runs(NamedTuple):
    """Sequences, or chunks of them: token t of run i is row ``first[i] + step t``, for t < lengths[i]."""

    first: _Int
    lengths: _Int
    step: int
    initial: _Array  # (runs, states)

    def take(self, which: _Int) -> "_Runs":
        """Return some of the runs, given their numbers."""
        return _Runs(self.first[which], self.lengths[which], self.step, self.initial[which])


def forward(F: _Array, u: _Array, offsets: _Int, reverse: bool) -> _Array:
    """See `tacenda.kernels.dynamics.linear_recurrence.forward`."""
    out = np.empty_like(u)
    first = offsets[1:] - 1 if reverse else offsets[:-1]
    initial = np.zeros((len(first), len(F)), u.dtype)
    runs = _Runs(first, np.diff(offsets), -1 if reverse else 1, initial)
    is_long = _few_and_long(runs.lengths)
    _run(np.ascontiguousarray(F.T), runs.take(np.flatnonzero(~is_long)), u, out)
    if is_long.any():
        _run_in_chunks(F, runs.take(np.flatnonzero(is_long)), u, out)
    return out


def _few_and_long(lengths: _Int) -> NDArray[np.bool_]:
    """Which sequences, fewer than `FEW`, would run on alone for at least `LONG` steps."""
    if len(lengths) == 0:
        return np.zeros(0, bool)
    accompanied = np.sort(lengths)[-FEW] if len(lengths) >= FEW else 0
    return lengths >= accompanied + LONG


def _run(F_T: _Array, runs: _Runs, u: _Array | None, out: _Array) -> None:
    """Run everything, in batches of similar length."""
    order = np.argsort(-runs.lengths, kind="stable")
    order = order[: np.count_nonzero(runs.lengths)]
    for i in range(0, len(order), BATCH):
        _run_batch(F_T, runs.take(order[i : i + BATCH]), u, out)


def _run_batch(F_T: _Array, runs: _Runs, u: _Array | None, out: _Array) -> None:
    """Run one batch, longest first; without ``u``, add to ``out`` what the initial states alone give."""
    product, state = np.empty_like(runs.initial), np.empty_like(runs.initial)
    # How many runs are longer than t, for every step t: they are the first ones.
    active = np.searchsorted(-runs.lengths, -np.arange(runs.lengths[0]))
    for t, running in enumerate(active):
        before = state if t else runs.initial
        np.matmul(before[:running], F_T, out=product[:running])
        first, offset = runs.first[:running], runs.step * t
        if u is None:
            _add_to_output(product[:running], first, offset, out)
            product, state = state, product
        else:
            _add_input(product[:running], first, offset, u, out, state[:running])


@njit
def _add_input(product, first, offset, u, out, state):  # type: ignore[no-untyped-def]
    """Set the state to the product plus the runs' rows of u at this step, and write it to their rows of out."""
    for i in range(len(first)):
        t = first[i] + offset
        for j in range(u.shape[1]):
            state[i, j] = product[i, j] + u[t, j]
        # A loop of its own: with no more than three streams in each, the compiler vectorises both.
        for j in range(u.shape[1]):
            out[t, j] = state[i, j]


@njit
def _add_to_output(product, first, offset, out):  # type: ignore[no-untyped-def]
    """Add the product to the runs' rows of out at this step."""
    for i in range(len(first)):
        t = first[i] + offset
        for j in range(out.shape[1]):
            out[t, j] += product[i, j]


def _run_in_chunks(F: _Array, runs: _Runs, u: _Array, out: _Array) -> None:
    """Run a few long sequences, cut into chunks of ``size`` tokens."""
    F_T = np.ascontiguousarray(F.T)
    size = int(np.clip(runs.lengths.sum() // BATCH, 16, 128))
    counts = -(-runs.lengths // size)
    owner = np.repeat(np.arange(len(counts)), counts)
    heads = np.r_[0, np.cumsum(counts)[:-1]]  # the first chunk of every run
    position = (np.arange(len(owner)) - heads[owner]) * size
    chunks = _Runs(
        runs.first[owner] + runs.step * position,
        np.minimum(size, runs.lengths[owner] - position),
        runs.step,
        np.zeros((len(owner), len(F)), F.dtype),
    )
    # First all chunks side by side, as if each began with a state of zeros.
    _run(F_T, chunks, u, out)
    # Then what each chunk inherits from the one before: that chunk's last state, as it should have been. The power
    # is taken in float64, where |F|^128 does not overflow before the states themselves do in float32.
    power = np.linalg.matrix_power(F.astype(np.float64), size)
    inherited = np.zeros((len(owner), len(F)))
    ends = chunks.first + runs.step * (chunks.lengths - 1)
    for i in range(1, len(owner)):
        if owner[i] == owner[i - 1]:
            inherited[i] = out[ends[i - 1]] + power @ inherited[i - 1]
    # Last, what the inherited states add to every later state of their chunk.
    heirs = np.flatnonzero(position)
    inherited = inherited.astype(F.dtype)
    _run(F_T, chunks._replace(initial=inherited).take(heirs), None, out)
