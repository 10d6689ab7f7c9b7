"""A new operation, which the embedder calls and for which any backend may have a faster function."""

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Array, Float32
from tacenda.errors import KernelError
from tacenda.kernels import operation
from tacenda.kernels.machinery.arguments import cast


def _check_decay(x: Array, decay: float) -> None:
    if not 0 <= decay < 1:
        raise KernelError(f"decayed_sum takes 0 <= decay < 1, not {decay}")


@operation(prepare=_check_decay)
def decayed_sum(x: Float32[Array, "tokens width", cast], decay: float) -> npt.NDArray[np.float32]:
    """Sum the rows so far, with decay: y_t = x_t + decay * y_{t-1}, y_0 = x_0, (tokens, width) float32.

    ``decay``, at least 0 and below 1, multiplies the weight of a row at each later row. The body is the specification,
    a plain loop in float64, which runs if no backend has the operation.
    """
    y = x.astype(np.float64)
    for t in range(1, len(x)):
        y[t] += decay * y[t - 1]
    return np.asarray(y, np.float32)
