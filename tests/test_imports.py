"""The arrows of imports: host adapter -> model -> core, and nowhere a circle."""

import ast
import re

import pytest

from benchmarks.freshness import ROOT
from benchmarks.shape import arrows_of, circles, imports, sources

MODULES = sources(ROOT)
NAMES = ("tacenda", "tacenda_embeddings", "tacenda_lm", "tacenda_surprise")
HOSTS = {"spacy", "thinc", "surprise"}
AT_IMPORT, IN_FUNCTIONS_TOO = (
    imports(MODULES, functions=each, types=False) for each in (False, True)
)

pytestmark = pytest.mark.skipif(not MODULES, reason="reads the source tree")


def test_circles_are_found():
    arrows = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a", "f"}, "f": {"e"}}
    assert circles(arrows) == [["b", "c"], ["e", "f"]]


@pytest.mark.parametrize(
    "imported", [AT_IMPORT, IN_FUNCTIONS_TOO], ids=["at import", "in functions too"]
)
def test_no_modules_import_each_other_in_a_circle(imported):
    assert len(MODULES) > 100
    assert circles(arrows_of(imported)) == []


def test_imports_are_written_in_full():
    for module, source in MODULES.items():
        for node in ast.walk(source.tree):
            assert not getattr(node, "level", 0), f"{module}: write imports in full"


def package(name):
    return name.partition(".")[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_package_imports_none_of_ours_but_the_core(name):
    for module, names in IN_FUNCTIONS_TOO.items():
        if package(module) == name:
            ours = {package(other) for other in names} & set(NAMES)
            assert ours <= {name, "tacenda"}, f"{module} imports {ours}"


def is_adapter(module):
    """Whether a module is the side of a package that a host sees, or a command line or test kit of it."""
    if package(module) == "tacenda_surprise":  # its models are algorithms of Surprise
        return True
    return ".spacy" in module or bool({"cli", "__main__"} & set(module.split(".")))


def test_a_model_knows_no_host_and_no_adapter():
    """But for the tokenizer ``spacy:...`` of the core, which imports spaCy when it is asked for."""
    for module in MODULES:
        if is_adapter(module):
            continue
        names = (AT_IMPORT if module == "tacenda.tokenizers" else IN_FUNCTIONS_TOO)[module]
        assert not {package(name) for name in names} & HOSTS, f"{module} imports a host"
        adapters = {name for name in names if name in MODULES and is_adapter(name)}
        assert not adapters, f"{module} imports {adapters}"


@pytest.mark.parametrize("host", ["spacy", "surprise"])
def test_no_module_of_the_core_imports_a_host_or_what_is_for_one(host):
    """Command lines included; functions may, when they are called."""
    imported = imports(MODULES, functions=False)
    core = [name for name in MODULES if re.match(r"tacenda(?!\.spacy)\b", name)]
    assert len(core) > 50
    for module in core:
        wrong = {
            n for n in imported[module] if package(n) == host or n.startswith(f"tacenda.{host}")
        }
        assert not wrong, f"{module} imports {wrong}"
