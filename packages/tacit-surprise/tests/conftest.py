"""A small Surprise data set with raw string ids, and its parts."""

import pytest
from surprise import Dataset, Reader
from surprise.model_selection import train_test_split

from tacit.datasets import synthetic_ratings


def dataset(triples, scale=(1, 5)):
    """A Surprise Dataset of (user, item, rating) triples, whatever the types of the ids."""
    data = Dataset(Reader(rating_scale=scale))
    data.raw_ratings = [(user, item, rating, None) for user, item, rating in triples]
    data.has_been_split = False
    data.build_full_trainset = lambda: data.construct_trainset(data.raw_ratings)
    return data


@pytest.fixture(scope="session")
def make_dataset():
    return dataset


@pytest.fixture(scope="session")
def triples():
    ratings = synthetic_ratings.generate(60, 60, 1150, rank=2, noise=0.5, seed=2).ratings
    raw = zip(ratings.user_ids, ratings.item_ids, ratings.values, strict=True)
    return [(f"user {u}", f"item {i}", float(r)) for u, i, r in raw]


@pytest.fixture(scope="session")
def data(triples):
    return dataset(triples)


@pytest.fixture(scope="session")
def parts(data):
    return train_test_split(data, test_size=0.2, random_state=0)


@pytest.fixture(scope="session")
def trainset(parts):
    return parts[0]


@pytest.fixture(scope="session")
def testset(parts):
    """With an unknown user, an unknown item, and both."""
    more = [("nobody", parts[1][0][1], 3.0), (parts[1][0][0], "nothing", 3.0)]
    return [*parts[1], *more, ("nobody", "nothing", 2.0)]
