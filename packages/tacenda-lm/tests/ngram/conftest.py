from pathlib import Path

import pytest

from support.modules import load_module


@pytest.fixture(scope="session")
def oracles():
    return load_module(Path(__file__).with_name("oracles.py"))
