"""EM for an LDS: the E-step of ASOS, which knows lagged moments only, the M-step, and the iterations of a fit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

import numpy as np

from tacenda import devices, tall
from tacenda.array_ops import copy, to_numpy
from tacenda.arrays import Array
from tacenda.errors import CorpusError, warn
from tacenda.progress import Progress, track
from tacenda_embeddings.lds import (
    HORIZON,
    Gain,
    Loading,
    Matrix,
    Parameters,
    SteadyState,
    SteinSolver,
    Vector,
    solve_steady_state,
    spectral_radius,
    symmetrize,
)
from tacenda_embeddings.lds.moments import Moments, SparseMoments
from tacenda_embeddings.lds.smoother import TwoSided, build_two_sided
from tacenda_embeddings.settings import LDSSettings

MEMORY_ADVICE = "a smaller vocabulary, or fewer n_states"
_MAX_MOMENT_ITERATIONS = 400


class Step(NamedTuple):
    """One EM iteration."""

    stage: str
    likelihood_gain: float  # of the parameters it began with, nats per token over no dynamics
    seconds: float  # since the fit began


class Fit(NamedTuple):
    """The result of a fit, in whitened coordinates."""

    parameters: Parameters
    smoother: TwoSided
    Xi: Matrix  # (states, states), second moment of the smoothed means
    scale: Vector  # (vocabulary,), the diagonal of W
    mean: Vector  # (vocabulary,), m
    history: list[Step]


@contextmanager
def start_em(settings: LDSSettings, n_steps: int, description: str) -> Iterator[EM]:
    """Yield EM iterations under a progress bar; an unstable system becomes a CorpusError."""
    bar: Progress[None] = track(None, description, total=n_steps, unit="step")
    with closing(bar):
        try:
            with devices.out_of_memory(settings, MEMORY_ADVICE):
                yield EM(bar)
        except np.linalg.LinAlgError as error:
            raise CorpusError(
                f"no stable LDS of {settings.n_states} states fits these counts ({error}): give more text, or set "
                "n_states lower or kappa higher"
            ) from error


class EM:
    """The EM iterations of one fit, with their history, progress bar, and warm start of the statistics."""

    def __init__(self, bar: Progress[None]) -> None:
        self.history: list[Step] = []
        self._bar = bar
        self._Pi: Matrix | None = None
        self._begin = time.perf_counter()

    def notify(self, stage: str) -> None:
        """Advance the progress bar."""
        self._bar.set_postfix_str(stage)
        self._bar.update()

    def iterate(
        self, parameters: Parameters, moments: Moments, iterations: int, stage: str
    ) -> Parameters:
        """Run iterations of EM, and return the new parameters."""
        for _ in range(iterations):
            statistics = self._run_and_record(parameters, moments, stage, with_observation=True)
            parameters = run_m_step(statistics, parameters, moments.mean)
        return parameters

    def finish(self, parameters: Parameters, moments: SparseMoments, iterations: int) -> Fit:
        """Iterate over the whole vocabulary, and build the smoother.

        Raises LinAlgError if the system is not stable.
        """
        parameters = self.iterate(parameters, moments, iterations, "full")
        statistics = self._run_and_record(parameters, moments, "final", with_observation=False)
        if spectral_radius(parameters.A) >= 1.0:
            raise np.linalg.LinAlgError("the state grows without bound")
        C = np.ascontiguousarray(to_numpy(parameters.C), np.float32)  # the saved dtype
        parameters = parameters._replace(C=C)
        Xi, scale, mean = statistics.Xi, moments.scale, moments.mean
        smoother = build_two_sided(parameters, scale, mean, Xi)
        return Fit(parameters, smoother, Xi, scale, mean, self.history)

    def _run_and_record(
        self, parameters: Parameters, moments: Moments, stage: str, *, with_observation: bool
    ) -> Statistics:
        """Run the E-step from the Pi of the last one, and record its likelihood gain."""
        statistics = run_e_step(
            parameters, moments, HORIZON, self._Pi, with_observation=with_observation
        )
        self._Pi = statistics.Pi
        step = Step(stage, statistics.likelihood_gain, time.perf_counter() - self._begin)
        self.history.append(step)
        self.notify(f"gain {step.likelihood_gain:.3f} nats/token")
        return statistics


class Statistics(NamedTuple):
    """Expected second moments of the smoothed states, (states, states)."""

    S_xx: Matrix  # E[x_t x_t^T | all]
    S_10: Matrix  # E[x_{t+1} x_t^T | all]
    S_xw: Array | None  # E[x_t w_t^T | all] (states, observations); None if it was left out
    Xi: Matrix  # E[xs xs^T], the second moment of the posterior means
    Pi: Matrix  # E[xf xf^T]
    likelihood_gain: float  # log-likelihood in nats per token, less that of no dynamics


def _compute_powers(X: Matrix, n: int) -> list[Matrix]:
    """Return X^0 to X^n."""
    powers = [np.eye(len(X))]
    for _ in range(n):
        powers.append(X @ powers[-1])
    return powers


def _solve_filtered_moment(
    steady: SteadyState, A_r: Matrix, C_Psi_C: dict[int, Matrix], r: int, start: Matrix | None
) -> Matrix:
    """Return Pi from a linear equation that is solved by iterating Lyapunov's.

    ``C_Psi_C`` has C_hat^T Psi_k C_hat for k = -r+1 .. r; ``start`` is a start for Pi. Warns if Pi does not converge.
    """
    F, gain = steady.F, steady.gain
    # eq 10 from the horizon on: M_{-1} C_hat = sum_j F^j K_c C_Psi_C[-1-j] + F^{r-1} Pi (A^T)^r C^T C_hat
    solver = SteinSolver(F, F.T)
    F_powers = _compute_powers(F, r)
    known = np.zeros_like(F)
    for j in range(r - 1):
        known += F_powers[j] @ gain.K_c @ C_Psi_C[-1 - j]
    innovation = gain.K_c @ gain.square @ gain.K_c.T
    horizon = A_r.T @ gain.cross.T  # (A^T)^r C^T C_hat
    Pi = innovation if start is None else start
    for _ in range(_MAX_MOMENT_ITERATIONS):
        # Pi is on the right-hand side too, but only in the term of the horizon, which is small: it converges quickly
        M_C = known + F_powers[r - 1] @ Pi @ horizon
        half = F @ M_C @ gain.K_c.T
        previous, Pi = Pi, symmetrize(solver.solve(half + half.T + innovation))
        change, size = np.linalg.norm(Pi - previous), np.linalg.norm(Pi)
        if change <= 1e-13 * size:
            break
    if change > 1e-6 * size:  # by more than rounding
        warn(
            f"the moments of the states still change by {change / size:.0e} of their size after "
            f"{_MAX_MOMENT_ITERATIONS} iterations: give more text, or set n_states lower or kappa higher"
        )
    return Pi


def _compute_likelihood_gain(A: Matrix, gain: Gain, Pi: Matrix, M_C: Matrix) -> float:
    """Return the likelihood gain over the model without dynamics, in nats per token (paper eqs 39-44, corrected).

    ``gain`` is that of the filter, and ``M_C`` is M_{-1} C_hat.
    """
    # the innovation e_t = w_t - C A xf_{t-1}, seen through C_hat: E[C_hat^T e e^T C_hat]
    predicted = A @ Pi @ A.T
    half = gain.cross @ A @ M_C
    projected_error = gain.square - half - half.T + gain.cross @ predicted @ gain.cross.T
    trace = (
        gain.base_trace
        - 2.0 * np.trace(A @ M_C)
        + np.trace(predicted @ gain.cross)
        - np.trace(gain.inner @ projected_error)
    )
    return float(-0.5 * (gain.log_det + trace))


def _compute_observation_moment(
    moments: Moments,
    steady: SteadyState,
    A_r: Matrix,
    C: Loading,
    Pi: Matrix,
    C_Psi: dict[int, Array],
) -> Array:
    """Return B_0 (states, observations) = sum_k T_k K_c (C_hat^T Psi_k) + T_{-r} Pi (A^T)^r C^T.

    T_r = J^r, T_k = T_{k+1} F + J^k G down to 0, and T_k = T_{k+1} F below. ``C_Psi`` holds C_hat^T Psi_k for
    k = 1 .. r and is emptied.
    """
    F, J, G, gain = steady.F, steady.J, steady.G, steady.gain
    r = len(C_Psi)
    J_powers = _compute_powers(J, r)
    T = J_powers[r]

    def term(product: Array, T: Matrix) -> Array:
        return tall.product(product.T, (T @ gain.K_c).T)

    total = term(C_Psi.pop(r), T)  # B_0^T
    for k in range(r - 1, -r, -1):
        T = T @ F
        if k >= 0:
            T += J_powers[k] @ G
        if k == 0:  # Psi_0 = I - m m^T, because the words are whitened
            total += term(tall.update(copy(gain.C_hat), moments.mean, gain.C_hat).T, T)
        else:
            total += term(C_Psi.pop(k) if k > 0 else moments.multiply_left(gain.C_hat, k), T)
    total += tall.product(C, (T @ F @ Pi @ A_r.T).T)
    return total.T


def run_e_step(
    parameters: Parameters,
    moments: Moments,
    r: int,
    Pi: Matrix | None = None,
    *,
    with_observation: bool = True,
) -> Statistics:
    """Run the E-step of ASOS at horizon ``r`` (LDS paper section 3.3, after Martens 2010).

    Instead of smoothing the data, the recursions of filter and smoother are applied to time-averaged second
    moments. With xf the filtered and xs the smoothed state,

        M_k = E[xf_{t+k} w_t^T],  Pi = E[xf xf^T],  B_k = E[xs_{t+k} w_t^T],  L_k = E[xs_{t+k} xf_t^T]

        M_k = F M_{k-1} + K Psi_k                        k = -r+1 .. r            (eq 10)
        M_{-r} = Pi (A^T)^r C^T                          horizon: E[w_{t+r} | past] = C A^r xf_t
        Pi = F Pi F^T + F M_{-1} K^T + K M_{-1}^T F^T + K Psi_0 K^T
        B_r = M_r                                        horizon
        B_k = J B_{k+1} + G M_k                          k = r-1 .. 0
        L_r = A L_r F^T + B_r K^T,   L_k = L_{k+1} F^T + B_k K^T
        Xi = E[xs xs^T] = J Xi J^T + J L_1 G^T + G L_1^T J^T + G Pi G^T

    and the M-step needs S_xx = Xi + Sigma_s, S_10 = Xi J^T + L_1 G^T + Sigma_s J^T and S_xw = B_0. Since
    K = K_c C_hat^T, everything is computed from (states, states) matrices except B_0, one sum of sparse products.

    The error of the approximation falls geometrically with r; the moments need at least r lags. ``Pi`` (states,
    states) is a start for E[xf xf^T], from the previous iteration. S_xw is most of the work and only an M-step needs
    it, so it is left out unless ``with_observation``. Raises LinAlgError if the system is not stable.
    """
    A, C = parameters.A, parameters.C
    steady = solve_steady_state(parameters)
    F, J, G, gain = steady.F, steady.J, steady.G, steady.gain
    A_r = np.linalg.matrix_power(A, r)
    C_Psi: dict[int, Array] = {}  # C_hat^T Psi_k
    C_Psi_C: dict[int, Matrix] = {}  # C_hat^T Psi_k C_hat
    for k in range(1, r + 1):
        product = moments.multiply_left(gain.C_hat, k)
        C_Psi_C[k] = tall.gram(product.T, gain.C_hat)
        if with_observation:
            C_Psi[k] = product
    C_Psi_C |= {-k: C_Psi_C[k].T for k in range(1, r)}
    C_Psi_C[0] = gain.square
    Pi = _solve_filtered_moment(steady, A_r, C_Psi_C, r, Pi)

    # M_C[k] = M_k C_hat, B_C[k] = B_k C_hat and L_k
    M_C = {-r: Pi @ A_r.T @ gain.cross.T}
    for k in range(-r + 1, r + 1):
        M_C[k] = F @ M_C[k - 1] + gain.K_c @ C_Psi_C[k]
    B_C = {r: M_C[r]}
    for k in range(r - 1, 0, -1):
        B_C[k] = J @ B_C[k + 1] + G @ M_C[k]
    # at the horizon L_r = A L_r F^T + B_r K^T, a Stein equation; below it every L_k follows
    L = SteinSolver(A, F.T).solve(B_C[r] @ gain.K_c.T)
    for k in range(r - 1, 0, -1):
        L = L @ F.T + B_C[k] @ gain.K_c.T
    half = J @ L @ G.T
    Xi = symmetrize(SteinSolver(J, J.T).solve(half + half.T + G @ Pi @ G.T))
    S_xw = None
    if with_observation:
        S_xw = _compute_observation_moment(moments, steady, A_r, C, Pi, C_Psi)
    S_10 = Xi @ J.T + L @ G.T + steady.Sigma_s @ J.T
    likelihood_gain = _compute_likelihood_gain(A, gain, Pi, M_C[-1])
    return Statistics(Xi + steady.Sigma_s, S_10, S_xw, Xi, Pi, likelihood_gain)


def run_m_step(statistics: Statistics, parameters: Parameters, mean: Vector) -> Parameters:
    """Run the M-step: regressions of x_{t+1} and w_t on x_t (LDS paper section 3.2, eq 9)."""
    S_xx, S_10, S_xw = statistics.S_xx, statistics.S_10, statistics.S_xw
    assert S_xw is not None  # run_e_step was asked for it
    inverse: Matrix = np.asarray(np.linalg.inv(S_xx), np.float64)
    A = S_10 @ inverse  # eq 9
    C = tall.product(S_xw.T, inverse)
    Q = symmetrize(S_xx - A @ S_10.T)
    return Parameters(A, C, Q, parameters.noise.refit(C, S_xx, mean))
