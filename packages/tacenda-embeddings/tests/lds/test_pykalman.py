"""Agreement with an established library, pykalman, which smooths every observation densely."""

import numpy as np
import pytest

from tacenda_embeddings.lds.em import run_e_step, run_m_step
from tacenda_embeddings.lds.smoother import build_two_sided

pykalman = pytest.importorskip("pykalman", reason="pykalman is not installed")

EM_VARIABLES = [
    "transition_matrices",
    "observation_matrices",
    "transition_covariance",
    "observation_covariance",
]


@pytest.fixture
def system(oracles):
    rng = np.random.default_rng(2)
    return oracles.random_system(rng, V=4, h=2, radius=0.6, strength=0.9, with_mean=False)


def peer(system, **more):
    matrices, zeros = (system.A, system.C, system.Q, system.D), np.zeros(len(system.A))
    return pykalman.KalmanFilter(*matrices, zeros, np.zeros(4), zeros, system.P, **more)


def another(system, oracles):
    """A model to begin EM from that is not the one the data came from, and the ring of data."""
    rng = np.random.default_rng(4)
    w = oracles.whitened(oracles.sample(rng, system, 250), system.m)
    start = oracles.random_system(rng, V=4, h=2, radius=0.5, strength=0.8, with_mean=False)
    return start, w


@pytest.mark.parametrize("n", [2, 5, 40])
def test_smoothed_means_of_a_finite_sequence(n, system, oracles, parameters_of):
    rng = np.random.default_rng(n)
    words = rng.standard_normal((6, 4))  # six "word types" with arbitrary coordinates
    ids = rng.integers(0, 6, n)
    matrices = build_two_sided(parameters_of(system), np.ones(4), np.zeros(4))
    own = (words @ matrices.table)[ids]
    F, J, L, R = matrices.forward, matrices.backward, matrices.left_end, matrices.right_end
    # the ends by plain alternation, until they no longer change
    past = future = np.zeros(2)
    for _ in range(200):
        a, b = [past + own[0]], [future + own[-1]]
        for t in range(1, n):
            a.append(F @ a[-1] + own[t])
            b.append(J @ b[-1] + own[n - 1 - t])
        past, future = L @ b[-1], R @ a[-1]
    expected, _ = peer(system).smooth(words[ids])
    np.testing.assert_allclose(np.array(a) + np.array(b[::-1]) - own, expected, atol=1e-9)


def test_statistics_and_likelihood_of_a_ring(system, oracles, parameters_of):
    """Twice round the ring less once round it is once round it without ends."""
    start, w = another(system, oracles)
    kf, n = peer(start), len(w)
    totals = []
    for copies in (1, 2):
        data = np.concatenate([w] * copies)
        mean, covariance = kf.smooth(data)
        S_xx = np.einsum("ti,tj->ij", mean, mean) + covariance.sum(axis=0)
        totals.append((S_xx, mean.T @ data, kf.loglikelihood(data)))
    S_xx, S_xw, log_likelihood = ((two - one) / n for one, two in zip(*totals, strict=True))
    Psi = oracles.ring_moments(w, 20)
    found = run_e_step(parameters_of(start), oracles.DenseMoments(Psi, start.m), 20)
    np.testing.assert_allclose(found.S_xx, S_xx, atol=1e-6)
    np.testing.assert_allclose(found.S_xw, S_xw, atol=1e-6)
    without = oracles.log_likelihood_without_dynamics(Psi[0])
    assert found.likelihood_gain == pytest.approx(log_likelihood - without, abs=1e-6)


def test_em_iterations(system, oracles, parameters_of):
    """The library's EM has ends, which weigh 1 in the number of tokens."""
    start, w = another(system, oracles)
    data = np.concatenate([w] * 8)
    kf = peer(start, em_vars=EM_VARIABLES).em(data, n_iter=2)
    Psi = oracles.ring_moments(w, 20)
    moments, parameters = oracles.DenseMoments(Psi, start.m), parameters_of(start)
    for _ in range(2):
        parameters = run_m_step(run_e_step(parameters, moments, 20), parameters, start.m)
    D = Psi[0] - parameters.C @ parameters.noise.N @ parameters.C.T
    for found, expected, before in (
        (parameters.A, kf.transition_matrices, start.A),
        (parameters.C, kf.observation_matrices, start.C),
        (parameters.Q, kf.transition_covariance, start.Q),
        (D, kf.observation_covariance, start.D),
    ):
        np.testing.assert_allclose(found, expected, atol=3e-3)
        assert np.abs(found - before).max() > 3e-2
