import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.modules import load_module

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def models():
    return load_module(HERE / "fitting_models.py")


@pytest.fixture(scope="session")
def start_worker():
    """Starts ``fitting_models.main`` in a process of its own."""

    def start(*arguments):
        command = [sys.executable, HERE / "fitting_models.py", *map(str, arguments)]
        return subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"})

    return start
