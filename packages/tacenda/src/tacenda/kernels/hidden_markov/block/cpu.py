"""Forward-backward on the CPU: rows in registers, counts summed pair by pair.

A block is read once a token in each pass. The counts are made afterwards, from the messages that the backward pass
leaves, with the tokens sorted by pair: a block of counts is then in cache while it is summed, and threads that
have pairs of their own need no copies of it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.hidden_markov.block import Backward, Forward, Sequences, inner_tokens
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.threads import in_parts

_Array = NDArray[Any]
_FAST = {"contract", "reassoc"}


@njit(fastmath=_FAST)
def _forward(A, o, s, pairs, words, first, offsets, a, c, begin, end):  # type: ignore[no-untyped-def]
    """Filter the sequences begin .. end: fill a, and the c_t."""
    k = o.shape[1]
    zero = a.dtype.type(0)
    for n in range(begin, end):
        for t in range(offsets[n], offsets[n + 1]):
            now, emitted, total = a[t], o[words[t]], zero
            if t == offsets[n]:
                start = s[first[n]]
                for j in range(k):
                    now[j] = start[j] * emitted[j]
                # Summed in a loop of its own: where a loop also writes, the order in which the compiler sums
                # depends on where the arrays lie.
                for j in range(k):
                    total += now[j]
            else:
                block, before = A[pairs[t]], a[t - 1]
                for j in range(k):
                    row, reached = block[j], zero
                    for i in range(k):
                        reached += row[i] * before[i]
                    now[j] = reached * emitted[j]
                    total += now[j]
            # A token of probability zero leaves a state of zeros behind, and so does all that follows it.
            c[t] = total
            scale = a.dtype.type(1) / total if total != zero else zero
            for j in range(k):
                now[j] *= scale


@njit(fastmath=_FAST)
def _messages(A, o, pairs, words, offsets, a, c, v, posteriors, begin, end):  # type: ignore[no-untyped-def]
    """Go back through the sequences begin .. end: fill the messages v and the posteriors."""
    k = o.shape[1]
    b = np.empty(k, a.dtype)
    zero = a.dtype.type(0)
    for n in range(begin, end):
        b[:] = 1
        for t in range(offsets[n + 1] - 1, offsets[n] - 1, -1):
            emitted, message, now, posterior = o[words[t]], v[t], a[t], posteriors[t]
            scale = a.dtype.type(1) / c[t] if c[t] != zero else zero
            for j in range(k):
                posterior[j] = now[j] * b[j]
                message[j] = emitted[j] * b[j] * scale
            # b_{t-1} = A_u^T v_t, as a sum of rows: rows are what lies together in memory.
            if t > offsets[n]:
                block = A[pairs[t]]
                b[:] = 0
                for j in range(k):
                    row, x = block[j], message[j]
                    for i in range(k):
                        b[i] += row[i] * x


@njit(fastmath=_FAST)
def _count_pairs(A, a, v, tokens, borders, N, begin, end):  # type: ignore[no-untyped-def]
    """Fill the counts of the pairs begin .. end from the messages; ``tokens`` are sorted by pair."""
    k = a.shape[1]
    for u in range(begin, end):
        counts, block = N[u], A[u]
        # The sum of outer products v_t a_{t-1}^T over the tokens of the pair ...
        for place in range(borders[u], borders[u + 1]):
            t = tokens[place]
            message, before = v[t], a[t - 1]
            for j in range(k):
                row, x = counts[j], message[j]
                for i in range(k):
                    row[i] += x * before[i]
        # ... times A_u, once for all of them.
        if borders[u + 1] > borders[u]:
            for j in range(k):
                row, probabilities = counts[j], block[j]
                for i in range(k):
                    row[i] *= probabilities[i]


@njit
def _add_rows(table, rows, added):  # type: ignore[no-untyped-def]
    """Add each row of ``added`` to its row of the table, in order."""
    for t in range(len(rows)):
        row, new = table[rows[t]], added[t]
        for j in range(len(row)):
            row[j] += new[j]


def forward(
    blocks: _Array, emissions: _Array, starts: _Array, observed: Sequences, threads: int
) -> Forward:
    """See `tacenda.kernels.hidden_markov.block.forward`."""
    pairs, words, first, offsets = observed
    a = np.empty((len(words), emissions.shape[1]), blocks.dtype)
    c = np.empty(len(words), blocks.dtype)

    def work(begin: int, end: int) -> None:
        _forward(blocks, emissions, starts, pairs, words, first, offsets, a, c, begin, end)

    in_parts(work, len(offsets) - 1, threads)
    with np.errstate(divide="ignore"):
        return Forward(np.log(c, dtype=np.float64), a)


def backward(
    blocks: _Array,
    emissions: _Array,
    starts: _Array,
    observed: Sequences,
    found: Forward,
    threads: int,
) -> Backward:
    """See `tacenda.kernels.hidden_markov.block.backward`."""
    pairs, words, first, offsets = observed
    a = found.states
    c = np.exp(found.log_probs).astype(blocks.dtype)
    v, posteriors = np.empty_like(a), np.empty_like(a)

    def messages(begin: int, end: int) -> None:
        _messages(blocks, emissions, pairs, words, offsets, a, c, v, posteriors, begin, end)

    in_parts(messages, len(offsets) - 1, threads)
    # Threads have pairs of their own, so no two of them write to one block of counts.
    inner = inner_tokens(offsets)
    tokens = inner[np.argsort(pairs[inner], kind="stable")]
    borders = np.searchsorted(pairs[tokens], np.arange(len(blocks) + 1))
    counts = np.zeros_like(blocks)

    def count(begin: int, end: int) -> None:
        _count_pairs(blocks, a, v, tokens, borders, counts, begin, end)

    in_parts(count, len(blocks), threads)
    emitted, started = np.zeros_like(emissions), np.zeros_like(starts)
    _add_rows(emitted, words, posteriors)
    begins = np.diff(offsets) > 0
    _add_rows(started, first[begins], posteriors[offsets[:-1][begins]])
    return Backward(counts, emitted, started, posteriors)
