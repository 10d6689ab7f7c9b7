"""Checks that a rating algorithm keeps what `RatingAlgorithm` promises.

    from tacenda_surprise.testing import check_recommender

    def test_my_model():
        check_recommender(lambda **options: MyModel(**{"n_factors": 4, "random_state": 0, **options}))

Install ``tacenda-surprise[testing]`` for what it needs.
"""

# ruff: noqa: S301 - pickles of our own

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

import numpy as np
from surprise import AlgoBase, Dataset, PredictionImpossible, Reader, accuracy
from surprise.model_selection import train_test_split

from tacenda.datasets import synthetic_ratings
from tacenda.errors import ConfigurationError, NotFittedError, TacendaError
from tacenda.ratings import IdIndex, Ratings, split
from tacenda.testing.models import assert_refuses, check_estimator
from tacenda_surprise.algorithm import RatingAlgorithm

_ATOL = 1e-4  # how far predictions may differ where the same numbers are computed in another order
_N_PAIRS = 80  # scored one by one, in steps of `_PAIRS_APART`
_PAIRS_APART = 7
# Loose bounds that only a wrong model misses: probabilities have the scores as means but for the ends of the scale, a
# user folded in is nearly the fitted one, and two further epochs hardly move what was fitted.
_LEAST_CORRELATION_OF_MEANS = 0.9
_LEAST_CORRELATION_OF_FOLDED = 0.8
_LARGEST_MOVE = 0.5  # in standard deviations of the ratings


def check_recommender(
    make_model: Callable[..., RatingAlgorithm], *, random: bool = True
) -> RatingAlgorithm:
    """Fit a rating algorithm and check what its methods promise, and that it works in Surprise.

    This includes `tacenda.testing.models.check_estimator`. ``make_model(**options)`` returns a new unfitted algorithm,
    small enough to fit in a second, with a fixed seed if it has one. ``random`` says whether another ``random_state``
    gives another result.

    Returns the fitted model. Raises AssertionError, which names the promise, if a result breaks one; errors that the
    methods of the model raise where they should not are raised as they are.
    """
    ratings = synthetic_ratings.generate(120, 60, 2300, rank=2, noise=0.6, seed=3).ratings
    train, held_out = split(ratings, 0.1, seed=0)
    rng = np.random.default_rng(0)
    pairs = rng.integers(-1, train.n_users, _N_PAIRS), rng.integers(-1, train.n_items, _N_PAIRS)

    def apply(model: Any) -> list[Any]:
        folded = model.fold(*train.of_user(0))
        return [model.score_pairs(*pairs), model.deviations(*pairs), folded.score()]

    model = check_estimator(make_model, train, apply, atol=_ATOL)
    assert model.kind == "recommenders", f"its kind is {model.kind!r}, not 'recommenders'"
    scores = model.score_pairs(*pairs)
    _check_fit(make_model, model, train, pairs, scores)
    _check_scores(model, train, pairs, scores)
    predictions = model.score_pairs(held_out.user_ids, held_out.item_ids)
    mse = np.mean((predictions - held_out.values) ** 2)
    mse_of_mean = np.mean((train.mean - held_out.values) ** 2)
    assert mse < mse_of_mean, "it predicts ratings held out worse than the mean of the ratings does"
    _check_new_users(model, train)
    _check_further_ratings(model, train, pairs)
    np.testing.assert_array_equal(model.score_pairs(*pairs), scores, "using it changed it")
    _check_hardly_any_data(make_model, train)
    _check_in_surprise(make_model, random)
    return model  # type: ignore[no-any-return]


def _check_fit(make_model: Any, model: Any, train: Ratings, pairs: Any, scores: Any) -> None:
    """Check that ``fit`` notes the data, is deterministic and forgets earlier data; nothing works before it."""
    assert model.fitted_on["n_ratings"] == len(train), "fitted_on has another number of ratings"
    catalogue = model.catalogue
    same_users = catalogue.users.raw.tolist() == train.users.raw.tolist()
    assert same_users, "catalogue.users are not those of the ratings, in their order"
    same_items = catalogue.items.raw.tolist() == train.items.raw.tolist()
    assert same_items, "catalogue.items are not those of the ratings, in their order"
    assert catalogue.scale == train.scale, "catalogue.scale is not that of the ratings"
    assert abs(catalogue.mean - train.mean) < 1e-6, "catalogue.mean is not that of the ratings"
    other = synthetic_ratings.generate(30, 20, 180, seed=5).ratings
    again = make_model().fit(other).fit(train)
    np.testing.assert_array_equal(again.score_pairs(*pairs), scores, "another fit differs")
    unfitted, zero = make_model(), np.array([0])
    uses: dict[str, Callable[[], Any]] = {
        "score_pairs": lambda: unfitted.score_pairs(zero, zero),
        "score_users": lambda: unfitted.score_users(zero),
        "fold": lambda: unfitted.fold(zero, [3.0]),
        "catalogue": lambda: unfitted.catalogue,
        "top_n": lambda: unfitted.top_n(),
    }
    for name, use in uses.items():
        assert_refuses(use, NotFittedError, f"{name} of an unfitted algorithm")


def _check_scores(model: Any, train: Ratings, pairs: Any, scores: Any) -> None:
    """Check scores, deviations and probabilities: their shapes and bounds, and that they fit each other."""
    nobody = np.empty(0, int)
    _check_float32("score_pairs", scores, _N_PAIRS)
    _check_float32("score_pairs of no pairs", model.score_pairs(nobody, nobody), 0)
    for k in range(0, _N_PAIRS, _PAIRS_APART):
        alone = model.score_pairs(pairs[0][k : k + 1], pairs[1][k : k + 1])
        np.testing.assert_array_equal(
            alone, scores[k : k + 1], "the score of a pair depends on the other pairs of the call"
        )
    users, n_items = np.array([3, -1, 0]), train.n_items
    block = model.score_users(users)
    _check_float32("score_users", block, 3, n_items)
    every = model.score_pairs(np.repeat(users, n_items), np.tile(np.arange(n_items), 3))
    np.testing.assert_allclose(
        block.ravel(), every, atol=_ATOL, err_msg="score_users and score_pairs differ"
    )
    _check_positive("deviations", model.deviations(*pairs), _N_PAIRS)
    p = model.probabilities(*pairs)
    _check_float32("probabilities", p, _N_PAIRS, len(model.catalogue.levels))
    assert (p >= 0).all(), "probabilities are not all at least 0"
    np.testing.assert_allclose(
        p.sum(axis=1), 1.0, atol=1e-4, err_msg="the probabilities of a pair do not sum to 1"
    )
    means = p @ model.catalogue.levels
    agreement = np.corrcoef(means, scores.clip(*train.scale))[0, 1]
    assert agreement > _LEAST_CORRELATION_OF_MEANS, (
        f"the means of the probabilities and the scores have a correlation of only {agreement:.2f}"
    )


def _check_float32(what: str, values: Any, *shape: int) -> None:
    """Check that ``values`` are finite float32 of this shape."""
    assert isinstance(values, np.ndarray), f"{what} is a {type(values).__name__}, not an array"
    found = values.dtype, values.shape
    assert found == (np.float32, shape), f"{what} is {found[0]} {found[1]}, not float32 {shape}"
    assert np.isfinite(values).all(), f"{what} is not finite"


def _check_positive(what: str, values: Any, *shape: int) -> None:
    """Check that ``values`` are positive and finite float32 of this shape."""
    _check_float32(what, values, *shape)
    assert (values > 0).all(), f"{what} are not all positive"


def _check_new_users(model: Any, train: Ratings) -> None:
    """Check that ``fold`` scores a user like the fitted one, or one without ratings, and refuses invalid ratings."""
    user = int(np.argmax(np.diff(train.user_offsets)))
    folded = model.fold(*train.of_user(user)).score()
    _check_float32("the score of a user folded in", folded, train.n_items)
    agreement = np.corrcoef(folded, model.score_users(np.array([user]))[0])[0, 1]
    assert agreement > _LEAST_CORRELATION_OF_FOLDED, (
        f"the scores of a user folded in and of the same user fitted have a correlation of only {agreement:.2f}"
    )
    nobody, items = model.fold(np.empty(0, int), []), np.array([0, -1, 3])
    _check_float32("the score of a user without ratings", nobody.score(), train.n_items)
    _check_float32("the score of a user without ratings for some items", nobody.score(items), 3)
    np.testing.assert_allclose(
        nobody.score(items)[[0, 2]],
        nobody.score()[[0, 3]],
        atol=_ATOL,
        err_msg="the scores of a new user for some items differ from those for all items",
    )
    _check_positive("deviations of a new user", nobody.deviations(items), 3)
    for what, item_numbers, values in (
        ("fewer ratings than items", [0, 1], [3.0]),
        ("a rating of NaN", [0], [np.nan]),
        ("an item number that is too large", [10_000], [3.0]),
        ("an item number of -1", [-1], [3.0]),
    ):
        use = partial(model.fold, np.array(item_numbers), values)
        assert_refuses(use, TacendaError, f"fold with {what}")


def _check_further_ratings(model: Any, train: Ratings, pairs: Any) -> None:
    """Check that ``partial_fit`` learns of new users and items, or raises ConfigurationError."""
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
    for index, old, new in (
        (after.catalogue.users, train.users, "a new user"),
        (after.catalogue.items, train.items, "a new item"),
    ):
        expected = [*old.raw.tolist(), new]
        assert index.raw.tolist() == expected, f"partial_fit does not add {new} as the last one"
    everybody = np.arange(-1, n_users + 1)
    block = after.score_users(everybody)
    _check_float32("score_users after partial_fit", block, n_users + 2, n_items + 1)
    move = np.abs(after.score_pairs(*pairs) - scores).mean() / np.std(train.values)
    assert move < _LARGEST_MOVE, (
        f"two epochs of partial_fit move scores by {move:.2f} standard deviations of the ratings on average"
    )


def _check_hardly_any_data(make_model: Any, train: Ratings) -> None:
    """Check that one rating is enough, and that users and items may have no ratings."""
    for triples in (
        [("u", "i", 3.0)],
        [("u", "i", 1.0), ("u", "j", 5.0)],
        [("u", "i", 1.0), ("v", "i", 5.0)],
        [("u", "i", 4.0), ("v", "j", 4.0)],
    ):
        few = Ratings.from_triples(triples, scale=(1, 5))
        model = make_model().fit(few)
        scores = model.score_users(np.arange(-1, few.n_users))
        _check_float32(f"score_users fitted to {triples}", scores, few.n_users + 1, few.n_items)
        first = np.array([0])
        _check_positive(f"deviations fitted to {triples}", model.deviations(first, first), 1)
    part = train.select((train.user_ids > 5) & (train.item_ids > 5))
    scores = make_model().fit(part).score_users(np.arange(8))
    _check_float32("score_users of users without ratings", scores, 8, part.n_items)


def _check_in_surprise(make_model: Any, random: bool) -> None:
    """Check that Surprise can use the algorithm, and that ``test`` is ``predict`` of many pairs."""
    trainset, held_out = train_test_split(small_dataset(), test_size=0.2, random_state=0)
    algo = make_model()
    assert isinstance(algo, AlgoBase), "it is no surprise.AlgoBase"
    unfitted = pickle.loads(pickle.dumps(algo))
    assert algo.fit(trainset) is algo, "fit does not return the algorithm"
    assert algo.trainset is trainset, "trainset is not the Trainset it was fitted to"
    (user, item, _), *_ = held_out
    unknown = [("nobody", item, 3.0), (user, "nothing", 3.0), ("nobody", "nothing", 2.0)]
    testset = [*held_out, *unknown]
    predictions = algo.test(testset)
    assert predictions == AlgoBase.test(algo, testset), "test and predict differ"
    assert all(1 <= each.est <= 5 for each in predictions), "estimates are off the scale"
    _check_unknown_pairs(algo, predictions[-3:])
    means = [each._replace(est=trainset.global_mean) for each in predictions]
    rmse, rmse_of_mean = (accuracy.rmse(part, verbose=False) for part in (predictions, means))
    assert rmse < rmse_of_mean, "its RMSE is not below that of the mean of all ratings"
    assert unfitted.fit(trainset).test(testset) == predictions, "a pickled algorithm differs"
    pickled = pickle.loads(pickle.dumps(algo)).test(testset)
    assert pickled == predictions, "a pickled fitted algorithm differs"
    if "random_state" in inspect.signature(type(algo)).parameters:
        one, same, other = (
            make_model(random_state=seed).fit(trainset).test(testset) for seed in (1, 1, 2)
        )
        assert one == same, "two fits with the same random_state differ"
        assert (one != other) is random, (
            f"random is {random}, and fits with two values of random_state {'are the same' if random else 'differ'}"
        )


def _check_unknown_pairs(algo: Any, predictions: Any) -> None:
    """Check that unknown users and items are predicted, or refused as Surprise expects."""
    for each in predictions:
        impossible = each.details["was_impossible"]
        assert impossible is not algo.predicts_unknown, (
            f"predicts_unknown is {algo.predicts_unknown}, and was_impossible of an unknown pair is {impossible}"
        )
        explained = algo.predicts_unknown or "unknown" in each.details["reason"]
        assert explained, "the reason of an impossible prediction does not say what is unknown"
    try:
        estimate = float(algo.estimate("UKN__nobody", 0))
    except PredictionImpossible:
        assert not algo.predicts_unknown, "estimate refuses an unknown user"
    else:
        assert np.isfinite(estimate), "estimate of an unknown user is not finite"


def make_dataset(triples: Any, scale: tuple[float, float] = (1, 5)) -> Dataset:
    """Make a Surprise Dataset of (user, item, rating) triples, whatever the types of the ids."""
    data = Dataset(Reader(rating_scale=scale))
    data.raw_ratings = [(user, item, rating, None) for user, item, rating in triples]
    data.has_been_split = False
    data.build_full_trainset = lambda: data.construct_trainset(data.raw_ratings)
    return data


def small_dataset() -> Dataset:
    """Generate 1,150 ratings of 60 users and 60 items, whose raw ids are text."""
    ratings = synthetic_ratings.generate(60, 60, 1150, rank=2, noise=0.5, seed=2).ratings
    raw = zip(ratings.user_ids, ratings.item_ids, ratings.values, strict=True)
    return make_dataset([(f"user {u}", f"item {i}", float(r)) for u, i, r in raw])
