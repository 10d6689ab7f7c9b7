"""Data that is wrong or hardly there: a clear error, or what the documentation says."""

import numpy as np
import pytest

from tacit.errors import DataError
from tacit_surprise import PMF, ConditionalPMF
from tacit_surprise.trainsets import ratings_of

ALGORITHMS = (PMF, ConditionalPMF)
SMALL = {"n_factors": 3, "n_epochs": 5, "random_state": 0}


@pytest.fixture
def fitted(make_dataset):
    def fit(cls, triples, scale=(1, 5)):
        return cls(**SMALL).fit(make_dataset(triples, scale).build_full_trainset())

    return fit


@pytest.mark.parametrize("cls", ALGORITHMS)
def test_of_a_pair_rated_twice_the_last_rating_counts(cls, fitted):
    triples = [("a", "x", 1.0), ("b", "x", 3.0), ("a", "y", 2.0), ("a", "x", 5.0)]
    with pytest.warns(UserWarning, match="1 ratings repeat a user and an item; the last"):
        twice = fitted(cls, triples)
    assert ratings_of(twice.trainset).of_user(0)[1].tolist() == [5.0, 2.0]


@pytest.mark.parametrize("cls", ALGORITHMS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_ratings_must_be_finite(cls, value, fitted):
    with pytest.raises(DataError, match=r"rating of user 'b' for item 'x' is .*must be finite"):
        fitted(cls, [("a", "x", 1.0), ("b", "x", value)])


@pytest.mark.parametrize("cls", ALGORITHMS)
def test_ratings_off_the_scale(cls, fitted):
    with pytest.raises(DataError, match="user 'b' for item 'x' is 7, off the scale 1 to 5"):
        fitted(cls, [("a", "x", 1.0), ("b", "x", 7.0)])


@pytest.mark.parametrize("cls", ALGORITHMS)
@pytest.mark.parametrize("triples", [
    [("a", "x", 4.0)],
    [("a", "x", 4.0), ("a", "y", 2.0)],
    [("a", "x", 4.0), ("b", "x", 2.0)],
])  # fmt: skip
def test_one_user_one_item_or_one_rating(cls, triples, fitted):
    algo = fitted(cls, triples)
    assert 1 <= algo.predict("a", "x").est <= 5
    seen = {item for user, item, _ in triples if user == "a"}
    assert not seen & {item for item, _ in algo.top_n(3, ["a"])["a"]}


@pytest.mark.parametrize("cls", ALGORITHMS)
def test_the_integer_7_and_the_string_are_two_users(cls, fitted):
    algo = fitted(cls, [(7, "x", 1.0), ("7", "x", 5.0), (7, "y", 1.0), ("7", "y", 5.0)])
    assert algo.predict(7, "x").est < algo.predict("7", "x").est
    assert algo.test([(7, "x", 1.0)])[0].est == algo.predict(7, "x").est


def test_a_trainset_is_converted_once(trainset):
    assert ratings_of(trainset) is ratings_of(trainset)


def test_an_interrupted_fit_leaves_the_algorithm_as_it_was(trainset, testset, make_dataset):
    algo = PMF(**SMALL).fit(trainset)
    before = algo.test(testset)

    class Interrupts:
        def on_step(self, run):
            raise KeyboardInterrupt

        def on_evaluation(self, run, evaluation):
            pass

        def on_epoch_end(self, run):
            pass

    algo.callbacks = (Interrupts(),)
    other = make_dataset([("a", "x", 4.0), ("b", "y", 2.0)]).build_full_trainset()
    with pytest.raises(KeyboardInterrupt):
        algo.fit(other)
    assert algo.trainset is trainset
    assert algo.test(testset) == before


def test_half_stars_are_levels(fitted):
    algo = fitted(PMF, [("a", "x", 0.5), ("b", "x", 4.0), ("b", "y", 3.5)], (0.5, 5))
    assert algo.levels.tolist() == [0.5 * k for k in range(1, 11)]
