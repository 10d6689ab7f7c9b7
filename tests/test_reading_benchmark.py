"""The regression of the benchmark of reading times, against formulas written out."""

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks.language_models.reading.stories import before, gain


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    groups = np.repeat([1, 2, 3], 40)
    base, further = rng.normal(size=(120, 2)), rng.normal(size=(120, 2))
    times = 5 + base @ [1, -2] + further @ [0.3, 0] + rng.normal(size=120)
    return times, base, further, groups


def fitted(times, predictors, train):
    design = np.column_stack([np.ones(len(times)), predictors])
    b = np.linalg.solve(design[train].T @ design[train], design[train].T @ times[train])
    residuals = times - design @ b
    return residuals, np.sqrt((residuals[train] ** 2).mean())


def test_the_gain_is_half_n_times_the_log_of_the_ratio_of_residuals(data):
    times, base, further, _ = data
    every = np.ones(120, bool)
    small = fitted(times, base, every)[0]
    large = fitted(times, np.hstack([base, further]), every)[0]
    found = gain(*data)
    assert found["gain"] == pytest.approx(60 * np.log(small @ small / (large @ large)))
    assert found["words"] == 120


def test_stories_left_out_are_predicted_from_the_others(data):
    times, base, further, groups = data
    differences = []
    for story in (1, 2, 3):
        others, own = groups != story, groups == story
        scores = []
        for predictors in (base, np.hstack([base, further])):
            residuals, deviation = fitted(times, predictors, others)
            scores.append(norm.logpdf(residuals[own], scale=deviation).sum())
        differences.append(scores[1] - scores[0])
    found = gain(*data)
    assert found["left out"] == pytest.approx(sum(differences))
    assert found["better"] == sum(each > 0 for each in differences)


def test_predictors_of_nothing_gain_little(data):
    times, base, _, groups = data
    noise = np.random.default_rng(1).normal(size=(120, 2))
    found = gain(times, base, noise, groups)
    assert 0 <= found["gain"] < 8
    assert found["left out"] < found["gain"]


def test_the_word_before_is_of_the_same_story():
    found = before(np.array([1.0, 2, 3, 4]), np.array([1, 1, 2, 2]))
    np.testing.assert_array_equal(found, [np.nan, 1, np.nan, 3])
