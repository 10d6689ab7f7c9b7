import ast
import importlib.util
from pathlib import Path

import pytest

from support.processes import output_of

MISSING = [
    name for name in ("torch", "triton", "coverage") if importlib.util.find_spec(name) is None
]
FOLDER = Path(__file__).parent / "triton"
COMPILATION = FOLDER / "compilation.py"
KERNELS = Path(__file__).parents[1] / "src" / "tacenda" / "kernels"
TESTS = sorted(set(FOLDER.glob("*.py")) - {FOLDER / "conftest.py", COMPILATION})

# minutes of computing, and more on a busy machine
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"needs {' and '.join(MISSING)}"),
    pytest.mark.timeout(3600),
]


def run(*paths, before=(), **environment):
    command = *before, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *paths
    print(output_of(*command, **environment))


def test_kernels_under_the_interpreter_which_runs_every_line_of_them(tmp_path):
    """A branch that one shape leaves out must run for another."""
    data = tmp_path / "seen"
    watched = "-m", "coverage", "run", f"--data-file={data}", f"--source={KERNELS}"
    run(*TESTS, before=watched, TRITON_INTERPRET="1", CUDA_VISIBLE_DEVICES="")
    from coverage import CoverageData

    seen = CoverageData(str(data))
    seen.read()
    missed = []
    for file in sorted([*KERNELS.rglob("triton.py"), KERNELS / "machinery/gpu.py"]):
        tree = ast.parse(file.read_text(encoding="utf8"))
        lines = {
            statement.lineno
            for kernel in tree.body
            if isinstance(kernel, ast.FunctionDef) and kernel.decorator_list
            for statement in ast.walk(kernel)
            if isinstance(statement, ast.stmt) and statement not in (kernel, kernel.body[0])
        }
        ran = set(seen.lines(str(file)) or ())
        name = str(file.relative_to(KERNELS))
        print(f"{name}: {len(lines & ran)} of {len(lines)} lines of kernels have run")
        missed += [f"{name}:{line}" for line in sorted(lines - ran)]
    assert not missed


def test_kernels_compile_for_devices_that_are_not_there(tmp_path):
    run(COMPILATION, TRITON_INTERPRET="0", TRITON_CACHE_DIR=str(tmp_path))


@pytest.mark.gpu
@pytest.mark.parametrize("path", TESTS, ids=[path.stem for path in TESTS])
def test_kernels_on_the_device(path):
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    run(path, TRITON_INTERPRET="0")
