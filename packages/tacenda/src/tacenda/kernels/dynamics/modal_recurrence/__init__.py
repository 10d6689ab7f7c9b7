"""A linear recurrence in the basis of its eigenvectors: elementwise, O(states) per token.

    before_1 = initial,    before_t = Lambda (before_{t-1} + u_{t-1}),    u_t = table[ids[t]]

Lambda is real and block-diagonal: n_real numbers, and n_pairs blocks [[re, im], [-im, re]] for the conjugate pairs of
eigenvalues re +- i im. States are ordered for SIMD: the real ones first, then the first coordinate x of every pair,
then the second coordinate y of every pair, so that Lambda takes

    x to re x + im y,    y to re y - im x

(x + i y is multiplied by re - i im). `decompose` brings a dense F into this form. The dense recurrence costs
2 states^2 flops per token; this one reads and writes each number once.

On a CUDA device eigenvalues, table, initial states and ``out`` are torch tensors there, and ids may be one.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve
from tacenda.kernels.machinery.arrays import (
    as_offsets,
    check_array,
    check_floats,
    check_range,
    common_device,
    given,
    in_c_order,
    zeros,
)

__all__ = ["Decomposition", "Scan", "decompose", "scan"]

_Array = NDArray[Any]
_Float = NDArray[np.float64]


class Scan(NamedTuple):
    """What comes into every token (tokens, width), if it was asked for, and the last states (sequences, states)."""

    before: _Array | None
    last: _Array


class Decomposition(NamedTuple):
    """F = P Lambda P_inv, in float64."""

    real: _Float  # (n_real,), largest modulus first
    complex: _Float  # (n_pairs, 2) as (re, im) with im > 0, largest modulus first
    P: _Float  # (states, states)
    P_inv: _Float  # (states, states)
    condition: float  # |P| |P_inv| in the 2-norm: how much the change of basis magnifies rounding


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
    """Run the recurrence over packed sequences, and return what every token sees coming: without its own input.

    Inputs are neither gathered into memory nor subtracted again, so this is the fast way to run a fitted model, and
    the accurate one where a token's own input is large.

    Parameters
    ----------
    real, complex
        Eigenvalues (n_real,) and (n_pairs, 2) as (re, im); n_real + 2 n_pairs = states.
    table
        (rows, states), float32 or float64: one row of inputs for every id.
    ids
        (tokens,), all sequences one after another.
    offsets
        (sequences + 1,) from 0 to tokens; sequence s is ``ids[offsets[s]:offsets[s + 1]]`` and may be empty.
    initial
        (sequences, states), what comes into the first token, or into the last with ``reverse``; zeros if None.
    reverse
        Run from the last token to the first.
    out
        (tokens or more, width), in the table's dtype and C order: takes ``before``. Without it only the last states
        are computed.
    column
        The column of ``out`` from which ``before`` is written.

    Returns
    -------
    ``out``, and (sequences, states) the last token's before + input, which is ``initial`` if there is no token.
    Re-entrant; releases the GIL. NaN and infinity propagate.

    Raises
    ------
    KernelError
        Shapes or dtypes do not fit, or an id has no row.
    """
    real, complex, table = map(given, (real, complex, table))
    device = common_device(real=real, complex=complex, table=table, initial=initial, out=out)
    check_floats(table, 2, "table")
    table = in_c_order(table)
    states = table.shape[1]
    if real.ndim != 1 or complex.ndim != 2 or complex.shape[1] != 2:
        raise KernelError(
            f"real must be (n_real,) and complex (n_pairs, 2), not {tuple(real.shape)} and {tuple(complex.shape)}"
        )
    if len(real) + 2 * len(complex) != states:
        raise KernelError(
            f"{len(real)} real eigenvalues and {len(complex)} pairs make "
            f"{len(real) + 2 * len(complex)} states, and the table has {states}"
        )
    ids = in_c_order(given(ids))
    check_range(ids, len(table), "ids")
    offsets = as_offsets(offsets, len(ids))
    if initial is None:
        initial = zeros((len(offsets) - 1, states), table)
    initial = in_c_order(given(initial), table.dtype)
    check_array(initial, (len(offsets) - 1, states), table, "initial")
    if out is not None:
        _check_out(out, table, len(ids), column)
    result: Scan = resolve("modal_scan", device)(
        real, complex, table, ids, offsets, initial, reverse, out, column
    )
    return result


def decompose(F: _Array) -> Decomposition:
    """Bring F (states, states) into modal form.

    For a conjugate pair of eigenvalues re +- i im (im > 0) with eigenvector v = p + i q,
    F [p q] = [p q] [[re, im], [-im, re]]. The columns of P are the eigenvectors of real eigenvalues, then all p, then
    all q. With m_t = P^-1 a_t the recurrence a_t = F a_{t-1} + u_t becomes m_t = Lambda m_{t-1} + P^-1 u_t.

    Returns
    -------
    The decomposition, in float64. Eigenvectors of real eigenvalues have norm 1 and complex ones norm sqrt(2), so that
    each pair of columns has norm 1 on average; the largest component of every eigenvector is real and positive.

    Raises
    ------
    KernelError
        F is not square and finite, or is defective beyond rounding. Near that, ``condition`` grows without bound, and
        the dense recurrence is the one to use.
    """
    import scipy.linalg

    F = np.asarray(F, np.float64)
    if F.ndim != 2 or F.shape[0] != F.shape[1] or not np.isfinite(F).all():
        raise KernelError(f"F must be a square matrix of finite numbers, not {F.shape}")
    values, vectors = scipy.linalg.eig(F)
    # Turn each eigenvector so that its largest component is real and positive: the phase is free.
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0, keepdims=True), axis=0)
    vectors = vectors * (np.abs(largest) / largest)
    order = np.lexsort((values.imag, values.real, -np.abs(values)))
    is_real = order[values[order].imag == 0]
    is_pair = order[values[order].imag > 0]
    pairs = vectors[:, is_pair] * np.sqrt(2.0)
    P = np.concatenate([vectors[:, is_real].real, pairs.real, pairs.imag], axis=1)
    try:
        P_inv = np.linalg.inv(P)
    except np.linalg.LinAlgError as error:
        raise KernelError(
            "F is defective, it has no basis of eigenvectors: use the dense recurrence"
        ) from error
    condition = float(np.linalg.norm(P, 2) * np.linalg.norm(P_inv, 2)) if F.size else 1.0
    complex = np.stack([values[is_pair].real, values[is_pair].imag], axis=-1)
    return Decomposition(values[is_real].real, complex, P, P_inv, condition)


def _check_out(out: _Array, table: _Array, tokens: int, column: int) -> None:
    """Raise KernelError unless ``before`` can be written into ``out`` from ``column`` on."""
    states, like = table.shape[1], zeros((0, 0), table)
    if out.ndim == 2 and len(out) >= tokens and 0 <= column <= out.shape[1] - states:
        check_array(out, tuple(out.shape), like, "out")
        return
    raise KernelError(
        f"out must be of {tokens} rows or more, with {states} columns from column {column} on, "
        f"not {tuple(out.shape)}"
    )
