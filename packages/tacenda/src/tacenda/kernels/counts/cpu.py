"""Counts of pairs of words on one core of the CPU: gather, accumulate densely, emit in order, one row after another.

The positions of every word are sorted once, for all lags (a counting sort). For row i the words that precede its
positions are gathered, all lags from the same cache line. Each lag then adds them into one dense accumulator of the
vocabulary's length, which stays in the L2 cache, and marks them in a bitmap of two levels; reading the bitmap back
yields the columns in ascending order, so no column is ever sorted. Very frequent words skip the bitmap and read the
whole accumulator. Merging is the same accumulator fed from the parts instead of from the text.
"""

import numpy as np
from numba import uint64

from tacenda.errors import KernelError
from tacenda.kernels.counts import Counts
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.vectors import trailing_zeros

_GATHERED = 8192  # positions gathered at once: 7 lags of them fill a quarter of a 1 MB L2 cache
_DENSE = 4  # a row with over vocabulary / 4 pairs reads the whole accumulator
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_SIX = np.uint64(6)  # words of 64 bits
_MASK = np.uint64(63)


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
            word = (uint64(i) << _SIX) + trailing_zeros(busy)
            busy &= busy - _ONE
            bits = words[word]
            words[word] = _ZERO
            while bits != _ZERO:
                c = (word << _SIX) + trailing_zeros(bits)
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
