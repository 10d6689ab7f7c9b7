"""The system and its steady-state filter and smoother (LDS paper section 3.1, misprints corrected).

    x_t = A x_{t-1} + eta_t,   w_t = C x_t + epsilon_t       (eqs 1-2)

    Sigma_1 = A Sigma_0 A^T + Q                              predictive covariance (Riccati equation)
    Sigma_0 = (Sigma_1^{-1} + C^T D^{-1} C)^{-1}             filtered covariance
    F = A - K C A,   J = Sigma_0 A^T Sigma_1^{-1},   G = I - J A
    Sigma_s = Sigma_0 + J (Sigma_s - Sigma_1) J^T            smoothed covariance

    xf_t = F xf_{t-1} + K w_t                                (eq 4)
    xs_t = J xs_{t+1} + G xf_t                               (eq 5)

The paper prints the Riccati equation as "A Sigma_1 A^T + Q_2" and calls the innovation covariance (eq 7)
unconditional; the Sigma_1 of its eqs 12 and 21 is another matrix, the stationary prior
P = A P A^T + Q (``solve_stationary_covariance`` here).

With S = C Sigma_1 C^T + D (eq 7) the gain is K = Sigma_1 C^T S^+ (eq 6). For every kind of observation noise D it is
factored as K = K_c C_hat^T, so that no V x V matrix is formed. All coordinates are whitened.

Token vectors of packed sequences take two scans over gathered rows, and one product. The scans compute the sums
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

from tacenda import tall
from tacenda.array_ops import multiply_into, to_device, to_numpy, zeros
from tacenda.arrays import Array, Arrays, Constraint, Float32, Float64
from tacenda.errors import KernelError
from tacenda.kernels.sequences import Modes, decompose, linear_recurrence, modal_scan
from tacenda.kernels.shared import unit_rows
from tacenda.offsets import runs
from tacenda_embeddings.lds.settings import OUTPUTS

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[np.float64]
Loading = npt.NDArray[np.floating]
"""C (observations, states), float32 or float64, on the device of the fit."""

_MAX_DOUBLINGS = 60
_MAX_RICCATI_DOUBLINGS = 50
_DIVERGED_NORM = 1e100
Float32Array = npt.NDArray[np.float32]
Ids = npt.NDArray[np.integer]
Integers = npt.NDArray[np.int64]
Destination = Any
"""A sequence of arrays or tensors, one for each sequence of tokens; or a single one for all."""

#: The operations of `tacenda.kernels` that smoothing consists of.
OPERATIONS = "modal_scan", "linear_recurrence", "unit_rows"

#: Width in units of the number of states.
WIDTHS = dict.fromkeys(OUTPUTS, 1) | {"own_context": 2, "own_past_future": 3}

#: Outputs that are posterior means of the model itself, whatever the row norms.
POSTERIOR_MEANS = frozenset({"mean", "filtered"})

#: Outputs that do not depend on words outside the sequence; the filtered mean must not see the future.
_WITHOUT_ENDS = frozenset({"own", "filtered"})

#: Eigenvectors with a larger condition number are not used: it magnifies the rounding of float32.
MAXIMUM_CONDITION = 1e5

_GROUP_TOKENS = 1 << 18  # bounds the working memory of the scans that find ends
_CACHED_POWERS = 256  # powers that are computed once; sequences are rarely longer
_CACHED_ECHO_LENGTH = 256  # longer sequences have thin matrices, which are quickly solved again
_NEGLIGIBLE_NORM = 1e-9  # of a row; far below the rounding of float32


# -- fixed points and square roots, all (states, states) -----------------------------------------------


def symmetrize(X: Matrix) -> Matrix:
    """Return the symmetric part of ``X``, so that rounding does not accumulate in covariances."""
    return np.asarray(0.5 * (X + X.T), dtype=np.float64)


class SteinSolver:
    """Solves the Stein equation ``X = L X R + W`` (Lyapunov's where ``R = L^T``) for many ``W``, by doubling.

    After n steps the partial sum holds 2^n terms of ``sum_j L^j W R^j``. Raises LinAlgError unless the product
    of the spectral radii of ``L`` and ``R`` is below 1.
    """

    def __init__(self, L: Matrix, R: Matrix) -> None:
        self._powers: list[tuple[Matrix, Matrix]] = []
        for _ in range(_MAX_DOUBLINGS):
            self._powers.append((L, R))
            with np.errstate(over="ignore", invalid="ignore"):
                L, R = L @ L, R @ R
                remaining = np.linalg.norm(L) * np.linalg.norm(R)
            if remaining < 1e-17:
                return
            if not remaining < _DIVERGED_NORM:
                break
        raise np.linalg.LinAlgError("the recursion is not stable")

    def solve(self, W: Matrix) -> Matrix:
        """Return the fixed point ``sum_j L^j W R^j`` (states, states)."""
        X = W
        for L, R in self._powers:
            X = X + L @ X @ R
        return X


def spectral_radius(X: Matrix) -> float:
    """Return the largest absolute eigenvalue of ``X`` (states, states)."""
    return float(np.abs(np.linalg.eigvals(X)).max()) if len(X) else 0.0


def symmetric_power(X: Matrix, exponent: float) -> Matrix:
    """Return ``X**exponent`` of a symmetric positive matrix; eigenvalues are at least 1e-12 of the largest."""
    values, vectors = np.linalg.eigh(symmetrize(X))
    values = np.maximum(values, 1e-12 * max(values.max(initial=0.0), 1e-300))
    return np.asarray((vectors * values**exponent) @ vectors.T, dtype=np.float64)


# -- noise and gain ------------------------------------------------------------------------------------


class Gain(NamedTuple):
    """A factored Kalman gain ``K = K_c C_hat^T`` and related matrices (states, states)."""

    K_c: Matrix
    C_hat: Loading  # (observations, states)
    cross: Matrix  # C_hat^T C, so that K C = K_c cross
    square: Matrix  # C_hat^T Psi_0 C_hat, so that K Psi_0 K^T = K_c square K_c^T
    # log det S minus that of the model without dynamics, in nats, both over the dimensions in which the data vary,
    # which are those orthogonal to m
    log_det: float
    # Y in S^+ = base - C_hat Y C_hat^T, where base is the inverse of the noise (of Psi_0 for the full noise)
    inner: Matrix
    base_trace: float  # trace(base Psi_0) minus the number of observed dimensions


class FullNoise(NamedTuple):
    """D = Psi_0 - C N C^T, the variance that the states do not explain (LDS paper section 4.2, appendix A.2)."""

    N: Matrix  # (states, states), the second moment of the states: C N C^T is what they explain

    def precision(self, C: Loading) -> Matrix:
        """Return ``C^T D^+ C`` (states, states)."""
        R = tall.gram(C, C)
        return R @ np.linalg.inv(np.eye(len(R)) - self.N @ R)

    def gain(self, C: Loading, Sigma_1: Matrix) -> Gain:
        """Return the factored steady-state Kalman gain (eqs 6-7) for predictive covariance ``Sigma_1``."""
        # S = Psi_0 + C Z C^T; eq 32 inverts the indefinite Z, this form does not
        R = tall.gram(C, C)
        Z = Sigma_1 - self.N
        I_RZ = np.eye(len(R)) + R @ Z
        inverse = np.linalg.inv(I_RZ)
        log_det = float(np.linalg.slogdet(I_RZ)[1])
        return Gain(Sigma_1 @ inverse, C, R, R, log_det, Z @ inverse, 0.0)

    def refit(self, C: Loading, S_xx: Matrix, mean: Vector) -> FullNoise:
        """Return the noise of the same structure that fits best, given E[x x^T] = ``S_xx`` (eq 9)."""
        return FullNoise(S_xx)


class DiagonalNoise(NamedTuple):
    """D = diag(d), the approximation that ignores the anticorrelation of the words.

    It has noise along m too, where the data do not vary. The filter conditions on w_t^T m = 0 as on everything else, so
    the likelihood is that of the other dimensions given this one, and can be compared with that of the full noise. EM
    maximizes the joint density of all dimensions, of which the one along m is only one in the number of words.
    """

    d: Vector  # (observations,), positive; one number repeated for a spherical D
    mean: Vector  # m (observations,), along which Psi_0 = I - m m^T has no variance
    spherical: bool = False  # whether the M-step averages d over the observations

    def _scale(self, C: Loading) -> Loading:
        return np.asarray(C / self.d[:, None], dtype=C.dtype)

    def precision(self, C: Loading) -> Matrix:
        return tall.gram(C, self._scale(C))

    def gain(self, C: Loading, Sigma_1: Matrix) -> Gain:
        # K = Sigma_1 (I + R_D Sigma_1)^{-1} C^T D^{-1}, by the matrix inversion lemma (eq 53)
        C_hat = self._scale(C)
        R_D = tall.gram(C, C_hat)
        I_RS = np.eye(len(R_D)) + R_D @ Sigma_1
        inverse = np.linalg.inv(I_RS)
        projected = np.asarray(C_hat.T @ self.mean, dtype=np.float64)
        square = tall.gram(C_hat, C_hat) - np.outer(projected, projected)
        variance = 1.0 - self.mean**2
        # C^T m = 0, so m^T S m = m^T D m, and det S over it is that of S given w^T m = 0
        along_mean = float(self.mean**2 @ self.d) if self.mean.any() else 1.0
        log_det = float(np.linalg.slogdet(I_RS)[1] + np.log(self.d).sum() - np.log(along_mean))
        base_trace = float((variance / self.d).sum() - variance.sum())
        return Gain(Sigma_1 @ inverse, C_hat, R_D, square, log_det, Sigma_1 @ inverse, base_trace)

    def refit(self, C: Loading, S_xx: Matrix, mean: Vector) -> DiagonalNoise:
        # d = diag(Psi_0 - C S_xx C^T)
        explained = np.einsum("ij,ij->i", C @ S_xx, C, dtype=np.float64)
        d = np.maximum(1.0 - mean**2 - explained, 1e-3)
        if self.spherical:
            d = np.full_like(d, d.mean())
        return DiagonalNoise(d, mean, self.spherical)


Noise = FullNoise | DiagonalNoise
"""Observation noise of either structure."""


# -- filter and smoother -------------------------------------------------------------------------------


class Parameters(NamedTuple):
    """Parameters of the system, in whitened coordinates."""

    A: Matrix  # (states, states), spectral radius below 1
    C: Loading  # (observations, states), orthogonal to the mean direction m
    Q: Matrix  # (states, states), covariance of eta
    noise: Noise  # covariance D of epsilon, implicit


class SteadyState(NamedTuple):
    """The time-independent matrices of filter and smoother, all but ``gain`` (states, states) float64."""

    Sigma_1: Matrix
    Sigma_0: Matrix
    Sigma_s: Matrix
    F: Matrix
    J: Matrix
    G: Matrix
    gain: Gain


def solve_predictive_covariance(A: Matrix, Q: Matrix, R_D: Matrix) -> Matrix:
    """Compute Sigma_1 by the structure-preserving doubling algorithm, in about 10 steps.

    ``R_D`` is C^T D^{-1} C (states, states). Raises LinAlgError if the iteration leaves the finite numbers.
    """
    # step k has taken 2^k steps of the Riccati recursion from zero: H is the covariance then (Chu, Fan and Lin 2005)
    I = np.eye(len(A))  # noqa: E741 - the identity
    A_k, G_k, H = A.T, R_D, Q
    for _ in range(_MAX_RICCATI_DOUBLINGS):
        W_inv = np.linalg.inv(I + G_k @ H)
        AW = A_k @ W_inv
        H_next = symmetrize(H + A_k.T @ H @ W_inv @ A_k)
        G_k = symmetrize(G_k + AW @ G_k @ A_k.T)
        A_k = AW @ A_k
        change = np.linalg.norm(H_next - H)
        H = H_next
        if change <= 1e-13 * np.linalg.norm(H):
            return H
    if not np.isfinite(H).all():
        raise np.linalg.LinAlgError("the Riccati iteration diverged")
    return H


def solve_steady_state(parameters: Parameters) -> SteadyState:
    """Return the filter and smoother of the limit in which covariances no longer depend on time."""
    A, C, Q, noise = parameters
    Sigma_1 = solve_predictive_covariance(A, Q, noise.precision(C))
    gain = noise.gain(C, Sigma_1)
    K_C = gain.K_c @ gain.cross
    Sigma_0 = symmetrize(Sigma_1 - K_C @ Sigma_1)
    # J = Sigma_0 A^T Sigma_1^{-1}, by a solve with the transpose
    J = np.asarray(np.linalg.solve(Sigma_1, A @ Sigma_0).T, dtype=np.float64)
    Sigma_s = SteinSolver(J, J.T).solve(Sigma_0 - J @ Sigma_1 @ J.T)
    G = np.eye(len(A)) - J @ A
    return SteadyState(Sigma_1, Sigma_0, symmetrize(Sigma_s), A - K_C @ A, J, G, gain)


def solve_stationary_covariance(A: Matrix, Q: Matrix) -> Matrix:
    """Return the prior P = A P A^T + Q (states, states) of a state about which nothing was observed."""
    return symmetrize(SteinSolver(A, A.T).solve(Q))


# -- the two-sided smoother ----------------------------------------------------------------------------


#: Require a matrix whose powers vanish.
stable = Constraint(
    lambda X, sizes: (
        None
        if np.abs(np.linalg.eigvals(X)).max(initial=0.0) < 1.0
        else "is not stable (an eigenvalue of 1 or more)"
    )
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


class Ends(NamedTuple):
    """The messages that enter every sequence from outside, (sequences, states), in the bases of the scans."""

    past: Float32Array
    future: Float32Array


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
        self._from_own = self._put(np.concatenate(bases))  # (2 states, states)
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

        The ``arrays`` are those of NumPy, or tensors on the smoother's device.
        """
        output, h = recipe.output, self.states
        with_ends = recipe.exact_ends and output not in _WITHOUT_ENDS
        max_sequences, max_tokens = _CPU_BLOCK if self.device == "cpu" else _DEVICE_BLOCK
        longest = min(max(int(np.diff(offsets).max(initial=0)), max_tokens), len(ids))
        contexts = zeros((longest if output != "own" else 0, 2 * h), self.table)
        rows = zeros((longest, h * WIDTHS[output]), self.table)
        is_single = hasattr(arrays, "shape")
        to_host = isinstance(arrays if is_single or not len(arrays) else arrays[0], np.ndarray)
        for first, last in runs(offsets, _GROUP_TOKENS, max_sequences):
            # the messages from outside, for many sequences at a time, then blocks of these sequences
            group = offsets[first : last + 1] - offsets[first]
            words = to_device(ids[offsets[first] : offsets[last]], self.device)
            past, future = zeros((2, last - first, h), self.table)
            if with_ends:
                past, future = self.find_ends(words, group)
            for i, j in runs(group, max_tokens, last - first):
                cuts = group[i : j + 1] - group[i]
                vectors = rows[: cuts[-1]]
                ends = Ends(past[i:j], future[i:j])
                self._compose(recipe, words[group[i] : group[j]], cuts, ends, contexts, vectors)
                if to_host and self.device != "cpu":
                    vectors = to_numpy(vectors)
                if is_single:
                    arrays[offsets[first + i] : offsets[first + j]] = vectors
                    continue
                targets = arrays[first + i : first + j]
                for array, (start, stop) in zip(targets, pairwise(cuts.tolist()), strict=True):
                    array[...] = vectors[start:stop]

    def _compose(
        self, recipe: Recipe, ids: Array, offsets: Integers, ends: Ends, contexts: Array, out: Array
    ) -> None:
        """Fill ``out`` (tokens, width) with the vectors of some sequences; ``contexts`` is scratch space."""
        output, h = recipe.output, self.states
        own = self.table[ids]  # a new array
        if output != "own":
            self._forward.scan(ids, offsets, ends.past, contexts)
            self._backward.scan(ids, offsets, ends.future, contexts, h)
            # past and future next to each other, in their own bases
            contexts = contexts[: len(ids)]
        if output == "own":
            out[:] = own
        elif output == "own_past_future":
            out[:, :h] = own
            out[:, :h] *= recipe.own_weight
            multiply_into(contexts[:, :h], self._from_own[:h], out[:, h : 2 * h])
            multiply_into(contexts[:, h:], self._from_own[h:], out[:, 2 * h :])
        elif output == "own_context":
            out[:, :h] = own
            multiply_into(contexts, self._from_own, out[:, h:])
            unit_rows(out[:, :h])
            out = out[:, h:]
        elif output == "filtered":
            multiply_into(contexts[:, :h], self._from_own[:h], out)
            own += out
            multiply_into(own, self._T_inv_T, out)
        else:
            multiply_into(contexts, self._from_own, out)
            if output == "weighted_mean":
                own *= recipe.own_weight
            out += own
        unit_rows(out)

    def find_ends(self, ids: Array, offsets: Integers) -> Ends:
        """Return the messages from the unobserved words outside every packed sequence, exactly.

        With a_n and b_1 the sums at the ends of a sequence of n tokens, both started from zero, each message depends on
        the other one, which has passed through the sequence:

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
        given_order = to_device(np.argsort(order), self.device)
        return Ends(past[given_order], future[given_order])

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

    def __init__(self, modes: Any, table: Float32Array, device: str, reverse: bool) -> None:
        self.basis, self.basis_inverse = modes.P, modes.P_inv
        self._device, self._reverse = device, reverse
        self.inputs = to_device(table @ modes.P_inv.T.astype(np.float32), device)
        self._eigenvalues = [
            to_device(values.astype(np.float32), device) for values in (modes.real, modes.pairs)
        ]
        self._real, pairs = modes.real, modes.pairs
        self._size = np.hypot(pairs[:, 0], pairs[:, 1])
        self._angle = np.arctan2(pairs[:, 1], pairs[:, 0])
        self._cached_factors = self._compute_factors(np.arange(_CACHED_POWERS))

    def scan(
        self,
        ids: Array,
        offsets: Integers,
        initial: Array | None = None,
        out: Array | None = None,
        column: int = 0,
    ) -> Array:
        """Run over packed sequences, with everything in the basis of this recurrence.

        ``initial`` (sequences, states) enters the first tokens; zeros if None. The x_t are written into the columns of
        ``out`` (tokens or more, width) that begin at ``column``. Returns x + table[w] of the last token of each
        sequence (sequences, states), or ``initial`` if the sequence is empty.
        """
        modes = Modes(*self._eigenvalues)
        scanned = modal_scan(modes, self.inputs, ids, offsets, initial, self._reverse, out, column)
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
        self,
        ids: Array,
        offsets: Integers,
        initial: Array | None = None,
        out: Array | None = None,
        column: int = 0,
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


# -- what the transition operator does to words --------------------------------------------------------


class TransitionPair(NamedTuple):
    """Words of a pair of singular vectors of A, which maps the state of ``before`` to that of ``after``."""

    before: list[str]  # most likely at the right singular vector, most likely first
    after: list[str]  # most likely at the left singular vector, one position later
    singular_value: float  # how much of the state survives the step, at most about 1


def transition_pairs(
    parameters: Parameters,
    words: tuple[str, ...],
    eligible: npt.NDArray[np.bool_],
    n_pairs: int,
    n_words: int,
) -> list[TransitionPair]:
    """Return pairs of singular vectors of A, both signs of each, largest first (LDS paper section 7.1, Table 1).

    States are measured in units of their prior standard deviation (P^{-1/2} A P^{1/2}), so that the pairs do not depend
    on the arbitrary coordinates of the latent space. Words are ranked by their whitened expectation C x. ``words``
    are the types (vocabulary,), of which ``eligible`` (vocabulary,) may be shown.
    """
    P = solve_stationary_covariance(parameters.A, parameters.Q)
    root, inverse_root = symmetric_power(P, 0.5), symmetric_power(P, -0.5)
    U, S, Vt = np.linalg.svd(inverse_root @ parameters.A @ root)
    rows = np.flatnonzero(eligible)
    C = parameters.C[rows] @ root

    def rank_words(direction: Vector) -> list[str]:
        score = C @ direction
        n = min(n_words, len(score))
        best = np.argpartition(-score, n - 1)[:n] if n else np.empty(0, np.int64)
        return [words[rows[i]] for i in best[np.argsort(-score[best], kind="stable")]]

    pairs = []
    for i in range(min((n_pairs + 1) // 2, len(S))):
        for sign in (1.0, -1.0):
            before, after = rank_words(sign * Vt[i]), rank_words(sign * U[:, i])
            pairs.append(TransitionPair(before, after, float(S[i])))
    return pairs[:n_pairs]
