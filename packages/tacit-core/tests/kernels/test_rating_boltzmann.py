"""Contrastive divergence against brute force over all states of tiny machines."""

from itertools import product

import numpy as np
import pytest

from tacit import kernels
from tacit.errors import KernelError
from tacit.kernels.rating_boltzmann import divergence
from tacit.kernels.rating_boltzmann.naive import uniforms

BACKENDS = ("reference", "cpu")
K, VISIBLE, HIDDEN = 3, 2, 2


def machine(tied, seed=0, n_cases=1, levels=((0, 2),)):
    rng = np.random.default_rng(seed)
    shape = (VISIBLE, HIDDEN) if tied else (VISIBLE, K, HIDDEN)
    return {
        "offsets": np.arange(n_cases + 1) * VISIBLE,
        "ids": np.tile(np.arange(VISIBLE), n_cases),
        "levels": np.array(levels * (n_cases // len(levels))).ravel(),
        "cases": np.arange(n_cases),
        "weights": rng.normal(0, 0.7, shape).astype(np.float32),
        "visible_biases": rng.normal(0, 0.5, (VISIBLE, K)).astype(np.float32),
        "hidden_biases": rng.normal(0, 0.5, HIDDEN).astype(np.float32),
        "side_weights": np.zeros((0, HIDDEN), np.float32),
        "scores": np.array([-1, 0, 1], np.float32),
        "slopes": np.full(n_cases, 0.3, np.float32),
        "steps": 1,
        "seed": 5,
    }


def unnormalized(given, r):
    """sum_h exp(-E(r, h)), over every hidden state."""
    s, W = given["scores"].astype(float), given["weights"].astype(float)
    if W.ndim == 2:
        W = W[:, None, :] * s[None, :, None]
    total = 0.0
    for h in product((0, 1), repeat=HIDDEN):
        e = given["hidden_biases"] @ np.array(h)
        for m, k in enumerate(r):
            e += given["visible_biases"][m, k] + s[k] * given["slopes"][0] + W[m, k] @ np.array(h)
        total += np.exp(e)
    return total


def log_likelihood(given, r):
    states = product(range(K), repeat=VISIBLE)
    return np.log(unnormalized(given, r) / sum(unnormalized(given, v) for v in states))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_long_chain_gives_the_gradient_of_the_likelihood(backend, tied):
    """Many cases with the same ratings and 30 steps: the mean is the exact gradient but for noise."""
    n = 400 if backend == "reference" else 40_000
    given = machine(tied, n_cases=n)
    with kernels.use(backend):
        found = divergence(**{**given, "steps": 5 if backend == "reference" else 30})
    one = machine(tied)
    for name in ("weights", "visible_biases", "hidden_biases"):
        numeric = np.zeros(one[name].shape)
        for index in np.ndindex(one[name].shape):
            values = []
            for step in (1e-3, -1e-3):
                moved = one[name].astype(float)
                moved[index] += step
                values.append(log_likelihood({**one, name: moved}, (0, 2)))
            numeric[index] = (values[0] - values[1]) / 2e-3
        tolerance = 0.13 if backend == "reference" else 0.015
        np.testing.assert_allclose(getattr(found, name) / n, numeric, atol=tolerance)


def test_one_step_leaves_the_model_distribution_as_it_is():
    """Data drawn from the machine itself: the expected gradient is zero."""
    one = machine(tied=False)
    states = list(product(range(K), repeat=VISIBLE))
    chances = np.array([unnormalized(one, v) for v in states])
    rng = np.random.default_rng(0)
    n = 60_000
    drawn = np.array(states)[rng.choice(len(states), n, p=chances / chances.sum())]
    given = {**machine(tied=False, n_cases=n), "levels": drawn.ravel()}
    found = divergence(**given)
    for name in ("weights", "visible_biases", "hidden_biases"):
        assert np.abs(getattr(found, name)).max() / n < 0.012


@pytest.mark.parametrize("backend", BACKENDS)
def test_tied_weights_are_untied_ones_in_proportion_to_the_scores(backend):
    tied = machine(tied=True, n_cases=6, levels=((0, 2), (1, 1)))
    s = tied["scores"]
    untied = {**tied, "weights": tied["weights"][:, None, :] * s[None, :, None]}
    with kernels.use(backend):
        one, other = divergence(**tied), divergence(**untied)
    np.testing.assert_allclose(one.error, other.error, rtol=1e-5)
    expected = np.einsum("mkh,k->mh", other.weights, s)
    np.testing.assert_allclose(one.weights, expected, atol=1e-5)
    np.testing.assert_array_equal(one.visible_biases, other.visible_biases)


def test_identities_move_the_hidden_biases():
    given = machine(tied=True)
    U = np.array([[0.5, -1.0], [2.0, 0.3]], np.float32)
    side = {"side_offsets": np.array([0, 1]), "side_ids": np.array([1])}
    found = divergence(**{**given, "side_weights": U}, **side)
    moved = {**given, "hidden_biases": given["hidden_biases"] + U[1]}
    expected = divergence(**moved)
    np.testing.assert_allclose(found.weights, expected.weights, atol=1e-6)
    np.testing.assert_allclose(found.side_weights[1], expected.hidden_biases, atol=1e-6)
    np.testing.assert_array_equal(found.side_weights[0], 0)


def test_a_case_does_not_depend_on_its_company():
    given = machine(tied=True, n_cases=6, levels=((0, 2), (1, 1)))
    together = divergence(**given)
    alone = [divergence(**{**given, "cases": np.array([c])}) for c in range(6)]
    np.testing.assert_allclose(together.weights, sum(a.weights for a in alone), atol=1e-5)
    assert together.error == pytest.approx(sum(a.error for a in alone), rel=1e-6)


def test_random_numbers_are_uniform():
    numbers = [n for case in range(200) for n, _ in zip(uniforms(1, case), range(50), strict=False)]
    counts = np.histogram(numbers, 20, (0, 1))[0]
    assert ((counts - 500) ** 2 / 500).sum() < 45  # chi-square, 19 degrees: 0.999 quantile 43.8


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"levels": np.array([0, 3])}, "levels run from 0 to 3, of 3"),
        ({"levels": np.array([0])}, "levels must be"),
        ({"ids": np.array([0, 2])}, "visible ids run from"),
        ({"weights": np.zeros((2, 4))}, "weights must be"),
        ({"slopes": np.zeros(2)}, "slopes must be"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"cases": np.array([1])}, "users run from 1"),
    ],
)
def test_what_does_not_fit_is_refused(backend, change, message):
    with kernels.use(backend), pytest.raises(KernelError, match=message):
        divergence(**{**machine(tied=True), **change})
