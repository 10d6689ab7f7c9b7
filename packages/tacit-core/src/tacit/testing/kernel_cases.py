"""Small awkward inputs for every operation Tacit knows: what `KernelBackendTests` feeds a backend.

A case is the positional arguments of the backend's operation, in the order of the public function
in ``tacit.kernels.<operation>``. Inputs are made anew by every call, so a test can tell whether an
operation changes them.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.kernels.lagged_counts import Counts
from tacit.kernels.rating_sgd import Coefficients, Tables
from tacit.testing import hmm_kernel_cases as chains
from tacit.testing import tree_kernel_cases as trees

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
                        _random_counts(rows, vocabulary, density, dtype, seed)
                        for seed in range(n_parts)
                    ]
                    shape = f"{rows} rows, {vocabulary} columns"
                    yield f"{n_parts} parts, {shape}, density {density}", (parts, vocabulary)


def sparse_product() -> Iterator[Case]:
    """No rows, no entries, one column, widths beside a vector register's."""
    for rows, columns in ((0, 3), (1, 1), (9, 63)):
        for width in (0, 1, 15, 63):
            for transpose in (False, True):
                counts = _random_counts(rows, columns, 0.3, np.dtype(np.int32), seed=rows)
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


def rating_sgd() -> Iterator[Case]:
    """One factor, a user without ratings, a single rating, with and without identities and biases."""
    for n_users, n_items, n, factors in ((1, 1, 1, 1), (3, 5, 6, 63), (9, 4, 20, 16), (2, 2, 0, 3)):
        for side in (False, True):
            rng = np.random.default_rng(n)
            cells = np.sort(rng.permutation(n_users * n_items)[:n])
            ids = (cells % n_items).astype(np.int32)
            offsets = np.searchsorted(cells, np.arange(n_users + 1) * n_items)
            tables = Tables(
                rng.standard_normal((n_users, factors), np.float32),
                rng.standard_normal((n_items, factors), np.float32),
                rng.standard_normal(n_users, np.float32),
                rng.standard_normal(n_items, np.float32),
                rng.standard_normal((n_items if side else 0, factors), np.float32),
            )
            rates = Coefficients(0.02, 0.01 if n_users > 1 else 0.0, 0.5)
            arguments = (
                offsets, ids, rng.integers(1, 6, n).astype(np.float32), rng.permutation(n_users),
                tables, 3.5, rates, Coefficients(0.1, 0.05, 0.3), 7,
                *((offsets, ids) if side else (None, None)),
            )  # fmt: skip
            yield f"{n} ratings, {factors} factors, identities={side}", arguments


def rating_scores() -> Iterator[Case]:
    """No pairs, one factor, users and items that are unknown."""
    for n, factors in ((0, 3), (1, 1), (50, 63)):
        rng = np.random.default_rng(n)
        tables = [rng.standard_normal((rows, factors), np.float32) for rows in (4, 6)]
        biases = [rng.standard_normal(rows, np.float32) for rows in (4, 6)]
        users, items = rng.integers(-1, 4, n), rng.integers(-1, 6, n)
        yield f"{n} pairs, {factors} factors", (users, items, *tables, *biases, 3.5)


def rating_solves() -> Iterator[Case]:
    """Width 1, rows without targets, fewer targets than columns, with and without noise."""
    for rows, width in ((0, 2), (1, 1), (5, 3), (4, 17)):
        for noisy in (False, True):
            for scaled in (False, True):
                rng = np.random.default_rng(width)
                counts = _random_counts(rows, 6, 0.5, np.float32, rows)
                root = rng.standard_normal((width, width))
                arguments = (
                    counts[0], counts[1], rng.standard_normal(len(counts[1])).astype(np.float32),
                    rng.standard_normal((6, width), np.float32),
                    rng.standard_normal((rows, width) if scaled else width).astype(np.float32),
                    root @ root.T + np.eye(width), 1.5,
                    rng.standard_normal((rows, width), np.float32) if noisy else None, scaled,
                )  # fmt: skip
                yield f"{rows} rows, {width} wide, noise={noisy}, scaled={scaled}", arguments


def rating_boltzmann() -> Iterator[Case]:
    """One hidden unit, two levels, a case without ratings, tied and untied weights, identities."""
    for n_cases, visible, hidden, K in ((1, 1, 1, 2), (4, 6, 63, 5), (3, 2, 5, 10)):
        for tied in (False, True):
            for side in (False, True):
                rng = np.random.default_rng(K)
                offsets, ids, _ = _random_counts(n_cases, visible, 0.6, np.float32, seed=n_cases)
                shape = (visible, hidden) if tied else (visible, K, hidden)
                arguments = (
                    offsets, ids, rng.integers(0, K, len(ids)), rng.permutation(n_cases),
                    rng.standard_normal(shape, np.float32),
                    rng.standard_normal((visible, K), np.float32),
                    rng.standard_normal(hidden, np.float32),
                    rng.standard_normal((visible if side else 0, hidden), np.float32),
                    np.linspace(-1, 1, K, dtype=np.float32),
                    rng.standard_normal(n_cases, np.float32), 1 + side, 3,
                    *((offsets, ids) if side else (None, None)),
                )  # fmt: skip
                label = f"{hidden} hidden, {K} levels, tied={tied}, identities={side}"
                yield label, (*arguments, None)
                yield f"{label}, chains", (*arguments, rng.random((n_cases, hidden), np.float32))


def rating_expectations() -> Iterator[Case]:
    """No pairs, one hidden unit, two levels and ten, what is unknown; tied and untied weights."""
    for n, hidden, K in ((0, 3, 5), (1, 1, 2), (50, 63, 10)):
        for tied in (False, True):
            rng = np.random.default_rng(n)
            shape = (6, hidden) if tied else (6, K, hidden)
            arguments = (
                rng.integers(-1, 6, n), rng.integers(-1, 4, n), rng.standard_normal(shape, np.float32),
                rng.standard_normal((6, K), np.float32), rng.random((4, hidden), np.float32),
                np.linspace(-1, 1, K, dtype=np.float32), rng.standard_normal(4, np.float32),
            )  # fmt: skip
            yield f"{n} pairs, {hidden} hidden, {K} levels, tied={tied}", arguments


CASES: dict[str, Callable[[], Iterator[Case]]] = {
    function.__name__: function
    for function in (
        lagged_counts,
        merge_counts,
        rating_boltzmann,
        rating_expectations,
        sparse_product,
        linear_recurrence,
        linear_recurrence_backward,
        modal_recurrence,
        modal_recurrence_backward,
        modal_scan,
        rating_scores,
        rating_sgd,
        rating_solves,
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


def _random_counts(
    rows: int, columns: int, density: float, dtype: npt.DTypeLike, seed: int
) -> Counts:
    rng = np.random.default_rng(seed)
    present = rng.random((rows, columns)) < density
    indptr = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int64)
    indices = np.nonzero(present)[1].astype(np.int32)
    return Counts(indptr, indices, rng.integers(1, 1000, len(indices)).astype(dtype))


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
