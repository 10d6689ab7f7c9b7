"""The arrows of imports: host adapter -> model -> core, and nowhere a circle."""

import ast

import pytest

from benchmarks.freshness import ROOT
from benchmarks.shape import circles, sources

MODULES = sources(ROOT)
NAMES = ("tacenda", "tacenda_embeddings", "tacenda_lm", "tacenda_surprise")
HOSTS = {"spacy", "thinc", "surprise"}
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

pytestmark = pytest.mark.skipif(not MODULES, reason="reads the source tree")


def imported(source, *, functions):
    """Names that a module imports, with or without what its functions import when they are called."""

    def walk(node):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, FUNCTIONS) and not functions:
                continue
            if isinstance(child, ast.Import):
                yield from (alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert not child.level, f"{source.path}: write imports in full"
                for alias in child.names:
                    full = f"{child.module}.{alias.name}"
                    yield full if full in MODULES else child.module
            else:
                yield from walk(child)

    return set(walk(source.tree))


def test_circles_are_found():
    arrows = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a", "f"}, "f": {"e"}}
    assert circles(arrows) == [["b", "c"], ["e", "f"]]


@pytest.mark.parametrize("functions", [False, True], ids=["at import", "in functions too"])
def test_no_modules_import_each_other_in_a_circle(functions):
    assert len(MODULES) > 100
    arrows = {
        name: (imported(source, functions=functions) & set(MODULES)) - {name}
        for name, source in MODULES.items()
    }
    assert circles(arrows) == []


def package(name):
    return name.partition(".")[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_package_imports_none_of_ours_but_the_core(name):
    for module, source in MODULES.items():
        if package(module) == name:
            ours = {package(other) for other in imported(source, functions=True)} & set(NAMES)
            assert ours <= {name, "tacenda"}, f"{module} imports {ours}"


def is_adapter(module):
    """Whether a module is the side of a package that a host sees, or a command line or test kit of it."""
    if package(module) == "tacenda_surprise":  # its models are algorithms of Surprise
        return True
    return ".spacy" in module or bool({"cli", "__main__"} & set(module.split(".")))


def test_a_model_knows_no_host_and_no_adapter():
    """But for the tokenizer ``spacy:...`` of the core, which imports spaCy when it is asked for."""
    for module, source in MODULES.items():
        if is_adapter(module):
            continue
        names = imported(source, functions=module != "tacenda.tokenizers")
        assert not {package(name) for name in names} & HOSTS, f"{module} imports a host"
        adapters = {name for name in names if name in MODULES and is_adapter(name)}
        assert not adapters, f"{module} imports {adapters}"


@pytest.mark.parametrize("host", ["spacy", "surprise"])
def test_no_module_of_the_core_imports_a_host_or_what_is_for_one(host):
    """Command lines included; functions may, when they are called."""
    core = [name for name in MODULES if package(name) == "tacenda" and "spacy" not in name]
    assert len(core) > 50
    for module in core:
        names = imported(MODULES[module], functions=False)
        wrong = {n for n in names if package(n) == host or n.startswith(f"tacenda.{host}")}
        assert not wrong, f"{module} imports {wrong}"
