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

# a quarter of a minute of computing each; a busy machine must not break them off
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"needs {' and '.join(MISSING)}"),
    pytest.mark.timeout(1200),
]


def run(path, *before, **environment):
    print(
        output_of(
            *before, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", path, **environment
        )
    )


@pytest.fixture(scope="module")
def covered(tmp_path_factory):
    """The folder of what `coverage` has seen of the kernels, and the files that have run."""
    return tmp_path_factory.mktemp("coverage"), []


@pytest.mark.parametrize("path", TESTS, ids=[path.stem for path in TESTS])
def test_kernels_under_the_interpreter(path, covered):
    folder, done = covered
    watched = "-m", "coverage", "run", f"--data-file={folder / path.stem}", f"--source={KERNELS}"
    run(path, *watched, TRITON_INTERPRET="1", CUDA_VISIBLE_DEVICES="")
    done.append(path)


def test_every_line_of_every_kernel_has_run_under_the_interpreter(covered):
    """A branch that one shape leaves out must have run for another."""
    folder, done = covered
    if set(done) != set(TESTS):
        pytest.skip("needs the tests above")
    from coverage import Coverage

    seen = Coverage(data_file=str(folder / "all"))
    seen.combine([str(folder / path.stem) for path in TESTS])
    missed = []
    for file in [*sorted(KERNELS.rglob("triton.py")), KERNELS / "machinery" / "gpu.py"]:
        tree = ast.parse(file.read_text(encoding="utf8"))
        lines = {
            statement.lineno
            for kernel in tree.body
            if isinstance(kernel, ast.FunctionDef) and kernel.decorator_list
            for statement in ast.walk(kernel)
            if isinstance(statement, ast.stmt) and statement not in (kernel, kernel.body[0])
        }
        ran = set(seen.get_data().lines(str(file)) or ())
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
