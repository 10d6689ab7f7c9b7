"""Steady state and gain against a long run of the time-varying filter, for every kind of noise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda_embeddings.lds import (
    DiagonalNoise,
    FullNoise,
    solve_predictive_covariance,
    solve_stationary_covariance,
    solve_steady_state,
)

KINDS = ["full", "diagonal", "spherical"]


@pytest.fixture(params=[*KINDS, "full, m = 0"])
def model(request, rng, oracles, parameters_of, with_diagonal_noise):
    kind, _, centered = request.param.partition(",")
    system = oracles.random_system(rng, with_mean=not centered)
    if kind != "full":
        system = with_diagonal_noise(system, kind)
    return system, parameters_of(system, kind)


def test_covariances_are_the_limits_of_the_time_varying_ones(model, oracles):
    system, parameters = model
    found, expected = solve_steady_state(parameters), oracles.steady(system)
    for name in ("Sigma_1", "Sigma_0", "Sigma_s"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-11)


def test_covariances_in_the_middle_of_a_long_sequence(model, oracles):
    system, parameters = model
    middle = oracles.rts_smoother(system, np.zeros((201, len(system.C))))
    found = solve_steady_state(parameters)
    np.testing.assert_allclose(found.Sigma_s, middle.covariance[100], atol=1e-11)
    np.testing.assert_allclose(found.Sigma_s @ found.J.T, middle.lagged[100], atol=1e-11)


def test_precision_is_the_pseudo_inverse_form(model, oracles):
    system, parameters = model
    expected = system.C.T @ oracles.pseudo_inverse(system.D) @ system.C
    np.testing.assert_allclose(parameters.noise.precision(parameters.C), expected, rtol=1e-9)


def test_gain_is_the_pseudo_inverse_form(model, oracles):
    """K = Sigma_1 C^T S^+ wherever observations lie: not along m, which a diagonal D sees too."""
    system, parameters = model
    state, gain = solve_steady_state(parameters), solve_steady_state(parameters).gain
    S = system.C @ state.Sigma_1 @ system.C.T + system.D
    K = state.Sigma_1 @ system.C.T @ oracles.pseudo_inverse(S)
    np.testing.assert_allclose(gain.K_c @ gain.C_hat.T, K, atol=1e-11)
    np.testing.assert_allclose(gain.K_c @ gain.cross, K @ system.C, atol=1e-11)
    Psi_0 = np.eye(len(S)) - np.outer(system.m, system.m)
    np.testing.assert_allclose(gain.K_c @ gain.square @ gain.K_c.T, K @ Psi_0 @ K.T, atol=1e-11)
    F = system.A - K @ system.C @ system.A
    np.testing.assert_allclose(state.F, F, atol=1e-11)


def test_gain_knows_the_inverse_and_determinant_of_the_innovation_covariance(model, oracles):
    system, parameters = model
    state = solve_steady_state(parameters)
    gain, noise = state.gain, parameters.noise
    S = system.C @ state.Sigma_1 @ system.C.T + system.D
    Psi_0 = np.eye(len(S)) - np.outer(system.m, system.m)
    base = Psi_0 if isinstance(noise, FullNoise) else np.diag(1 / noise.d)
    S_inverse = base - gain.C_hat @ gain.inner @ gain.C_hat.T
    np.testing.assert_allclose(S_inverse, oracles.pseudo_inverse(S), atol=1e-10)
    if system.m.any():  # the covariance of what is orthogonal to m, given that nothing lies along m
        U = np.linalg.svd(Psi_0)[0][:, :-1]
        S = np.linalg.inv(U.T @ oracles.pseudo_inverse(S) @ U)
    np.testing.assert_allclose(gain.log_det, oracles.log_pseudo_determinant(S), atol=1e-10)
    traces = np.trace(base @ Psi_0) - np.trace(Psi_0)
    np.testing.assert_allclose(gain.base_trace, traces, atol=1e-10)


def test_refit_of_full_noise_takes_what_the_states_leave(rng):
    S_xx, noise = np.eye(3), FullNoise(np.zeros((3, 3)))
    assert noise.refit(rng.standard_normal((6, 3)), S_xx, np.zeros(6)).N is S_xx


@pytest.mark.parametrize("spherical", [False, True])
def test_refit_of_diagonal_noise_takes_the_residual_variances(spherical, rng, oracles):
    system = oracles.random_system(rng)
    found = DiagonalNoise(np.ones(6), system.m, spherical).refit(system.C, system.P, system.m)
    residual = np.diag(system.D)
    expected = np.full(6, residual.mean()) if spherical else residual
    np.testing.assert_allclose(found.d, expected, atol=1e-12)
    assert found.spherical is spherical


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
    st.floats(0.0, 0.999),
    st.floats(1e-3, 1e3),
    st.floats(1e-3, 1e3),
)
def test_doubling_solves_the_riccati_equation(seed, n, radius, noise, information):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, n))
    A *= radius / np.abs(np.linalg.eigvals(A)).max()
    half, other = rng.standard_normal((2, n, n))
    Q = noise * (half @ half.T + 0.1 * np.eye(n))
    R_D = information * other @ other.T
    X = solve_predictive_covariance(A, Q, R_D)
    again = A @ X @ np.linalg.inv(np.eye(n) + R_D @ X) @ A.T + Q
    np.testing.assert_allclose(X, again, atol=1e-8 * np.abs(X).max())
    assert np.linalg.eigvalsh(X - Q).min() >= -1e-8 * np.abs(X).max()


def test_a_state_that_grows_without_observations_has_no_steady_state():
    with pytest.raises(np.linalg.LinAlgError, match="does not converge"):
        solve_predictive_covariance(np.eye(1), np.eye(1), np.zeros((1, 1)))


def test_without_observations_the_prediction_is_the_prior(rng, oracles):
    system = oracles.random_system(rng)
    X = solve_predictive_covariance(system.A, system.Q, np.zeros((3, 3)))
    np.testing.assert_allclose(X, system.P, atol=1e-10)
    np.testing.assert_allclose(
        solve_stationary_covariance(system.A, system.Q), system.P, atol=1e-10
    )
