"""Fitting: subspace identification, then EM in a fixed subspace, then EM over the whole vocabulary.

An EM iteration needs lag covariances alone: ASOS (LDS paper section 3.3, after Martens 2010).
Instead of smoothing the data, the recursions of filter and smoother are applied to time-averaged second
moments. With xf the filtered and xs the smoothed state,

    M_k = E[xf_{t+k} w_t^T],  Pi = E[xf xf^T],  B_k = E[xs_{t+k} w_t^T],  L_k = E[xs_{t+k} xf_t^T],  Xi = E[xs xs^T]

    M_k = F M_{k-1} + K Psi_k                        k = -r+1 .. r            (eq 10)
    M_{-r} = Pi (A^T)^r C^T                          horizon: E[w_{t+r} | past] = C A^r xf_t
    Pi = F Pi F^T + F M_{-1} K^T + K M_{-1}^T F^T + K Psi_0 K^T
    B_r = M_r                                        horizon
    B_k = J B_{k+1} + G M_k                          k = r-1 .. 0
    L_r = A L_r F^T + B_r K^T,   L_k = L_{k+1} F^T + B_k K^T
    Xi = J Xi J^T + J L_1 G^T + G L_1^T J^T + G Pi G^T

and the M-step needs S_xx = Xi + Sigma_s, S_10 = Xi J^T + L_1 G^T + Sigma_s J^T and S_xw = B_0. Since
K = K_c C_hat^T, all of it closes on (states, states) matrices but for B_0, which is one sum of sparse products.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda import devices
from tacenda.arrays import to_device, to_numpy
from tacenda.errors import CorpusError
from tacenda.kernels.shared.tall_matrices import gram, multiply, subtract_along
from tacenda.progress import Progress, track
from tacenda_embeddings.lds.fitted import FittedLDS
from tacenda_embeddings.lds.lagged_counts import LaggedCounts
from tacenda_embeddings.lds.moments import FloatArray, Moments, SparseMoments, project
from tacenda_embeddings.lds.settings import LDSSettings
from tacenda_embeddings.lds.steady_state import (
    DiagonalNoise,
    Gain,
    Loading,
    Matrix,
    Parameters,
    SteadyState,
    SteinSolver,
    spectral_radius,
    steady_state,
    symmetrized,
)
from tacenda_embeddings.lds.subspace import (
    HankelFactors,
    admissible,
    basis,
    hankel_svd,
    identify,
    random_parameters,
)

__all__ = ["Fit", "Step", "expectation", "fit", "maximization", "partial_fit"]

_OPERATIONS = "sparse_product", "tall_gram", "tall_product", "tall_update"
_LESS = "a smaller vocabulary, or fewer n_states"
_STAGES = 6  # steps of the progress bar before the first EM iteration
_MAXIMUM_OUTER = 400


class Step(NamedTuple):
    """One EM iteration."""

    stage: str
    likelihood_gain: float  # of the parameters it began with, nats per token over no dynamics
    seconds: float  # since the fit began


class Fit(NamedTuple):
    """A fitted model and its EM iterations."""

    state: FittedLDS
    history: list[Step]


def fit(settings: LDSSettings, counts: LaggedCounts) -> Fit:
    """Fit an LDS to lagged counts; `LDS.fit` says what is raised."""
    iterations = settings.full_iterations
    n_steps = _STAGES + settings.subspace_iterations + iterations + 1
    with _em(settings, n_steps, "fitting the LDS") as em:
        moments = _moments(settings, counts)
        rng = np.random.default_rng(settings.seed)
        factors = _hankel_factors(settings, counts, moments, rng, em)
        parameters = identify(factors, moments, maximum_radius=settings.advanced.maximum_radius)
        if settings.advanced.start == "random":
            parameters = random_parameters(moments, settings.n_states, parameters, rng)
        if settings.advanced.noise == "full":
            parameters = _in_subspace(settings, parameters, factors, moments, em)
        else:
            d = np.full(len(moments.mean), 0.9)
            noise = DiagonalNoise(d, moments.mean, settings.advanced.noise == "spherical")
            parameters = parameters._replace(noise=noise)
            iterations += settings.subspace_iterations
        return em.finish(parameters, moments, counts, iterations)


def partial_fit(
    settings: LDSSettings, counts: LaggedCounts, earlier: FittedLDS, iterations: int
) -> Fit:
    """Run EM over the whole vocabulary from an earlier model, after counts of new text were added.

    ``settings`` are those of the earlier model; ``counts`` are of the old and the new text, in its vocabulary.
    """
    with _em(settings, iterations + 1, "fitting the LDS to more text") as em:
        moments = _moments(settings, counts)
        # Keep each word's relative rate P(w | x) / P(w), which is proportional to C times the whitening scale:
        # multiply C by old scale / new scale.
        scale = (earlier.scale / moments.scale)[:, None].astype(np.float32)
        C = to_device(earlier.parameters.C * scale, moments.device)
        C = subtract_along(C, moments.mean, C)
        start = admissible(earlier.parameters._replace(C=C), moments.mean)
        return em.finish(start, moments, counts, iterations)


def _moments(settings: LDSSettings, counts: LaggedCounts) -> SparseMoments:
    """Return the whitened moments, or refuse counts from which no such model can be fitted."""
    if counts.n_lags < settings.n_lags:
        raise CorpusError(
            f"the counts hold {counts.n_lags} lags and these settings need {settings.n_lags}: "
            f"count again with n_lags={settings.n_lags}"
        )
    n_types = int(np.count_nonzero(counts.unigram))
    if n_types <= settings.n_states + 1:
        raise CorpusError(
            f"an LDS of {settings.n_states} states needs more than {settings.n_states + 1} word types and "
            f"the text has {n_types}: give more text, or set n_states lower"
        )
    kappa = settings.kappa
    if kappa is None:  # the value tuned on text, scaled with the size of the text
        kappa = 0.3 * counts.n_tokens / len(counts.unigram)
    device = "cpu"
    if settings.advanced.noise == "full":
        device = devices.resolve(settings, _OPERATIONS)
        devices.check_memory(bytes_needed(settings, counts), device, settings, _LESS)
    return SparseMoments(counts, kappa, threads=settings.n_threads, device=device)


def bytes_needed(settings: LDSSettings, counts: LaggedCounts) -> int:
    """Estimate the bytes of the counts, by rows and by columns, and of the largest step of the fit.

    That step is a product with the Hankel matrix: X, Y, the stacked columns of X and their product.
    """
    nonzeros = sum(len(lag.indices) for lag in counts.lags)
    types, r = len(counts.unigram), settings.advanced.hankel_blocks
    width = round(max(r * settings.n_states, settings.advanced.subspace_factor * settings.n_states))
    return 2 * (8 * nonzeros + 8 * types * len(counts.lags)) + 4 * 4 * types * (width + 20 * r)


def _hankel_factors(
    settings: LDSSettings,
    counts: LaggedCounts,
    moments: SparseMoments,
    rng: np.random.Generator,
    em: _EM,
) -> HankelFactors:
    """The SVD in whitened coordinates or, for the comparison, in plain ones and whitened afterwards."""
    blocks = settings.advanced.hankel_blocks
    if settings.advanced.whiten:
        return hankel_svd(moments, settings.n_states, blocks, rng, notify=em.notify)
    device = moments.device
    plain = SparseMoments(
        counts, moments.kappa, threads=settings.n_threads, whiten=False, device=device
    )
    found = hankel_svd(plain, settings.n_states, blocks, rng, notify=em.notify)
    scale = to_device(moments.scale[:, None].astype(np.float32), device)
    return HankelFactors(found.Gamma * scale, found.Delta * scale, found.singular_values)


def _in_subspace(
    settings: LDSSettings,
    parameters: Parameters,
    factors: HankelFactors,
    moments: SparseMoments,
    em: _EM,
) -> Parameters:
    """EM with C restricted to the directions that the Hankel factors see."""
    if not settings.subspace_iterations:
        return parameters
    em.notify("compressing")
    width = round(settings.advanced.subspace_factor * settings.n_states)
    B = basis(factors, moments.mean, width)
    compressed = project(moments, B, settings.advanced.horizon)
    inside = parameters._replace(C=to_device(gram(B, parameters.C), moments.device))
    inside = em.iterate(inside, compressed, settings.subspace_iterations, "subspace")
    return inside._replace(C=multiply(B, to_numpy(inside.C)))


@contextmanager
def _em(settings: LDSSettings, n_steps: int, description: str) -> Iterator[_EM]:
    """Iterations under a progress bar; parameters that are not those of a stable system are a CorpusError."""
    bar: Progress[None] = track(None, description, total=n_steps, unit="step")
    try:
        with devices.out_of_memory(settings, _LESS):
            yield _EM(settings.advanced.horizon, bar)
    except np.linalg.LinAlgError as error:
        raise CorpusError(
            f"no stable LDS of {settings.n_states} states fits these counts ({error}): give more text, or set "
            "n_states lower or kappa higher"
        ) from error
    finally:
        bar.close()


class _EM:
    """EM iterations of one fit: their history, their progress bar, and the warm start of the statistics."""

    def __init__(self, horizon: int, bar: Progress[None]) -> None:
        self.history: list[Step] = []
        self._horizon = horizon
        self._bar = bar
        self._Pi: Matrix | None = None
        self._begin = time.perf_counter()

    def notify(self, stage: str) -> None:
        """Move the bar on."""
        self._bar.set_postfix_str(stage)
        self._bar.update()

    def iterate(
        self, parameters: Parameters, moments: Moments, iterations: int, stage: str
    ) -> Parameters:
        """Take so many iterations of EM."""
        for _ in range(iterations):
            statistics = self._expect(parameters, moments, stage, with_observation=True)
            parameters = maximization(statistics, parameters, moments.mean)
        return parameters

    def finish(
        self,
        parameters: Parameters,
        moments: SparseMoments,
        counts: LaggedCounts,
        iterations: int,
    ) -> Fit:
        """Iterate over the whole vocabulary, and find the second moment of the smoothed means."""
        parameters = self.iterate(parameters, moments, iterations, "full")
        statistics = self._expect(parameters, moments, "final", with_observation=False)
        if spectral_radius(parameters.A) >= 1.0:
            raise np.linalg.LinAlgError("the state grows without bound")
        C = np.ascontiguousarray(to_numpy(parameters.C), np.float32)
        found = parameters._replace(C=C)
        state = FittedLDS(counts.vocabulary, found, statistics.Xi, moments.scale, moments.mean)
        return Fit(state, self.history)

    def _expect(
        self, parameters: Parameters, moments: Moments, stage: str, *, with_observation: bool
    ) -> Statistics:
        statistics = expectation(
            parameters, moments, self._horizon, self._Pi, with_observation=with_observation
        )
        self._Pi = statistics.Pi
        seconds = time.perf_counter() - self._begin
        self.history.append(Step(stage, statistics.likelihood_gain, seconds))
        self.notify(f"gain {statistics.likelihood_gain:.3f} nats/token")
        return statistics


# -- an EM iteration -----------------------------------------------------------------------------------


class Statistics(NamedTuple):
    """Expected second moments of the smoothed states."""

    S_xx: Matrix  # E[x_t x_t^T | all] (states, states)
    S_10: Matrix  # E[x_{t+1} x_t^T | all] (states, states)
    S_xw: FloatArray | None  # E[x_t w_t^T | all] (states, observations); None if not asked for
    Xi: Matrix  # E[xs xs^T] (states, states), the second moment of the posterior means
    Pi: Matrix  # E[xf xf^T] (states, states)
    likelihood_gain: float  # log-likelihood in nats per token, less that of no dynamics


def _powers(X: Matrix, n: int) -> list[Matrix]:
    """Return X^0 to X^n."""
    powers = [np.eye(len(X))]
    for _ in range(n):
        powers.append(X @ powers[-1])
    return powers


def _filtered_moment(
    state: SteadyState, A_r: Matrix, lagged: dict[int, Matrix], r: int, start: Matrix | None
) -> tuple[Matrix, Matrix]:
    """Return Pi and m_{-1} = M_{-1} C_hat: a linear equation, solved by a loop around Lyapunov's."""
    F, gain = state.F, state.gain
    solver = SteinSolver(F, F.T)
    F_powers = _powers(F, r)
    known = np.zeros_like(F)
    for j in range(r - 1):
        known += F_powers[j] @ gain.K_c @ lagged[-1 - j]
    innovation = gain.K_c @ gain.square @ gain.K_c.T
    horizon = A_r.T @ gain.cross.T  # (A^T)^r C^T C_hat

    def refresh(Pi: Matrix) -> tuple[Matrix, Matrix]:
        m_1 = known + F_powers[r - 1] @ Pi @ horizon
        half = F @ m_1 @ gain.K_c.T
        return symmetrized(solver.solve(half + half.T + innovation)), m_1

    Pi = innovation if start is None else start
    for _ in range(_MAXIMUM_OUTER):
        Pi_next, m_1 = refresh(Pi)
        change = np.linalg.norm(Pi_next - Pi)
        Pi = Pi_next
        if change <= 1e-13 * np.linalg.norm(Pi):
            break
    return Pi, m_1


def _likelihood_gain(A: Matrix, gain: Gain, Pi: Matrix, m_1: Matrix) -> float:
    """Return the gain per token over the model without dynamics (paper eqs 39-44, mended)."""
    predicted = A @ Pi @ A.T
    half = gain.cross @ A @ m_1
    projected_error = gain.square - half - half.T + gain.cross @ predicted @ gain.cross.T
    trace = (
        gain.base_trace
        - 2.0 * np.trace(A @ m_1)
        + np.trace(predicted @ gain.cross)
        - np.trace(gain.inner @ projected_error)
    )
    return float(-0.5 * (gain.log_det + trace))


def _expected_observation(
    moments: Moments,
    state: SteadyState,
    A_r: Matrix,
    C: Loading,
    Pi: Matrix,
    products: dict[int, FloatArray],
) -> FloatArray:
    """Return B_0 (states, observations) = sum_k T_k K_c (C_hat^T Psi_k) + T_{-r} Pi (A^T)^r C^T.

    T_r = J^r, T_k = T_{k+1} F + J^k G down to 0, and T_k = T_{k+1} F below. ``products`` holds
    C_hat^T Psi_k for k = 1 .. r and is emptied.
    """
    F, J, G, gain = state.F, state.J, state.G, state.gain
    r = len(products)
    J_powers = _powers(J, r)
    T = J_powers[r]

    def part(product: FloatArray) -> FloatArray:
        return multiply(product.T, (T @ gain.K_c).T)

    total = part(products.pop(r))  # B_0^T
    for k in range(r - 1, -r, -1):
        T = T @ F
        if k >= 0:
            T += J_powers[k] @ G
        if k == 0:
            total += part(subtract_along(gain.C_hat * 1, moments.mean, gain.C_hat).T)
        else:
            total += part(products.pop(k) if k > 0 else moments.left(gain.C_hat, k))
    total += multiply(C, (T @ F @ Pi @ A_r.T).T)
    return total.T


def expectation(
    parameters: Parameters,
    moments: Moments,
    r: int,
    Pi: Matrix | None = None,
    *,
    with_observation: bool = True,
) -> Statistics:
    """Run the E-step at horizon ``r``; the error of the approximation falls geometrically with it.

    The moments need at least r lags. ``Pi`` (states, states) is a start for E[xf xf^T], from the previous iteration.
    S_xw is most of the work and only an M-step needs it, so it is left out unless ``with_observation``. Raises
    LinAlgError if the parameters are not those of a stable system.
    """
    A, C = parameters.A, parameters.C
    state = steady_state(parameters)
    F, J, G, gain = state.F, state.J, state.G, state.gain
    A_r = np.linalg.matrix_power(A, r)
    products: dict[int, FloatArray] = {}
    lagged: dict[int, Matrix] = {}  # C_hat^T Psi_k C_hat
    for k in range(1, r + 1):
        product = moments.left(gain.C_hat, k)
        lagged[k] = gram(product.T, gain.C_hat)
        if with_observation:
            products[k] = product
    lagged |= {-k: lagged[k].T for k in range(1, r)}
    lagged[0] = gain.square
    Pi, m_1 = _filtered_moment(state, A_r, lagged, r, Pi)

    # m_k = M_k C_hat, b_k = B_k C_hat and L_k of the recursions above
    m = {-r: Pi @ A_r.T @ gain.cross.T}
    for k in range(-r + 1, r + 1):
        m[k] = F @ m[k - 1] + gain.K_c @ lagged[k]
    b = {r: m[r]}
    for k in range(r - 1, 0, -1):
        b[k] = J @ b[k + 1] + G @ m[k]
    L = SteinSolver(A, F.T).solve(b[r] @ gain.K_c.T)
    for k in range(r - 1, 0, -1):
        L = L @ F.T + b[k] @ gain.K_c.T
    half = J @ L @ G.T
    Xi = symmetrized(SteinSolver(J, J.T).solve(half + half.T + G @ Pi @ G.T))
    S_xw = None
    if with_observation:
        S_xw = _expected_observation(moments, state, A_r, C, Pi, products)
    S_10 = Xi @ J.T + L @ G.T + state.Sigma_s @ J.T
    likelihood = _likelihood_gain(A, gain, Pi, m_1)
    return Statistics(Xi + state.Sigma_s, S_10, S_xw, Xi, Pi, likelihood)


def maximization(
    statistics: Statistics, parameters: Parameters, mean: npt.NDArray[np.float64]
) -> Parameters:
    """Run the M-step: regressions of x_{t+1} and w_t on x_t (LDS paper section 3.2, eq 9)."""
    S_xx, S_10, S_xw = statistics.S_xx, statistics.S_10, statistics.S_xw
    if S_xw is None:
        raise ValueError("the M-step needs S_xw: call expectation with with_observation=True")
    inverse: Matrix = np.asarray(np.linalg.inv(S_xx), np.float64)
    A = S_10 @ inverse
    C = multiply(S_xw.T, inverse)
    Q = symmetrized(S_xx - A @ S_10.T)
    return Parameters(A, C, Q, parameters.noise.refit(C, S_xx, mean))
