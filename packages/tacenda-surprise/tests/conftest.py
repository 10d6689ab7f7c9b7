"""A small Surprise data set with raw string ids, and its parts."""

import pytest
from surprise.model_selection import train_test_split

from tacenda import plugins
from tacenda_surprise import models
from tacenda_surprise.testing import dataset, small_dataset


@pytest.fixture(scope="module", autouse=True)
def _registered():
    """Models that came after the package was installed, for whoever works on it."""
    installed = {record.name for record in plugins.available("recommenders")}
    ours = (cls for cls in vars(models).values() if isinstance(cls, type))
    missing = [cls for cls in ours if getattr(cls, "name", None) and cls.name not in installed]
    for cls in missing:
        plugins.register("recommenders", cls.name, cls, distribution=cls.distribution)
    yield
    for cls in missing:
        plugins.unregister("recommenders", cls.name, distribution=cls.distribution)


@pytest.fixture(scope="session")
def make_dataset():
    return dataset


@pytest.fixture(scope="session")
def triples():
    return [row[:3] for row in small_dataset().raw_ratings]


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
