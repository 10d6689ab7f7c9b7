"""Operations on sequences, of linear dynamical systems, on the CPU: lagged counts, and the recurrences of states.

Lagged counts, on one core: gather, accumulate densely, emit in order, one row after another. The positions of every
word are sorted once, for all lags (a counting sort). For row i the words that precede its positions are gathered, all
lags from the same cache line. Each lag then adds them into one dense accumulator of the vocabulary's length, which
stays in the L2 cache, and marks them in a bitmap of two levels; reading the bitmap back yields the columns in ascending
order, so no column is ever sorted. Very frequent words skip the bitmap and read the whole accumulator. Merging is the
same accumulator fed from the parts instead of from the text.

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
from llvmlite import ir
from numba import types, uint64
from numba.extending import intrinsic
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.vectors import prefetch
from tacenda.kernels.sequences import Counts, Scan

_Array = NDArray[Any]
_Int = NDArray[np.int64]

_GATHERED = 8192  # positions gathered at once: 7 lags of them fill a quarter of a 1 MB L2 cache
_DENSE = 4  # a row with over vocabulary / 4 pairs reads the whole accumulator
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_SIX = np.uint64(6)  # words of 64 bits
_MASK = np.uint64(63)
BATCH = 256
"""Sequences in one batch: enough for BLAS, few enough for the second-level cache."""
#: With fewer sequences than this, a step costs more than the second run of the chunked form.
_FEW_SEQUENCES = 8
LONG = 1024
"""Steps with few sequences that are worth the chunked form."""
#: The row of a token is prefetched so many tokens earlier: about the time that memory takes.
_TOKENS_AHEAD = 3


# -- lagged counts ----------------------------------------------------------------------------------


def lagged_counts(stream, n_lags, vocabulary, n_history):
    # A row emits at most one entry for each pair; the page past the last one touched is never real.
    capacity = len(stream) - n_history + 1
    indices = np.empty((n_lags, capacity), np.int32)
    data = np.empty((n_lags, capacity), np.int32)
    indptr = np.zeros((n_lags, vocabulary + 1), np.int64)
    _count(stream, n_history, indptr, indices, data)
    ends = indptr[:, -1]
    return [
        Counts(indptr[k].copy(), indices[k, : ends[k]].copy(), data[k, : ends[k]].copy())
        for k in range(n_lags)
    ]


def merge_counts(parts, vocabulary):
    starts = np.stack([part.indptr for part in parts])
    starts[1:] += np.cumsum(starts[:-1, -1])[:, None]  # where each row begins, laid end to end
    indices = np.concatenate([part.indices for part in parts])
    data = np.concatenate([part.data for part in parts])
    indptr = np.zeros(starts.shape[1], np.int64)
    out_indices = np.empty((1, len(indices)), np.int32)
    out_data = np.empty((1, len(indices)), data.dtype)
    wide = np.int64 if data.dtype.kind == "i" else np.float64
    accumulator = np.zeros(vocabulary, wide)
    limit = wide(np.iinfo(np.int32).max if data.dtype.kind == "i" else np.inf)
    if not _merge(starts, indices, data, accumulator, limit, indptr, out_indices, out_data):
        raise KernelError("a sum of counts exceeds int32: scale the counts, which makes them float")
    end = indptr[-1]
    return Counts(indptr, out_indices[0, :end].copy(), out_data[0, :end].copy())


@intrinsic
def _trailing_zeros(typing_context: Any, bits: Any) -> Any:
    """Find the place of the lowest set bit of a uint64 that is not zero, in one machine instruction."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


@njit
def _sort_positions(stream, vocabulary):
    """Return starts and positions: word i is at positions[starts[i] : starts[i + 1]], ascending."""
    starts = np.zeros(vocabulary + 1, np.int64)
    for t in range(len(stream)):
        starts[uint64(stream[t] + 1)] += 1
    for i in range(vocabulary):
        starts[i + 1] += starts[i]
    following = starts[:-1].copy()
    positions = np.empty(len(stream), np.int32)
    for t in range(len(stream)):
        i = uint64(stream[t])
        positions[uint64(following[i])] = t
        following[i] += 1
    return starts, positions


@njit
def _count(stream, n_history, indptr, indices, data):
    """Fill the rows of all lags, one row after another."""
    n_lags, vocabulary = indptr.shape[0], indptr.shape[1] - 1
    starts, positions = _sort_positions(stream, vocabulary)
    accumulator = np.zeros(vocabulary, np.int32)
    words, summary = _new_bitmap(vocabulary)
    gathered = np.empty((n_lags, min(_GATHERED, len(stream))), np.int32)
    for i in range(vocabulary):
        first, end = starts[i], starts[i + 1]
        # Positions ascend, so those in the history come first.
        while first < end and positions[first] < n_history:
            first += 1
        if first == end:
            for k in range(n_lags):
                indptr[k, i + 1] = indptr[k, i]
            continue
        # Gather the words before every position, all lags at once. A word too frequent for the buffer is gathered
        # lag by lag instead, a bufferful at a time.
        fits = end - first <= gathered.shape[1]
        if fits:
            _gather(stream, positions, first, end, gathered)
        for k in range(n_lags):
            begin = first
            while begin < end and positions[begin] <= k:  # no word is k + 1 places earlier
                begin += 1
            dense = (end - begin) * _DENSE > vocabulary
            if fits:
                _accumulate(
                    gathered, k, begin - first, end - first, accumulator, words, summary, dense
                )
            else:
                for s in range(begin, end, gathered.shape[1]):
                    n = min(gathered.shape[1], end - s)
                    for t in range(n):
                        gathered[0, t] = stream[uint64(positions[uint64(s + t)] - k - 1)]
                    _accumulate(gathered, 0, 0, n, accumulator, words, summary, dense)
            # Write the row out; this also clears the accumulator and the bitmap for the next one.
            start = indptr[k, i]
            if dense:
                indptr[k, i + 1] = _emit_all(accumulator, indices, data, k, start)
            else:
                indptr[k, i + 1] = _emit_marked(
                    accumulator, words, summary, indices, data, k, start
                )


@njit
def _gather(stream, positions, first, end, gathered):
    """Set gathered[k, s] to the word k + 1 places before the s-th position, to any word if there is none."""
    n_lags = gathered.shape[0]
    for s in range(end - first):
        p = positions[uint64(first + s)]
        # Away from the beginning of the text no index can be negative, so nothing needs a check.
        if p >= n_lags:
            for k in range(n_lags):
                gathered[k, s] = stream[uint64(p - k - 1)]
        else:
            for k in range(n_lags):
                gathered[k, s] = stream[max(p - k - 1, 0)]


@njit
def _accumulate(columns, k, start, end, accumulator, words, summary, dense):
    """Count columns[k, start:end], and mark them unless the row is dense."""
    if dense:
        for s in range(start, end):
            accumulator[uint64(columns[k, s])] += 1
        return
    # Mark without a branch: whether a column is new cannot be predicted.
    for s in range(start, end):
        c = uint64(columns[k, s])
        accumulator[c] += 1
        _mark(words, summary, c)


@njit
def _merge(starts, indices, data, accumulator, limit, indptr, out_indices, out_data):
    """Sum rows laid end to end; return False as soon as a sum is over the limit."""
    n_parts, rows = starts.shape[0], starts.shape[1] - 1
    words, summary = _new_bitmap(len(accumulator))
    highest = accumulator[0] if len(accumulator) else limit
    for i in range(rows):
        for part in range(n_parts):
            for s in range(starts[part, i], starts[part, i + 1]):
                c = uint64(indices[uint64(s)])
                total = accumulator[c] + data[uint64(s)]
                accumulator[c] = total
                highest = max(highest, total)
                _mark(words, summary, c)
        if highest > limit:
            return False
        indptr[i + 1] = _emit_marked(
            accumulator, words, summary, out_indices, out_data, 0, indptr[i]
        )
    return True


@njit
def _new_bitmap(vocabulary):
    """Make a bitmap with a bit for each column, and its summary with a bit for each 64 of those."""
    n_summary = (vocabulary + 4095) // 4096
    return np.zeros(n_summary * 64, np.uint64), np.zeros(n_summary, np.uint64)


@njit(inline=True)
def _mark(words, summary, c):
    """Set the bit of column c, and the bit of its word in the summary."""
    word = c >> _SIX
    words[word] |= _ONE << (c & _MASK)
    summary[word >> _SIX] |= _ONE << (word & _MASK)


@njit
def _emit_marked(accumulator, words, summary, indices, data, k, start):
    """Write out and clear the marked counts, ascending, from indices[k, start] on; return the end."""
    end = start
    # Two levels of bits: the summary says which words of the bitmap have any, each word which columns are marked.
    # x &= x - 1 clears the lowest set bit, whose number the trailing zeros are.
    for i in range(len(summary)):
        busy = summary[i]
        summary[i] = _ZERO
        while busy != _ZERO:
            word = (uint64(i) << _SIX) + _trailing_zeros(busy)
            busy &= busy - _ONE
            bits = words[word]
            words[word] = _ZERO
            while bits != _ZERO:
                c = (word << _SIX) + _trailing_zeros(bits)
                bits &= bits - _ONE
                indices[k, uint64(end)] = c
                data[k, uint64(end)] = accumulator[c]
                accumulator[c] = 0
                end += 1
    return end


@njit
def _emit_all(accumulator, indices, data, k, start):
    """Write out and clear every count that is not zero; return the end.

    A zero is written too, and then overwritten, which saves a branch; so one entry past the end is written.
    """
    end = start
    for c in range(len(accumulator)):
        count = accumulator[c]
        accumulator[c] = 0
        indices[k, uint64(end)] = c
        data[k, uint64(end)] = count
        end += count != 0
    return end


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
