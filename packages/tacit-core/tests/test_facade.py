"""``import tacit`` is cheap, and what it promises is there."""

import subprocess
import sys

import pytest

import tacit


@pytest.mark.parametrize("name", tacit.__all__)
def test_every_name_is_there_and_listed(name):
    assert getattr(tacit, name) is not None
    assert name in dir(tacit)


def test_objects_are_those_of_their_modules():
    from tacit.artifact import load
    from tacit.corpus import Corpus
    from tacit.ratings import Ratings
    from tacit.vocabulary import Vocabulary

    assert (tacit.Corpus, tacit.Ratings, tacit.Vocabulary, tacit.load) == (
        Corpus,
        Ratings,
        Vocabulary,
        load,
    )


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'Corpse'"):
        tacit.Corpse  # noqa: B018


def test_importing_it_imports_nothing_else():
    code = (
        "import sys, tacit; print(*(m for m in sys.modules if m.startswith(('tacit.', 'numpy'))))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
