"""Awkward inputs for the operations of linear dynamical systems."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tacenda.testing.kernels.shared import Case, random_counts

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


def linear_recurrence() -> Iterator[Case]:
    """No tokens, empty sequences, one state, both directions."""
    for states in (1, 3, 63):
        rng = np.random.default_rng(states)
        F = (rng.standard_normal((states, states)) * 0.5 / np.sqrt(states)).astype(np.float32)
        for ids, offsets, reverse in _sequences():
            u = rng.standard_normal((len(ids), states), np.float32)
            label = (
                f"{states} states, {len(offsets) - 1} sequences, {len(u)} tokens, reverse={reverse}"
            )
            yield label, (F, u, offsets, reverse)


def modal_scan() -> Iterator[Case]:
    """The same with only real or only complex eigenvalues, kept in the middle of a wider array or not at all."""
    for n_real, n_pairs in ((1, 0), (0, 1), (3, 2), (15, 24)):
        states = n_real + 2 * n_pairs
        rng = np.random.default_rng(n_real)
        real = rng.uniform(-0.9, 0.9, n_real).astype(np.float32)
        pairs = rng.uniform(-0.6, 0.6, (n_pairs, 2)).astype(np.float32)
        table = rng.standard_normal((5, states), np.float32)
        for ids, offsets, reverse in _sequences():
            initial = rng.standard_normal((len(offsets) - 1, states), np.float32)
            for out in (None, np.zeros((len(ids) + 2, states + 2), np.float32)):
                label = f"{n_real} real, {n_pairs} pairs, {len(ids)} tokens, reverse={reverse}"
                given = initial if n_pairs != 1 else None
                yield label, (real, pairs, table, ids, offsets, given, reverse, out, 1)


def _sequences() -> Iterator[tuple[Any, ...]]:
    """Ids and offsets of no sequence, an empty one, one of a token, and all of these together; both directions."""
    for lengths in ([], [0], [1], [5, 0, 63, 1]):
        for reverse in (False, True):
            ids = np.random.default_rng(len(lengths)).integers(0, 5, sum(lengths))
            yield ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), reverse


CASES = (lagged_counts, merge_counts, linear_recurrence, modal_scan)
