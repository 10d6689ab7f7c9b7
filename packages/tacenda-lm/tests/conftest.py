"""Shared by the tests: our plugins in the registry whatever is installed, and the command line."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tacenda import plugins
from tacenda.cli.main import main
from tacenda.errors import PluginUnavailableError
from tacenda_lm import cli
from tacenda_lm.boltzmann import FRBM, TemporalFRBM
from tacenda_lm.cache import NeuralCache, UnigramCache
from tacenda_lm.hidden_markov.hmm import HMM
from tacenda_lm.hidden_markov.vlhmm import VLHMM
from tacenda_lm.log_bilinear.hlbl import HLBL
from tacenda_lm.log_bilinear.lbl import LBL
from tacenda_lm.mixture import Mixture
from tacenda_lm.ngram.kneser_ney import KneserNey
from tacenda_lm.recurrent import RecurrentLM
from tacenda_lm.state_space import StateSpaceLM

OURS = [
    ("language_models", "kneser_ney", KneserNey),
    ("language_models", "mixture", Mixture),
    ("language_models", "hlbl", HLBL),
    ("language_models", "lbl", LBL),
    ("language_models", "frbm", FRBM),
    ("language_models", "temporal_frbm", TemporalFRBM),
    ("language_models", "vlhmm", VLHMM),
    ("language_models", "hmm", HMM),
    ("language_models", "recurrent", RecurrentLM),
    ("language_models", "unigram_cache", UnigramCache),
    ("language_models", "neural_cache", NeuralCache),
    ("language_models", "state_space", StateSpaceLM),
    ("commands", "lm", cli.app),
]

collect_ignore: list[str] = []
if find_spec("torch") is None:
    # the extra torch is not installed: leave out what compares with it
    tests = Path(__file__).parent.rglob("test_*.py")
    collect_ignore += [str(p) for p in tests if "\nimport torch" in p.read_text(encoding="utf8")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    return (yield from _skipping_without_torch())


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup():
    return (yield from _skipping_without_torch())


def _skipping_without_torch():
    """Skip a test that asks for the extra torch where it is not installed."""
    try:
        return (yield)
    except PluginUnavailableError as error:
        if find_spec("torch") is None and "tacenda-lm[torch]" in str(error):
            pytest.skip(str(error))
        raise


@pytest.fixture(autouse=True, scope="module")
def _ours_registered():
    """An editable installation made before an entry point was added does not know it."""
    added = []
    for kind, name, thing in OURS:
        installed = {r.name for r in plugins.available(kind) if r.distribution == "tacenda-lm"}
        if name not in installed:
            plugins.register(kind, name, thing, distribution="tacenda-lm")
            added.append((kind, name))
    yield
    for kind, name in added:
        plugins.unregister(kind, name, distribution="tacenda-lm")


@pytest.fixture
def run(monkeypatch, capsys):
    """``tacenda lm`` with these arguments: exit status, standard output, standard error."""

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["tacenda", "lm", *map(str, arguments)])
        monkeypatch.setenv("TACENDA_PROGRESS", "0")
        with pytest.raises(SystemExit) as exit_:
            main()
        out, err = capsys.readouterr()
        return exit_.value.code or 0, out, err

    return command
