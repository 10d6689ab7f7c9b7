"""Small awkward inputs for every operation Tacenda knows: what `KernelBackendTests` feeds a backend.

A case is the positional arguments of the backend's operation, in the order of the public function
in ``tacenda.kernels.<operation>``. Inputs are made anew by every call, so a test can tell whether an
operation changes them.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tacenda.testing import hmm_kernel_cases as chains
from tacenda.testing import rating_kernel_cases as ratings
from tacenda.testing import tree_kernel_cases as trees
from tacenda.testing.rating_kernel_cases import random_counts

Case = tuple[str, tuple[Any, ...]]
"""What is awkward about it, and the arguments."""

_LENGTHS = (0, 1, 3, 7, 8, 300)


def lagged_counts() -> Iterator[Case]:
    """Streams shorter than the lags, one word type, a word so frequent that it fills its row."""
    for vocabulary in (1, 2, 63, 65, 5000):
        for length in _LENGTHS:
            for n_lags, n_history in ((1, 0), (7, 0), (7, min(7, length)), (3, length)):
                rng = np.random.default_rng(length)
                stream = np.minimum(rng.zipf(1.3, length) - 1, vocabulary - 1).astype(np.int32)
                size = f"length {length}, vocabulary {vocabulary}"
                label = f"{size}, {n_lags} lags, {n_history} before"
                yield label, (stream, n_lags, vocabulary, n_history)


def merge_counts() -> Iterator[Case]:
    """One part, empty rows, no entries at all, parts that overlap in every entry or in none."""
    for dtype in (np.int32, np.float32):
        for rows, vocabulary, densities in ((1, 1, (0, 1)), (5, 63, (0, 1)), (9, 5000, (0.01,))):
            for n_parts in (1, 2, 5):
                for density in densities:
                    parts = [
                        random_counts(rows, vocabulary, density, dtype, seed)
                        for seed in range(n_parts)
                    ]
                    shape = f"{rows} rows, {vocabulary} columns"
                    yield f"{n_parts} parts, {shape}, density {density}", (parts, vocabulary)


def sparse_product() -> Iterator[Case]:
    """No rows, no entries, one column, widths beside a vector register's."""
    for rows, columns in ((0, 3), (1, 1), (9, 63)):
        for width in (0, 1, 15, 63):
            for transpose in (False, True):
                counts = random_counts(rows, columns, 0.3, np.dtype(np.int32), seed=rows)
                rng = np.random.default_rng(width)
                dense = rng.standard_normal((rows if transpose else columns, width), np.float32)
                out = np.empty((columns if transpose else rows, width), np.float32)
                label = f"{rows} x {columns} by {width}, transpose={transpose}"
                yield label, (*counts, dense, out, transpose)


def linear_recurrence() -> Iterator[Case]:
    """No tokens, empty sequences, one state, a state from before or none, both directions."""
    for F, u, offsets, initial, reverse in _dense_recurrences():
        label = f"{len(F)} states, {len(offsets) - 1} sequences, {len(u)} tokens, reverse={reverse}"
        yield label, (F, u, offsets, initial, reverse, None, 1)


def linear_recurrence_backward() -> Iterator[Case]:
    """The gradients of the same."""
    for F, a, offsets, initial, reverse in _dense_recurrences():
        grad = np.random.default_rng(1).standard_normal(a.shape, np.float32)
        label = f"{len(F)} states, {len(offsets) - 1} sequences, {len(a)} tokens, reverse={reverse}"
        yield label, (F, a, offsets, grad, initial, reverse, 1)


def modal_recurrence() -> Iterator[Case]:
    """No tokens, empty sequences, one state, only real or only complex eigenvalues, both ways."""
    for real, pairs, u, offsets, initial, reverse in _modal_recurrences():
        label = f"{len(real)} real, {len(pairs)} pairs, {len(u)} tokens, reverse={reverse}"
        yield label, (real, pairs, u, offsets, initial, reverse, None, 1)


def modal_recurrence_backward() -> Iterator[Case]:
    """The gradients of the same."""
    for real, pairs, m, offsets, initial, reverse in _modal_recurrences():
        grad = np.random.default_rng(1).standard_normal(m.shape, np.float32)
        label = f"{len(real)} real, {len(pairs)} pairs, {len(m)} tokens, reverse={reverse}"
        yield label, (real, pairs, m, offsets, grad, initial, reverse, 1)


def modal_scan() -> Iterator[Case]:
    """The same sequences as rows of a table, kept in the middle of a wider array or not at all."""
    for real, pairs, u, offsets, initial, reverse in _modal_recurrences():
        states = u.shape[1]
        rng = np.random.default_rng(len(u))
        table = rng.standard_normal((5, states), np.float32)
        ids = rng.integers(0, 5, len(u)).astype(np.int32)
        for out in (None, np.zeros((len(u) + 2, states + 2), np.float32)):
            label = f"{len(real)} real, {len(pairs)} pairs, {len(u)} tokens, reverse={reverse}"
            yield label, (real, pairs, table, ids, offsets, initial, reverse, out, 1)


CASES: dict[str, Callable[[], Iterator[Case]]] = {
    function.__name__: function
    for function in (
        lagged_counts,
        merge_counts,
        ratings.rating_boltzmann,
        ratings.rating_expectations,
        sparse_product,
        linear_recurrence,
        linear_recurrence_backward,
        modal_recurrence,
        modal_recurrence_backward,
        modal_scan,
        ratings.rating_scores,
        ratings.rating_sgd,
        ratings.rating_solves,
        chains.block_softmax,
        chains.block_softmax_backward,
        chains.class_softmax,
        chains.class_softmax_backward,
        chains.hmm_block,
        chains.hmm_block_backward,
        chains.hmm_features,
        chains.hmm_features_backward,
        chains.streaming_logsumexp,
        chains.streaming_logsumexp_backward,
        trees.context_sum,
        trees.context_sum_backward,
        trees.row_steps,
        trees.stream_scores,
        trees.tree_softmax,
        trees.tree_softmax_backward,
        trees.tree_softmax_step,
        trees.tree_softmax_distribution,
    )
}
"""Operation -> its cases. Operations that are not here are a backend's own and its own to test."""


def _dense_recurrences() -> Iterator[tuple[Any, ...]]:
    for states in (1, 3, 63):
        rng = np.random.default_rng(states)
        F = (rng.standard_normal((states, states)) * 0.5 / np.sqrt(states)).astype(np.float32)
        for u, offsets, initial, reverse in _packed(states):
            yield F, u, offsets, initial if states > 1 else None, reverse


def _modal_recurrences() -> Iterator[tuple[Any, ...]]:
    for n_real, n_pairs in ((1, 0), (0, 1), (3, 2), (15, 24)):
        rng = np.random.default_rng(n_real)
        real = rng.uniform(-0.9, 0.9, n_real).astype(np.float32)
        pairs = rng.uniform(-0.6, 0.6, (n_pairs, 2)).astype(np.float32)
        for u, offsets, initial, reverse in _packed(n_real + 2 * n_pairs):
            yield real, pairs, u, offsets, initial if n_pairs != 1 else None, reverse


def _packed(states: int) -> Iterator[tuple[Any, ...]]:
    """Packed sequences: none, an empty one, one token, and all of it together."""
    for lengths in ([], [0], [1], [5, 0, 63, 1]):
        for reverse in (False, True):
            rng = np.random.default_rng(len(lengths))
            u = rng.standard_normal((sum(lengths), states), np.float32)
            offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
            yield u, offsets, rng.standard_normal((len(lengths), states), np.float32), reverse
