"""What can be relied on is that the package installs, imports lightly, and lists its plugins."""

import subprocess
import sys
import tomllib
from importlib.metadata import requires, version
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import tacenda
import tacenda_lm

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def test_versions_are_in_lock_step():
    assert tacenda_lm.__version__ == version("tacenda-lm") == tacenda.__version__


def test_the_core_comes_with_torch_and_no_sibling_comes_with_it():
    needed = [Requirement(text) for text in requires("tacenda-lm")]
    ours = [r for r in needed if r.name.startswith("tacenda") and r.marker is None]
    assert [(r.name, r.extras) for r in ours] == [("tacenda", {"torch"})]
    assert find_spec("torch") is not None


def test_every_public_name_is_there_and_no_other():
    for name in tacenda_lm.__all__:
        assert getattr(tacenda_lm, name).__name__ == name
    with pytest.raises(AttributeError, match="Nonsense"):
        _ = tacenda_lm.Nonsense


def test_n_grams_need_neither_torch_nor_a_host():
    source = (
        "import sys, tacenda_lm; light = 'numpy' not in sys.modules; tacenda_lm.KneserNey; "
        "tacenda_lm.Mixture; print(light, sorted({'torch', 'spacy', 'numba', 'typer'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split("\n")[0] == "True []"


@pytest.mark.skipif(not PROJECT.exists(), reason="the tests are run without the source tree")
def test_the_entry_points_lead_to_classes_of_these_names():
    from importlib import import_module

    points = tomllib.loads(PROJECT.read_text(encoding="utf8"))["project"]["entry-points"]
    for name, target in points["tacenda.language_models"].items():
        module, _, attribute = target.partition(":")
        found = getattr(import_module(module), attribute)
        assert (found.kind, found.name, found.distribution) == (
            "language_models",
            name,
            "tacenda-lm",
        )
    for target in points["tacenda.commands"].values():
        module, _, attribute = target.partition(":")
        assert getattr(import_module(module), attribute).registered_commands
