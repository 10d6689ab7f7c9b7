"""What can be relied on is that the package installs, imports lightly, and lists its plugins."""

import tomllib
from importlib.metadata import requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import tacenda
import tacenda_lm
from support.processes import output_of

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def test_versions_are_in_lock_step():
    assert tacenda_lm.__version__ == version("tacenda-lm") == tacenda.__version__


def test_the_core_comes_without_torch_and_no_sibling_comes_with_it():
    needed = [Requirement(text) for text in requires("tacenda-lm")]
    ours = [r for r in needed if r.name.startswith("tacenda") and r.marker is None]
    assert [(r.name, r.extras) for r in ours] == [("tacenda", set())]
    assert not any(r.name == "torch" for r in needed if r.marker is None)


def test_every_public_name_is_there_and_no_other():
    for name in tacenda_lm.__all__:
        assert getattr(tacenda_lm, name).__name__ == name
    with pytest.raises(AttributeError, match="Nonsense"):
        _ = tacenda_lm.Nonsense


def test_n_grams_need_neither_torch_nor_a_host():
    source = (
        "import sys, tacenda_lm; light = 'numpy' not in sys.modules; tacenda_lm.KneserNey; "
        "tacenda_lm.Mixture, tacenda_lm.BrownClusters; "
        "print(light, sorted({'torch', 'spacy', 'numba', 'typer'} & set(sys.modules)))"
    )
    assert output_of("-c", source).splitlines()[0] == "True []"


@pytest.mark.skipif(not PROJECT.exists(), reason="the tests are run without the source tree")
def test_the_entry_points_lead_to_classes_of_these_names():
    from importlib import import_module

    points = tomllib.loads(PROJECT.read_text(encoding="utf8"))["project"]["entry-points"]
    for name, target in points["tacenda.language_models"].items():
        module, _, attribute = target.partition(":")
        found = getattr(import_module(module), attribute)
        expected = ("language_models", name, "tacenda-lm")
        assert (found.kind, found.name, found.distribution) == expected
    for target in points["tacenda.commands"].values():
        module, _, attribute = target.partition(":")
        assert getattr(import_module(module), attribute).registered_commands


WITHOUT_TORCH = """
import sys

class Blocked:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in ("torch", "triton"):
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Blocked())
import spacy, tacenda, tacenda_lm
import tacenda_lm.spacy.factories
from tacenda.errors import PluginUnavailableError

folder = sys.argv[1]
text = "the cat sat .\\na dog sat on the mat .\\n" * 20
model = tacenda_lm.KneserNey(order=3).fit(text)
model.to_arpa(f"{folder}/model.arpa")
tacenda_lm.KneserNey.from_arpa(f"{folder}/model.arpa").save(f"{folder}/model")
again = tacenda.load(f"{folder}/model")
assert abs(again.score("a cat sat .") - model.score("a cat sat .")) < 1e-6
assert len(tacenda_lm.surprisal_table(again, "a cat sat .")) == 4
mixture = tacenda_lm.Mixture({"a": model, "b": tacenda_lm.HLBL(width=4, epochs=1).fit(text)})
assert mixture.perplexity(text) < 100
nlp = spacy.blank("en")
nlp.add_pipe("lm_scorer").initialize(artifact=model)
assert nlp("a cat sat .")[1]._.surprisal > 0
try:
    tacenda_lm.VLHMM(n_classes=2, states_per_class=2).fit(text)
except PluginUnavailableError as error:
    assert "pip install 'tacenda-lm[torch]'" in str(error)
print(sorted({"torch", "triton"} & set(sys.modules)))
"""


def test_scoring_works_without_torch_and_training_that_needs_it_says_so(tmp_path):
    pytest.importorskip("spacy")
    assert output_of("-c", WITHOUT_TORCH, tmp_path) == "[]\n"
