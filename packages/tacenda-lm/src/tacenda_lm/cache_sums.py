"""How much of the words just read is the word that comes: compiled sums over a window, one for each word of a text.

Import this only from modules that are loaded at need: it imports numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.kernels.machinery.compiled import njit
from tacenda_lm.sequences import Float64, Ids, Offsets

_FAST = {"contract", "reassoc"}


@njit(fastmath=_FAST)
def recent(ids: Ids, offsets: Offsets, weights: Float64) -> Float64:
    """Return how much each id weighs among those before it in its sequence, float64 (tokens,).

        hit_t = sum_{a = 1 .. window} weights[a - 1] [ids_{t - a} = ids_t]

    ``weights`` (window,) are those of the last word, the one before, and so on.
    """
    found = np.zeros(len(ids), np.float64)
    for s in range(len(offsets) - 1):
        for t in range(offsets[s], offsets[s + 1]):
            n = min(t - offsets[s], len(weights))
            past, word, total = ids[t - n : t], ids[t], 0.0
            last = weights[:n]
            for i in range(n):
                total += last[n - 1 - i] if past[i] == word else 0.0
            found[t] = total
    return found


@njit(fastmath=_FAST)
def alike(
    weights: npt.NDArray[np.floating[Any]], words: Ids, first: int, window: int
) -> tuple[Float64, Float64]:
    """Return how much the entries with the right word weigh, and all entries, for some rows: float64 (rows,) each.

    Row r is that of the word at place ``first + r`` of ``words``, and ``weights`` (rows, places) are those of entries
    at all places; it counts the entries at the ``window`` places before its own.
    """
    hits, totals = np.zeros(len(weights)), np.zeros(len(weights))
    for r in range(len(weights)):
        end = first + r
        begin = max(0, end - window)
        row, past, word = weights[r, begin:end], words[begin:end], words[end]
        hit, total = 0.0, 0.0
        for i in range(len(row)):
            total += row[i]
            hit += row[i] if past[i] == word else 0.0
        hits[r], totals[r] = hit, total
    return hits, totals
