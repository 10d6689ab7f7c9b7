"""Plain, slow, exact: what the LDS code is measured against. Dense float64, one formula a line.

Nothing is taken from ``tacenda_embeddings.lds``, so that a mistake there cannot hide here.
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg

HUGE = 1e-9  # singular values below this share of the largest are zero: D has no variance along m


class System(NamedTuple):
    """x_t = A x_{t-1} + N(0, Q), w_t = C x_t + N(0, D); P is the prior of x, m carries no variance."""

    A: np.ndarray
    C: np.ndarray
    Q: np.ndarray
    D: np.ndarray
    P: np.ndarray
    m: np.ndarray


def symmetric_root(X, exponent):
    values, vectors = np.linalg.eigh((X + X.T) / 2)
    powers = np.where(values > HUGE * values.max(), np.maximum(values, 1e-300) ** exponent, 0.0)
    return (vectors * powers) @ vectors.T


def random_system(rng, V=6, h=3, radius=0.9, strength=0.8, with_mean=True):
    """In whitened coordinates: C P C^T + D = I - m m^T, the largest eigenvalue of C P C^T ``strength``."""
    A = rng.standard_normal((h, h))
    A *= radius / np.abs(np.linalg.eigvals(A)).max()
    half = rng.standard_normal((h, h))
    Q = half @ half.T + 0.2 * np.eye(h)
    P = scipy.linalg.solve_discrete_lyapunov(A, Q)
    m = np.abs(rng.standard_normal(V)) + 0.1 if with_mean else np.zeros(V)
    if with_mean:
        m /= np.linalg.norm(m)
    C = rng.standard_normal((V, h))
    C -= np.outer(m, m @ C)
    C *= np.sqrt(strength / np.linalg.eigvalsh(C @ P @ C.T).max())
    return System(A, C, Q, np.eye(V) - np.outer(m, m) - C @ P @ C.T, P, m)


def pseudo_inverse(X):
    return np.linalg.pinv(X, rcond=HUGE, hermitian=True)


def log_pseudo_determinant(X):
    values = np.linalg.eigvalsh(X)
    return np.log(values[values > HUGE * values.max()]).sum()


# -- finite sequences ------------------------------------------------------------------------------


class Filtered(NamedTuple):
    """Means (n, h) and covariances (n, h, h), before and after each observation; log p(w), nats."""

    predicted: np.ndarray
    predicted_covariance: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    log_likelihood: float


def kalman_filter(s, w):
    """From the stationary prior; the constant of the log-likelihood counts D's dimensions only."""
    x, X, log_likelihood = np.zeros(len(s.A)), s.P, 0.0
    rows = []
    for w_t in w:
        S = s.C @ X @ s.C.T + s.D
        S_inverse = pseudo_inverse(S)
        error = w_t - s.C @ x
        rank = np.linalg.matrix_rank(S, tol=HUGE, hermitian=True)
        log_likelihood -= 0.5 * (
            rank * np.log(2 * np.pi) + log_pseudo_determinant(S) + error @ S_inverse @ error
        )
        K = X @ s.C.T @ S_inverse
        xf, Xf = x + K @ error, X - K @ s.C @ X
        rows.append((x, X, xf, Xf))
        x, X = s.A @ xf, s.A @ Xf @ s.A.T + s.Q
    return Filtered(*map(np.array, zip(*rows, strict=True)), log_likelihood)


class Smoothed(NamedTuple):
    """Means (n, h), covariances (n, h, h), cov(x_{t+1}, x_t | all) (n - 1, h, h)."""

    mean: np.ndarray
    covariance: np.ndarray
    lagged: np.ndarray


def rts_smoother(s, w):
    """Rauch, Tung and Striebel, behind ``kalman_filter``."""
    f = kalman_filter(s, w)
    mean, covariance = f.mean.copy(), f.covariance.copy()
    lagged = np.zeros((len(w) - 1, *s.A.shape))
    for t in range(len(w) - 2, -1, -1):
        J = f.covariance[t] @ s.A.T @ np.linalg.inv(f.predicted_covariance[t + 1])
        mean[t] = f.mean[t] + J @ (mean[t + 1] - f.predicted[t + 1])
        covariance[t] += J @ (covariance[t + 1] - f.predicted_covariance[t + 1]) @ J.T
        lagged[t] = covariance[t + 1] @ J.T
    return Smoothed(mean, covariance, lagged)


# -- rings: stationary recursions and sample moments without ends ----------------------------------


def sample(rng, s, n, burn_in=200):
    """n observations (n, V) of a system."""
    L_Q, L_D = symmetric_root(s.Q, 0.5), symmetric_root(s.D, 0.5)
    x, w = np.zeros(len(s.A)), []
    for _ in range(n + burn_in):
        x = s.A @ x + L_Q @ rng.standard_normal(len(x))
        w.append(s.C @ x + L_D @ rng.standard_normal(len(s.C)))
    return np.array(w[burn_in:])


def whitened(w, m):
    """The ring with sample mean zero, nothing along m, and sample covariance I - m m^T exactly."""
    w = w - w.mean(axis=0)
    w = w - np.outer(w @ m, m)
    return w @ symmetric_root(w.T @ w / len(w), -0.5)


def ring_moments(w, n_lags):
    """[Psi_0, Psi_1 .. Psi_n] with Psi_k = E[w_{t+k} w_t^T] around the ring."""
    return [np.roll(w, -k, axis=0).T @ w / len(w) for k in range(n_lags + 1)]


def ring_recursion(M, u, reverse=False):
    """y_t = M y_{t-1} + u_t (y_{t+1} with reverse) around the ring, by Fourier transform: exact."""
    n = len(u)
    turn = np.exp((1j if reverse else -1j) * 2 * np.pi * np.arange(n) / n)
    system = np.eye(len(M)) - turn[:, None, None] * M
    return np.fft.ifft(
        np.linalg.solve(system, np.fft.fft(u, axis=0)[..., None])[..., 0], axis=0
    ).real


class Steady(NamedTuple):
    Sigma_1: np.ndarray
    Sigma_0: np.ndarray
    Sigma_s: np.ndarray
    K: np.ndarray
    S: np.ndarray


def steady(s, steps=3000):
    """The limits of the time-varying filter and smoother, by running them until nothing changes."""
    X, before = s.P, None
    while steps and (before is None or np.abs(X - before).max() > 1e-15):
        S = s.C @ X @ s.C.T + s.D
        K = X @ s.C.T @ pseudo_inverse(S)
        Xf = X - K @ s.C @ X
        X, before, steps = s.A @ Xf @ s.A.T + s.Q, X, steps - 1
    J = Xf @ s.A.T @ np.linalg.inv(X)
    Xs = Xf
    for _ in range(3000):
        Xs = Xf + J @ (Xs - X) @ J.T
    return Steady(X, Xf, Xs, K, S)


class RingStatistics(NamedTuple):
    """Exact counterparts of ``asos.Statistics``; log_likelihood in nats per token, of ``dimensions``."""

    S_xx: np.ndarray
    S_10: np.ndarray
    S_xw: np.ndarray
    Xi: np.ndarray
    Pi: np.ndarray
    log_likelihood: float
    dimensions: int


def ring_statistics(s, w):
    """Filter and smooth the whole ring with the steady-state recursions and average."""
    k, n = steady(s), len(w)
    F = s.A - k.K @ s.C @ s.A
    J = k.Sigma_0 @ s.A.T @ np.linalg.inv(k.Sigma_1)
    xf = ring_recursion(F, w @ k.K.T)
    xs = ring_recursion(J, xf @ (np.eye(len(s.A)) - J @ s.A).T, reverse=True)
    Xi = xs.T @ xs / n
    error = w - np.roll(xf, 1, axis=0) @ (s.C @ s.A).T
    rank = np.linalg.matrix_rank(k.S, tol=HUGE, hermitian=True)
    square = np.einsum("ti,ij,tj->", error, pseudo_inverse(k.S), error) / n
    return RingStatistics(
        Xi + k.Sigma_s,
        np.roll(xs, -1, axis=0).T @ xs / n + k.Sigma_s @ J.T,
        xs.T @ w / n,
        Xi,
        xf.T @ xf / n,
        -0.5 * (rank * np.log(2 * np.pi) + log_pseudo_determinant(k.S) + square),
        rank,
    )


def maximize(statistics, Psi_0, m):
    """The exact M-step: regressions, and the residual covariances that go with them."""
    A = statistics.S_10 @ np.linalg.inv(statistics.S_xx)
    C = statistics.S_xw.T @ np.linalg.inv(statistics.S_xx)
    Q = statistics.S_xx - A @ statistics.S_10.T
    D = Psi_0 - C @ statistics.S_xw
    P = scipy.linalg.solve_discrete_lyapunov(A, Q)
    return System(A, C, (Q + Q.T) / 2, (D + D.T) / 2, P, m)


def log_likelihood_without_dynamics(Psi_0):
    """Nats per token of independent N(0, Psi_0), on data with that covariance."""
    rank = np.linalg.matrix_rank(Psi_0, tol=HUGE, hermitian=True)
    return -0.5 * (rank * np.log(2 * np.pi) + log_pseudo_determinant(Psi_0) + rank)


# -- covariances -----------------------------------------------------------------------------------


def model_moments(s, n_lags):
    """[Psi_0 .. Psi_n] that the system itself implies: Psi_k = C A^k P C^T."""
    Psi_0 = s.C @ s.P @ s.C.T + s.D
    powers = (np.linalg.matrix_power(s.A, k) for k in range(1, n_lags + 1))
    return [Psi_0, *(s.C @ A_k @ s.P @ s.C.T for A_k in powers)]


def toeplitz(moments, n):
    """Covariance of n observations laid end to end: block (i, j) is Psi_{i-j}."""
    rows = [[moments[i - j] if i >= j else moments[j - i].T for j in range(n)] for i in range(n)]
    return np.block(rows)


def hankel(moments, r):
    """Block (i, j), i, j = 0 .. r-1, is Psi_{r+i-j}."""
    return np.block([[moments[r + i - j] for j in range(r)] for i in range(r)])


def expected_log_likelihood(s, moments, n):
    """E[log p(w_1 .. w_n)] under the system, where the data have the given covariances; nats."""
    S = toeplitz(model_moments(s, n), n)
    rank = np.linalg.matrix_rank(S, tol=HUGE, hermitian=True)
    return -0.5 * (
        rank * np.log(2 * np.pi)
        + log_pseudo_determinant(S)
        + np.trace(pseudo_inverse(S) @ toeplitz(moments, n))
    )


class DenseMoments:
    """What the E-step and the identification ask of the data, from a list of dense matrices."""

    device = "cpu"

    def __init__(self, moments, m):
        self.n_lags, self.mean = len(moments) - 1, m
        self.scale = np.ones(len(m))
        self._moments = moments

    def matrix(self, k):
        return self._moments[k] if k >= 0 else self._moments[-k].T

    def apply(self, k, X):
        return (self.matrix(k) @ X).astype(X.dtype)

    def multiply_left(self, C, k):
        return C.T @ self.matrix(k)


# -- text ------------------------------------------------------------------------------------------


def text_moments(ids, V, n_lags, kappa=0.0, whiten=True):
    """[Psi_0 .. Psi_n] of a ring of word ids, by the definition: one-hot rows, dense matrices."""
    one_hot = np.eye(V)[ids]
    T, mu = len(ids), one_hot.mean(axis=0)
    smoothed = (one_hot.sum(axis=0) + kappa) / (T + kappa * V)
    W = np.diag(smoothed**-0.5) if whiten else np.eye(V)
    a = T / (T + kappa * V)
    lags = [np.roll(one_hot, -k, axis=0).T @ one_hot / T for k in range(1, n_lags + 1)]
    Psi_0 = W @ (np.diag(smoothed) - np.outer(smoothed, smoothed)) @ W
    return [Psi_0, *(a * W @ (E - np.outer(mu, mu)) @ W for E in lags)]
