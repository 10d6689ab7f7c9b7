"""Ratings in another unit: where all ratings become a r + b, predictions become a times as much plus b, to rounding."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.ratings import changed, rmse
from support.recommenders import MODELS
from tacenda.datasets import synthetic_ratings
from tacenda.ratings import Ratings, split
from tacenda_surprise import PMF, ConditionalPMF
from tacenda_surprise.bias import alternate
from tacenda_surprise.variance import Curve, Sizes, Variances, fit_curve, fit_variances

FITTED = {}


@pytest.fixture(scope="module")
def ratings():
    return synthetic_ratings.generate(50, 30, 480, rank=2, noise=0.5, seed=2).ratings


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=5)
@given(st.floats(-2, 2), st.floats(-50, 50))
def test_predictions_go_with_the_unit(ratings, name, logarithm, shift):
    factor = 10.0**logarithm
    ends = np.array([1.0, 5.0]) * factor + shift
    values, scale = ratings.values.astype(float) * factor + shift, ends.astype(np.float32)
    moved = changed(ratings, values=values, scale=tuple(scale.tolist()))
    if name not in FITTED:
        FITTED[name] = MODELS[name]().fit(ratings)
    model, other = FITTED[name], MODELS[name]().fit(moved)
    users, items = np.arange(-1, 49), np.arange(50) % 31 - 1
    # a rating of 32 bits far from zero is rounded more than its spread
    rounding = 2e-3 + 1e-5 * abs(shift) / factor
    for found, expected in (
        (other.score_pairs(users, items), factor * model.score_pairs(users, items) + shift),
        (other.deviations(users, items), factor * model.deviations(users, items)),
        (
            other.fold(np.array([1, 2]), factor * np.array([1.0, 5.0]) + shift).score(),
            factor * model.fold(np.array([1, 2]), [1.0, 5.0]).score() + shift,
        ),
    ):
        np.testing.assert_allclose(found / factor, expected / factor, atol=rounding, rtol=0)


def test_one_rating_predicts_about_itself():
    """Priors are not overwhelmed: nothing is known, so nothing extreme is predicted."""
    for value in (1.0, 3.0, 4.5):
        one = Ratings.from_triples([("u", "i", value)], scale=(1, 5))
        for name, make in MODELS.items():
            score = make().fit(one).score_pairs(np.array([0]), np.array([0]))[0]
            assert score == pytest.approx(value, abs=0.6), name


@pytest.mark.parametrize("model_class", [PMF, ConditionalPMF])
def test_early_stopping_is_hardly_worse_than_without(model_class):
    data = synthetic_ratings.generate(150, 80, 2_500, rank=2, noise=0.6, seed=5).ratings
    train, test = split(data, 0.2, seed=0)
    errors = []
    for validation in (0.0, 0.05):
        model = model_class(n_factors=10, validation=validation, random_state=0).fit(train)
        errors.append(rmse(model, test))
    assert errors[1] < 1.005 * errors[0]


@pytest.mark.parametrize("name", ["BiasOnly", "PMF", "BayesianPMF"])
def test_beyond_the_end_of_the_scale_variances_are_those_at_the_end(ratings, name):
    """Of users fitted and folded in alike: the curve of the variances was fitted to clipped predictions."""
    model = MODELS[name]().fit(ratings)
    folded = model.fold(*ratings.of_user(0))
    users, items = np.zeros(5, int), np.arange(5)
    # a curve that rises up to a point beyond the end, where it stays level
    curve = Curve(5.0, 10.0, slope=0.5)
    model._catalogue = replace(model.catalogue, mean=model.catalogue.mean + 100)
    if name == "BayesianPMF":
        model.learned = replace(model.learned, curve=np.array(curve))
        noise = model._noise
        at_end = noise._replace(curve=Curve())
        cases = (model.deviations(users, items), folded._replace(noise=noise).deviations(items))
        model.learned = replace(model.learned, curve=np.array(Curve()))
        expected = (model.deviations(users, items), folded._replace(noise=at_end).deviations(items))
    else:
        spread = replace(folded.spread, curve=np.array(curve, np.float32))
        at_end = replace(folded.spread, curve=np.array(Curve(), np.float32))
        cases, expected = [], []
        for one, kept in ((spread, cases), (at_end, expected)):
            model.learned = replace(model.learned, spread=one)
            kept += [model.deviations(users, items)]
            scores = folded.scores._replace(mean=folded.scores.mean + 100)
            kept += [folded._replace(spread=one, scores=scores).deviations(items)]
    for one, other in zip(cases, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_user_whose_errors_are_larger_than_others_adds_a_larger_variance():
    """sigma^2 (nu + squares / mean square) / (nu + n) + a_U / (1 + n / k_U), and a_I / (1 + n / k_I) of an item."""
    noise, a_u, k_u, a_i, k_i, nu = 0.8, 0.3, 5.0, 0.2, 7.0, 4.0
    theta = np.append(np.log([noise, a_u, k_u, a_i, k_i, nu]), [0.0, 0.0])
    found = Variances(theta, np.float64(2.0), np.array([3.0, 1.0, 0.0, 0.0]))
    counts, squares = np.array([10.0, 10.0, 0.0]), np.array([5.0, 15.0, 0.0])
    spread = found.spread(Sizes(counts, squares), Sizes(counts, squares))
    for i, (n, e) in enumerate(zip(counts, squares, strict=True)):
        own = noise * (nu + e) / (nu + n) + a_u / (1 + n / k_u)  # the mean square is 20 / 20
        assert spread.of_users[i] == pytest.approx(4 * own, rel=1e-6)
        assert spread.of_items[i] == pytest.approx(4 * a_i / (1 + n / k_i), rel=1e-6)
    assert spread.of_users[1] > spread.of_users[0]


def test_errors_left_out_are_as_often_within_one_and_two_deviations_as_normal_ones():
    rng = np.random.default_rng(0)
    u, i = rng.integers(0, 40, 3_000), rng.integers(0, 20, 3_000)
    errors = rng.standard_t(3, 3_000) * rng.uniform(0.5, 2.0, 40)[u]  # heavier tails than assumed
    predictions = rng.uniform(1, 5, 3_000).astype(np.float32)
    sizes = Sizes.of(u, errors, 40), Sizes.of(i, errors, 20)
    spread = fit_variances(errors, predictions, (u, i), sizes, 1.0).spread(*sizes)
    curve, factor = fit_curve(errors, predictions, 1.0)
    for sd in (
        spread.deviations(u, i, predictions, (1, 5)),
        np.sqrt(factor * curve.factors(predictions)),
    ):
        one, two = np.quantile(np.abs(errors / sd), [0.6827, 0.9545])
        assert one * two / 2 == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize("sizes", [(0.5, 0.4), (0.0, 0.4), (0.5, 0.0), (0.0, 0.0)])
def test_variances_of_biases_and_noise_are_those_the_ratings_were_drawn_with(sizes):
    """Four ratings a user: were biases taken for known, a third of the noise would be missing."""
    rng = np.random.default_rng(0)
    u, i = divmod(rng.choice(600 * 300, 2_400, replace=False), 300)
    b, c = sizes[0] * rng.standard_normal(600), sizes[1] * rng.standard_normal(300)
    found = Ratings.from_arrays(u, i, b[u] + c[i] + 0.8 * rng.standard_normal(2_400))
    fitted = alternate(found, found.mean, learn=(sizes[0] > 0, sizes[1] > 0))
    noise, *of_biases = fitted.variances
    assert noise == pytest.approx(0.64, rel=0.08)
    assert of_biases == pytest.approx(np.square(sizes), rel=0.25, abs=0.01)
    assert fitted.expected_error >= noise
    assert (fitted.expected_error == noise) == (not any(sizes))
