"""The compiled loops of `tacenda_embeddings.spacy.fused`; apart, because they load numba."""

from typing import Any

import numpy as np

from tacenda.kernels.machinery.compiled import njit

_EPSILON = np.float32(1e-8)  # as thinc's ``layernorm`` adds to the variance
_LANES = 64
_FACTOR = np.uint32(2654435761)  # odd, so that a change of any number changes its lane


def digest(arrays: list[Any]) -> bytes:
    """Return a digest of float32 arrays, at the speed of reading them; some 30 GB in a second."""
    lanes = np.zeros(_LANES, np.uint32)
    for array in arrays:
        _add_to(lanes, np.ascontiguousarray(array, np.float32).reshape(-1).view(np.uint32))
    return lanes.tobytes()


@njit
def _add_to(lanes: Any, words: Any) -> None:
    whole = len(words) - len(words) % _LANES
    for i in range(0, whole, _LANES):
        for j in range(_LANES):
            lanes[j] = lanes[j] * _FACTOR + words[i + j]
    for i in range(whole, len(words)):
        lanes[i - whole] = lanes[i - whole] * _FACTOR + words[i]


@njit(fastmath={"contract", "reassoc", "nsz"})
def maxout_and_normalize(
    table: Any, places: Any, added: Any, n_pieces: int, gain: Any, shift: Any, out: Any
) -> None:
    """Fill ``out`` with gain (m - mean(m)) / sd(m) + shift, where m_j is the largest of piece j of the sum.

    The sum of token t is row ``places[t]`` of ``table`` (rows, outputs times pieces) plus ``added[t]``, or the row
    alone where ``added`` (tokens, outputs times pieces) has no columns. ``gain``, ``shift`` (outputs,) and ``out``
    (tokens, outputs) are float32 like both. The sums of a token are read once, while they are in the nearest cache.
    """
    n_out = out.shape[1]
    sums = np.empty(table.shape[1], table.dtype)
    for t in range(len(places)):
        word = table[places[t]]
        if added.shape[1]:
            own = added[t]
            for j in range(len(sums)):
                sums[j] = word[j] + own[j]
        else:
            for j in range(len(sums)):
                sums[j] = word[j]
        row = out[t]
        for j in range(n_out):
            most = sums[j * n_pieces]
            for k in range(1, n_pieces):
                most = max(most, sums[j * n_pieces + k])
            row[j] = most
        mean = np.float32(0)
        for j in range(n_out):
            mean += row[j]
        mean /= np.float32(n_out)
        variance = np.float32(0)
        for j in range(n_out):
            variance += (row[j] - mean) * (row[j] - mean)
        scale = 1 / np.sqrt(variance / np.float32(n_out) + _EPSILON)
        for j in range(n_out):
            row[j] = (row[j] - mean) * scale * gain[j] + shift[j]
