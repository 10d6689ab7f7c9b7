"""A kernel backend with one operation of Tacenda's and one of our own.

``lagged_counts`` takes the place of Tacenda's where a user asks for it (``kernels.use`` or
``TACENDA_KERNELS``), or where every backend of a higher priority declines. ``decayed_sum`` is new: the
embedder finds it through the dispatcher, so that somebody else can bring a faster one.
"""

import numpy as np
import numpy.typing as npt
from scipy.signal import lfilter

from tacenda.kernels import API_VERSION, Backend, UnsupportedShape
from tacenda.kernels.dynamics.lagged_counts import Counts

Float32 = npt.NDArray[np.float32]


def lagged_counts(
    stream: npt.NDArray[np.int32], n_lags: int, vocabulary: int, n_history: int
) -> list[Counts]:
    """N_k[i, j] = #{ t >= n_history : w_t = i, w_{t-k} = j }, by sorting the pairs.

    Arguments and result are those of `tacenda.kernels.dynamics.lagged_counts.lagged_counts`.
    """
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


def decayed_sum(x: Float32, decay: float) -> Float32:
    """y_t = x_t + decay * y_{t-1}, y_0 = x_0; x and y are (tokens, width)."""
    if not len(x):
        return x.copy()
    y: Float32 = lfilter(np.ones(1, x.dtype), np.array([1, -decay], x.dtype), x, axis=0)
    return y


backend = Backend(
    name="random_indexing",
    api_version=API_VERSION,
    priority=10,  # below Tacenda's own "cpu" (50), above "reference" (0)
    operations={"lagged_counts": lagged_counts, "decayed_sum": decayed_sum},
)
