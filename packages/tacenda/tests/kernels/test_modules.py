"""The modules of `tacenda.kernels` import each other in one direction only, and specifications need no numba or GPU."""

import ast
from pathlib import Path

import pytest

import tacenda.kernels
from tacenda.kernels import dispatch

FOLDER = Path(tacenda.kernels.__file__).parent
FAMILIES = set(dispatch.FAMILIES)
BELOW = {"machinery", "dispatch", "operation"}
ALLOWED = {
    "machinery": set(),
    "dispatch": set(),
    "operation": {"dispatch", "machinery"},
    "backends": {"dispatch"},
    "shared": BELOW,
    **{family: BELOW | {"shared"} for family in FAMILIES - {"shared"}},
}


def imported(path):
    """The modules of `tacenda.kernels` that a file names in its imports, wherever in the file, without that prefix."""
    inside = f"{tacenda.kernels.__name__}."
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: write imports in full"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name.removeprefix(inside) for name in names if name.startswith(inside))


def test_these_are_the_modules():
    found = {
        path.stem for path in FOLDER.iterdir() if path.name not in ("__init__.py", "__pycache__")
    }
    assert found == set(ALLOWED)


@pytest.mark.parametrize("module", sorted(ALLOWED))
def test_a_module_imports_only_those_below_it(module):
    for path in [*FOLDER.glob(f"{module}.py"), *(FOLDER / module).rglob("*.py")]:
        others = {name.partition(".")[0] for name in imported(path)} - {module}
        assert others <= ALLOWED[module], (
            f"{path.relative_to(FOLDER)} imports {others - ALLOWED[module]}"
        )


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_specification_needs_neither_compiled_code_nor_a_gpu(family):
    for path in (FOLDER / family).glob("*.py"):
        if path.stem in ("cpu", "triton", "torch"):
            continue
        for name in imported(path):
            assert not name.startswith(("machinery.compiled", "machinery.gpu")), f"{path}: {name}"
            assert not {"cpu", "triton", "torch"} & set(name.split(".")), f"{path}: {name}"
