"""Operations of linear dynamical systems: recurrences over packed sequences, and states of unit length.

Sequence s has the tokens ``offsets[s]`` to ``offsets[s + 1] - 1``, and may be empty. On a CUDA device floating arrays
are torch tensors there, and NaN and infinity propagate within their sequence. Operations are re-entrant, run on one
thread and release the GIL.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.array_ops import zeros
from tacenda.arrays import Array, Float, Int, Offsets, below
from tacenda.errors import KernelError
from tacenda.kernels.machinery.arguments import any_dtype, any_layout, cast, in_place
from tacenda.kernels.operation import operation

# -- recurrences -------------------------------------------------------------------------------------


@operation
def linear_recurrence(
    F: Float[Array, "states states", cast],
    u: Float[Array, "tokens states"],
    offsets: Offsets[Array, "sequences tokens"],
    reverse: bool = False,
) -> NDArray[Any]:
    """Run a recurrence over packed sequences, each from a state of zeros.

        a_t = F a_{t-1} + u_t,    or with ``reverse``    a_t = F a_{t+1} + u_t

    The two-sided smoother of an LDS runs one recurrence of either kind over the same input (Belanger and Kakade 2015).
    Hundreds of sequences at once are faster than one after another; their order does not matter.

    The cost is 2 states^2 flops per token, and twice that, at a higher rate, for long sequences, which are cut into
    chunks. `modal_scan` does the same for a diagonalized F at a small part of the cost.

    Returns the states a (tokens, states), in the dtype of u.
    """
    out = np.empty(u.shape, u.dtype)
    F = F.astype(np.float64)
    for s in range(len(offsets) - 1):
        a = np.zeros(len(F))
        tokens = range(offsets[s], offsets[s + 1])
        for t in reversed(tokens) if reverse else tokens:
            a = F @ a + u[t]
            out[t] = a
    return out


class Modes(NamedTuple):
    """Eigenvalues of a recurrence with n_real + 2 n_pairs states."""

    #: The real eigenvalues.
    real: Float[Array, "n_real", any_dtype]
    #: The conjugate pairs re +- i im, as (re, im).
    pairs: Float[Array, "n_pairs 2", any_dtype]


class Scan(NamedTuple):
    """The results of `modal_scan`."""

    before: Any  # ``out``, with the state before every token, or None
    last: Any  # (sequences, states), the state before the last token plus its input


def _complete_scan(
    modes: Modes, table: Any, ids: Any, offsets: Any, initial: Any, out: Any, column: int
) -> dict[str, Any]:
    """Return the initial states, zeros if none are given. Raises KernelError."""
    (real, pairs), states, tokens = modes, table.shape[1], len(ids)
    if len(real) + 2 * len(pairs) != states:
        raise KernelError(
            f"{len(real)} real eigenvalues and {len(pairs)} pairs make "
            f"{len(real) + 2 * len(pairs)} states, and the table has {states}"
        )
    if out is not None and (len(out) < tokens or not 0 <= column <= out.shape[1] - states):
        raise KernelError(
            f"out must have {tokens} rows or more, with {states} columns from column {column} on, "
            f"not {tuple(out.shape)}"
        )
    return {"initial": zeros((len(offsets) - 1, states), table) if initial is None else initial}


@operation(prepare=_complete_scan)
def modal_scan(
    modes: Modes,
    table: Float[Array, "words states"],
    ids: Int[Array, "tokens", below("words")],
    offsets: Offsets[Array, "sequences tokens"],
    initial: Float[Array, "sequences states", cast] | None = None,
    reverse: bool = False,
    out: Float[Array, "out_rows out_columns", in_place] | None = None,
    column: int = 0,
) -> Scan:
    """Run a recurrence in the basis of its eigenvectors, and return the state before every token.

        before_1 = initial,    before_t = Lambda (before_{t-1} + u_{t-1}),    u_t = table[ids[t]]

    Lambda is real and block-diagonal: n_real numbers, and n_pairs blocks [[re, im], [-im, re]] for the conjugate pairs
    of eigenvalues re +- i im. States are ordered for SIMD: the real ones first, then the first coordinate x of every
    pair, then the second coordinate y of every pair, so that Lambda takes

        x to re x + im y,    y to re y - im x

    (x + i y is multiplied by re - i im). `decompose` brings a dense F into this form. The cost is O(states) for each
    token. Inputs are neither gathered into memory nor subtracted from a state, which makes this fast and, for large
    inputs, accurate.

    Parameters
    ----------
    table
        A row of inputs for every id.
    initial
        The state before the first token of each sequence, or before the last with ``reverse``; zeros if None.
    out
        (tokens or more, width), filled with ``before``. Without it only the last states are computed.
    column
        The column of ``out`` from which ``before`` is written.

    Returns
    -------
    ``out``, and for the last token of each sequence before + u, which is ``initial`` if there is no token.
    """
    Lambda, last = block_diagonal(*modes), np.empty_like(initial)
    for s in range(len(last)):
        before = total = initial[s].astype(np.float64)  # type: ignore[index]
        tokens = range(offsets[s], offsets[s + 1])
        for t in reversed(tokens) if reverse else tokens:
            if out is not None:
                out[t, column : column + len(Lambda)] = before
            total = before + table[ids[t]]
            before = Lambda @ total
        last[s] = total
    return Scan(out, last)


def block_diagonal(real: Any, pairs: Any) -> NDArray[np.float64]:
    """Build Lambda (states, states) from `Modes`, with the states in the order of `modal_scan`."""
    n, n_pairs = len(real), len(pairs)
    x, y = n + np.arange(n_pairs), n + n_pairs + np.arange(n_pairs)
    Lambda = np.zeros((n + 2 * n_pairs, n + 2 * n_pairs))
    Lambda[np.arange(n), np.arange(n)] = real
    Lambda[x, x] = Lambda[y, y] = pairs[:, 0]
    Lambda[x, y], Lambda[y, x] = pairs[:, 1], -pairs[:, 1]
    return Lambda


class Decomposition(NamedTuple):
    """F = P Lambda P_inv, in float64."""

    real: NDArray[np.float64]  # (n_real,), largest modulus first
    pairs: NDArray[np.float64]  # (n_pairs, 2) as (re, im) with im > 0, largest modulus first
    P: NDArray[np.float64]  # (states, states)
    P_inv: NDArray[np.float64]  # (states, states)
    condition: float  # |P| |P_inv| in the 2-norm: how much the change of basis magnifies rounding


def decompose(F: Any) -> Decomposition:
    """Bring F (states, states) into modal form.

    For a conjugate pair of eigenvalues re +- i im (im > 0) with eigenvector v = p + i q,
    F [p q] = [p q] [[re, im], [-im, re]]. The columns of P are the eigenvectors of real eigenvalues, then all p, then
    all q. With m_t = P^-1 a_t the recurrence a_t = F a_{t-1} + u_t becomes m_t = Lambda m_{t-1} + P^-1 u_t.

    Eigenvectors of real eigenvalues have norm 1 and complex ones norm sqrt(2), so that each pair of columns has norm 1
    on average; the largest component of every eigenvector is real and positive.

    Raises KernelError if F is not a square matrix of finite real numbers, or if its eigenvectors are exactly dependent.
    Rounding separates most dependent eigenvectors: then ``condition`` is 1e15 or more. Use `linear_recurrence` if it is
    large.
    """
    import scipy.linalg

    try:
        F = np.asarray(F).astype(np.float64, casting="same_kind", copy=False)
    except (TypeError, ValueError) as error:  # text, complex numbers, rows of different lengths
        raise KernelError(f"F must be a square matrix of finite numbers: {error}") from error
    if F.ndim != 2 or F.shape[0] != F.shape[1]:
        raise KernelError(f"F must be a square matrix of finite numbers, not of shape {F.shape}")
    if n_faults := np.count_nonzero(~np.isfinite(F)):
        raise KernelError(f"F must be a square matrix of finite numbers: {n_faults} are not finite")
    if not len(F):
        return Decomposition(np.empty(0), np.empty((0, 2)), F, F, 1.0)
    values, vectors = scipy.linalg.eig(F)
    # Turn each eigenvector so that its largest component is real and positive: the phase is free.
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0, keepdims=True), axis=0)
    vectors = vectors * (np.abs(largest) / largest)
    order = np.lexsort((values.imag, values.real, -np.abs(values)))
    is_real = order[values[order].imag == 0]
    is_pair = order[values[order].imag > 0]
    scaled = vectors[:, is_pair] * np.sqrt(2.0)
    P = np.concatenate([vectors[:, is_real].real, scaled.real, scaled.imag], axis=1)
    try:
        P_inv = np.linalg.inv(P)
        condition = float(np.linalg.norm(P, 2) * np.linalg.norm(P_inv, 2))
    except np.linalg.LinAlgError as error:  # singular, or so nearly that the inverse is not finite
        raise KernelError(
            "F has no basis of eigenvectors, it is defective: use linear_recurrence"
        ) from error
    pairs = np.stack([values[is_pair].real, values[is_pair].imag], axis=-1)
    return Decomposition(values[is_real].real, pairs, P, P_inv, condition)


# -- rows of unit length -------------------------------------------------------------------------------

#: Shorter rows are divided by the root of this instead of their length, so that rows of zeros do not become NaN.
LEAST_SQUARED_LENGTH = 1e-12


@operation
def unit_rows(X: Float[Array, "rows columns", in_place, any_layout]) -> Any:
    """Divide every row of X (rows, columns) by its length, in place, and return X.

    Rows shorter than 1e-6 are divided by 1e-6, so they stay shorter than one, and rows of zeros stay zero. X may be
    some of the columns of a larger matrix.
    """
    for i, x in enumerate(X.astype(np.float64)):
        X[i] = x / np.sqrt(max(x @ x, LEAST_SQUARED_LENGTH))
    return X
