"""Errors: what a message quotes can neither flood nor steer a terminal."""

import pickle

import pytest

from tacenda.errors import ArtifactError, ConfigurationError, TacendaError, describe


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
