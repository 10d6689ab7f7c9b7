"""Errors: what a message quotes can neither flood nor steer a terminal."""

import pickle
from functools import partial

import pytest

from tacenda.errors import (
    ArtifactError,
    ConfigurationError,
    TacendaError,
    TacendaWarning,
    describe,
    warn,
)


def test_a_message_is_kept_as_it_is():
    error = ArtifactError("cannot read model: größe is 3")
    assert str(error) == "cannot read model: größe is 3"
    assert describe(error) == str(error)


@pytest.mark.parametrize("length", [801, 100_000, 1_000_000])
def test_the_middle_of_a_long_message_is_left_out(length):
    said = str(ConfigurationError("width must be a number, not " + "x" * length + "; give another"))
    assert len(said) < 900
    assert said.startswith("width must be a number, not xxx")
    assert said.endswith("xxx; give another")


def test_control_characters_are_escaped():
    said = str(TacendaError("a name \x1b[2J\r\x00\u202e here"))
    assert said == r"a name \x1b[2J\r\x00\u202e here"
    assert said.isprintable()


def test_errors_survive_pickling():
    error = pickle.loads(pickle.dumps(ArtifactError("\x1b" + "x" * 5000)))  # noqa: S301
    assert type(error) is ArtifactError
    assert len(str(error)) < 900
    assert str(error) == str(ArtifactError("\x1b" + "x" * 5000))


class _Owner:
    def __eq__(self, other):
        return True

    __hash__ = None


def _call_through(module: str, function):
    """Call a function from code whose module has this name."""
    scope = {"__name__": module, "function": function}
    exec("def call():\n    function()", scope)
    scope["call"]()


@pytest.mark.parametrize("module", ["tacenda.corpus.corpus", "tacenda_lm.cli", "spacy.language"])
def test_a_warning_is_at_the_line_that_called_tacenda_or_its_host(module):
    with pytest.warns(TacendaWarning, match="mind the gap") as caught:
        _call_through(module, partial(warn, "mind the gap"))
    assert caught[0].filename == __file__


def test_a_warning_with_a_topic_is_given_once_to_each_object():
    one, other = _Owner(), _Owner()

    def warn_of(share):
        warn(f"{share}% are unknown", once=(one, "unknown"))
        warn(f"{share}% are long", once=(one, "long"))
        warn(f"{share}% are unknown here", once=(other, "unknown"))

    with pytest.warns(TacendaWarning) as caught:
        list(map(warn_of, (10, 20)))
    said = [str(each.message) for each in caught]
    assert said == ["10% are unknown", "10% are long", "10% are unknown here"]


def test_a_warning_cannot_steer_a_terminal():
    with pytest.warns(TacendaWarning) as caught:
        warn("a word \x1b[2J")
    assert str(caught[0].message) == r"a word \x1b[2J"
