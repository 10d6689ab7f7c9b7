import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

MISSING = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]
TESTS = sorted((Path(__file__).parent / "triton").glob("*.py"))

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"needs {' and '.join(MISSING)}")


def run(path, environment):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    result = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("path", TESTS, ids=[path.stem for path in TESTS])
def test_kernels_under_the_interpreter(path):
    run(path, {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""})


@pytest.mark.gpu
@pytest.mark.parametrize("path", TESTS, ids=[path.stem for path in TESTS])
def test_kernels_on_the_device(path):
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    run(path, {"TRITON_INTERPRET": "0"})
