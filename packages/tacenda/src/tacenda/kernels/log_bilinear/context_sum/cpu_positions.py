"""Position after position of a text: predicted vectors, the gradients of their weights, and tails."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.machinery.compiled import njit
from tacenda.kernels.machinery.rows import blame, blame_four, predict, predict_four

_Array = NDArray[Any]


@njit
def sequence_of(offsets, t):  # type: ignore[no-untyped-def]
    """The sequence of position t; that of the last word for the position behind it."""
    s = np.searchsorted(offsets, t, side="right") - 1
    if s == len(offsets) - 1:
        s -= 1
        while s > 0 and offsets[s] == offsets[-1]:
            s -= 1
    return s


@njit
def predictions(  # type: ignore[no-untyped-def]
    table, far, c, b, rates, a, ids, t0, t1, begin, still, u, spare, out, most, blaming=False
):  # fmt: skip
    """Writes r_t of the positions t0 .. t1 of the sequence from ``begin`` on to the address ``out``.

    ``still`` says that the tails u are those at t0, and otherwise at t0 - 1; they become those at t1 - 1. ``spare``
    holds a row of nothing and one of ones, ``most`` int32 takes the bits of the largest magnitude in each r_t. If
    ``blaming``, ``out`` holds the gradients by r_t, and those of c, b and a are added to these arrays.
    """
    n, size, width = len(c), 4 * table.shape[1], table.shape[1]
    largest, text, leaving = most.ctypes.data, ids.ctypes.data - 4, np.empty(4, np.int64)
    nothing, ones = spare.ctypes.data, spare.ctypes.data + 4 * spare.shape[1]
    words, of_far, tails = table.ctypes.data, far.ctypes.data, len(rates)
    cs, bs, us, ws, left = (
        c.ctypes.data,
        b.ctypes.data,
        u.ctypes.data,
        a.ctypes.data,
        leaving.ctypes.data,
    )
    t = t0
    while t < t1:
        waits = still and t == t0
        together = 4 if t + 4 <= t1 and t - 1 - n >= begin and not waits else 1
        for i in range(together):
            p = t + i - 1 - n
            leaving[i] = of_far + ids[p] * size if p >= begin and not waits else nothing
        row, mosts, last = out + (t - t0) * size, largest + 4 * (t - t0), text + 4 * t
        fading, near = ones if waits else rates.ctypes.data, min(n, t - begin)
        if together == 4 and blaming:
            blame_four(row, mosts, bs, tails, us, ws, fading, left, n, words, cs, last, width)
        elif together == 4:
            predict_four(row, mosts, bs, tails, us, ws, fading, left, n, words, cs, last, width)
        elif blaming:
            blame(row, mosts, bs, tails, us, ws, fading, left, near, words, cs, last, width)
        else:
            predict(row, mosts, bs, tails, us, ws, fading, left, near, words, cs, last, width)
        t += together


@njit
def fade(far, b, rates, a, ids, first, last, u, spare):  # type: ignore[no-untyped-def]
    """The tails after the words first .. last have gone into them, four at a time."""
    size, scratch = 4 * far.shape[1], np.empty((4, far.shape[1]), np.float32)
    leaving, most, of_far, p = np.empty(4, np.int64), np.empty(4, np.int32), far.ctypes.data, first
    while p < last:
        together = 4 if p + 4 <= last else 1
        for i in range(together):
            leaving[i] = of_far + ids[p + i] * size
        if together == 4:
            predict_four(
                scratch.ctypes.data, most.ctypes.data, b.ctypes.data, len(rates), u.ctypes.data, a.ctypes.data,
                rates.ctypes.data, leaving.ctypes.data, 0, of_far, a.ctypes.data, ids.ctypes.data, far.shape[1],
            )  # fmt: skip
        else:
            predict(
                scratch.ctypes.data, most.ctypes.data, b.ctypes.data, len(rates), u.ctypes.data, a.ctypes.data,
                rates.ctypes.data, leaving.ctypes.data, 0, of_far, a.ctypes.data, ids.ctypes.data, far.shape[1],
            )  # fmt: skip
        p += together


def spare_rows(width: int, tails: int) -> _Array:
    """A row of nothing and one of ones, wide enough for a vector and for rates."""
    return np.repeat(np.array([[0], [1]], np.float32), max(width, tails, 1), 1)
