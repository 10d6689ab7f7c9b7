"""The check of prose: what it finds in pages, modules and subjects of commits."""

from pathlib import Path

import pytest

from support.modules import load_module

prose = load_module(Path(__file__).parents[1] / "docs" / "prose.py")


SUBJECTS = (
    "Add a test",
    "Bring models to the GPU",
    "Pass options on",
    "Focus a page",
    "Merge branch 'a'",
)
OTHERS = ("add a test", "docs: add a page", "Added a test", "Adding a test", "Adds a test", "The tests pass now",
          "Results of the tests", "Format", "Line length", "Add a test.")  # fmt: skip


@pytest.mark.parametrize("subject", SUBJECTS)
def test_an_imperative_sentence_is_a_subject(subject):
    assert not list(prose.check_commit(f"{subject}\n\nThe rest: is not looked at."))


@pytest.mark.parametrize("subject", OTHERS)
def test_other_subjects_are_refused(subject):
    assert list(prose.check_commit(subject))


def test_prose_of_a_page_is_read_and_its_code_is_not():
    page = "First.\n\nThe table stands\nin a file.\n\n```python\nbuild(anew)\n```\n\n`anew`, anew\n"
    assert [line for line, _ in prose.check_page(page)] == [10, 3]


def test_docstrings_and_messages_of_a_module_are_read():
    module = 'def f():\n    """What it does."""\n    raise ValueError("fit it anew")\n'
    assert [complaint[:6] for _, complaint in prose.check_source(module)] == ["'What'", "'anew'"]
