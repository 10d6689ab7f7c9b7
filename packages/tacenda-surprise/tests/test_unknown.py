"""Unknown users and items are average ones, and a user folded in has the prior of the fit."""

import numpy as np
import pytest

from support.ratings import changed
from tacenda.datasets import synthetic_ratings
from tacenda.ratings import IdIndex
from tacenda_surprise import (
    PMF,
    RBM,
    BayesianPMF,
    BiasOnly,
    Blend,
    ConditionalBayesianPMF,
    ConditionalPMF,
    ConditionalRBM,
)

SMALL = {"n_factors": 4, "n_epochs": 15, "random_state": 0}
SAMPLES = {"n_factors": 4, "burn_in": 20, "n_samples": 30, "random_state": 0}
MACHINE = {"n_hidden": 6, "n_epochs": 20, "random_state": 0}
MAKERS = {
    "BiasOnly": BiasOnly,
    "PMF": lambda: PMF(**SMALL),
    "ALS": lambda: PMF(solver="als", **SMALL),
    "ConditionalPMF": lambda: ConditionalPMF(**SMALL),
    "BayesianPMF": lambda: BayesianPMF(**SAMPLES),
    "ConditionalBayesianPMF": lambda: ConditionalBayesianPMF(**SAMPLES),
    "RBM": lambda: RBM(**MACHINE),
    "ConditionalRBM": lambda: ConditionalRBM(**MACHINE),
    "RBM of users": lambda: RBM(orientation="user", **MACHINE),
    "ConditionalRBM of users": lambda: ConditionalRBM(orientation="user", **MACHINE),
    "Blend": lambda: Blend([ConditionalPMF(**SMALL), RBM(**MACHINE)], random_state=0),
}
NOBODY = np.array([-1])


@pytest.fixture(scope="module")
def ratings():
    """With about 27 of every user."""
    return synthetic_ratings.generate(150, 90, 4000, rank=2, noise=0.5, seed=4).ratings


@pytest.fixture(scope="module", params=MAKERS.values(), ids=MAKERS)
def fitted(request, ratings):
    return request.param().fit(ratings)


def test_every_way_to_ask_for_an_unknown_user_gives_the_same(fitted):
    every = np.arange(len(fitted.catalogue.items))
    pairs = fitted.score_pairs(np.full(len(every), -1), every)
    np.testing.assert_allclose(fitted.score_users(NOBODY)[0], pairs, atol=1e-4)
    folded = fitted.fold(NOBODY[:0], [])
    np.testing.assert_allclose(folded.score(), pairs, atol=0.01)
    both = fitted.score_pairs(NOBODY, NOBODY)
    np.testing.assert_allclose(folded.score(NOBODY), both, atol=0.01)
    np.testing.assert_allclose(
        folded.deviations(every), fitted.deviations(np.full(len(every), -1), every), rtol=0.15
    )


def test_an_unknown_item_is_the_same_for_a_fitted_user_and_one_folded_in(fitted, ratings):
    folded = fitted.fold(*ratings.of_user(3)).score(NOBODY)
    np.testing.assert_allclose(folded, fitted.score_pairs(np.array([3]), NOBODY), atol=0.15)


@pytest.mark.parametrize(
    "make", [MAKERS[name] for name in ("BiasOnly", "PMF", "ConditionalPMF", "BayesianPMF")]
)
def test_an_unknown_user_has_the_mean_score_of_all_users(make, ratings):
    model = make().fit(ratings)
    x, q, b, c, _ = (table.astype(np.float64) for table in model.tables)
    users, items = set(ratings.user_ids.tolist()), set(ratings.item_ids.tolist())
    for item in (0, 7):
        expected = np.mean([b[u] + x[u] @ q[item] for u in users]) + c[item] + model.catalogue.mean
        assert model.score_pairs(NOBODY, np.array([item]))[0] == pytest.approx(expected, abs=1e-4)
    expected = np.mean([c[i] + x[5] @ q[i] for i in items]) + b[5] + model.catalogue.mean
    assert model.score_pairs(np.array([5]), NOBODY)[0] == pytest.approx(expected, abs=1e-4)


def test_items_differ_for_an_unknown_user_as_much_as_they_do_on_average(fitted, ratings):
    """Their means over users, as far as factors say something of everybody."""
    of_items = fitted.score_users(np.arange(ratings.n_users)).mean(axis=0)
    assert np.std(fitted.score_users(NOBODY)[0]) > 0.8 * np.std(of_items)
    assert np.corrcoef(fitted.score_users(NOBODY)[0], of_items)[0, 1] > 0.95


@pytest.mark.parametrize(
    "make", [MAKERS[name] for name in ("BiasOnly", "PMF", "ALS", "ConditionalPMF")]
)
def test_a_user_and_an_item_without_ratings_are_average_too(make, ratings):
    users, items = ([*side.raw, "none"] for side in (ratings.users, ratings.items))
    wider = changed(ratings, users=IdIndex(users, "user"), items=IdIndex(items, "item"))
    model = make().fit(wider)
    own = np.array([ratings.n_users, -1]), np.array([ratings.n_items, -1])
    every = np.arange(ratings.n_items)
    by_user = model.score_users(own[0])[:, every]
    np.testing.assert_allclose(by_user[0], by_user[1], atol=1e-4)
    of_item = model.score_pairs(np.array([5, 5]), own[1])
    assert of_item[0] == pytest.approx(of_item[1], abs=1e-4)


def test_folding_in_the_ratings_of_a_fitted_user_gives_that_user(fitted, ratings):
    """To a third of what users differ by."""
    users = np.arange(0, ratings.n_users, 5)
    scores = fitted.score_users(users)
    folded = np.stack([fitted.fold(*ratings.of_user(u)).score() for u in users])
    apart = np.sqrt(np.mean((scores - scores.mean(axis=0)) ** 2))
    assert np.sqrt(np.mean((folded - scores) ** 2)) < 0.33 * apart


def test_new_users_of_a_machine_that_goes_on_begin_where_a_fit_holds_them(ratings):
    users = IdIndex(ratings.users.raw[:120].tolist(), "user")
    early = changed(ratings.select(ratings.user_ids < 120), users=users)
    late = ratings.user_ids >= 120
    gone_on = RBM(**MACHINE).fit(early).partial_fit(ratings, 0)
    anew = RBM(**MACHINE).fit(ratings)
    pairs = ratings.user_ids[late].astype(np.int64), ratings.item_ids[late].astype(np.int64)
    one, other = (model.score_pairs(*pairs) for model in (gone_on, anew))
    assert np.sqrt(np.mean((one - other) ** 2)) < 0.25 * np.std(other)
