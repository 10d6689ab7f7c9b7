"""Awkward inputs for the operations that several models share.

A case is a label, which says what is awkward about it, and the positional arguments of the operation's public function.
Every call makes the inputs anew, so that a test can tell whether an operation changes them.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.kernels.dispatch import REFERENCE
from tacenda.kernels.dynamics.lagged_counts import Counts

Case = tuple[str, tuple[Any, ...]]
"""What is awkward about it, and the arguments."""

SPECIFICATION = f"{REFERENCE}@tacenda"
"""The backend that others are compared with, also while it is itself under test."""


def sparse_product() -> Iterator[Case]:
    """Cases without rows or entries, with one column, and with widths beside those of a vector register."""
    for rows, columns in ((0, 3), (1, 1), (9, 63)):
        for width in (0, 1, 15, 63):
            counts = random_counts(rows, columns, 0.3, np.dtype(np.int32), seed=rows)
            dense = np.random.default_rng(width).standard_normal((columns, width), np.float32)
            yield f"{rows} x {columns} by {width}", (*counts, dense)


def row_steps() -> Iterator[Case]:
    """No rows, one column, rows that have had a step and rows that have not."""
    for n, width in ((0, 3), (1, 1), (4, 63)):
        rng = np.random.default_rng(n)
        table, sums = rng.standard_normal((5, width), np.float32), np.full(5, 1e-8, np.float32)
        sums[0] = 3
        gradient = rng.standard_normal((n, width), np.float32)
        arguments = (table, sums, rng.permutation(5)[:n].astype(np.int32), gradient, 0.1, 1)
        yield f"{n} rows, {width} wide", arguments


def adam_steps() -> Iterator[Case]:
    """Nothing, one number, two dimensions; the first step and a later one."""
    for shape in ((0, 3), (1,), (9, 63)):
        for t in (1, 1000):
            rng = np.random.default_rng(t)
            table, mean, square, gradient = (
                rng.standard_normal(shape, np.float32) for _ in range(4)
            )
            yield f"{shape}, step {t}", (table, mean, square**2, gradient, 0.01, t)


def tall_gram() -> Iterator[Case]:
    """No rows, no columns, one of each, a layout other than C order."""
    for rows, first, second in ((0, 2, 3), (5, 0, 1), (1, 1, 1), (63, 7, 16)):
        rng = np.random.default_rng(rows)
        X, Y = (rng.standard_normal((width, rows), np.float32).T for width in (first, second))
        yield f"{rows} rows of {first} and {second}", (X, Y)


def tall_product() -> Iterator[Case]:
    """The same, with a matrix on the right."""
    for label, (X, Y) in tall_gram():
        yield label, (X, np.random.default_rng(1).standard_normal((X.shape[1], Y.shape[1])))


def tall_columns() -> Iterator[Case]:
    """No rows, no columns, one of each."""
    for rows, width in ((0, 2), (5, 0), (1, 1), (63, 7)):
        rng = np.random.default_rng(rows)
        X, Y = (rng.standard_normal((rows, width), np.float32) for _ in range(2))
        yield f"{rows} rows of {width}", (X, Y)


def tall_moments() -> Iterator[Case]:
    """The same, with a mean far from zero, and with one that is known."""
    for label, (X, _) in tall_columns():
        for centred in (False, True):
            yield f"{label}, centred={centred}", (X + 3, centred)


def tall_update() -> Iterator[Case]:
    """No rows, no columns, one of each."""
    for rows, width in ((0, 2), (5, 0), (1, 1), (63, 7)):
        rng = np.random.default_rng(rows)
        Y, X = (rng.standard_normal((rows, width), np.float32) for _ in range(2))
        yield f"{rows} rows of {width}", (Y, rng.standard_normal(rows, np.float32), X, 0.5)


def unit_rows() -> Iterator[Case]:
    """The same, and a row of zeros."""
    for label, (Y, *_) in tall_update():
        yield label, (Y,)
        yield f"{label}, zeros", (Y * 0,)


def random_counts(
    rows: int, columns: int, density: float, dtype: npt.DTypeLike, seed: int
) -> Counts:
    """A random table as CSR, integers in ``data``."""
    rng = np.random.default_rng(seed)
    present = rng.random((rows, columns)) < density
    indptr = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int64)
    indices = np.nonzero(present)[1].astype(np.int32)
    return Counts(indptr, indices, rng.integers(1, 1000, len(indices)).astype(dtype))


CASES = (
    sparse_product,
    row_steps,
    adam_steps,
    tall_gram,
    tall_product,
    tall_columns,
    tall_moments,
    tall_update,
    unit_rows,
)
