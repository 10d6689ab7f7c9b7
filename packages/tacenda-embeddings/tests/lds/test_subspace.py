"""Subspace identification: on the exact covariances of a known system, and on tiny text."""

import numpy as np
import pytest

from tacenda_embeddings.lds import DiagonalNoise, solve_stationary_covariance, spectral_radius
from tacenda_embeddings.lds.em import run_e_step
from tacenda_embeddings.lds.learning import (
    draw_parameters,
    find_basis,
    hankel_product,
    hankel_svd,
    identify,
)

R = 3


@pytest.fixture
def system(oracles):
    return oracles.random_system(np.random.default_rng(11), V=9, h=3, radius=0.9, strength=0.7)


@pytest.fixture
def moments(system, oracles):
    return oracles.DenseMoments(oracles.model_moments(system, 2 * R - 1), system.m)


@pytest.fixture
def factors(moments, rng):
    return hankel_svd(moments, 3, R, rng)


def dense_D(parameters, m):
    C, V = np.asarray(parameters.C, np.float64), len(parameters.C)
    if isinstance(parameters.noise, DiagonalNoise):
        return np.diag(parameters.noise.d)
    return np.eye(V) - np.outer(m, m) - C @ parameters.noise.N @ C.T


def is_admissible(parameters, m):
    """A stationary, stable model whose covariances are covariances and which leaves m alone."""
    A, C, Q, noise = parameters
    assert spectral_radius(A) < 1
    assert np.linalg.eigvalsh(Q).min() > 0
    assert np.linalg.eigvalsh(dense_D(parameters, m)).min() >= -1e-6
    np.testing.assert_allclose(m @ C, 0, atol=1e-6)
    np.testing.assert_allclose(noise.N, solve_stationary_covariance(A, Q), rtol=1e-6)
    return True


@pytest.mark.parametrize("transpose", [False, True])
def test_product_is_that_of_the_dense_hankel_matrix(transpose, moments, rng, oracles, system):
    H = oracles.hankel(oracles.model_moments(system, 2 * R - 1), R)
    X = rng.standard_normal((R, 9, 4))
    expected = (H.T if transpose else H) @ X.reshape(R * 9, 4)
    found = hankel_product(moments, X, transpose)
    np.testing.assert_allclose(found.reshape(R * 9, 4), expected, atol=1e-12)


@pytest.mark.parametrize("n_states", [1, 2, 3])
def test_factors_are_the_leading_singular_vectors(n_states, moments, system, rng, oracles):
    H = oracles.hankel(oracles.model_moments(system, 2 * R - 1), R)
    U, S, Vt = np.linalg.svd(H)
    Gamma, Delta = hankel_svd(moments, n_states, R, rng)
    best = (U[:, :n_states] * S[:n_states]) @ Vt[:n_states]
    product = Gamma.reshape(R * 9, -1) @ Delta.reshape(R * 9, -1).T
    np.testing.assert_allclose(product, best, atol=1e-5 * S[0])
    for factor in (Gamma, Delta):
        flat = factor.reshape(R * 9, -1)
        np.testing.assert_allclose(flat.T @ flat, np.diag(S[:n_states]), atol=1e-5 * S[0])


def test_identification_recovers_the_system(factors, moments, system):
    """Up to a change of coordinates: spectrum, column space, and C A^k P C^T for every k."""
    found = identify(factors, moments)
    assert is_admissible(found, system.m)
    values = np.sort_complex(np.linalg.eigvals(found.A))
    expected = np.sort_complex(np.linalg.eigvals(system.A))
    np.testing.assert_allclose(values, expected, atol=2e-5)
    into, _, _, _ = np.linalg.lstsq(system.C, found.C.astype(float), rcond=None)
    np.testing.assert_allclose(system.C @ into, found.C, atol=1e-5)
    np.testing.assert_allclose(into @ found.A, system.A @ into, atol=1e-4)
    for k in range(4):
        ahead = np.linalg.matrix_power
        Psi = found.C @ ahead(found.A, k) @ found.noise.N @ found.C.T
        expected = system.C @ ahead(system.A, k) @ system.P @ system.C.T
        np.testing.assert_allclose(Psi, expected, atol=1e-4)


def test_the_radius_of_the_start_is_limited(factors, moments, system):
    found = identify(factors, moments, maximum_radius=0.5)
    assert spectral_radius(found.A) <= 0.5 + 1e-9
    assert is_admissible(found, system.m)


def test_a_variance_beyond_the_data_is_shrunk(factors, moments, system):
    """Twice the covariances that can be: the factors say more than Psi_0 = I - m m^T admits."""
    loud = factors._replace(Gamma=factors.Gamma * 2, Delta=factors.Delta * 2)
    found = identify(loud, moments)
    assert is_admissible(found, system.m)
    explained = found.C @ found.noise.N @ found.C.T
    assert np.linalg.eigvalsh(explained).max() == pytest.approx(0.97, abs=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_a_start_from_noisy_covariances_is_admissible(seed, oracles):
    """A short sample, more states than it has: eigenvalues must be repaired."""
    rng = np.random.default_rng(seed)
    m = np.full(9, 1 / 3.0)
    w = oracles.whitened(rng.standard_normal((120, 9)), m)
    moments = oracles.DenseMoments(oracles.ring_moments(w, 5), m)
    found = identify(hankel_svd(moments, 5, R, rng), moments)
    assert is_admissible(found, m)
    run_e_step(found, moments, 5)


def test_a_random_start_keeps_the_scales(factors, moments, system, rng):
    start = identify(factors, moments)
    found = draw_parameters(moments, 3, start, rng)
    assert is_admissible(found, system.m)
    assert spectral_radius(found.A) == pytest.approx(spectral_radius(start.A))
    assert np.linalg.norm(found.C) == pytest.approx(np.linalg.norm(start.C), rel=1e-5)


def test_basis_is_orthonormal_and_leaves_the_mean_out(factors, system):
    B = find_basis(factors, system.m, 3)
    assert B.dtype == np.float32
    np.testing.assert_allclose(B.T @ B, np.eye(3), atol=1e-6)
    np.testing.assert_allclose(system.m @ B, 0, atol=1e-6)
    np.testing.assert_allclose(B @ (B.T @ system.C), system.C, atol=1e-5)


@pytest.mark.parametrize("V", [8, 20])
def test_basis_has_no_room_for_the_mean_or_for_rounding(V, oracles):
    """Fewer dimensions than are asked for: what is left over is not filled with noise."""
    rng = np.random.default_rng(V)
    ids = np.minimum(rng.zipf(1.2, 4000) - 1, V - 1)
    Psi = oracles.text_moments(ids, V, 2 * R - 1, kappa=5.0)
    m = np.sqrt((np.bincount(ids) + 5.0) / (len(ids) + 5.0 * V))
    B = find_basis(hankel_svd(oracles.DenseMoments(Psi, m), 6, R, rng), m, 24)
    assert B.shape == (V, V - 1)
    np.testing.assert_allclose(B.T @ B, np.eye(V - 1), atol=1e-5)
    np.testing.assert_allclose(m @ B, 0, atol=1e-6)


def test_basis_is_no_wider_than_what_the_factors_span(factors, system):
    """Of exactly 3 states C spans all there is, to the left and, here with P C^T, to the right."""
    assert find_basis(factors, system.m, 50).shape == (9, 3)


def test_identification_reaches_the_true_likelihood(
    factors, moments, system, oracles, parameters_of
):
    more = oracles.DenseMoments(oracles.model_moments(system, 10), system.m)
    truth = run_e_step(parameters_of(system), more, 10)
    found = run_e_step(identify(factors, moments), more, 10)
    assert truth.likelihood_gain > 0.05
    assert found.likelihood_gain == pytest.approx(truth.likelihood_gain, abs=1e-4)
