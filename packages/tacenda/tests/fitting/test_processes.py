"""Who takes part in a fit; two processes together are in the tests of a model that they train."""

import subprocess
import sys

import numpy as np
import pytest

from tacenda.errors import ConfigurationError
from tacenda.fitting import processes as shared
from tacenda.fitting.processes import Processes


def test_parts_of_a_batch_are_all_of_it():
    batch = np.arange(7)
    parts = [Processes(rank, 3).part(batch) for rank in range(3)]
    assert sorted(np.concatenate(parts).tolist()) == batch.tolist()
    assert Processes().part(batch).tolist() == batch.tolist()


def test_alone_there_is_nobody_to_add_to_and_torch_is_not_imported():
    code = """
import sys
from tacenda.fitting import processes
assert processes.join("cpu") == processes.processes() == (0, 1)
processes.wait()
processes.add_gradients([object()])
print(processes.total(3), "torch" in sys.modules)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["3", "False"]


def test_torchrun_gives_every_process_a_device_of_its_own(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "one")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigurationError, match=r"'cuda:1', and torchrun .*: use .cuda."):
        shared.join("cuda:1")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert shared.join("cuda:1") == (0, 1)
