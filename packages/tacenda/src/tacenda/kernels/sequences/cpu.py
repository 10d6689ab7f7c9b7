"""The operations of linear dynamical systems on the CPU.

The linear recurrence: one matrix product for each step of a batch of sequences. Sequences are sorted by length and run
in batches of `BATCH`. Step t multiplies the states of those that still run, so nothing is padded and the states of a
step stay in the second-level cache. Where only a few long sequences are left, a step would be no more than a
matrix-vector product. Those are cut into chunks that run side by side from a zero state; then the states at their ends
are corrected one after another with a power of F, and a second run without input adds what each chunk inherits: twice
the flops at many times the rate. Arithmetic is BLAS and IEEE; NaN and infinity propagate within their sequence.

The modal scan: one pass over memory, vectorized across states.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.vectors import prefetch
from tacenda.kernels.sequences import LEAST_SQUARED_LENGTH, Scan

_Array = NDArray[Any]
_Int = NDArray[np.int64]

BATCH = 256
"""Sequences in one batch: enough for BLAS, few enough for the second-level cache."""
#: With fewer sequences than this, a step costs more than the second run of the chunked form.
_FEW_SEQUENCES = 8
LONG = 1024
"""Steps with few sequences that are worth the chunked form."""
#: The row of a token is prefetched so many tokens earlier: about the time that memory takes.
_TOKENS_AHEAD = 3


# -- linear recurrence ------------------------------------------------------------------------------


class _Runs(NamedTuple):
    """Sequences, or chunks of them: token t of run i is row ``first[i] + step t``, for t < lengths[i]."""

    first: _Int
    lengths: _Int
    step: int
    initial: _Array  # (runs, states)

    def take(self, which: _Int) -> "_Runs":
        """Return some of the runs, given their numbers."""
        return _Runs(self.first[which], self.lengths[which], self.step, self.initial[which])


def linear_recurrence(F, u, offsets, reverse):
    out = np.empty_like(u)
    first = offsets[1:] - 1 if reverse else offsets[:-1]
    initial = np.zeros((len(first), len(F)), u.dtype)
    runs = _Runs(first, np.diff(offsets), -1 if reverse else 1, initial)
    is_long = _find_long(runs.lengths)
    _run(np.ascontiguousarray(F.T), runs.take(np.flatnonzero(~is_long)), u, out)
    if is_long.any():
        _run_in_chunks(F, runs.take(np.flatnonzero(is_long)), u, out)
    return out


def _find_long(lengths: _Int) -> NDArray[np.bool_]:
    """Tell which sequences, fewer than `_FEW_SEQUENCES`, would still run `LONG` steps after all others have ended."""
    if len(lengths) == 0:
        return np.zeros(0, bool)
    end_of_others = np.sort(lengths)[-_FEW_SEQUENCES] if len(lengths) >= _FEW_SEQUENCES else 0
    return lengths >= end_of_others + LONG


def _run(F_T: _Array, runs: _Runs, u: _Array | None, out: _Array) -> None:
    """Run sequences in batches of similar length."""
    order = np.argsort(-runs.lengths, kind="stable")
    order = order[: np.count_nonzero(runs.lengths)]
    for i in range(0, len(order), BATCH):
        _run_batch(F_T, runs.take(order[i : i + BATCH]), u, out)


def _run_batch(F_T: _Array, runs: _Runs, u: _Array | None, out: _Array) -> None:
    """Run one batch, longest first; without ``u``, add to ``out`` the contributions of the initial states."""
    product, state = np.empty_like(runs.initial), np.empty_like(runs.initial)
    # For every step t, the number of runs longer than t, which are the first ones.
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
def _add_input(product, first, offset, u, out, state):
    """Set the state to the product plus the runs' rows of u at this step, and write it to their rows of out."""
    for i in range(len(first)):
        t = first[i] + offset
        for j in range(u.shape[1]):
            state[i, j] = product[i, j] + u[t, j]
        # A separate loop: with at most three streams in each, the compiler vectorizes both.
        for j in range(u.shape[1]):
            out[t, j] = state[i, j]


@njit
def _add_to_output(product, first, offset, out):
    """Add the product to the runs' rows of out at this step."""
    for i in range(len(first)):
        t = first[i] + offset
        for j in range(out.shape[1]):
            out[t, j] += product[i, j]


def _run_in_chunks(F: _Array, runs: _Runs, u: _Array, out: _Array) -> None:
    """Run a few long sequences, cut into chunks."""
    F_T = np.ascontiguousarray(F.T)
    size = int(np.clip(runs.lengths.sum() // BATCH, 16, 128))
    # In float64, where |F|^128 rarely overflows before the states themselves do in float32.
    with np.errstate(over="ignore", invalid="ignore"):
        power = np.linalg.matrix_power(F.astype(np.float64), size)
    if not np.isfinite(power).all():
        _run(F_T, runs, u, out)
        return
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
    # First run all chunks side by side, from states of zeros.
    _run(F_T, chunks, u, out)
    # Then find the state that each chunk inherits, the last one of the chunk before, corrected.
    inherited = np.zeros((len(owner), len(F)))
    ends = chunks.first + runs.step * (chunks.lengths - 1)
    for i in range(1, len(owner)):
        if owner[i] == owner[i - 1]:
            inherited[i] = out[ends[i - 1]] + power @ inherited[i - 1]
    # Last, add the contribution of the inherited state to every state of the chunk.
    heirs = np.flatnonzero(position)
    inherited = inherited.astype(F.dtype)
    _run(F_T, chunks._replace(initial=inherited).take(heirs), None, out)


# -- modal scan -------------------------------------------------------------------------------------


def modal_scan(modes, table, ids, offsets, initial, reverse, out, column):
    real, pairs = modes
    decay = np.concatenate([real, pairs[:, 0], pairs[:, 0]]).astype(table.dtype)
    rotation = np.ascontiguousarray(pairs[:, 1], table.dtype)
    last = np.empty_like(initial)
    target = np.empty((0, 0), table.dtype) if out is None else out
    text, place = (ids, offsets), (target, column, out is not None)
    _modal_scan((decay, rotation, len(real)), table, text, initial, reverse, place, last)
    return Scan(out, last)


@njit
def _modal_scan(modes, table, text, initial, reverse, place, last):
    """Fill out[t] with the state before token t, and last[s] with the state before the last token plus its input.

    ``place`` is the array to write to, the first column, and whether to write at all.
    """
    (decay, rotation, n_real), (ids, offsets), (out, column, keep) = modes, text, place
    states = len(decay)
    before = np.empty_like(decay)
    for s in range(len(offsets) - 1):
        start, end = offsets[s], offsets[s + 1]
        # ``total`` is the state before a token plus the input of the token.
        total = last[s]
        for j in range(states):
            total[j] = before[j] = initial[s, j]
        for i in range(end - start):
            t = end - 1 - i if reverse else start + i
            # Rows of the table are read in the order of the text, which no hardware prefetcher can foresee.
            later = t - _TOKENS_AHEAD if reverse else t + _TOKENS_AHEAD
            if 0 <= later < len(ids):
                prefetch(table, np.int64(ids[later]) * states, states)
            # before = Lambda total, except at the first token, whose ``before`` is the initial state itself. Each
            # loop writes one array, which lets the compiler vectorize it.
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
def _rotate(rotation, n_real, before, row):
    """Add to each coordinate of a pair the contribution of the other one."""
    pairs = len(rotation)
    x, y = row[n_real : n_real + pairs], row[n_real + pairs :]
    before_x, before_y = before[n_real : n_real + pairs], before[n_real + pairs :]
    for j in range(pairs):
        x[j] += rotation[j] * before_y[j]
    for j in range(pairs):
        y[j] -= rotation[j] * before_x[j]


# -- rows of unit length ------------------------------------------------------------------------------


def unit_rows(X):
    step, rest = divmod(X.strides[0], X.itemsize)
    if rest or step < X.shape[1] or X.strides[1] != X.itemsize or not X.size:
        squared = np.einsum("ij,ij->i", X, X, dtype=np.float64)
        X /= np.sqrt(np.maximum(squared, LEAST_SQUARED_LENGTH))[:, None]
        return X
    # as one vector, so that the compiler knows that the elements of a row are next to each other
    flat = as_strided(X, ((len(X) - 1) * step + X.shape[1],), (X.itemsize,))
    _unit_rows(flat, step, len(X), X.shape[1], X.dtype.type(LEAST_SQUARED_LENGTH))
    return X


@njit(fastmath={"contract", "reassoc"})
def _unit_rows(flat, step, n_rows, n_columns, tiny):
    """Divide each row by its length: row i is ``flat[i step : i step + n_columns]``."""
    one = flat.dtype.type(1)
    for i in range(n_rows):
        row = flat[i * step : i * step + n_columns]
        squared = flat.dtype.type(0)
        for j in range(n_columns):
            squared += row[j] * row[j]
        if squared == np.inf:  # in float32 from lengths of 2e19
            length = np.sqrt(np.sum(row.astype(np.float64) ** 2))
            for j in range(n_columns):
                row[j] /= length
            continue
        factor = one / np.sqrt(max(squared, tiny))
        for j in range(n_columns):
            row[j] *= factor
