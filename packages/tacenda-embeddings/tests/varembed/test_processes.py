"""Training shared by two processes, as torchrun starts them: the model of one process with twice the streams."""

import json

import numpy as np
import pytest

import tacenda
from support.processes import run_together

pytest.importorskip("torch")

SCRIPT = """
import json, os, sys, time
import tacenda_embeddings
from tacenda.fitting.checkpoint import Recorder
from tacenda_embeddings.varembed.training import Trainer
folder, models = sys.argv[1], json.loads(sys.argv[2])
text = [f"w{i * 7 % 5} un{i % 3} w{i * i % 4}ing".split() for i in range(60)]
step, left = Trainer.step, [0]
def counted(*arguments):
    left[0] -= 1
    if left[0] == 0:
        raise KeyError
    return step(*arguments)
Trainer.step = counted
save = Recorder.save
def slow(*arguments):  # the other process is not to run ahead of what it will read
    time.sleep(0.5)
    save(*arguments)
Recorder.save = slow
for name, (model, streams, killed) in models.items():
    advanced = {"hidden": 5, "negatives": 9, "batch_streams": streams, "unrolled_tokens": 7, "n_morphemes": 9}
    found = getattr(tacenda_embeddings, model)(width=4, epochs=2, advanced=advanced, device="cpu", threads=1)
    for left[0] in (killed, -1):
        try:
            found.fit(text, valid=text[:9], checkpoints=f"{folder}/{name} checkpoints")
        except KeyError:
            pass
    found.save(f"{folder}/{name} {os.environ['RANK']}")
"""
SECOND_EPOCH = 9  # steps until they are in it


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    together = {
        "VarEmbed": ("VarEmbed", 3, -1),
        "SumEmbed": ("SumEmbed", 3, -1),
        "killed": ("VarEmbed", 3, SECOND_EPOCH),
    }
    run_together(SCRIPT, 2, folder, json.dumps(together))
    alone = {f"{name} alone": (model, 6, -1) for name, (model, _, _) in together.items()}
    run_together(SCRIPT, 1, folder, json.dumps(alone))
    return lambda name, rank=0: tacenda.load(folder / f"{name} {rank}")


@pytest.mark.timeout(3000)  # of little work, on a busy machine too
@pytest.mark.parametrize("name", ["VarEmbed", "SumEmbed"])
def test_two_processes_are_one_with_twice_the_streams(fitted, name):
    first, second, alone = fitted(name), fitted(name, 1), fitted(f"{name} alone")
    training, by_itself = (model.fitted_on["training"] for model in (first, alone))
    assert training["steps"] == by_itself["steps"] > SECOND_EPOCH
    np.testing.assert_allclose(training["epoch_losses"], by_itself["epoch_losses"], rtol=1e-4)
    for key, array in first.arrays().items():
        np.testing.assert_array_equal(array, second.arrays()[key], err_msg=key)
        if array.dtype == np.float32:
            np.testing.assert_allclose(array, alone.arrays()[key], atol=1e-3, err_msg=key)


@pytest.mark.timeout(3000)
def test_a_fit_of_two_processes_that_was_killed_goes_on_to_the_same_model(fitted):
    """What each carried of its streams is in the checkpoint of the first."""
    for key, array in fitted("killed").arrays().items():
        np.testing.assert_array_equal(array, fitted("VarEmbed").arrays()[key], err_msg=key)
