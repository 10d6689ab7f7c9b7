"""Gradients of the rows of a table that a batch read, summed where it read a row several times."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_array

__all__ = ["Gradient", "by_row"]

_Floats = npt.NDArray[np.floating[Any]]
_Ints = npt.NDArray[np.integer[Any]]

Gradient: TypeAlias = tuple[_Ints | None, _Floats]
"""Rows of a table, each once, and their gradients (rows, width); None stands for all rows."""


def by_row(rows: _Ints, gradients: _Floats) -> tuple[_Ints, _Floats]:
    """Return the different rows ascending, and the sum of the gradients of each.

    Parameters
    ----------
    rows
        (reads,): the row of each read, in any order.
    gradients
        (reads, width): the gradient that each read has.
    """
    found, places = np.unique(rows, return_inverse=True)
    reads = len(rows)
    ones = np.ones(reads, gradients.dtype)
    chosen = csc_array((ones, places, np.arange(reads + 1)), shape=(len(found), reads))
    return found, np.asarray(chosen @ gradients)
