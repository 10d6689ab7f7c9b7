import warnings

import numpy as np
import pytest

from tacenda.datasets import synthetic_ratings
from tacenda.errors import ConfigurationError


@pytest.fixture(scope="module")
def plain():
    return synthetic_ratings.generate(800, 400, 40_000, seed=3)


@pytest.fixture(scope="module")
def informative():
    return synthetic_ratings.generate(800, 400, 40_000, seed=3, informative=2.0)


def rmse(a, b):
    return float(np.sqrt(np.mean((a - b) ** 2)))


def pairs(made):
    return made.ratings.user_ids, made.ratings.item_ids


def test_the_same_seed_gives_the_same_ratings():
    prints = [
        synthetic_ratings.generate(50, 40, 300, seed=seed).ratings.fingerprint for seed in (0, 0, 1)
    ]
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize("case", ["plain", "informative"])
def test_nobody_predicts_better_than_the_truth_and_its_error_is_as_foretold(case, request):
    made = request.getfixturevalue(case)
    best, variance = made.truth.moments(*pairs(made))
    values = made.ratings.values
    # the spread of a mean of squared errors over n pairs is below 2 / sqrt(n) here
    assert rmse(values, best) == pytest.approx(made.bayes_rmse, abs=0.015)
    scores = made.truth.scores(*pairs(made))
    for worse in (scores, np.rint(scores).clip(1, 5), best + 0.1, best - 0.1, values.mean()):
        assert rmse(values, worse) > rmse(values, best)
    assert np.corrcoef((values - best) ** 2, variance)[0, 1] > 0.02


def test_level_probabilities_are_those_of_rounded_normal_scores(plain):
    user, item = np.array([5], np.int32), np.array([7], np.int32)
    mean, variance = plain.truth.moments(user, item)
    rng = np.random.default_rng(0)
    draws = plain.truth.scores(user, item) + plain.truth.noise * rng.normal(size=400_000)
    levels = np.floor(draws + 0.5).clip(1, 5)
    assert levels.mean() == pytest.approx(mean[0], abs=0.005)
    assert levels.var() == pytest.approx(variance[0], abs=0.005)


def test_unrounded_ratings_have_the_noise_that_was_asked_for():
    made = synthetic_ratings.generate(300, 200, 10_000, integer=False, noise=0.5)
    residual = made.ratings.values - made.truth.scores(*pairs(made))
    assert made.bayes_rmse == 0.5
    assert residual.std() == pytest.approx(0.5, abs=0.02)
    assert abs(residual.mean()) < 0.02


def test_ratings_are_whole_numbers_from_1_to_5_without_duplicates(plain):
    assert plain.ratings.levels.tolist() == [1, 2, 3, 4, 5]
    assert plain.ratings.scale == (1.0, 5.0)
    assert len(plain.ratings) == pytest.approx(40_000, rel=0.01)
    users, items = pairs(plain)
    assert len(np.unique(users.astype(np.int64) * 400 + items)) == len(plain.ratings)


def test_popularity_and_activity_are_skewed(plain):
    for offsets in (plain.ratings.user_offsets, plain.ratings.by_item.user_offsets):
        counts = np.sort(np.diff(offsets))[::-1]
        tenth = counts[: len(counts) // 10].sum() / counts.sum()
        assert tenth > 0.2  # the share of the first tenth; 0.1 if all were alike
    assert np.diff(plain.ratings.user_offsets).min() >= 1


def identities_tell(made):
    """Correlation of a user's factors with the mean factors of what the user rated."""
    r, truth = made.ratings, made.truth
    total = np.zeros_like(truth.user_factors)
    np.add.at(total, r.user_ids, truth.item_factors[r.item_ids] - truth.item_factors.mean(0))
    seen = total / np.maximum(np.diff(r.user_offsets), 1)[:, None]
    return np.corrcoef(seen.ravel(), truth.user_factors.ravel())[0, 1]


def test_what_is_rated_tells_about_the_user_only_if_asked_to(plain, informative):
    assert abs(identities_tell(plain)) < 0.05
    assert identities_tell(informative) > 0.4
    assert informative.ratings.mean > plain.ratings.mean + 0.2  # people rate what they like


@pytest.mark.parametrize(
    "options",
    [
        {"n_users": 0},
        {"n_users": 10, "n_items": 10, "n_ratings": 34},
        {"noise": 0.0},
        {"noise": np.inf},
        {"seed": -1},
        {"informative": -1.0},
        {"n_users": "3"},
        {"n_users": 2.5, "n_ratings": 5},
        {"rank": None},
        {"noise": "loud"},
        {"n_users": 1000, "n_items": 500, "n_ratings": 500},
        {"n_users": 300, "n_items": 200, "n_ratings": 20_000, "informative": 20.0},
    ],
)
def test_impossible_requests_are_refused(options):
    with pytest.raises(ConfigurationError, match=rf"^{next(iter(options))} is |ask for"):
        synthetic_ratings.generate(**options)


def test_a_handful_of_users_and_items():
    made = synthetic_ratings.generate(3, 4, 4, rank=0)
    assert 1 <= len(made.ratings) <= 6


def test_a_strong_preference_gives_the_ratings_or_an_error_without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = synthetic_ratings.generate(300, 200, 900, informative=50.0)
        with pytest.raises(ConfigurationError, match="informative=200"):
            synthetic_ratings.generate(300, 200, 20_000, informative=200.0)
    assert len(made.ratings) == pytest.approx(900, rel=0.01)
