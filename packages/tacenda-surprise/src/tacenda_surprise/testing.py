"""Conformance of a rating algorithm, in one call.

    from tacenda_surprise.testing import check_recommender

    def test_my_model():
        check_recommender(lambda **options: MyModel(**{"n_factors": 4, "random_state": 0, **options}))

Needs pytest: install ``tacenda-surprise[testing]``.
"""

# ruff: noqa: S301 - pickles of our own

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
import pytest
from surprise import AlgoBase, Dataset, PredictionImpossible, Reader, accuracy
from surprise.model_selection import train_test_split

from tacenda.datasets import synthetic_ratings
from tacenda.errors import ConfigurationError, NotFittedError, TacendaError
from tacenda.ratings import IdIndex, Ratings, split
from tacenda.testing.models import check_estimator
from tacenda_surprise.algorithm import RatingAlgorithm

_ATOL = 1e-4  # how far predictions may differ where the same numbers are computed in another order


def check_recommender(
    make_model: Callable[..., RatingAlgorithm], *, random: bool = True
) -> RatingAlgorithm:
    """Fit a rating algorithm and check what its methods promise, and that it works in Surprise.

    This includes `tacenda.testing.models.check_estimator`. ``make_model(**options)`` returns a new unfitted algorithm,
    small enough to fit in a second, with a fixed seed if it has one. ``random`` says whether another ``random_state``
    gives another result.

    Returns the fitted model. Raises AssertionError, which names the promise, if one is broken.
    """
    ratings = synthetic_ratings.generate(120, 60, 2300, rank=2, noise=0.6, seed=3).ratings
    train, held_out = split(ratings, 0.1, seed=0)
    rng = np.random.default_rng(0)
    pairs = rng.integers(-1, train.n_users, 80), rng.integers(-1, train.n_items, 80)

    def apply(model: Any) -> list[Any]:
        folded = model.fold(*train.of_user(0))
        return [model.score_pairs(*pairs), model.deviations(*pairs), folded.score()]

    model = check_estimator(make_model, train, apply, atol=_ATOL)
    assert model.kind == "recommenders"
    scores = model.score_pairs(*pairs)
    _check_fit(make_model, model, train, lambda model: model.score_pairs(*pairs))
    _check_scores(model, train, pairs)
    found = model.score_pairs(held_out.user_ids, held_out.item_ids)
    errors = [np.mean((part - held_out.values) ** 2) for part in (found, train.mean)]
    assert errors[0] < errors[1], "it predicts ratings held out worse than their mean does"
    _check_new_users(model, train)
    _check_further_ratings(model, train, pairs)
    np.testing.assert_array_equal(model.score_pairs(*pairs), scores, "using it changed it")
    _check_hardly_any_data(make_model, train)
    _check_in_surprise(make_model, random)
    return model  # type: ignore[no-any-return]


def _check_fit(make_model: Any, model: Any, train: Ratings, apply: Any) -> None:
    """It notes the data, is deterministic, forgets data before, and says so while it is not fitted."""
    assert model.fitted_on["n_ratings"] == len(train)
    catalogue, expected = model.catalogue, apply(model)
    assert catalogue.users.raw.tolist() == train.users.raw.tolist()
    assert catalogue.items.raw.tolist() == train.items.raw.tolist()
    assert catalogue.scale == train.scale
    assert abs(catalogue.mean - train.mean) < 1e-6
    other = synthetic_ratings.generate(30, 20, 180, seed=5).ratings
    again = make_model()
    assert again.fit(other) is again, "fit does not return the model"
    np.testing.assert_array_equal(apply(again.fit(train)), expected, "another fit differs")
    unfitted, zero = make_model(), np.array([0])
    uses: list[Callable[[], Any]] = [
        lambda: unfitted.score_pairs(zero, zero),
        lambda: unfitted.score_users(zero),
        lambda: unfitted.fold(zero, [3.0]),
        lambda: unfitted.catalogue,
        lambda: unfitted.arrays(),
        lambda: unfitted.top_n(),
    ]
    for use in uses:
        with pytest.raises(NotFittedError):
            use()


def _check_scores(model: Any, train: Ratings, pairs: Any) -> None:
    """Scores are finite float32 that do not depend on their company, with deviations and probabilities."""
    scores, nobody = model.score_pairs(*pairs), np.empty(0, int)
    assert (scores.shape, scores.dtype) == ((80,), np.float32)
    assert np.isfinite(scores).all()
    assert model.score_pairs(nobody, nobody).shape == (0,)
    for k in range(0, 80, 7):
        alone = model.score_pairs(pairs[0][k : k + 1], pairs[1][k : k + 1])
        np.testing.assert_array_equal(alone, scores[k : k + 1], "a pair depends on its company")
    users, n_items = np.array([3, -1, 0]), train.n_items
    block = model.score_users(users)
    assert (block.shape, block.dtype) == ((3, n_items), np.float32)
    every = model.score_pairs(np.repeat(users, n_items), np.tile(np.arange(n_items), 3))
    np.testing.assert_allclose(block.ravel(), every, atol=_ATOL, err_msg="blocks differ from pairs")
    deviations, p = model.deviations(*pairs), model.probabilities(*pairs)
    assert deviations.shape == (80,)
    assert (deviations > 0).all()
    assert p.shape == (80, len(model.catalogue.levels))
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-4)
    expected = p @ model.catalogue.levels
    assert np.corrcoef(expected, scores.clip(*train.scale))[0, 1] > 0.9


def _check_new_users(model: Any, train: Ratings) -> None:
    """A user folded in is scored like a fitted one, without ratings too; ratings that make no sense are refused."""
    user = int(np.argmax(np.diff(train.user_offsets)))
    folded, fitted = (
        model.fold(*train.of_user(user)).score(),
        model.score_users(np.array([user]))[0],
    )
    assert (folded.shape, folded.dtype) == (fitted.shape, np.float32)
    assert np.corrcoef(folded, fitted)[0, 1] > 0.8
    nobody, some = model.fold(np.empty(0, int), []), np.array([0, -1, 3])
    assert np.isfinite(nobody.score()).all()
    assert np.isfinite(nobody.score(some)).all()
    np.testing.assert_allclose(nobody.score(some)[[0, 2]], nobody.score()[[0, 3]], atol=_ATOL)
    assert (nobody.deviations(some) > 0).all()
    for items, values in (([0, 1], [3.0]), ([0], [np.nan]), ([10_000], [3.0]), ([-1], [3.0])):
        with pytest.raises(TacendaError):
            model.fold(np.array(items), values)


def _check_further_ratings(model: Any, train: Ratings, pairs: Any) -> None:
    """It goes on with new users and items, or says that it cannot; a copy made before stays as it was."""
    n_users, n_items, scores = train.n_users, train.n_items, model.score_pairs(*pairs)
    more = Ratings(
        np.append(train.user_ids, [n_users, n_users, 0]),
        np.append(train.item_ids, [0, n_items, n_items]),
        np.append(train.values, [5, 4, 2]),
        IdIndex([*train.users.raw, "a new user"], "user"),
        IdIndex([*train.items.raw, "a new item"], "item"),
        scale=train.scale,
    )
    try:
        after = copy(model).partial_fit(more, 2)
    except ConfigurationError:
        return
    for found, old, new in (
        (after.catalogue.users, train.users, "a new user"),
        (after.catalogue.items, train.items, "a new item"),
    ):
        assert found.raw.tolist() == [*old.raw.tolist(), new]
    everybody = np.arange(-1, n_users + 1)
    assert after.score_users(everybody).shape == (n_users + 2, n_items + 1)
    assert np.isfinite(after.score_users(everybody)).all()
    moved = np.abs(after.score_pairs(*pairs) - scores)
    assert moved.mean() < 0.5 * np.std(train.values)


def _check_hardly_any_data(make_model: Any, train: Ratings) -> None:
    """One rating is enough, and users and items may be without ratings."""
    for triples in (
        [("u", "i", 3.0)],
        [("u", "i", 1.0), ("u", "j", 5.0)],
        [("u", "i", 1.0), ("v", "i", 5.0)],
        [("u", "i", 4.0), ("v", "j", 4.0)],
    ):
        few = Ratings.from_triples(triples, scale=(1, 5))
        model = make_model().fit(few)
        assert np.isfinite(model.score_users(np.arange(-1, few.n_users))).all()
        assert (model.deviations(np.array([0]), np.array([0])) > 0).all()
    some = train.select((train.user_ids > 5) & (train.item_ids > 5))
    assert np.isfinite(make_model().fit(some).score_users(np.arange(8))).all()


def _check_in_surprise(make_model: Any, random: bool) -> None:
    """Surprise's own checks of every algorithm hold, and ``test`` is ``predict`` of many."""
    trainset, held_out = train_test_split(small_dataset(), test_size=0.2, random_state=0)
    algo = make_model()
    assert isinstance(algo, AlgoBase)
    before = pickle.loads(pickle.dumps(algo))
    assert algo.fit(trainset) is algo
    assert algo.trainset is trainset
    (user, item, _), *_ = held_out
    unknown = [("nobody", item, 3.0), (user, "nothing", 3.0), ("nobody", "nothing", 2.0)]
    asked = [*held_out, *unknown]
    predictions = algo.test(asked)
    assert predictions == AlgoBase.test(algo, asked), "test and predict differ"
    assert all(1 <= each.est <= 5 for each in predictions)
    for each in predictions[-3:]:
        assert each.details["was_impossible"] is not algo.predicts_unknown
        assert algo.predicts_unknown or "unknown" in each.details["reason"]
    try:
        assert np.isfinite(float(algo.estimate("UKN__nobody", 0)))
    except PredictionImpossible:
        assert not algo.predicts_unknown
    mean = [each._replace(est=trainset.global_mean) for each in predictions]
    found, usual = (accuracy.rmse(part, verbose=False) for part in (predictions, mean))
    assert found < usual
    assert before.fit(trainset).test(asked) == predictions, "a pickled algorithm differs"
    assert pickle.loads(pickle.dumps(algo)).test(asked) == predictions
    if "random_state" in inspect.signature(type(algo)).parameters:
        one, same, other = (make_model(random_state=s).fit(trainset).test(asked) for s in (1, 1, 2))
        assert one == same
        assert (one != other) is random


def dataset(triples: Any, scale: tuple[float, float] = (1, 5)) -> Dataset:
    """A Surprise Dataset of (user, item, rating) triples, whatever the types of the ids."""
    data = Dataset(Reader(rating_scale=scale))
    data.raw_ratings = [(user, item, rating, None) for user, item, rating in triples]
    data.has_been_split = False
    data.build_full_trainset = lambda: data.construct_trainset(data.raw_ratings)
    return data


def small_dataset() -> Dataset:
    """1150 ratings of 60 users and 60 items, raw ids being text."""
    ratings = synthetic_ratings.generate(60, 60, 1150, rank=2, noise=0.5, seed=2).ratings
    raw = zip(ratings.user_ids, ratings.item_ids, ratings.values, strict=True)
    return dataset([(f"user {u}", f"item {i}", float(r)) for u, i, r in raw])
