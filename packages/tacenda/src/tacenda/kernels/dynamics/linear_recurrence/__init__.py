"""A linear recurrence over many sequences at once: the filter and smoother of a steady-state LDS.

    a_t = F a_{t-1} + u_t        forward in time
    b_t = F b_{t+1} + u_t        with reverse=True

The two-sided smoother of an LDS is one recurrence of either kind over the same input, and the
adjoint of a recurrence is the recurrence with F^T, run the other way.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.dispatch import resolve
from tacenda.kernels.dynamics.linear_recurrence.naive import Gradients

__all__ = ["Gradients", "backward", "forward"]

_Array = NDArray[Any]


def forward(
    F: _Array,
    u: _Array,
    offsets: NDArray[np.integer[Any]],
    initial: _Array | None = None,
    reverse: bool = False,
    out: _Array | None = None,
    threads: int = 1,
) -> _Array:
    """The states a (tokens, states) of packed sequences, in u's dtype.

    Parameters
    ----------
    F
        (states, states).
    u
        (tokens, states), float32 or float64, all sequences one after another; a layout other than
        C order costs a copy.
    offsets
        (sequences + 1,) from 0 to tokens; sequence s is ``u[offsets[s]:offsets[s + 1]]`` and may be
        empty. The order of the sequences does not matter for speed; hundreds of them at once do.
    initial
        (sequences, states), the state before the first token (after the last with ``reverse``);
        zeros where left out.
    reverse
        Run from the last token to the first.
    out
        (tokens, states) to write into; ``u`` itself is allowed and works in place.
    threads
        Threads to share batches of sequences, with a BLAS that is itself held to one thread; the
        result does not depend on it.

    Raises
    ------
    KernelError
        Where shapes or dtypes do not fit.

    Notes
    -----
    2 states^2 flops per token; a few long sequences among or instead of many take twice that, in
    chunks, as the rate then more than makes up for it. Re-entrant. NaN and infinity propagate
    within their sequence. `tacenda.kernels.dynamics.modal_recurrence` does the same for a diagonalised F at a
    small part of the cost.
    """
    result: _Array = resolve("linear_recurrence")(F, u, offsets, initial, reverse, out, threads)
    return result


def backward(
    F: _Array,
    a: _Array,
    offsets: NDArray[np.integer[Any]],
    grad: _Array,
    initial: _Array | None = None,
    reverse: bool = False,
    threads: int = 1,
) -> Gradients:
    """Gradients of a loss with respect to ``F``, ``u`` and ``initial``.

    ``a`` is what `forward` returned with the same arguments and ``grad`` (tokens, states) the
    loss's gradient with respect to it. Errors as in `forward`.
    """
    result: Gradients = resolve("linear_recurrence_backward")(
        F, a, offsets, grad, initial, reverse, threads
    )
    return result
