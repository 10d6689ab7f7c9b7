"""One switch decides whether the pages install Tacenda from a checkout or from the package index."""

import re
from pathlib import Path

import pytest

from support.modules import load_module

ROOT = Path(__file__).parents[1]
pages = load_module(ROOT / "docs" / "install_commands.py")

PAGE = "Before.\n\n<!-- install: tacenda-en[spacy,lm] -->\n<!-- /install -->\n\nAfter.\n"


def test_every_page_follows_the_switch():
    for place in pages.PLACES:
        for page in ROOT.glob(place):
            text = page.read_text(encoding="utf8")
            assert pages.rewrite(text, pages.RELEASED) == text, f"run {pages.__file__}: {page}"


def test_no_page_of_the_front_has_an_install_command_of_its_own():
    for name in ("README.md", "docs/index.md", "docs/install.md", "docs/getting-started.md"):
        text = (ROOT / name).read_text(encoding="utf8")
        left = pages.INSTALL.sub("", text)
        assert pages.INSTALL.search(text), name
        assert not re.search(r"pip install [\"']?(\./packages/)?tacenda", left), name


def test_a_release_turns_folders_into_names_of_the_index():
    now, then = (pages.rewrite(PAGE, released) for released in (False, True))
    assert "./packages/tacenda " in now
    assert '"./packages/tacenda-en[spacy,lm]"' in now
    assert "./packages/tacenda-lm" in now
    assert 'pip install "tacenda-en[spacy,lm]"\n' in then
    assert pages.rewrite(then, False) == now
    assert then.startswith("Before.\n")
    assert then.endswith("After.\n")


@pytest.mark.parametrize("name", ["tacenda-eu", "tacenda-en[space]"])
def test_a_package_or_extra_that_is_not_there_is_refused(name):
    with pytest.raises(SystemExit, match=r"No package|no extra"):
        pages.command([name], released=True)
