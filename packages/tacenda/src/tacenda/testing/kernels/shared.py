"""Awkward inputs for the operations that several models share.

A case is a label, which says what is awkward about it, and the positional arguments of the operation's public function.
Every call makes the inputs anew, so that a test can tell whether an operation changes them.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.kernels.dynamics.lagged_counts import Counts

Case = tuple[str, tuple[Any, ...]]
"""What is awkward about it, and the arguments."""


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


def random_counts(
    rows: int, columns: int, density: float, dtype: npt.DTypeLike, seed: int
) -> Counts:
    """A random table as CSR, integers in ``data``."""
    rng = np.random.default_rng(seed)
    present = rng.random((rows, columns)) < density
    indptr = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int64)
    indices = np.nonzero(present)[1].astype(np.int32)
    return Counts(indptr, indices, rng.integers(1, 1000, len(indices)).astype(dtype))


CASES = (sparse_product, row_steps)
