"""Shared by the tests: what needs torch is skipped without it, and the command line."""

import io
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import support.timeless  # noqa: F401
from support.files import write_file  # noqa: F401
from support.modules import load_module
from support.processes import command_line, no_child_left, printed, refused  # noqa: F401
from tacenda.errors import PluginUnavailableError

collect_ignore: list[str] = []
if find_spec("torch") is None:
    # the extra torch is not installed: leave out what compares with it
    tests = Path(__file__).parent.rglob("test_*.py")
    collect_ignore += [str(p) for p in tests if "\nimport torch" in p.read_text(encoding="utf8")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    return (yield from _skipping_without_torch())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup():
    return (yield from _skipping_without_torch())


def _skipping_without_torch():
    """Skip a test that asks for the extra torch where it is not installed."""
    try:
        return (yield)
    except PluginUnavailableError as error:
        if find_spec("torch") is None and "tacenda-lm[torch]" in str(error):
            pytest.skip(str(error))
        raise


@pytest.fixture
def run(monkeypatch, capsys):
    """``tacenda lm`` with these arguments: exit status, standard output, standard error."""
    return command_line(monkeypatch, capsys, "lm")


@pytest.fixture
def stdin(monkeypatch):
    """Give bytes to standard input."""

    def give(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


@pytest.fixture(scope="module")
def oracles(request):
    """The module ``oracles`` next to the test."""
    return load_module(request.path.with_name("oracles.py"))


@pytest.fixture
def kenlm():
    return pytest.importorskip("kenlm", reason="the kenlm module is not installed")


@pytest.fixture(scope="module", autouse=True)
def short_pieces():
    """HLBL trains on pieces of 128 words; texts of tests are short, and so are their pieces.

    For the length of a module: one for a session would reach the tests of other folders that follow in the process.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tacenda_lm.log_bilinear.hlbl.PIECE_WORDS", 16)
        yield
