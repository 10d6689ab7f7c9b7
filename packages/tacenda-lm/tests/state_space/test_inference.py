"""The most probable state against a general optimizer, on toys of every shape."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from tacenda_lm.state_space.inference import find_most_probable, make_product, solve


def brute(outputs, biases, predicted, word, variance):
    """The state that maximizes eq 9, by BFGS."""

    def negative(s):
        distance = ((s - predicted) ** 2).sum() / (2 * variance)
        return distance - log_softmax(outputs @ s + biases)[word]

    found = minimize(negative, predicted, method="BFGS", options={"gtol": 1e-9})
    return found.x, -found.fun


def toy(types, width, scale, states=8, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    outputs = (scale * rng.standard_normal((types, width))).astype(dtype)
    biases = rng.standard_normal(types).astype(dtype)
    predicted = rng.standard_normal((states, width)).astype(dtype)
    return outputs, biases, predicted, rng.integers(types, size=states)


@pytest.mark.parametrize(
    ("types", "width", "scale", "variance"),
    [(5, 3, 1.0, 0.1), (4, 9, 2.0, 0.5), (2, 1, 3.0, 2.0), (12, 6, 5.0, 1.0), (3, 2, 0.01, 0.1)],
)
def test_it_is_the_state_that_an_optimizer_finds(types, width, scale, variance):
    outputs, biases, predicted, words = toy(types, width, scale)
    seen = np.ones(len(words))
    scores = predicted @ outputs.T + biases
    e, p = find_most_probable(scores, words, seen, make_product(outputs, variance))
    states = predicted + variance * e @ outputs
    for i, word in enumerate(words.tolist()):
        expected, height = brute(outputs, biases, predicted[i], word, variance)
        distance = ((states[i] - predicted[i]) ** 2).sum() / (2 * variance)
        reached = log_softmax(outputs @ states[i] + biases)
        assert reached[word] - distance >= height - 1e-7
        np.testing.assert_allclose(states[i], expected, rtol=0, atol=1e-4)
        np.testing.assert_allclose(p[i], np.exp(reached), rtol=0, atol=1e-7)


def test_a_token_that_says_nothing_leaves_the_predicted_state():
    outputs, biases, predicted, words = toy(5, 3, 1.0)
    seen = np.array([1.0, 0, 1, 0, 1, 1, 0, 1])
    scores = predicted @ outputs.T + biases
    e, _ = find_most_probable(scores, words, seen, make_product(outputs, 0.5))
    assert not e[seen == 0].any()
    assert e[seen == 1].any(axis=1).all()


def test_a_state_does_not_depend_on_those_beside_it():
    outputs, biases, predicted, words = toy(6, 4, 3.0)
    scores, product = predicted @ outputs.T + biases, make_product(outputs, 1.0)
    seen = np.ones(len(words))
    together, _ = find_most_probable(scores, words, seen, product)
    for i in range(len(words)):
        alone, _ = find_most_probable(scores[i : i + 1], words[i : i + 1], seen[:1], product)
        np.testing.assert_allclose(alone[0], together[i], rtol=0, atol=1e-9)


def test_the_product_for_many_types_is_that_for_few():
    rng = np.random.default_rng(0)
    many, e = rng.standard_normal((700, 5)), rng.standard_normal((3, 700))
    np.testing.assert_allclose(make_product(many, 0.3)(e), 0.3 * e @ many @ many.T, rtol=1e-10)
    few, e = many[:9], e[:, :9]
    np.testing.assert_allclose(make_product(few, 0.3)(e), 0.3 * e @ few @ few.T, rtol=1e-10)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e4])
def test_single_precision_finds_the_same_probabilities(scale):
    found = []
    for dtype in (np.float32, np.float64):
        outputs, biases, predicted, words = toy(9, 5, scale, dtype=dtype)
        seen = np.ones(len(words), dtype)
        scores = (predicted / max(scale, 1)).astype(dtype) @ outputs.T + biases
        e, p = find_most_probable(scores, words, seen, make_product(outputs, 0.1))
        assert e.dtype == p.dtype == dtype
        assert np.isfinite(e).all()
        found.append(p)
    np.testing.assert_allclose(*found, rtol=0, atol=2e-3)


def test_systems_are_solved():
    rng = np.random.default_rng(1)
    outputs, p = rng.standard_normal((6, 8)), rng.dirichlet(np.ones(6), 4)
    rhs, seen = rng.standard_normal((4, 6)), np.array([1.0, 1, 0, 1])
    G = 0.7 * outputs @ outputs.T
    d, moves, size = solve(p, seen, make_product(outputs, 0.7), rhs)
    for i in range(4):
        D = seen[i] * (np.diag(p[i]) - np.outer(p[i], p[i]))
        np.testing.assert_allclose(d[i], np.linalg.solve(np.eye(6) + D @ G, rhs[i]), 1e-6)
        np.testing.assert_allclose(moves[i], G @ d[i], 1e-6)
        assert size[i] == pytest.approx(rhs[i] @ G @ rhs[i])
