"""Operations on sequences: lagged counts, and the recurrences of linear dynamical systems.

Counts are of one stream, and are merged as CSR matrices. Recurrences take packed sequences: sequence s has the tokens
``offsets[s]`` to ``offsets[s + 1] - 1``, and may be empty. On a CUDA device floating arrays are torch tensors there,
and NaN and infinity propagate within their sequence. Operations are re-entrant, run on one thread and release the GIL.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.array_ops import zeros
from tacenda.arrays import Array, Float, Int, Int32, Offsets, below
from tacenda.errors import KernelError
from tacenda.kernels.machinery.arguments import any_dtype, cast, check_range, host, in_place
from tacenda.kernels.operation import operation
from tacenda.offsets import check_offsets

# -- lagged counts -----------------------------------------------------------------------------------

#: The dtypes of counts: as counted, and where counts were scaled.
_COUNTED = np.dtype(np.int32), np.dtype(np.float32)
#: Positions are int32.
_MAX_STREAM = 2**31 - 2


class Counts(NamedTuple):
    """A sparse matrix of counts in CSR form: the columns of each row ascend, no count is zero."""

    #: The first entry of each row, from 0, and the number of entries (rows + 1,).
    indptr: NDArray[np.int64]
    #: Columns (nonzeros,).
    indices: NDArray[np.int32]
    #: Counts (nonzeros,): int32 or float32.
    data: NDArray[Any]

    def rows(self, first: int, last: int) -> "Counts":
        """Return the rows ``first`` to ``last - 1`` as a matrix, which shares columns and counts with this one."""
        begin, end = int(self.indptr[first]), int(self.indptr[last])
        indptr = self.indptr[first : last + 1] - begin
        return Counts(indptr, self.indices[begin:end], self.data[begin:end])


def _check_stream(stream: Any, n_lags: int, vocabulary: int, n_history: int) -> None:
    if len(stream) > _MAX_STREAM:
        raise KernelError(
            f"lagged_counts was given {len(stream)} ids at once: count blocks of at most "
            f"{_MAX_STREAM} and add them with merge_counts"
        )
    if vocabulary < 0:
        raise KernelError(f"lagged_counts: vocabulary must be at least 0, not {vocabulary}")
    check_range(stream, vocabulary, "ids")
    if n_lags < 1 or not 0 <= n_history <= len(stream):
        raise KernelError(
            f"lagged_counts was asked for {n_lags} lags and {n_history} ids of history in a stream "
            f"of {len(stream)}: give at least one lag, and no more history than stream"
        )


@operation(prepare=_check_stream)
def lagged_counts(
    stream: Int32[Array, "length", host], n_lags: int, vocabulary: int, n_history: int = 0
) -> list[Counts]:
    """Count the pairs (row = w_t, column = w_{t-k}) of a stream of word ids for every lag k = 1 .. n_lags.

        N_k[i, j] = #{ t >= n_history : w_t = i, w_{t-k} = j }

    so that N_k / n estimates E[w_{t+k} w_t^T] = Psi_k of Martens, "Learning the Linear Dynamical System with ASOS"
    (ICML 2010, section 3) and of Belanger and Kakade, "A Linear Dynamical System Model for Text" (ICML 2015,
    equation 3). Equations 14 and 16 of the latter print the transpose.

    The stream has at most 2^31 - 2 ids, in 0 .. vocabulary - 1. The first ``n_history`` ids are context only: pairs
    are counted for n_history <= t < length, as far as t - k >= 0. Blocks of a long stream that each repeat the last r
    ids of the block before them as history count every pair once. To count circularly, put the last r ids of the
    whole stream before its first block; then row and column sums of every N_k agree.

    Returns N_1 .. N_r for r lags, each (vocabulary, vocabulary) with int32 data.
    """
    w = stream.tolist()
    counts = []
    for k in range(1, n_lags + 1):
        N: Counter[tuple[int, int]] = Counter()
        for t in range(n_history, len(w)):
            if t - k >= 0:
                N[w[t], w[t - k]] += 1
        counts.append(_to_csr(N, vocabulary, np.dtype(np.int32)))
    return counts


def _check_parts(parts: Sequence[Counts], vocabulary: int) -> None:
    if not isinstance(parts, Sequence) or not all(isinstance(part, Counts) for part in parts):
        raise KernelError("merge_counts: parts must be a list of Counts")
    if vocabulary < 0:
        raise KernelError(f"merge_counts: vocabulary must be at least 0, not {vocabulary}")
    if not parts:
        raise KernelError("merge_counts was given nothing to sum: give at least one matrix")
    rows, dtype = len(parts[0].indptr), parts[0].data.dtype
    for indptr, indices, data in parts:
        if len(indptr) != rows or data.dtype != dtype or dtype not in _COUNTED:
            raise KernelError(
                f"merge_counts was given {len(indptr) - 1} rows of {data.dtype} and "
                f"{rows - 1} rows of {dtype}: all must have the same rows and be int32 or float32"
            )
        if len(indices) != len(data):
            raise KernelError(
                f"merge_counts was given {len(indices)} columns and {len(data)} counts: they must agree"
            )
        check_offsets(indptr, len(data), what="merge_counts: indptr", error=KernelError)
        check_range(indices, vocabulary, "merge_counts: columns")


@operation(prepare=_check_parts)
def merge_counts(parts: Sequence[Counts], vocabulary: int) -> Counts:
    """Sum count matrices over the same rows; ``vocabulary`` is the number of columns.

    There is at least one part, and all have the same number of rows and the same dtype of data, int32 or float32, which
    is that of the sum. They may be blocks of consecutive rows of larger matrices. Integer sums are exact; floating sums
    are accumulated in double precision in the order of the parts, then rounded once.

    Raises KernelError if rows or dtypes differ, ``indptr`` falls, a column is outside the vocabulary, or a sum exceeds
    int32.
    """
    N: Counter[tuple[int, int]] = Counter()
    rows = len(parts[0].indptr) - 1
    for indptr, indices, data in parts:
        for i in range(rows):
            for s in range(indptr[i], indptr[i + 1]):
                N[i, int(indices[s])] += data[s].item()
    dtype = parts[0].data.dtype
    if dtype == np.int32 and N and max(N.values()) > np.iinfo(np.int32).max:
        raise KernelError("a sum of counts exceeds int32: scale the counts, which makes them float")
    return _to_csr(N, rows, dtype)


def _to_csr(N: Mapping[tuple[int, int], float], rows: int, dtype: np.dtype[Any]) -> Counts:
    """Return the entries N[i, j] in CSR form."""
    entries = sorted(N)
    indptr = np.zeros(rows + 1, np.int64)
    for i, _ in entries:
        indptr[i + 1] += 1
    indices = np.array([j for _, j in entries], np.int32)
    data = np.array([N[entry] for entry in entries], dtype)
    return Counts(np.cumsum(indptr), indices, data)


# -- recurrences of a steady-state LDS ---------------------------------------------------------------


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
    if F.ndim != 2 or F.shape[0] != F.shape[1] or not np.isfinite(F).all():
        fault = f"its shape is {F.shape}, and {(~np.isfinite(F)).sum()} are not finite"
        raise KernelError(f"F must be a square matrix of finite numbers: {fault}")
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
