"""Steady state of the Kalman filter and smoother (LDS paper section 3.1, with its misprints mended).

    Sigma_1 = A Sigma_0 A^T + Q                              predictive covariance (Riccati equation)
    Sigma_0 = (Sigma_1^{-1} + C^T D^{-1} C)^{-1}             filtered covariance
    F = A - K C A,   J = Sigma_0 A^T Sigma_1^{-1},   G = I - J A
    Sigma_s = Sigma_0 + J (Sigma_s - Sigma_1) J^T            smoothed covariance

    xf_t = F xf_{t-1} + K w_t                                (eq 4)
    xs_t = J xs_{t+1} + G xf_t                               (eq 5)

The paper prints the Riccati equation as "A Sigma_1 A^T + Q_2" and calls the innovation covariance (eq 7)
unconditional; the Sigma_1 of its eqs 12 and 21 is another matrix, the stationary prior
P = A P A^T + Q (``stationary_covariance`` here).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacenda_embeddings.lds.linear_algebra import Matrix, SteinSolver, symmetrized
from tacenda_embeddings.lds.noise import Gain, Loading, Noise

_MAXIMUM_DOUBLINGS = 50


class Parameters(NamedTuple):
    """Parameters of x_t = A x_{t-1} + eta_t, w_t = C x_t + epsilon_t (eqs 1-2), in whitened coordinates."""

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


def predictive_covariance(A: Matrix, Q: Matrix, R_D: Matrix, tolerance: float = 1e-13) -> Matrix:
    """Find Sigma_1 by the structure-preserving doubling algorithm, which takes about 10 steps.

    ``R_D`` is C^T D^{-1} C (states, states); the iteration stops at a relative change of ``tolerance``. Raises
    LinAlgError if it leaves the finite numbers.
    """
    I = np.eye(len(A))  # noqa: E741 - the identity
    A_k, G_k, H = A.T, R_D, Q
    for _ in range(_MAXIMUM_DOUBLINGS):
        W_inv = np.linalg.inv(I + G_k @ H)
        AW = A_k @ W_inv
        H_next = symmetrized(H + A_k.T @ H @ W_inv @ A_k)
        G_k = symmetrized(G_k + AW @ G_k @ A_k.T)
        A_k = AW @ A_k
        change = np.linalg.norm(H_next - H)
        H = H_next
        if change <= tolerance * np.linalg.norm(H):
            return H
    if not np.isfinite(H).all():
        raise np.linalg.LinAlgError("the Riccati iteration diverged")
    return H


def steady_state(parameters: Parameters) -> SteadyState:
    """Return the filter and smoother of the limit in which covariances no longer depend on time."""
    A, C, Q, noise = parameters
    Sigma_1 = predictive_covariance(A, Q, noise.precision(C))
    gain = noise.gain(C, Sigma_1)
    K_C = gain.K_c @ gain.cross
    Sigma_0 = symmetrized(Sigma_1 - K_C @ Sigma_1)
    J = np.asarray(np.linalg.solve(Sigma_1, A @ Sigma_0).T, dtype=np.float64)
    Sigma_s = SteinSolver(J, J.T).solve(Sigma_0 - J @ Sigma_1 @ J.T)
    G = np.eye(len(A)) - J @ A
    return SteadyState(Sigma_1, Sigma_0, symmetrized(Sigma_s), A - K_C @ A, J, G, gain)


def stationary_covariance(A: Matrix, Q: Matrix) -> Matrix:
    """Return the prior P = A P A^T + Q (states, states) of a state about which nothing was observed."""
    return symmetrized(SteinSolver(A, A.T).solve(Q))
