"""The two-sided smoother of a fitted LDS, and the vectors that it computes for the tokens of packed sequences.

Token vectors take two scans over gathered rows, and one product. The scans compute the sums
a_t = F' (a_{t-1} + K' w_{t-1}) and b_t = J (b_{t+1} + K' w_{t+1}), which enter a token from the left and from the
right (`build_two_sided`), in the basis of the eigenvectors of F' and J, where a step is elementwise. Their results are
adjacent columns, so that past + future is one product of (tokens, 2 states) by (2 states, states). It is as fast per
token for a single document as for a thousand.

    own_context        [own / |own| ; (past + future) / |past + future|]          2 states
    weighted_mean      (g own + past + future), unit length                        states
    own_past_future    [g own ; past ; future], unit length                      3 states
    mean               own + past + future = xs, unit length (paper, section 5)    states
    own                own, unit length: a static vector                           states
    filtered           xf = T^{-1} (own + past), unit length: sees the past only   states

All arrays with a row for each token or sequence, and the matrices that they are multiplied by, are on the smoother's
device: NumPy arrays on the CPU, tensors elsewhere. Offsets and lengths are on the host.
"""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacenda.array_ops import multiply_into, to_device, to_numpy, zeros
from tacenda.arrays import Array, Arrays, Constraint, Float32, Float64
from tacenda.errors import KernelError
from tacenda.kernels.sequences import (
    Decomposition,
    Modes,
    decompose,
    linear_recurrence,
    modal_scan,
    unit_rows,
)
from tacenda.offsets import runs
from tacenda_embeddings.lds import (
    Matrix,
    Parameters,
    SteinSolver,
    Vector,
    solve_stationary_covariance,
    solve_steady_state,
    spectral_radius,
    symmetric_power,
)
from tacenda_embeddings.settings import LDS_OUTPUTS

Float32Array = npt.NDArray[np.float32]
Ids = npt.NDArray[np.integer]
Integers = npt.NDArray[np.int64]
Destination = Any
"""A sequence of arrays or tensors, one for each sequence of tokens; or a single one for all."""

#: The operations of `tacenda.kernels` that smoothing consists of.
OPERATIONS = "modal_scan", "linear_recurrence", "unit_rows"

#: Width in units of the number of states.
WIDTHS = dict.fromkeys(LDS_OUTPUTS, 1) | {"own_context": 2, "own_past_future": 3}

#: Outputs that are posterior means of the model itself, whatever the row norms.
POSTERIOR_MEANS = frozenset({"mean", "filtered"})

#: Outputs that no later word enters: they take neither the backward scan nor the messages from outside the sequence.
_WITHOUT_FUTURE = frozenset({"own", "filtered"})

#: Eigenvectors with a larger condition number are not used: it magnifies the rounding of float32.
MAXIMUM_CONDITION = 1e5

_GROUP_TOKENS = 1 << 18  # bounds the working memory of the scans that find ends
_CACHED_POWERS = 256  # powers that are computed once; sequences are rarely longer
_CACHED_ECHO_LENGTH = 256  # longer sequences have thin matrices, which are quickly solved again
_NEGLIGIBLE_NORM = 1e-9  # of a row; far below the rounding of float32


# -- the two-sided smoother ----------------------------------------------------------------------------


#: Require a matrix whose powers vanish.
stable = Constraint(
    lambda X, _: None if spectral_radius(X) < 1 else "is not stable (an eigenvalue of 1 or more)"
)


class TwoSided(Arrays):
    """Matrices of the two-sided smoother in output coordinates; see `build_two_sided`."""

    table: Float32[Array, "types states"]  # row i is K' w of word i; float64 until it is saved
    forward: Float64[Array, "states states", stable]  # F'
    backward: Float64[Array, "states states", stable]  # J
    left_end: Float64[Array, "states states"]  # maps b_1 to the past message at the first token
    right_end: Float64[Array, "states states"]  # maps a_n to the future message at the last token
    filter: Float64[Array, "states states"]  # T^{-1}, maps a_t to the filtered mean xf_t


def build_two_sided(
    parameters: Parameters, scale: Vector, mean: Vector, second_moment: Matrix | None = None
) -> TwoSided:
    """Return the smoother as two independent recursions, with exact ends.

    With T = J T F + G (a Stein equation), K' = T K and F' = T F T^{-1}, the smoothed mean splits exactly:

        a_t = F' a_{t-1} + K' w_t,     b_t = J b_{t+1} + K' w_t
        xs_t = own + past + future,    own = K' w_t,  past = F' a_{t-1},  future = J b_{t+1}

    so that smoothing costs two products with (states, states) matrices per token, and neither pass waits for the
    other. A finite sequence 1..n is exact if the messages that enter at its ends are: what is outside is
    unobserved, hence replaced by its expectation. At the last token smoothed and filtered mean are the same,
    xs_n = a_n + future_n = T^{-1} a_n. At the first, E[w_{1-j}] = C A_b^j xs_1 with A_b = P A^T P^{-1}, which is A for
    the chain read backwards in time. This gives

        future_n = (T^{-1} - I) a_n
        past_1   = M_p xs_1,  M_p = sum_{j>=1} F'^j K' C A_b^j    =>  past_1   = (I - M_p)^{-1} M_p b_1

    Starting from zero instead, as the plain steady-state filter does, treats what is outside as an average word
    that was observed.

    ``scale`` (vocabulary,) is the diagonal of the whitening W and ``mean`` (vocabulary,) is m. With the
    ``second_moment`` M = E[xs xs^T] (states, states), states are returned as M^{-1/2} x (paper section 5).
    """
    A = parameters.A
    state = solve_steady_state(parameters)
    F, J, gain = state.F, state.J, state.gain
    # T = J T F + G splits the smoothed mean into what comes from the left and from the right
    T = SteinSolver(J, F).solve(state.G)
    T_inv: Matrix = np.asarray(np.linalg.inv(T), dtype=np.float64)
    TK = T @ gain.K_c
    forward, K_C = T @ F @ T_inv, TK @ gain.cross

    P = solve_stationary_covariance(A, parameters.Q)
    A_b = np.asarray(np.linalg.solve(P, A @ P).T, dtype=np.float64)
    M_p = SteinSolver(forward, A_b).solve(forward @ K_C @ A_b)
    I = np.eye(len(A))  # noqa: E741 - the identity
    right_end: Matrix = T_inv - I
    left_end: Matrix = np.asarray(np.linalg.solve(I - M_p, M_p), dtype=np.float64)

    if second_moment is not None:
        # x -> M^{-1/2} x: every matrix is conjugated, and the table multiplied from the left
        L, L_inv = symmetric_power(second_moment, -0.5), symmetric_power(second_moment, 0.5)
        forward, J = L @ forward @ L_inv, L @ J @ L_inv
        left_end, right_end, T_inv = L @ left_end @ L_inv, L @ right_end @ L_inv, L @ T_inv @ L_inv
        TK = L @ TK
    C_hat = np.asarray(gain.C_hat, dtype=np.float64)
    table = (C_hat * scale[:, None] - mean @ C_hat) @ TK.T
    return TwoSided(table, forward, J, left_end, right_end, T_inv)


# -- vectors of packed sequences -------------------------------------------------------------------------


# Sequences whose ends are found together, and tokens of a block. On the CPU, scans, products and results of a block
# stay in the second-level cache; a device needs larger blocks to be fully used.
_CPU_BLOCK, _DEVICE_BLOCK = (1024, 1024), (1 << 16, 1 << 18)


class Recipe(NamedTuple):
    """Options of the vectors."""

    output: str
    own_weight: float = 1.0  # g
    exact_ends: bool = True  # whether the unobserved words outside a sequence are integrated out


class Smoother:
    """Inference with the matrices of a fitted model, whose rows are divided by a ``power`` of their norms.

    It can be used by several threads: a call changes nothing but a cache.
    """

    def __init__(self, matrices: TwoSided, device: str = "cpu", power: float = 0.0) -> None:
        self._power, self._mean_norm = power, np.linalg.norm(matrices.table, axis=1).mean()
        table = balance(matrices.table, power)
        self.device, self.states = device, table.shape[1]
        self.table = to_device(table, device)
        self._forward = build_recurrence(matrices.forward, table, device, reverse=False)
        self._backward = build_recurrence(matrices.backward, table, device, reverse=True)
        bases = self._forward.basis.T, self._backward.basis.T
        self._from_bases = self._put(np.concatenate(bases))  # (2 states, states)
        self._T_inv_T = self._put(matrices.filter.T)
        self._L = self._forward.basis_inverse @ matrices.left_end @ self._backward.basis
        self._R = self._backward.basis_inverse @ matrices.right_end @ self._forward.basis
        self._L_T, self._R_T = self._put(self._L.T), self._put(self._R.T)
        self._echoes: dict[int, tuple[Array, Array]] = {}

    def _put(self, matrix: Matrix) -> Array:
        """Return a matrix in float32 on the device."""
        return to_device(matrix.astype(np.float32), self.device)

    def with_table(self, ids: Ids, more: Float32Array) -> Smoother:
        """Return a smoother whose table is rows ``ids`` of this one's, then ``more`` (n, states); on the CPU only."""
        other, more = copy.copy(self), balance(more, self._power, self._mean_norm)
        other.table = np.concatenate([self.table.take(ids, axis=0), more])
        other._forward = self._forward.with_table(ids, more)
        other._backward = self._backward.with_table(ids, more)
        return other

    def write(self, recipe: Recipe, ids: Ids, offsets: Integers, arrays: Destination) -> None:
        """Write the vectors of packed sequences, ids (tokens,) and offsets (sequences + 1,), in blocks.

        The ``arrays`` are NumPy arrays, or tensors on the smoother's device.
        """
        output, h = recipe.output, self.states
        with_ends = recipe.exact_ends and output not in _WITHOUT_FUTURE
        max_sequences, max_tokens = _CPU_BLOCK if self.device == "cpu" else _DEVICE_BLOCK
        longest = min(max(int(np.diff(offsets).max(initial=0)), max_tokens), len(ids))
        scratch = zeros((longest if output != "own" else 0, 2 * h), self.table)
        rows = zeros((longest, h * WIDTHS[output]), self.table)
        is_single = hasattr(arrays, "shape")
        to_host = isinstance(arrays if is_single else next(iter(arrays), None), np.ndarray)
        for first, last in runs(offsets, _GROUP_TOKENS, max_sequences):
            # the messages from outside, for many sequences at a time, then blocks of these sequences
            group = offsets[first : last + 1] - offsets[first]
            words = to_device(ids[offsets[first] : offsets[last]], self.device)
            ends = zeros((2, last - first, h), self.table)
            if with_ends:
                ends = self.find_ends(words, group)
            for i, j in runs(group, max_tokens):
                cuts = group[i : j + 1] - group[i]
                vectors = rows[: cuts[-1]]
                block = words[group[i] : group[j]]
                self._compose(recipe, block, cuts, ends[:, i:j], scratch, vectors)
                if to_host:
                    vectors = to_numpy(vectors)
                if is_single:
                    arrays[offsets[first + i] : offsets[first + j]] = vectors
                    continue
                targets = arrays[first + i : first + j]
                for array, (start, stop) in zip(targets, pairwise(cuts.tolist()), strict=True):
                    array[...] = vectors[start:stop]

    def _compose(
        self, recipe: Recipe, ids: Array, offsets: Integers, ends: Array, scratch: Array, out: Array
    ) -> None:
        """Fill ``out`` (tokens, width) with the vectors of some sequences; overwrite ``scratch``."""
        output, h = recipe.output, self.states
        own = self.table[ids]  # a new array
        # past and future next to each other, in their own bases
        contexts = scratch[: len(ids)]
        past, future = contexts[:, :h], contexts[:, h:]
        if output != "own":
            self._forward.scan(ids, offsets, ends[0], contexts)
        if output not in _WITHOUT_FUTURE:
            self._backward.scan(ids, offsets, ends[1], contexts)
        if output == "own":
            out[:] = own
        elif output == "filtered":
            multiply_into(past, self._from_bases[:h], out)
            own += out
            multiply_into(own, self._T_inv_T, out)
        elif output == "own_past_future":
            out[:, :h] = own
            out[:, :h] *= recipe.own_weight
            multiply_into(past, self._from_bases[:h], out[:, h : 2 * h])
            multiply_into(future, self._from_bases[h:], out[:, 2 * h :])
        elif output == "own_context":
            out[:, :h] = own
            multiply_into(contexts, self._from_bases, out[:, h:])
            unit_rows(out[:, :h])
            out = out[:, h:]
        else:
            multiply_into(contexts, self._from_bases, out)
            if output == "weighted_mean":
                own *= recipe.own_weight
            out += own
        unit_rows(out)

    def find_ends(self, ids: Array, offsets: Integers) -> Array:
        """Return the exact messages from the unobserved words outside every packed sequence, (2, sequences, states).

        They are past and future, in the bases of the two scans. With a_n and b_1 the sums at the ends of a sequence of
        n tokens, both started from zero, each message depends on the other one, which has passed through the sequence:

            future = R (a_n + F'^{n-1} past)       R, L: ``right_end`` and ``left_end``
            past   = L (b_1 + J^{n-1} future)

            =>  future = R (I - Y_n)^{-1} y,   y = a_n + F'^{n-1} L b_1,   Y_n = F'^{n-1} L J^{n-1} R
        """
        a, b = self._forward.scan(ids, offsets), self._backward.scan(ids, offsets)
        lengths = np.diff(offsets)
        order = np.argsort(lengths, kind="stable")  # sequences of one length share a matrix
        ascending = lengths[order]
        distinct, starts = np.unique(ascending, return_index=True)
        by_length = to_device(order, self.device)
        a, b = a[by_length], b[by_length]
        between = np.maximum(ascending - 1, 0)
        past: Float32Array = b @ self._L_T
        y: Float32Array = a + self._forward.power(past, between)
        borders = pairwise([*starts.tolist(), len(y)])
        for n, (i, j) in zip(distinct.tolist(), borders, strict=True):
            n = max(n, 1)
            rows, matrix = self._echoes.get(n) or self._compute_echo(n)
            if len(rows):
                y[i:j, rows] += y[i:j] @ matrix
        future: Float32Array = y @ self._R_T
        past += self._backward.power(future, between) @ self._L_T
        ends = zeros((2, len(order), self.states), past)
        ends[0, by_length], ends[1, by_length] = past, future
        return ends

    def _compute_echo(self, n: int) -> tuple[Array, Array]:
        """Return rows and a matrix such that (I - Y_n)^{-1} y is y with ``y[rows] += y @ matrix``.

        In the basis of the eigenvectors few rows of Y_n are not negligible, the fewer the longer the sequence is. With
        E the columns of the identity at those rows, (I - Y_n)^{-1} y = y + E (I - E^T Y_n E)^{-1} E^T Y_n y, so that a
        length costs one thin matrix.
        """
        n_steps = np.full(self.states, n - 1)
        F_L = self._forward.power(self._L.T, n_steps, exact=True).T  # F'^{n-1} L
        J_R = self._backward.power(self._R.T, n_steps, exact=True).T  # J^{n-1} R
        rows, columns = _find_significant_rows(F_L, J_R), _find_significant_rows(J_R, F_L)
        Y = F_L[np.ix_(rows, columns)] @ J_R[columns]
        matrix: Matrix = np.asarray(np.linalg.solve(np.eye(len(rows)) - Y[:, rows], Y).T)
        echo = to_device(rows, self.device), self._put(matrix)
        if n <= _CACHED_ECHO_LENGTH:
            self._echoes[n] = echo
        return echo


def balance(table: Float32Array, power: float, mean: float | None = None) -> Float32Array:
    """Return ``table`` (vocabulary, states) with each row divided by its norm, relative to ``mean``, to ``power``.

    ``mean`` is the mean of the norms if None.
    """
    norms = np.linalg.norm(table, axis=1, keepdims=True)
    mean_norm = norms.mean() if mean is None else np.float32(mean)
    factor = (mean_norm / np.maximum(norms, 1e-6 * mean_norm + 1e-30)) ** power
    return np.ascontiguousarray(table * factor.astype(np.float32))


def _find_significant_rows(X: Matrix, other: Matrix) -> npt.NDArray[np.intp]:
    """Return the indices of the rows of X whose product with ``other`` may not be negligible."""
    bounds = np.linalg.norm(X, axis=1) * np.linalg.norm(other)
    return np.flatnonzero(bounds > _NEGLIGIBLE_NORM)


# -- the recurrence of one direction -------------------------------------------------------------------


def build_recurrence(
    M: Matrix, table: Float32Array, device: str, *, reverse: bool
) -> ModalRecurrence | DenseRecurrence:
    """Build x_t = M (x_{t-1} + table[w_{t-1}]), in the basis of M's eigenvectors unless they are ill-conditioned."""
    try:
        modes = decompose(M)
    except KernelError:
        modes = None
    if modes is None or modes.condition > MAXIMUM_CONDITION:
        return DenseRecurrence(M, table, device, reverse)
    return ModalRecurrence(modes, table, device, reverse)


class _Recurrence:
    """Base of the two recurrences, with a table of inputs in their basis."""

    inputs: Array  # (vocabulary, states), in the basis
    basis: Matrix  # (states, states), maps coordinates in the basis to those of the table
    basis_inverse: Matrix

    def with_table(self, ids: Ids, more: Float32Array) -> Self:
        """Return the recurrence over rows ``ids`` of the table, then ``more`` (n, states); on the CPU only."""
        other = copy.copy(self)
        projected = more @ self.basis_inverse.T.astype(np.float32)
        other.inputs = np.concatenate([self.inputs.take(ids, axis=0), projected])
        return other


class ModalRecurrence(_Recurrence):
    """The recurrence in the basis of eigenvectors, in which a step is elementwise and reads every number once.

    The basis has the layout of ``tacenda.kernels.sequences.modal_scan``. With ``reverse`` the recurrence runs from the
    last token to the first.
    """

    def __init__(
        self, modes: Decomposition, table: Float32Array, device: str, reverse: bool
    ) -> None:
        self.basis, self.basis_inverse = modes.P, modes.P_inv
        self._device, self._reverse = device, reverse
        self.inputs = to_device(table @ modes.P_inv.T.astype(np.float32), device)
        self._real, pairs = modes.real, modes.pairs
        self._modes = Modes(*(to_device(X.astype(np.float32), device) for X in (modes.real, pairs)))
        self._size = np.hypot(pairs[:, 0], pairs[:, 1])
        self._angle = np.arctan2(pairs[:, 1], pairs[:, 0])
        self._cached_factors = self._compute_factors(np.arange(_CACHED_POWERS))

    def scan(
        self, ids: Array, offsets: Integers, initial: Array | None = None, out: Array | None = None
    ) -> Array:
        """Run over packed sequences, with everything in the basis of this recurrence.

        ``initial`` (sequences, states) enters the first tokens; zeros if None. The x_t are written into the left half
        of ``out`` (tokens or more, 2 states), or the right half with ``reverse``. Returns x + table[w] of the last
        token of each sequence (sequences, states), or ``initial`` if the sequence is empty.
        """
        reverse, column = self._reverse, self._reverse * self.inputs.shape[1]
        scanned = modal_scan(self._modes, self.inputs, ids, offsets, initial, reverse, out, column)
        return scanned.last

    def power(self, rows: Array, exponents: Integers, *, exact: bool = False) -> Array:
        """Multiply row i of ``rows`` (n, states) by power ``exponents[i]`` >= 0 of M; if exact, on the host."""
        (same, cross), indices = self._cached_factors, exponents
        if exact or exponents.max(initial=0) >= _CACHED_POWERS:
            distinct, indices = np.unique(exponents, return_inverse=True)
            same, cross = self._compute_factors(distinct, exact)
        if not exact:
            indices = to_device(indices, self._device)
        same, cross = same[indices], cross[indices]
        real, middle = len(self._real), len(self._real) + cross.shape[1]
        product = same * rows
        # each pair of states is rotated and scaled
        product[:, real:middle] += rows[:, middle:] * cross
        product[:, middle:] -= rows[:, real:middle] * cross
        return product

    def _compute_factors(self, exponents: Integers, exact: bool = False) -> tuple[Array, Array]:
        """Return the factors of each state (n, states) and of its partner in a pair (n, n_pairs) for powers of M.

        They are float64 on the host if ``exact``, else float32 on the device.
        """
        n = exponents.astype(np.float64)[:, None]
        size, angle = self._size**n, n * self._angle
        cosine, sine = size * np.cos(angle), size * np.sin(angle)
        same = np.concatenate([self._real**n, cosine, cosine], axis=1)
        if not exact:
            same, sine = (to_device(f.astype(np.float32), self._device) for f in (same, sine))
        return same, sine


class DenseRecurrence(_Recurrence):
    """The recurrence in the coordinates of the table, for a matrix with ill-conditioned eigenvectors."""

    def __init__(self, M: Matrix, table: Float32Array, device: str, reverse: bool) -> None:
        self.basis = self.basis_inverse = np.eye(len(M))
        self.inputs = to_device(table, device)
        self._M, self._device, self._reverse = M, device, reverse

    def scan(
        self, ids: Array, offsets: Integers, initial: Array | None = None, out: Array | None = None
    ) -> Array:
        """Run over packed sequences, as `ModalRecurrence.scan` does."""
        filled = np.flatnonzero(np.diff(offsets))
        first, last = offsets[filled], offsets[filled + 1] - 1
        if self._reverse:
            first, last = last, first
        M, first, last, filled = (
            to_device(a, self._device) for a in (self._M.astype(np.float32), first, last, filled)
        )
        if initial is None:
            initial = zeros((len(offsets) - 1, len(M)), self.inputs)
        own = self.inputs[ids]
        u = own * 1
        u[first] += initial[filled]
        y = linear_recurrence(M, u, offsets, reverse=self._reverse)
        if out is not None:
            column = self._reverse * len(M)
            x = out[: len(ids), column : column + len(M)]
            x[:] = y - own
            x[first] = initial[filled]
        ends = initial * 1
        ends[filled] = y[last]
        return ends

    def power(self, rows: Array, exponents: Integers, *, exact: bool = False) -> Array:
        """Multiply rows by powers of M, as `ModalRecurrence.power` does."""
        product = zeros(tuple(rows.shape), rows)
        for n in np.unique(exponents).tolist():
            chosen, power = np.flatnonzero(exponents == n), np.linalg.matrix_power(self._M, n).T
            if not exact:
                chosen = to_device(chosen, self._device)
                power = to_device(power.astype(np.float32), self._device)
            product[chosen] = rows[chosen] @ power
        return product
