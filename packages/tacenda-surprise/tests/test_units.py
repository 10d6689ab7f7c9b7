"""Ratings in another unit: where all ratings become a r + b, predictions become a times as much plus b, to rounding."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda.datasets import synthetic_ratings
from tacenda.ratings import Ratings, split
from tacenda_surprise.models import (
    BayesianPMFModel,
    BiasModel,
    BoltzmannSettings,
    ConditionalBayesianPMFModel,
    ConditionalPMFModel,
    ConditionalRBMModel,
    PMFModel,
    RBMModel,
)

CHAIN = {"n_factors": 2, "burn_in": 3, "n_samples": 8}
MODELS = {
    "bias": lambda: BiasModel(),
    "pmf": lambda: PMFModel(n_factors=4, epochs=6),
    "als": lambda: PMFModel(n_factors=3, epochs=4, solver="als"),
    "conditional_pmf": lambda: ConditionalPMFModel(n_factors=4, epochs=6),
    "bayesian_pmf": lambda: BayesianPMFModel(**CHAIN),
    "conditional_bayesian_pmf": lambda: ConditionalBayesianPMFModel(**CHAIN),
    "rbm": lambda: RBMModel(n_hidden=4, epochs=3),
    "conditional_rbm": lambda: ConditionalRBMModel(n_hidden=4, epochs=3),
    "rbm_thesis": lambda: RBMModel.from_settings(BoltzmannSettings.thesis(n_hidden=4, epochs=3)),
}
FITTED = {}


@pytest.fixture(scope="module")
def ratings():
    return synthetic_ratings.generate(50, 30, 480, rank=2, noise=0.5, seed=2).ratings


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=5, deadline=None)
@given(st.floats(-2, 2), st.floats(-50, 50))
def test_predictions_go_with_the_unit(ratings, name, logarithm, shift):
    factor = 10.0**logarithm
    ends = np.array([1.0, 5.0]) * factor + shift
    moved = Ratings(
        ratings.user_ids, ratings.item_ids, ratings.values.astype(float) * factor + shift,
        ratings.users, ratings.items, scale=tuple(ends.astype(np.float32).tolist()),
    )  # fmt: skip
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
            other.fold_in(np.array([1, 2]), factor * np.array([1.0, 5.0]) + shift).score(),
            factor * model.fold_in(np.array([1, 2]), [1.0, 5.0]).score() + shift,
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


@pytest.mark.parametrize("name", ["pmf", "conditional_pmf"])
def test_early_stopping_is_hardly_worse_than_without(name):
    data = synthetic_ratings.generate(150, 80, 2_500, rank=2, noise=0.6, seed=5).ratings
    train, test = split(data, 0.2, seed=0)
    model_class = {"pmf": PMFModel, "conditional_pmf": ConditionalPMFModel}[name]
    errors = []
    for validation in (0.0, 0.05):
        model = model_class(n_factors=10, validation=validation).fit(train)
        found = model.score_pairs(test.user_ids, test.item_ids)
        errors.append(float(np.sqrt(np.mean((found - test.values) ** 2))))
    assert errors[1] < 1.005 * errors[0]
