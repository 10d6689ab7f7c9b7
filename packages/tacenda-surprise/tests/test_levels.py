"""Probabilities of levels with a mean and a deviation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from support.recommenders import trainset_of
from tacenda.errors import TacendaWarning
from tacenda.ratings import Ratings
from tacenda_surprise import RBM, BiasOnly
from tacenda_surprise.catalogue import Catalogue, possible_levels
from tacenda_surprise.levels import fit_level_probabilities
from tacenda_surprise.testing import small_dataset

STARS = np.arange(1, 6, dtype=np.float32)
COUNTS = np.array([3, 0, 8, 20, 90], np.float32)


def moments(chances, levels):
    means = chances.astype(float) @ levels
    return means, np.sqrt(chances.astype(float) @ levels.astype(float) ** 2 - means**2)


@pytest.mark.parametrize(
    "levels", [STARS, np.arange(1, 11, dtype=np.float32) / 2, -(STARS[::-1] ** 2)]
)
def test_mean_and_deviation_are_those_predicted(levels):
    width = levels[-1] - levels[0]
    means = np.linspace(levels[0] + 0.2 * width, levels[-1] - 0.2 * width, 20).astype(np.float32)
    deviations = np.linspace(0.2 * width, 0.35 * width, 20).astype(np.float32)
    counts = np.linspace(50, 1, len(levels)).astype(np.float32)
    found = fit_level_probabilities(means, deviations, levels, counts)
    got = moments(found, levels)
    assert_allclose(got[0], means, atol=1e-4 * width)
    assert_allclose(got[1], deviations, atol=1e-3 * width)
    assert_allclose(found.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("levels", "counts"),
    [
        (np.float32([0, 1, 1000]), np.float32([5, 5, 5])),
        (np.arange(1, 101, dtype=np.float32), np.float32([0] * 98 + [1e6, 1e6])),
    ],
)
def test_means_far_from_the_histogram_are_reached(levels, counts):
    margin = 0.05 * levels[-1]
    means = np.linspace(levels[0] + margin, levels[-1] - margin, 50).astype(np.float32)
    found = fit_level_probabilities(means, np.full_like(means, 4), levels, counts)
    assert_allclose(moments(found, levels)[0], means, rtol=1e-4)


@pytest.mark.parametrize(("mean", "deviation"), [(3.0, 1.0), (4.3, 0.8), (1.8, 0.9)])
def test_no_other_distribution_with_these_moments_is_nearer_to_the_histogram(mean, deviation):
    usual = (COUNTS + 1.0) / (COUNTS + 1.0).sum()
    constraints = [
        {"type": "eq", "fun": lambda p: p.sum() - 1},
        {"type": "eq", "fun": lambda p: p @ STARS - mean},
        {"type": "eq", "fun": lambda p: p @ STARS**2 - mean**2 - deviation**2},
    ]
    best = minimize(
        lambda p: np.sum(p * np.log(np.maximum(p, 1e-12) / usual)),
        np.full(5, 0.2),
        bounds=[(0, 1)] * 5,
        constraints=constraints,
        options={"ftol": 1e-12, "maxiter": 500},
    )
    found = fit_level_probabilities(np.float32([mean]), np.float32([deviation]), STARS, COUNTS)
    assert_allclose(found[0], best.x, atol=2e-3)


def test_the_histogram_is_its_own_nearest():
    usual = (COUNTS + 1.0) / (COUNTS + 1.0).sum()
    mean, deviation = (np.float32([part]) for part in moments(usual, STARS))
    assert_allclose(fit_level_probabilities(mean, deviation, STARS, COUNTS)[0], usual, atol=1e-4)


@given(
    st.floats(1, 5, width=32),
    st.floats(0, 100, width=32),
    st.lists(st.integers(0, 10**6), min_size=5, max_size=5),
)
def test_whatever_is_asked_for_is_answered_with_probabilities(mean, deviation, counts):
    found = fit_level_probabilities(
        np.float32([mean]), np.float32([deviation]), STARS, np.float32(counts)
    )
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1, abs=1e-5)
    assert abs(found[0] @ STARS - mean) < 0.1


@pytest.mark.parametrize("n", [1, 2])
def test_one_level_and_two(n):
    levels = np.arange(n, dtype=np.float32)
    found = fit_level_probabilities(
        np.float32([0.25 * (n - 1)]), np.float32([0.3]), levels, np.ones(n, np.float32)
    )
    assert_allclose(found, [[1.0]] if n == 1 else [[0.75, 0.25]])


def test_a_pair_does_not_depend_on_the_others():
    means, deviations = np.float32([2.0, 4.9, 3.0]), np.float32([0.7, 0.1, 2.5])
    together = fit_level_probabilities(means, deviations, STARS, COUNTS)
    for at in range(3):
        alone = fit_level_probabilities(means[at : at + 1], deviations[at : at + 1], STARS, COUNTS)
        assert_allclose(alone[0], together[at], atol=1e-6)


@pytest.mark.parametrize(
    "scale", [(-1, 40), (0, 100), (0, 1e6), (-1e9, 1e9), (0.9, 100), (0.5, 100)]
)
def test_the_ends_of_a_scale_that_nobody_uses_are_no_levels(scale):
    assert possible_levels(STARS, scale).tolist() == [1, 2, 3, 4, 5]
    assert possible_levels(STARS[[0, 1, 3]], scale).tolist() == [1, 2, 3, 4]
    tens = possible_levels(10 * STARS[[0, 1, 3, 4]], 10 * np.array(scale))
    assert tens.tolist() == [10, 20, 30, 40, 50]
    assert possible_levels(STARS[2:3], (0, 1e6)).tolist() == [3]


@pytest.mark.parametrize("scale", [(1, 5), (0, 5), (0, 10), (0, 20)])
def test_ratings_that_nobody_has_given_yet_are_levels_where_the_scale_is_near(scale):
    whole = np.arange(scale[0], scale[1] + 1).tolist()
    assert possible_levels(STARS, scale).tolist() == whole
    assert possible_levels(STARS[1:], (1, 5)).tolist() == [1, 2, 3, 4, 5]
    assert possible_levels(STARS, (0.5, 5)).tolist() == (np.arange(1, 11) / 2).tolist()


@given(st.integers(-500, 1000), st.integers(10, 100), st.integers(2, 50))
def test_ratings_on_the_grid_add_no_level_whatever_its_rounding(lowest, step, n):
    values = (lowest + step * np.arange(n)) / 100
    whole = Ratings.from_triples([(0, k, value) for k, value in enumerate(values)])
    for seen in (whole, whole.select(np.unique([0, 1, n - 1]))):
        catalogue = Catalogue.of(seen)
        assert catalogue.grow(whole).levels.tolist() == catalogue.levels.tolist()
        assert catalogue.extend(whole).counts.tolist() == [1] * n
    assert Catalogue.of(whole).levels.tolist() == whole.values.tolist()


@pytest.mark.parametrize("scale", [(-1, 40), (0, 1e6)])
def test_a_machine_predicts_the_same_on_a_scale_that_is_wider_than_its_ratings(scale, tmp_path):
    rows = [row[:3] for row in small_dataset().raw_ratings]
    uids, iids = ["user 1", "user 2", "nobody"], ["item 1", "item 9", "item 3"]
    found = []
    for ends in ((1, 5), scale):
        trainset = trainset_of(rows, ends)
        model = RBM(n_hidden=4, n_epochs=5, random_state=0).fit(trainset)
        found.append(model.predict_many(uids, iids))
    assert_allclose(found[0], found[1], atol=1e-5)
    model.save(tmp_path / "machine")
    assert_allclose(RBM.load(tmp_path / "machine").predict_many(uids, iids), found[1])


def test_ratings_that_are_all_equal_are_announced():
    trainset = trainset_of([("a", "x", 4.0), ("b", "x", 4.0), ("b", "y", 4.0)])
    with pytest.warns(TacendaWarning, match="all 3 ratings are 4") as found:
        BiasOnly().fit(trainset)
    assert len(found) == 1
