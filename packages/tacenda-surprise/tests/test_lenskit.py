"""The models as LensKit components pass LensKit's own tests of scorers."""

import numpy as np
import pytest

pytest.importorskip("lenskit")
from lenskit import operations
from lenskit.data import ItemList, from_interactions_df
from lenskit.pipeline import predict_pipeline
from lenskit.testing import BasicComponentTests, ScorerTests

from tacenda.datasets import synthetic_ratings
from tacenda_surprise import lenskit as components

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="session")
def ml_ratings():
    """In the place of the MovieLens ratings that LensKit's tests read."""
    import pandas as pd

    found = synthetic_ratings.generate(110, 110, 3_000, rank=2, noise=0.6, seed=3).ratings
    return pd.DataFrame(
        {
            "user_id": found.user_ids.astype(np.int64) * 7,
            "item_id": found.item_ids.astype(np.int64) * 3,
            "rating": found.values,
            "timestamp": np.arange(len(found)),
        }
    )


@pytest.fixture(scope="session")
def ml_ds(ml_ratings):
    return from_interactions_df(ml_ratings)


@pytest.fixture
def ml_100k():
    pytest.skip("the quality of the models is measured elsewhere")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


class TestBias(BasicComponentTests, ScorerTests):
    component = components.BiasScorer
    can_score = "all"


class TestConditionalPMF(BasicComponentTests, ScorerTests):
    component = components.ConditionalPMFScorer
    config = component.validate_config({"n_factors": 5, "n_epochs": 5})
    configs = ({"n_factors": 5, "noise_power": 0.0},)
    can_score = "all"


class TestBayesianPMF(ScorerTests):
    component = components.BayesianPMFScorer
    config = component.validate_config({"n_samples": 20})
    can_score = "all"


class TestConditionalRBM(ScorerTests):
    component = components.ConditionalRBMScorer
    config = component.validate_config({"n_hidden": 8, "n_epochs": 5})
    can_score = "all"


class TestChoices(ScorerTests):
    component = components.ChoiceScorer
    config = component.validate_config({"n_factors": 5, "n_epochs": 5})
    can_score = "all"


def test_a_history_with_ratings_says_who_the_user_is(ml_ds):
    pipe = predict_pipeline(components.ConditionalPMFScorer(n_factors=5), fallback=False)
    pipe.train(ml_ds)
    history = ml_ds.user_row(0)
    items = ItemList(history.ids(), vocabulary=ml_ds.items)
    likes, dislikes = (
        operations.score(
            pipe, ItemList(item_ids=history.ids(), rating=np.full(len(history), value)), items
        ).scores()
        for value in (5.0, 1.0)
    )
    assert np.mean(likes) > np.mean(dislikes) + 1


def test_the_seed_is_that_of_lenskit_unless_it_is_given(ml_ds):
    from lenskit.training import TrainingOptions

    def scores(drawn, **config):
        scorer = components.PMFScorer(n_factors=3, n_epochs=2, **config)
        scorer.train(ml_ds, TrainingOptions(rng=drawn))
        return scorer.model.score_pairs(np.arange(5), np.arange(5))

    assert not np.array_equal(scores(1), scores(2))
    np.testing.assert_array_equal(scores(1, random_state=7), scores(2, random_state=7))
