import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def models():
    spec = importlib.util.spec_from_file_location("fitting_models", HERE / "fitting_models.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def start_worker():
    """Starts ``fitting_models.main`` in a process of its own."""

    def start(*arguments):
        environment = os.environ | {"PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1"}
        code = "import sys, fitting_models; fitting_models.main(*sys.argv[1:])"
        command = [sys.executable, "-c", code, *map(str, arguments)]
        return subprocess.Popen(command, env=environment)

    return start
