"""ASOS statistics, EM and likelihood against exact smoothing of a ring and against dense Gaussians."""

import numpy as np
import pytest

from tacenda.errors import TacendaWarning
from tacenda_embeddings.lds import em, solve_steady_state
from tacenda_embeddings.lds.em import run_e_step, run_m_step

KINDS = ["full", "diagonal", "spherical"]


@pytest.fixture(params=[False, True], ids=["m=0", "m>0"])
def ring(request, oracles):
    """A system and a long ring drawn from it, its sample covariance exactly I - m m^T."""
    rng = np.random.default_rng(1)
    system = oracles.random_system(rng, radius=0.8, strength=0.95, with_mean=request.param)
    return system, oracles.whitened(oracles.sample(rng, system, 10_000), system.m)


def relative_errors(found, expected):
    names = ("S_xx", "S_10", "S_xw", "Xi", "Pi")
    pairs = [(getattr(found, name), getattr(expected, name)) for name in names]
    return np.array([np.linalg.norm(x - y) / np.linalg.norm(y) for x, y in pairs])


def gain_of(statistics, oracles, Psi_0):
    """Log-likelihood over the model without dynamics, from the exact one."""
    return statistics.log_likelihood - oracles.log_likelihood_without_dynamics(Psi_0)


def test_statistics_are_those_of_a_full_smoothing_pass(ring, oracles, parameters_of):
    system, w = ring
    exact = oracles.ring_statistics(system, w)
    moments = oracles.DenseMoments(oracles.ring_moments(w, 12), system.m)
    errors = {
        r: relative_errors(run_e_step(parameters_of(system), moments, r), exact) for r in (3, 7, 12)
    }
    assert errors[12].max() <= 1e-5
    assert (errors[12] < errors[7]).all()
    assert (errors[7] < errors[3]).all()


@pytest.mark.parametrize("noise", KINDS)
def test_statistics_of_a_model_that_did_not_make_the_data(
    noise, oracles, parameters_of, with_diagonal_noise
):
    rng = np.random.default_rng(5)
    model = oracles.random_system(rng, radius=0.6, strength=0.9)
    if noise != "full":
        model = with_diagonal_noise(model, noise)
    other = oracles.random_system(rng, radius=0.5)
    w = oracles.whitened(oracles.sample(rng, other, 3000), model.m)
    Psi = oracles.ring_moments(w, 16)
    exact = oracles.ring_statistics(model, w)
    found = run_e_step(parameters_of(model, noise), oracles.DenseMoments(Psi, model.m), 16)
    assert relative_errors(found, exact).max() <= 1e-4


def test_a_warm_start_changes_nothing(ring, oracles, parameters_of):
    system, w = ring
    moments = oracles.DenseMoments(oracles.ring_moments(w, 7), system.m)
    cold = run_e_step(parameters_of(system), moments, 7)
    warm = run_e_step(parameters_of(system), moments, 7, 3 * np.eye(3))
    for x, y in zip(cold, warm, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("r", [2, 3, 7])
@pytest.mark.parametrize("with_mean", [False, True])
def test_with_its_own_covariances_a_model_is_a_fixed_point(
    r, with_mean, rng, oracles, parameters_of
):
    """The horizon is exact where the model is."""
    system = oracles.random_system(rng, with_mean=with_mean)
    parameters = parameters_of(system)
    moments = oracles.DenseMoments(oracles.model_moments(system, r), system.m)
    statistics, state = run_e_step(parameters, moments, r), solve_steady_state(parameters)
    after = run_m_step(statistics, parameters, system.m)
    for x, y in zip(after[:3], parameters[:3], strict=True):
        np.testing.assert_allclose(x, y, atol=1e-10)
    np.testing.assert_allclose(after.noise.N, system.P, atol=1e-10)
    np.testing.assert_allclose(statistics.S_xx, system.P, atol=1e-10)
    np.testing.assert_allclose(statistics.Pi, system.P - state.Sigma_0, atol=1e-10)


@pytest.mark.parametrize("noise", KINDS)
def test_em_follows_exact_em(noise, ring, oracles, parameters_of, with_diagonal_noise):
    """From the same start, in the same coordinates, iteration by iteration."""
    truth, w = ring
    w = w[:3000]
    w = oracles.whitened(w, truth.m)
    Psi = oracles.ring_moments(w, 14)
    moments = oracles.DenseMoments(Psi, truth.m)
    system = oracles.random_system(np.random.default_rng(8), radius=0.5, strength=0.9)
    system = system._replace(C=system.C - np.outer(truth.m, truth.m @ system.C), m=truth.m)
    system = system._replace(D=Psi[0] - system.C @ system.P @ system.C.T)
    if noise != "full":
        system = with_diagonal_noise(system, noise)
    parameters, gains = parameters_of(system, noise), []
    for _ in range(6):
        exact = oracles.ring_statistics(system, w)
        found = run_e_step(parameters, moments, 14)
        expected = gain_of(exact, oracles, Psi[0]) - along_mean(system, exact)
        assert found.likelihood_gain == pytest.approx(expected, abs=1e-7)
        gains.append(found.likelihood_gain)
        system = oracles.maximize(exact, Psi[0], truth.m)
        if noise != "full":
            d = np.diag(system.D)
            system = system._replace(D=np.diag(d if noise == "diagonal" else 0 * d + d.mean()))
        parameters = run_m_step(found, parameters, truth.m)
        for x, y in zip(parameters[:3], system[:3], strict=True):
            np.testing.assert_allclose(x, y, atol=1e-7)
    assert np.diff(gains).min() > 0
    assert gains[-1] - gains[0] > 0.01


def along_mean(system, statistics):
    """log p(w^T m = 0) where the model has noise along m, a dimension that the data have not."""
    if not system.m.any() or statistics.dimensions < len(system.m):
        return 0.0
    return -0.5 * np.log(2 * np.pi * (system.m @ system.D @ system.m))


def dense_gain(oracles, system, Psi, n):
    """One more token in a long window: E[log p(w_1..w_n)] less E[log p(w_1..w_n-1)], no recursion."""
    longer, shorter = (oracles.expected_log_likelihood(system, Psi, k) for k in (n, n - 1))
    return longer - shorter - oracles.log_likelihood_without_dynamics(Psi[0])


@pytest.mark.parametrize("noise", KINDS)
def test_likelihood_is_that_of_a_dense_gaussian(
    noise, rng, oracles, parameters_of, with_diagonal_noise
):
    system = oracles.random_system(rng, V=4, h=2, radius=0.6, with_mean=False)
    if noise != "full":
        system = with_diagonal_noise(system, noise)
    data = oracles.random_system(rng, V=4, h=2, radius=0.5, with_mean=False)
    Psi = oracles.model_moments(data, 30)
    expected = dense_gain(oracles, system, Psi, 30)
    moments = oracles.DenseMoments(Psi, system.m)
    found = run_e_step(parameters_of(system, noise), moments, 30)
    assert found.likelihood_gain == pytest.approx(expected, abs=1e-8)


def test_likelihood_where_the_mean_direction_has_no_variance(rng, oracles, parameters_of):
    system = oracles.random_system(rng, V=4, h=2, radius=0.6)
    Psi = oracles.model_moments(system, 25)
    expected = dense_gain(oracles, system, Psi, 25)
    moments = oracles.DenseMoments(Psi, system.m)
    found = run_e_step(parameters_of(system), moments, 25)
    assert found.likelihood_gain == pytest.approx(expected, abs=1e-9)
    assert found.likelihood_gain > 0.1


@pytest.mark.parametrize("noise", ["diagonal", "spherical"])
def test_noise_along_the_mean_direction_is_conditioned_on(
    noise, rng, oracles, parameters_of, with_diagonal_noise
):
    """A long window as one Gaussian, conditioned on w_t^T m = 0 for every t: no recursion."""
    system = with_diagonal_noise(oracles.random_system(rng, V=4, h=2, radius=0.6), noise)
    data = oracles.random_system(np.random.default_rng(3), V=4, h=2, radius=0.5)
    turn = rotation(data.m, system.m)
    Psi = [turn @ Psi_k @ turn.T for Psi_k in oracles.model_moments(data, 25)]
    U = np.linalg.svd(Psi[0])[0][:, :-1]
    np.testing.assert_allclose(U.T @ system.m, 0.0, atol=1e-12)

    def expected(n):
        inside = np.kron(np.eye(n), U)
        S = oracles.toeplitz(oracles.model_moments(system, n), n)
        inverse = inside.T @ np.linalg.inv(S) @ inside
        seen = inside.T @ oracles.toeplitz(Psi, n) @ inside
        constant = len(inverse) * np.log(2 * np.pi) - np.linalg.slogdet(inverse)[1]
        return -0.5 * (constant + np.trace(inverse @ seen))

    gain = expected(25) - expected(24) - oracles.log_likelihood_without_dynamics(Psi[0])
    moments = oracles.DenseMoments(Psi, system.m)
    found = run_e_step(parameters_of(system, noise), moments, 25)
    assert found.likelihood_gain == pytest.approx(gain, abs=1e-8)
    if noise == "spherical":  # nothing to condition on: noise along m is independent of the rest
        projected = system._replace(D=U @ (U.T @ system.D @ U) @ U.T)
        same = dense_gain(oracles, projected, Psi, 25)
        assert found.likelihood_gain == pytest.approx(same, abs=1e-8)


def rotation(start, end):
    """The orthogonal matrix that reflects one unit vector into another."""
    half = start - end
    return np.eye(len(half)) - 2 * np.outer(half, half) / (half @ half)


def test_an_unstable_model_is_refused(rng, oracles, parameters_of):
    system = oracles.random_system(rng)
    moments = oracles.DenseMoments(oracles.model_moments(system, 3), system.m)
    unstable = parameters_of(system._replace(A=np.full((3, 3), np.nan)))
    with pytest.raises(np.linalg.LinAlgError):
        run_e_step(unstable, moments, 3)


def test_moments_that_do_not_converge_bring_a_warning(rng, oracles, parameters_of, monkeypatch):
    system = oracles.random_system(rng)
    moments = oracles.DenseMoments(oracles.model_moments(system, 3), system.m)
    monkeypatch.setattr(em, "_MAX_MOMENT_ITERATIONS", 1)
    with pytest.warns(TacendaWarning, match="moments of the states .* after 1 iterations"):
        run_e_step(parameters_of(system), moments, 3, 3 * np.eye(3))
