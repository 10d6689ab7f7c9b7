"""Gradients of positions of a text, added up by word."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.threads import in_parts

_Array = NDArray[Any]
_SHARED = 1 << 20  # elements to be added up that are worth another thread


@njit
def _by_word(rows, order, borders, out, first, last):  # type: ignore[no-untyped-def]
    for k in range(first, last):
        row = out[k]
        row[:] = rows[order[borders[k]]]
        for i in range(borders[k] + 1, borders[k + 1]):
            x = rows[order[i]]
            for d in range(len(row)):
                row[d] += x[d]


def summed(
    rows: _Array, order: NDArray[np.int64], borders: NDArray[np.int64], threads: int
) -> _Array:
    """The rows of every word added up, (words, width) float32, in the order of the text."""
    out = np.empty((len(borders) - 1, rows.shape[1]), np.float32)
    in_parts(
        lambda first, last: _by_word(rows, order, borders, out, first, last),
        len(out),
        threads if rows.size >= _SHARED else 1,
    )
    return out


def grouped(words: _Array) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """The different words ascending, the places ordered by word, and where each word's begin."""
    order = np.argsort(words, kind="stable")
    ordered = words[order]
    new = np.flatnonzero(np.diff(ordered, prepend=-1))
    return ordered[new], order, np.append(new, len(words)).astype(np.int64)
