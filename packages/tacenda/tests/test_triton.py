import importlib.util
from pathlib import Path

import pytest

from support.processes import output_of

MISSING = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]
FOLDER = Path(__file__).parent / "triton"
COMPILATION = FOLDER / "compilation.py"
TESTS = sorted(set(FOLDER.glob("*.py")) - {FOLDER / "conftest.py", COMPILATION})

# a quarter of a minute of computing each; a busy machine must not break them off
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"needs {' and '.join(MISSING)}"),
    pytest.mark.timeout(1200),
]


def run(path, **environment):
    output_of("-m", "pytest", "-q", "-p", "no:cacheprovider", path, **environment)


@pytest.mark.parametrize("path", TESTS, ids=[path.stem for path in TESTS])
def test_kernels_under_the_interpreter(path):
    run(path, TRITON_INTERPRET="1", CUDA_VISIBLE_DEVICES="")


def test_kernels_compile_for_devices_that_are_not_there(tmp_path):
    run(COMPILATION, TRITON_INTERPRET="0", TRITON_CACHE_DIR=str(tmp_path))


@pytest.mark.gpu
@pytest.mark.parametrize("path", TESTS, ids=[path.stem for path in TESTS])
def test_kernels_on_the_device(path):
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    run(path, TRITON_INTERPRET="0")
