"""Awkward inputs for the operations on ratings."""

from collections.abc import Iterator

import numpy as np

from tacenda.kernels.ratings.boltzmann import Descent
from tacenda.kernels.ratings.sgd import Penalties, Rates, Tables
from tacenda.kernels.ratings.visits import Side
from tacenda.testing.kernels.shared import Case, random_counts


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
            rates = Rates(0.02, 0.03, 0.01 if n_users > 1 else 0.0, 0.02, 0.5)
            rows = (rng.random(len(table), np.float32) for table in tables[:4])
            penalties = Penalties._make([*rows, 0.3])
            arguments = (
                offsets, ids, rng.integers(1, 6, n).astype(np.float32), rng.permutation(n_users),
                tables, 3.5, rates, penalties, 7,
                *((offsets, ids) if side else (None, None)), 0.5 + rng.random(n_users, np.float32),
            )  # fmt: skip
            yield f"{n} ratings, {factors} factors, identities={side}", arguments


def rating_visits() -> Iterator[Case]:
    """A row without ratings, a single rating, more than a tile of them, with and without a prior."""
    for n, others, most, width in ((1, 1, 1, 1), (4, 9, 40, 63), (3, 5, 17, 16), (0, 2, 0, 3)):
        for known in (False, True):
            rng = np.random.default_rng(most)
            sizes = rng.integers(0, most + 1, n)
            sizes[:1] = most
            offsets = np.concatenate([[0], np.cumsum(sizes)])
            tables = [rng.standard_normal((rows, width), np.float32) for rows in (n + 2, others)]
            biases = [rng.standard_normal(rows, np.float32) for rows in (n + 2, others)]
            lambdas, etas = (rng.random(n + 2, np.float32) for _ in range(2))
            weights = [0.5 + rng.random(rows, np.float32) for rows in (n + 2, others)]
            arguments = (
                offsets, rng.integers(0, others, offsets[-1]).astype(np.int32),
                rng.integers(1, 6, offsets[-1]).astype(np.float32), rng.permutation(n + 2)[:n],
                Side(tables[0], biases[0], lambdas, etas, weights[0]), tables[1], biases[1], weights[1],
                    3.5, (0.02, 0.03), 7,
                rng.standard_normal((n, width), np.float32) if known else None,
            )  # fmt: skip
            yield f"{n} rows of at most {most} ratings, {width} wide, prior={known}", arguments


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
                counts = random_counts(rows, 6, 0.5, np.float32, rows)
                root = rng.standard_normal((width, width))
                arguments = (
                    counts[0], counts[1], rng.standard_normal(len(counts[1])).astype(np.float32),
                    rng.standard_normal((6, width), np.float32),
                    rng.standard_normal((rows, width) if scaled else width).astype(np.float32),
                    root @ root.T + np.eye(width), 1 + rng.random(rows),
                    rng.standard_normal((rows, width), np.float32) if noisy else None, scaled,
                )  # fmt: skip
                yield f"{rows} rows, {width} wide, noise={noisy}, scaled={scaled}", arguments


def boltzmann_divergence() -> Iterator[Case]:
    """One hidden unit, two levels, a case without ratings, tied and untied weights, identities."""
    for n_cases, visible, hidden, K in ((1, 1, 1, 2), (4, 6, 63, 5), (3, 2, 5, 10)):
        for tied in (False, True):
            for side in (False, True):
                rng = np.random.default_rng(K)
                offsets, ids, _ = random_counts(n_cases, visible, 0.6, np.float32, seed=n_cases)
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


def boltzmann_descent() -> Iterator[Case]:
    """The same, with penalties that a few steps show."""
    for label, arguments in boltzmann_divergence():
        tables = (table.copy() for table in arguments[4:8])
        descent = Descent(0.05, 0.02, 0.4, 0.3, 0.2)
        yield label, (*arguments[:4], *tables, *arguments[8:12], descent, *arguments[12:])


def boltzmann_expectations() -> Iterator[Case]:
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


CASES = (
    rating_sgd,
    rating_visits,
    rating_scores,
    rating_solves,
    boltzmann_divergence,
    boltzmann_descent,
    boltzmann_expectations,
)
