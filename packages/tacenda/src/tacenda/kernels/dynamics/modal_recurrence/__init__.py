"""A linear recurrence in the basis of its eigenvectors: elementwise, O(states) per token.

    m_t = Lambda m_{t-1} + u_t

Lambda is real and block-diagonal: n_real numbers, and n_pairs blocks [[re, im], [-im, re]] for the
conjugate pairs of eigenvalues re +- i im. The states are ordered for SIMD: the real ones first,
then the first coordinate x of every pair, then the second coordinate y of every pair, so that

    x_t = re x_{t-1} + im y_{t-1} + u^x_t,    y_t = re y_{t-1} - im x_{t-1} + u^y_t

(x + i y is multiplied by re - i im). `decompose` brings a dense F into this form. The dense
recurrence costs 2 states^2 flops per token, this one reads and writes each number once.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.dispatch import resolve
from tacenda.kernels.dynamics.modal_recurrence.naive import Gradients, Scan
from tacenda.kernels.machinery.arrays import device_of

if TYPE_CHECKING:
    from tacenda.kernels.dynamics.modal_recurrence.decomposition import Decomposition

__all__ = ["Gradients", "Scan", "backward", "decompose", "forward", "scan"]

_Array = NDArray[Any]


def forward(
    real: _Array,
    complex: _Array,
    u: _Array,
    offsets: NDArray[np.integer[Any]],
    initial: _Array | None = None,
    reverse: bool = False,
    out: _Array | None = None,
    threads: int = 1,
) -> _Array:
    """Run the recurrence over packed sequences: m (tokens, states).

    Parameters
    ----------
    real, complex
        Eigenvalues (n_real,) and (n_pairs, 2) as (re, im); n_real + 2 n_pairs = states.
    u
        (tokens, states), float32 or float64, all sequences one after another; in u's dtype and
        C order the work is done in one pass, another layout costs a copy.
    offsets
        (sequences + 1,) from 0 to tokens; sequence s is ``u[offsets[s]:offsets[s + 1]]`` and may be
        empty.
    initial
        (sequences, states), the state before the first token (after the last with ``reverse``);
        zeros where left out.
    reverse
        Run from the last token to the first: m_t = Lambda m_{t+1} + u_t.
    out
        (tokens, states) to write into; ``u`` itself is allowed and works in place.
    threads
        Threads to share the sequences; the result does not depend on it.

    Returns
    -------
    m, in u's dtype. NaN and infinity propagate. Re-entrant; releases the GIL. On a CUDA device u
    and the rest are torch tensors and ``out`` and ``threads`` are left out.

    Raises
    ------
    KernelError
        Where shapes or dtypes do not fit.
    """
    result: _Array = resolve("modal_recurrence", device_of(u))(
        real, complex, u, offsets, initial, reverse, out, threads
    )
    return result


def backward(
    real: _Array,
    complex: _Array,
    m: _Array,
    offsets: NDArray[np.integer[Any]],
    grad: _Array,
    initial: _Array | None = None,
    reverse: bool = False,
    threads: int = 1,
) -> Gradients:
    """Gradients of a loss with respect to ``real``, ``complex``, ``u`` and ``initial``.

    ``m`` is what `forward` returned with the same arguments and ``grad`` (tokens, states) the
    loss's gradient with respect to it. The gradient of u is the same recurrence with Lambda^T, run
    the other way; those of the eigenvalues are sums over tokens, added in float64. Errors as in
    `forward`.
    """
    result: Gradients = resolve("modal_recurrence_backward", device_of(m))(
        real, complex, m, offsets, grad, initial, reverse, threads
    )
    return result


def scan(
    real: _Array,
    complex: _Array,
    table: _Array,
    ids: NDArray[np.integer[Any]],
    offsets: NDArray[np.integer[Any]],
    initial: _Array | None = None,
    reverse: bool = False,
    out: _Array | None = None,
    column: int = 0,
) -> Scan:
    """The recurrence over inputs ``table[ids]``, as every token sees it coming: without its own.

        before_1 = initial,    before_t = Lambda (before_{t-1} + table[ids[t - 1]])

    Nothing is gathered into memory and nothing taken off again, so that this is the fast way to run
    a fitted model, and the accurate one where a token's own input is large.

    Parameters
    ----------
    real, complex, offsets, reverse
        As in `forward`.
    table
        (rows, states) float32 or float64, one row of inputs for every id.
    ids
        (tokens,), all sequences one after another.
    initial
        (sequences, states), what comes into the first token (the last with ``reverse``); zeros
        where left out.
    out
        (tokens or more, width), in the table's dtype and C order, takes ``before``. Without it
        only the last states are computed.
    column
        Where in ``out`` the ``states`` columns begin.

    Returns
    -------
    ``out``, and (sequences, states) the last token's before + input; ``initial`` if there is no
    token. Re-entrant; releases the GIL. For inference: its gradient is that of `forward`.

    Raises
    ------
    KernelError
        Where shapes or dtypes do not fit, or an id has no row.
    """
    result: Scan = resolve("modal_scan", device_of(table))(
        real, complex, table, ids, offsets, initial, reverse, out, column
    )
    return result


def decompose(F: _Array) -> "Decomposition":
    """F = P Lambda P^-1: see `tacenda.kernels.dynamics.modal_recurrence.decomposition.decompose`."""
    from tacenda.kernels.dynamics.modal_recurrence.decomposition import decompose as implementation

    return implementation(F)
