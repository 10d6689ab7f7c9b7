"""Forward-backward on the CPU: rows in registers, counts summed pair by pair.

A block is read once a token in each pass. The counts are made afterwards, from the messages that the backward pass
leaves, with the tokens sorted by pair: a block of counts is then in cache while it is summed, and threads that
have pairs of their own need no copies of it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.hidden_markov.block import Backward, Forward, Sequences
from tacenda.kernels.hidden_markov.block.arguments import check, inner_tokens
from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.threads import in_parts

__all__ = ["backward", "forward"]

_Array = NDArray[Any]
_FAST = {"contract", "reassoc"}


@njit(fastmath=_FAST)
def _forward(A, o, s, pairs, words, first, offsets, a, c, begin, end):  # type: ignore[no-untyped-def]
    k = o.shape[1]
    zero = a.dtype.type(0)
    for n in range(begin, end):
        for t in range(offsets[n], offsets[n + 1]):
            now, emitted, total = a[t], o[words[t]], zero
            if t == offsets[n]:
                start = s[first[n]]
                for j in range(k):
                    now[j] = start[j] * emitted[j]
                # summed apart: where a loop also writes, how it sums depends on where the arrays lie
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
            c[t] = total
            scale = a.dtype.type(1) / total if total != zero else zero
            for j in range(k):
                now[j] *= scale


@njit(fastmath=_FAST)
def _messages(A, o, pairs, words, offsets, a, c, v, posteriors, begin, end):  # type: ignore[no-untyped-def]
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
            if t > offsets[n]:
                block = A[pairs[t]]
                b[:] = 0
                for j in range(k):
                    row, x = block[j], message[j]
                    for i in range(k):
                        b[i] += row[i] * x


@njit(fastmath=_FAST)
def _count_pairs(A, a, v, tokens, borders, N, begin, end):  # type: ignore[no-untyped-def]
    k = a.shape[1]
    for u in range(begin, end):
        counts, block = N[u], A[u]
        for place in range(borders[u], borders[u + 1]):
            t = tokens[place]
            message, before = v[t], a[t - 1]
            for j in range(k):
                row, x = counts[j], message[j]
                for i in range(k):
                    row[i] += x * before[i]
        if borders[u + 1] > borders[u]:
            for j in range(k):
                row, probabilities = counts[j], block[j]
                for i in range(k):
                    row[i] *= probabilities[i]


@njit
def _add_rows(table, rows, added):  # type: ignore[no-untyped-def]
    for t in range(len(rows)):
        row, new = table[rows[t]], added[t]
        for j in range(len(row)):
            row[j] += new[j]


def forward(
    blocks: _Array, emissions: _Array, starts: _Array, observed: Sequences, threads: int = 1
) -> Forward:
    """See `tacenda.kernels.hidden_markov.block.forward`."""
    pairs, words, first, offsets = check(blocks, emissions, starts, observed)
    a = np.empty((len(words), emissions.shape[1]), blocks.dtype)
    c = np.empty(len(words), blocks.dtype)

    def work(begin: int, end: int) -> None:
        _forward(
            blocks, emissions, starts, pairs, words, first, offsets, a, c, begin, end
        )  # fmt: skip

    in_parts(work, len(offsets) - 1, threads)
    with np.errstate(divide="ignore"):
        return Forward(np.log(c, dtype=np.float64), a)


def backward(
    blocks: _Array,
    emissions: _Array,
    starts: _Array,
    observed: Sequences,
    found: Forward,
    threads: int = 1,
) -> Backward:
    """See `tacenda.kernels.hidden_markov.block.backward`."""
    pairs, words, first, offsets = check(blocks, emissions, starts, observed)
    a = found.states
    c = np.exp(found.log_probs).astype(blocks.dtype)
    v, posteriors = np.empty_like(a), np.empty_like(a)

    def messages(begin: int, end: int) -> None:
        _messages(blocks, emissions, pairs, words, offsets, a, c, v, posteriors, begin, end)

    in_parts(messages, len(offsets) - 1, threads)
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
