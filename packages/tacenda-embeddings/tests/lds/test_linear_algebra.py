"""Stein equations, spectral clipping and matrix powers, against plain sums and decompositions."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda_embeddings.lds import SteinSolver, spectral_radius, symmetric_power, symmetrize
from tacenda_embeddings.lds.learning import clip_eigenvalues, limit_spectral_radius

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 6)


def random_matrix(seed, n, radius):
    X = np.random.default_rng(seed).standard_normal((n, n))
    return X * (radius / np.abs(np.linalg.eigvals(X)).max())


@settings(max_examples=60)
@given(seeds, sizes, st.floats(0, 0.999), st.floats(0, 1))
def test_stein_solution_satisfies_its_equation(seed, n, left, right):
    L, R = random_matrix(seed, n, left), random_matrix(seed + 1, n, right)
    W = random_matrix(seed + 2, n, 1.0)
    X = SteinSolver(L, R).solve(W)
    scale = np.abs(X).max() + np.abs(L).max() * np.abs(X).max() * np.abs(R).max()
    np.testing.assert_allclose(X, L @ X @ R + W, atol=1e-10 * scale)


@pytest.mark.parametrize("radius", [1.0, 1.5, 1e200, np.nan])
def test_an_unstable_recursion_is_refused(radius):
    with pytest.raises(np.linalg.LinAlgError, match="not stable"):
        SteinSolver(np.diag([radius, 0.2]), np.diag([1.0, 0.1]))


@settings(max_examples=40)
@given(seeds, sizes, st.floats(0.1, 3), st.floats(0.1, 0.999))
def test_clipping_the_radius_keeps_the_modes(seed, n, radius, limit):
    A = random_matrix(seed, n, radius)
    clipped = limit_spectral_radius(A, limit)
    assert spectral_radius(clipped) <= limit * (1 + 1e-7)
    if radius <= limit:
        np.testing.assert_allclose(clipped, A, atol=1e-9)
        return
    values = np.linalg.eigvals(A)
    expected = values * np.minimum(1, limit / np.abs(values))
    if np.linalg.cond(np.linalg.eig(A)[1]) < 1e5:
        np.testing.assert_allclose(A @ clipped, clipped @ A, atol=1e-7 * np.abs(A).max() ** 2)
        np.testing.assert_allclose(np.poly(clipped), np.poly(np.diag(expected)).real, atol=1e-6)


def test_without_eigenvectors_the_whole_matrix_is_scaled():
    A = np.array([[2.0, 1.0], [0.0, 2.0]])
    np.testing.assert_allclose(limit_spectral_radius(A, 0.5), A / 4)


@settings(max_examples=30)
@given(seeds, sizes)
def test_symmetric_powers_and_clipping(seed, n):
    half = random_matrix(seed, n, 1.0)
    X = half @ half.T + 0.1 * np.eye(n)
    root = symmetric_power(X, 0.5)
    scale = np.linalg.norm(X)
    np.testing.assert_allclose(root @ root, X, atol=1e-12 * scale)
    np.testing.assert_allclose(root @ symmetric_power(X, -0.5), np.eye(n), atol=1e-8 * scale)
    values = np.linalg.eigvalsh(X)
    clipped = clip_eigenvalues(X, 0.2, 0.6)
    np.testing.assert_allclose(
        np.linalg.eigvalsh(clipped), np.clip(values, 0.2, 0.6), atol=1e-12 * scale
    )
    np.testing.assert_allclose(symmetrize(half), (half + half.T) / 2)


@settings(max_examples=30)
@given(seeds, sizes, st.floats(0, 0.99))
def test_stein_solution_is_scipys_for_lyapunov(seed, n, radius):
    A, half = random_matrix(seed, n, radius), random_matrix(seed + 1, n, 1.0)
    W = half @ half.T
    expected = scipy.linalg.solve_discrete_lyapunov(A, W)
    found = SteinSolver(A, A.T).solve(W)
    np.testing.assert_allclose(found, expected, atol=1e-7 * np.abs(expected).max())
