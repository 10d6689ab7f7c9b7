"""Words are drawn with their probabilities: chi-square tests, which a right draw fails for one in a million seeds."""

import numpy as np
import pytest
from scipy.stats import chisquare

from tacenda.kernels.boltzmann import pack_inputs
from tacenda_lm.boltzmann.contrast import draw, draw_by_divergence, draw_by_prediction
from tacenda_lm.boltzmann.machine import compute_inputs, look_up_features


@pytest.mark.parametrize("types", [2, 5, 127, 128, 129, 400])
def test_inversion_draws_each_word_as_often_as_it_should(types):
    rng = np.random.default_rng(types)
    weights = (rng.random((2, types)) + 0.2).astype(np.float32)
    weights[1, : types // 2] = 0
    found = draw(weights, rng.random((2, 20_000)))
    for row, drawn in zip(weights, found, strict=True):
        counts, there = np.bincount(drawn, minlength=types), row > 0
        assert counts[there].sum() == 20_000
        if there.sum() > 1:
            chances = row[there].astype(np.float64)
            assert chisquare(counts[there], 20_000 * chances / chances.sum()).pvalue > 1e-6


def test_points_at_the_ends_stay_within_the_words():
    weights = np.array([[0, 0, 3, 1, 0]], np.float32)
    found = draw(weights, np.array([[0.0, 0.7499, 0.7501, np.nextafter(1, 0)]]))
    np.testing.assert_array_equal(found, [[2, 2, 3, 3]])


def test_words_of_weight_zero_are_never_drawn():
    rng = np.random.default_rng(0)
    weights = rng.random((512, 264)).astype(np.float32)
    weights[:, :70] = weights[:, 164:] = 0
    points = np.tile([0.0, 1e-300, 1 - 1e-7, np.nextafter(1, 0)], (512, 50))
    assert np.take_along_axis(weights, draw(weights, points), axis=1).all()


def test_words_drawn_from_the_prediction_have_its_probabilities(oracles):
    """Each context has its share of every word to within one draw, since points lie evenly."""
    p = oracles.machine()
    batch, own = oracles.contexts(p), oracles.single(p)
    inputs = compute_inputs(p, look_up_features(p, batch), None)
    scores = np.logaddexp(0, inputs[:, None] + (p.words @ p.outputs)[None]).sum(2) + p.biases[:, 0]
    chances = np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
    words = pack_inputs(own.words @ own.outputs)
    rng, counts = np.random.default_rng(0), np.zeros_like(chances)
    for _ in range(400):
        found = draw_by_prediction(own, words, inputs.astype(np.float32), batch.targets, 7, rng)
        each = np.stack([np.bincount(row, minlength=6) for row in found.words])
        assert (np.abs(each - 7 * chances) < 1.001).all()
        counts += each
    expected = -np.log(chances[np.arange(5), batch.targets]).sum()
    assert found.loss == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(found.weights.sum(axis=1), 1, rtol=1e-6)
    # the variance of a count is at most 1/4 for each round of points
    assert np.abs(counts - 400 * 7 * chances).max() < 5.5 * np.sqrt(400 / 4)


@pytest.mark.parametrize("steps", [1, 3])
def test_the_chain_of_contrastive_divergence_reaches_words_as_often_as_it_should(oracles, steps):
    """Against the product of the transition matrices of Gibbs sampling (eqs 3.12 and 3.13), all states written out."""
    p = oracles.machine(hidden=3)
    batch = oracles.contexts(p, 1)
    words = oracles.context_of(batch, 0)
    up = np.array(
        [[np.exp(-oracles.energy(p, w, h, words)) for h in oracles.states(p)] for w in range(6)]
    )
    down = (up / up.sum(axis=0)).T
    up /= up.sum(axis=1, keepdims=True)
    reached = np.linalg.matrix_power(up @ down, steps)[batch.targets[0]]
    inputs = np.repeat(compute_inputs(p, look_up_features(p, batch), None), 20_000, axis=0)
    targets = np.repeat(batch.targets, 20_000)
    found = draw_by_divergence(p, inputs, targets, steps, np.random.default_rng(1))
    assert found.words.shape == found.weights.shape == (20_000, 1)
    counts = np.bincount(found.words[:, 0], minlength=6)
    assert chisquare(counts, 20_000 * reached).pvalue > 1e-6
