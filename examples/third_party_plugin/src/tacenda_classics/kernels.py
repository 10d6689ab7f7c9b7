"""A kernel backend with two operations of Tacenda's and one of our own.

``lagged_counts`` and ``sparse_product`` take the place of Tacenda's where a user asks for them (``kernels.use`` or
``TACENDA_KERNELS``), or where every backend of a higher priority declines. ``decayed_sum`` is new: the embedder calls
its public function, which finds it through the dispatcher, so that somebody else can bring a faster one.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.signal import lfilter
from scipy.sparse import csr_array

from tacenda import kernels
from tacenda.errors import KernelError
from tacenda.kernels import API_VERSION, Backend, UnsupportedShape
from tacenda.kernels.dynamics.lagged_counts import Counts

Array = npt.NDArray[Any]
Float32 = npt.NDArray[np.float32]


# -- operations of Tacenda: arguments and results are those of the public functions of the same name ----


def lagged_counts(
    stream: npt.NDArray[np.int32], n_lags: int, vocabulary: int, n_history: int
) -> list[Counts]:
    """N_k[i, j] = #{ t >= n_history : w_t = i, w_{t-k} = j }, by sorting the pairs."""
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
    """diag(r) E diag(c) X, by scipy; it runs on one thread whatever ``threads`` says."""
    rows, columns = len(indptr) - 1, len(dense)
    if len(indices) and not 0 <= indices.min() <= indices.max() < columns:
        raise KernelError(f"a column index is outside 0 .. {columns - 1}")
    E = csr_array((data.astype(np.float32), indices, indptr), shape=(rows, columns))
    scaled = dense if column_scale is None else column_scale[:, None] * dense
    product = E @ scaled
    return np.asarray(product if row_scale is None else row_scale[:, None] * product, np.float32)


# -- an operation of our own: the public function, its specification, and a fast way to compute it ------


def decayed_sum(x: npt.ArrayLike, decay: float) -> Float32:
    """Sum what came before, fading: y_t = x_t + decay * y_{t-1}, y_0 = x_0.

    Parameters
    ----------
    x
        (tokens, width); used as float32.
    decay
        What is left of a row one row further on, from 0 to below 1.

    Returns
    -------
    float32 (tokens, width), a new array.

    Raises
    ------
    KernelError
        ``x`` is no matrix, or ``decay`` is out of its range.
    """
    x = np.ascontiguousarray(x, np.float32)
    if x.ndim != 2 or not 0 <= decay < 1:
        raise KernelError(
            f"decayed_sum takes a matrix and 0 <= decay < 1, not shape {x.shape} and {decay}"
        )
    result: Float32 = kernels.resolve("decayed_sum")(x, float(decay))
    return result


def decayed_sum_naive(x: Float32, decay: float) -> Float32:
    """The specification of `decayed_sum`: a plain loop in float64."""
    y = x.astype(np.float64)
    for t in range(1, len(x)):
        y[t] += decay * y[t - 1]
    return y.astype(np.float32)


def _filtered(x: Float32, decay: float) -> Float32:
    if not x.size:
        return x.copy()
    y: Float32 = lfilter(np.ones(1, x.dtype), np.array([1, -decay], x.dtype), x, axis=0)
    return y


backend = Backend(
    name="classics",
    api_version=API_VERSION,
    priority=10,  # below Tacenda's own "cpu" (50), above "reference" (0)
    operations={
        "lagged_counts": lagged_counts,
        "sparse_product": sparse_product,
        "decayed_sum": _filtered,
    },
)
