"""A small Surprise data set with raw string ids, and its parts."""

import pytest
from surprise.model_selection import train_test_split

import support.timeless  # noqa: F401
from support.files import write_file  # noqa: F401
from support.processes import command_line, printed, refused  # noqa: F401
from support.recommenders import MODELS
from tacenda_surprise.testing import make_dataset, small_dataset


@pytest.fixture(scope="session")
def triples():
    return [row[:3] for row in small_dataset().raw_ratings]


@pytest.fixture(scope="session")
def data(triples):
    return make_dataset(triples)


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


@pytest.fixture(params=MODELS.values(), ids=MODELS)
def make(request):
    return request.param


@pytest.fixture
def file(write_file, triples):  # noqa: F811
    """The ratings as a file."""
    return write_file("ratings.csv", "".join(f"{u},{i},{r}\n" for u, i, r in triples))


@pytest.fixture
def run(monkeypatch, capsys):
    """``tacenda ratings`` with these arguments: exit status, standard output, standard error."""
    return command_line(monkeypatch, capsys, "ratings")
