"""The arrows of imports: host adapter -> model -> core, and nowhere a circle."""

import ast
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[1] / "packages"
NAMES = {
    "tacenda": "tacenda",
    "tacenda_embeddings": "tacenda-embeddings",
    "tacenda_lm": "tacenda-lm",
    "tacenda_surprise": "tacenda-surprise",
}
HOSTS = {"spacy", "thinc", "surprise"}
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

pytestmark = pytest.mark.skipif(not PACKAGES.is_dir(), reason="reads the source tree")


def modules():
    """The path of every module, by its full name."""
    found = {}
    for name, distribution in NAMES.items():
        source = PACKAGES / distribution / "src"
        for path in (source / name).rglob("*.py"):
            full = ".".join(path.relative_to(source).with_suffix("").parts)
            found[full.removesuffix(".__init__")] = path
    return found


MODULES = modules()


def imported(path, *, functions):
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
                assert not child.level, f"{path}: write imports in full"
                for alias in child.names:
                    full = f"{child.module}.{alias.name}"
                    yield full if full in MODULES else child.module
            else:
                yield from walk(child)

    return set(walk(ast.parse(path.read_text(encoding="utf8"))))


def circles(arrows):
    """The strongly connected components of more than one node (Tarjan, 1972)."""
    number, lowest, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for other in arrows[node]:
            if other not in number:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], number[other])
        if lowest[node] == number[node]:
            members = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(members) > 1:
                found.append(sorted(members))

    for node in arrows:
        if node not in number:
            visit(node)
    return found


def test_circles_are_found():
    arrows = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a", "f"}, "f": {"e"}}
    assert circles(arrows) == [["b", "c"], ["e", "f"]]


@pytest.mark.parametrize("functions", [False, True], ids=["at import", "in functions too"])
def test_no_modules_import_each_other_in_a_circle(functions):
    assert len(MODULES) > 100
    arrows = {
        name: (imported(path, functions=functions) & set(MODULES)) - {name}
        for name, path in MODULES.items()
    }
    assert circles(arrows) == []


def package(name):
    return name.partition(".")[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_package_imports_none_of_ours_but_the_core(name):
    for module, path in MODULES.items():
        if package(module) == name:
            ours = {package(other) for other in imported(path, functions=True)} & set(NAMES)
            assert ours <= {name, "tacenda"}, f"{module} imports {ours}"


def is_adapter(module):
    """Whether a module is the side of a package that a host sees, or a command line or test kit of it."""
    if package(module) == "tacenda_surprise":  # its models are algorithms of Surprise
        return True
    return ".spacy" in module or bool({"cli", "__main__"} & set(module.split(".")))


def test_a_model_knows_no_host_and_no_adapter():
    """But for the tokenizer ``spacy:...`` of the core, which imports spaCy when it is asked for."""
    for module, path in MODULES.items():
        if is_adapter(module):
            continue
        names = imported(path, functions=module != "tacenda.tokenizers")
        assert not {package(name) for name in names} & HOSTS, f"{module} imports a host"
        adapters = {name for name in names if name in MODULES and is_adapter(name)}
        assert not adapters, f"{module} imports {adapters}"
