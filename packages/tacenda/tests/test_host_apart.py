"""The core knows no host: what it has for spaCy components is imported by them alone."""

import ast
from pathlib import Path

import pytest

import tacenda

FOLDER = Path(tacenda.__file__).parent


def imported(tree):
    """Names of modules that a file imports as it is imported itself, functions left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from imported(node)


@pytest.mark.parametrize("host", ["spacy", "surprise"])
def test_no_module_of_the_core_imports_a_host_or_what_is_for_one(host):
    files = [path for path in FOLDER.rglob("*.py") if (FOLDER / "spacy") not in path.parents]
    assert len(files) > 50
    for path in files:
        names = set(imported(ast.parse(path.read_text(encoding="utf8"))))
        wrong = {n for n in names if n.split(".")[0] == host or n.startswith(f"tacenda.{host}")}
        assert not wrong, f"{path.relative_to(FOLDER)} imports {', '.join(sorted(wrong))}"


def test_what_is_for_spacy_names_no_model():
    for path in (FOLDER / "spacy").rglob("*.py"):
        names = set(imported(ast.parse(path.read_text(encoding="utf8"))))
        assert not {n for n in names if n.startswith(("tacenda_embeddings", "tacenda_lm"))}
