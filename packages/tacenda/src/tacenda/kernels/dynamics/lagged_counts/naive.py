"""Lagged counts, the specification: one entry of a dictionary for each pair of words."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.errors import KernelError
from tacenda.kernels.dynamics.lagged_counts import Counts


def lagged_counts(
    stream: npt.NDArray[np.int32], n_lags: int, vocabulary: int, n_history: int
) -> list[Counts]:
    """N_k[i, j] = #{ t >= n_history : w_t = i, w_{t-k} = j }, k = 1 .. n_lags."""
    w = stream.tolist()
    counts = []
    for k in range(1, n_lags + 1):
        N: Counter[tuple[int, int]] = Counter()
        for t in range(n_history, len(w)):
            if t - k >= 0:
                N[w[t], w[t - k]] += 1
        counts.append(_to_csr(N, vocabulary, np.dtype(np.int32)))
    return counts


def merge_counts(parts: list[Counts], vocabulary: int) -> Counts:
    """N = sum of the parts, each entry accumulated in float64, which is exact below 2^53."""
    N: Counter[tuple[int, int]] = Counter()
    rows = len(parts[0].indptr) - 1
    for indptr, indices, data in parts:
        for i in range(rows):
            for s in range(indptr[i], indptr[i + 1]):
                N[i, int(indices[s])] += data[s].item()
    dtype = parts[0].data.dtype
    if dtype == np.int32 and N and max(N.values()) > np.iinfo(np.int32).max:
        raise KernelError("a sum of counts exceeds int32: scale the counts, which makes them float")
    return _to_csr(N, rows, dtype)


def _to_csr(N: Mapping[tuple[int, int], float], rows: int, dtype: np.dtype[Any]) -> Counts:
    """The entries N[i, j] in CSR form."""
    entries = sorted(N)
    indptr = np.zeros(rows + 1, np.int64)
    for i, _ in entries:
        indptr[i + 1] += 1
    indices = np.array([j for _, j in entries], np.int32)
    data = np.array([N[entry] for entry in entries], dtype)
    return Counts(np.cumsum(indptr), indices, data)
