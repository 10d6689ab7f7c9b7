"""A kernel backend: a module with a function for each operation that it runs.

``lagged_counts`` and ``sparse_product`` replace Tacenda's functions if a user selects this backend (``kernels.use`` or
``TACENDA_KERNELS``), or if no backend of a higher priority can run the call. ``decayed_sum`` is a new operation, see
`tacenda_classics.decayed_sums`.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.signal import lfilter
from scipy.sparse import csr_array

from tacenda.errors import KernelError
from tacenda.kernels import UnsupportedShape
from tacenda.kernels.counts import Counts

kind = "kernels"
priority = 10  # below Tacenda's own "cpu" (50), above "reference" (0)

Array = npt.NDArray[Any]
Float32 = npt.NDArray[np.float32]


def lagged_counts(
    stream: npt.NDArray[np.int32], n_lags: int, vocabulary: int, n_history: int
) -> list[Counts]:
    """Count N_k[i, j] = #{ t >= n_history : w_t = i, w_{t-k} = j } by sorting the pairs."""
    if vocabulary > 2**31:  # hand the call to the next backend, before any work
        raise UnsupportedShape("pairs of ids must fit into 63 bits")
    counts = []
    for k in range(1, n_lags + 1):
        first = max(n_history, k)
        later = stream[first:].astype(np.int64)
        earlier = stream[first - k :][: len(later)]
        pairs, data = np.unique(later * vocabulary + earlier, return_counts=True)
        rows, columns = np.divmod(pairs, vocabulary)
        indptr = np.searchsorted(rows, np.arange(vocabulary + 1))
        counts.append(
            Counts(indptr.astype(np.int64), columns.astype(np.int32), data.astype(np.int32))
        )
    return counts


def sparse_product(
    indptr: Array,
    indices: Array,
    data: Array,
    dense: Float32,
    row_scale: Float32 | None,
    column_scale: Float32 | None,
    threads: int,
) -> Float32:
    """Compute diag(r) E diag(c) X with SciPy, on one thread; ``threads`` is ignored."""
    rows, columns = len(indptr) - 1, len(dense)
    if len(indices) and not 0 <= indices.min() <= indices.max() < columns:
        raise KernelError(f"a column index is outside 0 .. {columns - 1}")
    E = csr_array((data.astype(np.float32), indices, indptr), shape=(rows, columns))
    scaled = dense if column_scale is None else column_scale[:, None] * dense
    product = E @ scaled
    return np.asarray(product if row_scale is None else row_scale[:, None] * product, np.float32)


def decayed_sum(x: Float32, decay: float) -> Float32:
    """Compute y_t = x_t + decay * y_{t-1} as a filter."""
    if not x.size:
        return x.copy()
    y: Float32 = lfilter(np.ones(1, x.dtype), np.array([1, -decay], x.dtype), x, axis=0)
    return y
