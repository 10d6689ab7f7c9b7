"""An operation of our own: the embedder calls it, and any backend may bring a faster one."""

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Array, Float32
from tacenda.errors import KernelError
from tacenda.kernels import operation
from tacenda.kernels.operation import cast


def _check_decay(x: Array, decay: float) -> None:
    if not 0 <= decay < 1:
        raise KernelError(f"decayed_sum takes 0 <= decay < 1, not {decay}")


@operation(prepare=_check_decay)
def decayed_sum(x: Float32[Array, "tokens width", cast], decay: float) -> npt.NDArray[np.float32]:
    """Sum what came before, fading: y_t = x_t + decay * y_{t-1}, y_0 = x_0, (tokens, width) float32.

    ``decay`` is what is left of a row one row further on, from 0 to below 1. The body is the specification, a plain
    loop in float64, which runs where no backend has the operation.
    """
    y = x.astype(np.float64)
    for t in range(1, len(x)):
        y[t] += decay * y[t - 1]
    return np.asarray(y, np.float32)
