"""A linear recurrence over many sequences at once: the filter and smoother of a steady-state LDS.

    a_t = F a_{t-1} + u_t        forward in time
    a_t = F a_{t+1} + u_t        with reverse=True

The two-sided smoother of an LDS is one recurrence of either kind over the same input (Belanger and Kakade, "A Linear
Dynamical System Model for Text", ICML 2015). On a CUDA device F and u are torch tensors there.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve
from tacenda.kernels.machinery.arrays import (
    as_offsets,
    check_floats,
    common_device,
    given,
    in_c_order,
)

__all__ = ["forward"]

_Array = NDArray[Any]


def forward(
    F: _Array, u: _Array, offsets: NDArray[np.integer[Any]], reverse: bool = False
) -> _Array:
    """Run the recurrence over packed sequences, each from a state of zeros.

    Parameters
    ----------
    F
        (states, states).
    u
        (tokens, states), float32 or float64, all sequences one after another; a layout other than C order costs a
        copy.
    offsets
        (sequences + 1,) from 0 to tokens; sequence s is ``u[offsets[s]:offsets[s + 1]]`` and may be empty. The order
        of the sequences does not matter for speed; having hundreds of them at once does.
    reverse
        Run from the last token to the first.

    Returns
    -------
    The states a (tokens, states), in u's dtype.

    Raises
    ------
    KernelError
        Shapes or dtypes do not fit.

    Notes
    -----
    The cost is 2 states^2 flops per token. Long sequences, on the CPU only a few among many short ones or alone, take
    twice that, in chunks, since the higher rate more than makes up for it. Re-entrant. NaN and infinity propagate
    within their sequence. `tacenda.kernels.dynamics.modal_recurrence` does the same for a diagonalised F at a small
    part of the cost.
    """
    F, u = given(F), in_c_order(given(u))
    device = common_device(F=F, u=u)
    check_floats(u, 2, "u")
    offsets = as_offsets(offsets, len(u))
    states = u.shape[1]
    if F.shape != (states, states):
        raise KernelError(
            f"F must be ({states}, {states}) as u has {states} states, not {tuple(F.shape)}"
        )
    F = in_c_order(F, u.dtype)
    result: _Array = resolve("linear_recurrence", device)(F, u, offsets, reverse)
    return result
