"""Training shared by two processes, as torchrun starts them: the model of one process with twice the batch."""

import os
import socket
import subprocess
import sys

import numpy as np
import pytest

import tacenda

pytest.importorskip("torch")

SCRIPT = """
import sys
from tacenda_lm import VLHMM
folder, batch, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
text = [f"w{i * 7 % 5} w{i % 3} w{i * i % 4}".split() for i in range(48)]
settings = {"n_classes": 3, "states_per_class": 4, "width": 5, "epochs": 2, "device": "cpu"}
model = VLHMM(**settings, batch_words=batch, transitions=kind)
model.fit(text, valid=text[:9], checkpoints=folder + "/checkpoints")
model.save(folder + "/" + sys.argv[4])
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def run(folder, batch, kind, size):
    """Start so many processes with the environment that torchrun gives; return the model of the first."""
    shared = {
        "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
        "TORCHELASTIC_RUN_ID": "test", "OMP_NUM_THREADS": "1", "TACENDA_PROGRESS": "0",
    }  # fmt: skip
    running = []
    for rank in range(size):
        command = [sys.executable, "-c", SCRIPT, str(folder), str(batch), kind, f"model-{rank}"]
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        running.append(
            subprocess.Popen(
                command, env=os.environ | shared | own, stderr=subprocess.PIPE, text=True
            )
        )
    for process in running:
        _, said = process.communicate(timeout=600)
        assert process.returncode == 0, said
    return [tacenda.load(folder / f"model-{rank}") for rank in range(size)]


@pytest.mark.timeout(1200)  # of little work, on a busy machine too
@pytest.mark.parametrize("kind", ["two_level", "features"])
def test_two_processes_are_one_with_twice_the_batch(kind, tmp_path):
    first, second = run(tmp_path / "two", 30, kind, 2)
    [alone] = run(tmp_path / "one", 60, kind, 1)
    for name, array in first.arrays().items():
        np.testing.assert_array_equal(array, second.arrays()[name], err_msg=name)
    together, by_itself = (model.fitted_on["training"] for model in (first, alone))
    assert together["steps"] == by_itself["steps"]
    # rounding decides where Adam goes from a gradient that is almost nothing
    np.testing.assert_allclose(together["epoch_losses"], by_itself["epoch_losses"], rtol=1e-3)
    assert first.figures[0]["value"] == pytest.approx(alone.figures[0]["value"], rel=2e-3)
