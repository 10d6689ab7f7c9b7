"""The two-sided smoother in float64 against Rauch-Tung-Striebel and against the plain recursions."""

import numpy as np
import pytest

from tacenda_embeddings.lds import solve_steady_state
from tacenda_embeddings.lds.smoother import build_two_sided


def scan(M, u):
    """y_t = M y_{t-1} + u_t."""
    out, y = np.empty_like(u), np.zeros(u.shape[1])
    for t, row in enumerate(u):
        y = M @ y + row
        out[t] = y
    return out


def smooth(matrices, ids, exact_ends=True):
    """own, past, future (tokens, states), the ends by a dense solve."""
    table, F, J, L, R, _ = (array for _, array in matrices.items())
    own, n, h = table[ids], len(ids), len(F)
    past = future = np.zeros(h)
    if exact_ends:
        there, back = (np.linalg.matrix_power(M, n - 1) for M in (F, J))
        a, b = scan(F, own)[-1], scan(J, own[::-1])[-1]
        future = np.linalg.solve(np.eye(h) - R @ there @ L @ back, R @ (a + there @ L @ b))
        past = L @ (b + back @ future)
    u_a, u_b = own.copy(), own.copy()
    u_a[0] += past
    u_b[-1] += future
    return own, scan(F, u_a) - own, scan(J, u_b[::-1])[::-1] - own


@pytest.fixture(params=["full", "diagonal", "spherical"])
def model(request, rng, oracles, parameters_of, with_diagonal_noise):
    system = oracles.random_system(rng)
    if request.param != "full":
        system = with_diagonal_noise(system, request.param)
    scale = rng.uniform(1, 3, len(system.m))
    return system, parameters_of(system, request.param), scale


def observations(system, scale, ids):
    """Whitened indicators W (w~ - mu), as the table is built for."""
    return np.diag(scale)[ids] - system.m


@pytest.mark.parametrize("n", [1, 2, 5, 63])
def test_equals_the_exact_smoother_of_a_finite_sequence(model, n, rng, oracles):
    system, parameters, scale = model
    ids = rng.integers(0, len(scale), n)
    parts = smooth(build_two_sided(parameters, scale, system.m), ids)
    w = observations(system, scale, ids)
    np.testing.assert_allclose(sum(parts), oracles.rts_smoother(system, w).mean, atol=1e-9)


def test_one_token_is_a_regression_on_it(model, oracles):
    system, parameters, scale = model
    gain = system.P @ system.C.T
    gain = gain @ oracles.pseudo_inverse(system.C @ gain + system.D)
    for word in range(len(scale)):
        parts = smooth(build_two_sided(parameters, scale, system.m), np.array([word]))
        expected = gain @ observations(system, scale, [word])[0]
        np.testing.assert_allclose(sum(parts)[0], expected, atol=1e-10)


def test_started_from_zero_it_is_the_plain_steady_state_smoother(model, rng, oracles):
    """Equations 4 and 5 from xf_0 = 0 and xs_T = xf_T, with matrices from a long run of the filter.

    The two-sided form starts b from zero, as if average words followed: the plain smoother of the
    same words with a long run of average ones behind them.
    """
    system, parameters, scale = model
    ids = rng.integers(0, len(scale), 12)
    steady = oracles.steady(system)
    F = system.A - steady.K @ system.C @ system.A
    J = steady.Sigma_0 @ system.A.T @ np.linalg.inv(steady.Sigma_1)
    G = np.eye(len(J)) - J @ system.A
    w = np.concatenate([observations(system, scale, ids), np.zeros((400, len(scale)))])
    xf = scan(F, w @ steady.K.T)
    xs = scan(J, np.concatenate([xf[-1:], (xf[:-1] @ G.T)[::-1]]))[::-1]
    parts = smooth(build_two_sided(parameters, scale, system.m), ids, exact_ends=False)
    np.testing.assert_allclose(sum(parts), xs[:12], atol=1e-9)


def test_the_filter_matrix_leads_to_the_filtered_mean(model, rng, oracles):
    system, parameters, scale = model
    ids = rng.integers(0, len(scale), 300)
    matrices = build_two_sided(parameters, scale, system.m)
    own, past, _ = smooth(matrices, ids, exact_ends=False)
    filtered = oracles.kalman_filter(system, observations(system, scale, ids)).mean
    np.testing.assert_allclose(((own + past) @ matrices.filter.T)[-1], filtered[-1], atol=1e-9)


def test_output_coordinates_whiten_the_posterior_means(model, rng, oracles):
    system, parameters, scale = model
    half = rng.standard_normal((3, 3))
    M = half @ half.T + 0.1 * np.eye(3)
    ids = rng.integers(0, len(scale), 7)
    plain = smooth(build_two_sided(parameters, scale, system.m), ids)
    turned = smooth(build_two_sided(parameters, scale, system.m, M), ids)
    root = oracles.symmetric_root(M, -0.5)
    for part, other in zip(plain, turned, strict=True):
        np.testing.assert_allclose(other, part @ root, atol=1e-9)


def test_backward_and_forward_recursions_are_adjoint(model):
    """F' = Sigma_s J^T Sigma_s^-1: they fade at the same rate."""
    system, parameters, scale = model
    matrices, state = build_two_sided(parameters, scale, system.m), solve_steady_state(parameters)
    expected = state.Sigma_s @ state.J.T @ np.linalg.inv(state.Sigma_s)
    np.testing.assert_allclose(matrices.forward, expected, atol=1e-9)
