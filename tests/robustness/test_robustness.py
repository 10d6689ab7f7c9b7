"""Saved models that were tampered with: a valid result or one clear error, and nothing else, for every kind of model.

`make test` tries a few hundred; ``python tests/robustness/harness.py --mutants 10000`` tries as many as one likes.
"""

import subprocess
import sys
from pathlib import Path

import pytest

HARNESS = Path(__file__).with_name("harness.py")


@pytest.mark.skipif(sys.platform != "linux", reason="the harness limits memory as Linux does")
def test_no_altered_model_does_harm():
    command = [sys.executable, str(HARNESS), "--mutants", "320", "--seed", "7"]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "320 mutants, 0 failures" in found.stdout
