"""``import tacenda`` is cheap, and what it promises is there."""

import pytest

import tacenda
from support.processes import output_of


@pytest.mark.parametrize("name", tacenda.__all__)
def test_every_name_is_there_and_listed(name):
    assert getattr(tacenda, name) is not None
    assert name in dir(tacenda)


def test_objects_are_those_of_their_modules():
    from tacenda.corpus import Corpus
    from tacenda.estimator import load
    from tacenda.ratings import Ratings
    from tacenda.vocabulary import Vocabulary

    assert (tacenda.Corpus, tacenda.Ratings, tacenda.Vocabulary, tacenda.load) == (
        Corpus,
        Ratings,
        Vocabulary,
        load,
    )


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'Corpse'"):
        tacenda.Corpse  # noqa: B018


def test_importing_it_imports_nothing_else():
    code = (
        "import sys; before = set(sys.modules); import tacenda; new = set(sys.modules) - before\n"
        "print(*(m for m in new if m.partition('.')[0] not in sys.stdlib_module_names))"
    )
    assert sorted(output_of("-c", code).split()) == ["tacenda", "tacenda.lazy"]
