"""Arrays with a row for each user or item: their averages, rows of unknown ids, and rows of new ones."""

from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda_surprise.catalogue import Floats, Numbers


def mean_row(table: npt.NDArray[Any], weights: npt.NDArray[Any]) -> Floats:
    """Average the rows of ``table`` (rows, ...) with ``weights`` (rows,), equal ones if all weights are zero."""
    shares = weights if weights.any() else np.ones(len(table))
    return np.asarray(np.einsum("n...,n->...", table, shares / shares.sum()), np.float32)


def take_rows(table: Floats, ids: Numbers, unknown: npt.NDArray[Any]) -> Floats:
    """Take the rows ``ids`` (n,) of a table (rows, ...), and ``unknown`` for -1: (n, ...)."""
    taken = table[ids]
    taken[np.asarray(ids) < 0] = unknown
    return taken


def lengthen(array: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """Copy ``array`` (n, ...), and append rows of zeros: (rows, ...)."""
    more = np.zeros((rows - len(array), *array.shape[1:]), array.dtype)
    return np.concatenate([array, more])
