"""What a benchmark of a device measures: an operation on one input, with its counted work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

FLOAT, ID = 4, 4  # bytes


@dataclass
class Work:
    """Floating-point operations, and bytes where every input is read once and every result written once."""

    flops: float = 0.0
    moved: float = 0.0

    def product(self, rows: float, inner: float, columns: float, times: float = 1) -> None:
        """Add a product of matrices (rows, inner) and (inner, columns)."""
        self.flops += times * 2 * rows * inner * columns
        self.moved += times * FLOAT * (rows * inner + inner * columns + rows * columns)

    def sparse(self, nonzeros: float, rows: float, columns: float, times: float = 1) -> None:
        """Add a product of counts, a row of them for each word, and a matrix (rows, columns)."""
        self.flops += times * 2 * nonzeros * columns
        self.moved += times * (nonzeros * (ID + FLOAT) + 2 * rows * columns * FLOAT)


@dataclass(frozen=True)
class Case:
    """One operation on one input.

    ``make`` puts the input on a device and returns what is timed, or that and the work, where only the input says how
    much it is.
    """

    operation: str
    case: str
    work: Work
    memory: float  # bytes that a call allocates, results included
    make: Callable[[str], Any]
    units: float  # tokens, or whatever a rate is given of
    unit: str


def words(n: int, types: int, rng: np.random.Generator) -> np.ndarray:
    """Draw words by Zipf's law, int64 (n,)."""
    frequency = 1 / np.arange(1, types + 1)
    return rng.choice(types, n, p=frequency / frequency.sum()).astype(np.int64)
