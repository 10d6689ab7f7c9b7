"""The models as LensKit components pass LensKit's own tests of scorers."""

import warnings

import numpy as np
import pytest

pytest.importorskip("lenskit")
from lenskit import operations
from lenskit.data import ItemList, RecQuery, from_interactions_df
from lenskit.pipeline import predict_pipeline, topn_pipeline
from lenskit.testing import BasicComponentTests, ScorerTests

from tacenda.datasets import synthetic_ratings
from tacenda.errors import ConfigurationError, DataError
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


class TestImplicit(BasicComponentTests, ScorerTests):
    component = components.ImplicitMFScorer
    config = component.validate_config({"n_factors": 5, "n_epochs": 5})
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


@pytest.fixture
def choices(ml_ratings):
    return from_interactions_df(ml_ratings[["user_id", "item_id"]])


def test_interactions_without_ratings_are_what_choices_are_learned_from(choices, ml_ratings):
    scorer = components.ChoiceScorer()
    scorer.train(choices)
    user = ml_ratings["user_id"].iloc[0]
    rated = set(ml_ratings["item_id"][ml_ratings["user_id"] == user])
    scores = scorer(user, ItemList(choices.items.ids())).scores()
    is_rated = np.isin(choices.items.ids(), list(rated))
    assert scores[is_rated].mean() > scores[~is_rated].mean() + scores.std() / 2
    new = scorer(ItemList(item_ids=list(rated)), ItemList(choices.items.ids())).scores()
    assert np.corrcoef(new, scores)[0, 1] > 0.9
    with pytest.raises(DataError, match="rank with ChoiceScorer"):
        components.PMFScorer().train(choices)


@pytest.mark.parametrize(
    "make", [components.PMFScorer, components.ImplicitMFScorer, components.ChoiceScorer]
)
def test_of_an_item_that_a_history_repeats_the_last_rating_counts(ml_ds, make):
    scorer = make(n_factors=3, n_epochs=2)
    scorer.train(ml_ds)
    items = ItemList(vocabulary=ml_ds.items, item_nums=np.arange(20))
    found = [
        scorer(RecQuery(history_items=ItemList(ids, rating=ratings)), items).scores()
        for ids, ratings in (([3, 6, 3], [1.0, 2.0, 5.0]), ([6, 3], [2.0, 5.0]))
    ]
    np.testing.assert_allclose(*found, atol=1e-5)


def test_items_of_a_history_without_a_rating_are_left_out(ml_ds):
    scorer = components.ConditionalPMFScorer(n_factors=3, n_epochs=2)
    scorer.train(ml_ds)
    items = ItemList(item_ids=[9, 12])
    some = ItemList(item_ids=[3, 6, 0], rating=[5.0, np.nan, 1.0])
    rest = ItemList(item_ids=[3, 0], rating=[5.0, 1.0])
    np.testing.assert_array_equal(scorer(some, items).scores(), scorer(rest, items).scores())
    nothing = ItemList(item_ids=[3], rating=[np.nan])
    assert np.isfinite(scorer(nothing, items).scores()).all()


@pytest.mark.parametrize("scorer", [components.ConditionalPMFScorer, components.ChoiceScorer])
def test_a_history_of_nothing_that_is_known_says_nothing_of_the_user(ml_ds, scorer):
    model, items = scorer(n_factors=3, n_epochs=2), ItemList([9, 12])
    model.train(ml_ds)
    learned = model(RecQuery(user_id=7), items).scores()
    for history in (ItemList(item_ids=[], rating=[]), ItemList([]), ItemList([-5], rating=[4.0])):
        query = RecQuery(user_id=7, user_items=history)
        np.testing.assert_array_equal(model(query, items).scores(), learned)


def test_pairs_known_to_be_rated_have_the_ids_of_lenskit(ml_ds):
    rated = [(-1, int(item)) for item in ml_ds.items.ids()[:9]]
    scorer = components.ConditionalPMFScorer(n_factors=3, n_epochs=2, rated=rated)
    with warnings.catch_warnings(action="error", category=UserWarning):
        scorer.train(ml_ds)
    assert len(scorer.model.catalogue.users) == ml_ds.user_count + 1


def test_interactions_without_a_rating_are_counted(ml_ratings):
    ratings = ml_ratings["rating"].where(ml_ratings.index > 1)
    with pytest.warns(UserWarning, match="2 interactions have no rating and are left out"):
        components.BiasScorer().train(from_interactions_df(ml_ratings.assign(rating=ratings)))


def test_options_are_checked_as_the_algorithm_checks_them():
    assert components.PMFScorer(n_factors=7).dump_config()["n_factors"] == 7
    with pytest.raises(ConfigurationError, match=r"no option 'n_factor' \(did you mean"):
        components.PMFScorer(n_factor=7)


def test_a_pipeline_can_be_cloned():
    pipeline = topn_pipeline(components.PMFScorer(n_factors=7))
    assert pipeline.clone().node("scorer").component.dump_config()["n_factors"] == 7
