"""The system, and the matrices of its steady-state filter and smoother (LDS paper section 3.1, misprints corrected).

    x_t = A x_{t-1} + eta_t,   w_t = C x_t + epsilon_t       (eqs 1-2)

where w_t is the centered and whitened indicator of the word at t, and all coordinates are whitened.

    Sigma_1 = A Sigma_0 A^T + Q                              predictive covariance (Riccati equation)
    Sigma_0 = (Sigma_1^{-1} + C^T D^{-1} C)^{-1}             filtered covariance
    F = A - K C A,   J = Sigma_0 A^T Sigma_1^{-1},   G = I - J A
    Sigma_s = Sigma_0 + J (Sigma_s - Sigma_1) J^T            smoothed covariance

    xf_t = F xf_{t-1} + K w_t                                (eq 4)
    xs_t = J xs_{t+1} + G xf_t                               (eq 5)

The paper prints the Riccati equation as "A Sigma_1 A^T + Q_2" and calls the innovation covariance (eq 7)
unconditional; the Sigma_1 of its eqs 12 and 21 is another matrix, the stationary prior
P = A P A^T + Q (`solve_stationary_covariance`).

With S = C Sigma_1 C^T + D (eq 7) the gain is K = Sigma_1 C^T S^+ (eq 6). For every kind of observation noise D it is
factored as K = K_c C_hat^T, so that no V x V matrix is formed.

The modules of this package count a text, fit the system to the counts, and smooth the states of tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda import tall

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[np.float64]
Loading = npt.NDArray[np.floating]
"""C (observations, states), float32 or float64, on the device of the fit."""

# blocks per side of the Hankel matrix, r in the paper; it needs lags up to 2 r - 1
HANKEL_BLOCKS = 2
HORIZON = 7  # lags that the approximate second-order statistics of EM use
N_LAGS = max(2 * HANKEL_BLOCKS - 1, HORIZON)  # lags that a fit needs

_MAX_DOUBLINGS = 60
_MAX_RICCATI_DOUBLINGS = 50
_DIVERGED_NORM = 1e100


# -- fixed points and square roots, all (states, states) -----------------------------------------------


def symmetrize(X: Matrix) -> Matrix:
    """Return the symmetric part of ``X``, so that rounding does not accumulate in covariances."""
    return np.asarray(0.5 * (X + X.T), dtype=np.float64)


class SteinSolver:
    """Solves the Stein equation ``X = L X R + W`` (Lyapunov's where ``R = L^T``) for many ``W``, by doubling.

    After n steps the partial sum holds 2^n terms of ``sum_j L^j W R^j``. Raises LinAlgError if it does not converge;
    it does where the spectral radii of ``L`` and ``R`` are both below 1.
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


# -- filter and smoother -------------------------------------------------------------------------------


class Parameters(NamedTuple):
    """Parameters of the system, in whitened coordinates."""

    A: Matrix  # (states, states), spectral radius below 1
    C: Loading  # (observations, states), orthogonal to the mean direction m
    Q: Matrix  # (states, states), covariance of eta
    noise: FullNoise | DiagonalNoise  # covariance D of epsilon, implicit


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

    ``R_D`` is C^T D^{-1} C (states, states). Raises LinAlgError if the iteration does not converge.
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
    raise np.linalg.LinAlgError("the Riccati iteration does not converge")


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
