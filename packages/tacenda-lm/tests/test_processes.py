"""Training shared by two processes, as torchrun starts them: the model of one process with twice the batch."""

import json

import numpy as np
import pytest

import tacenda
from support.processes import run_together

pytest.importorskip("torch")

SCRIPT = """
import json, os, sys
import tacenda_lm
folder, models = sys.argv[1], json.loads(sys.argv[2])
text = [f"w{i * 7 % 5} w{i % 3} w{i * i % 4}".split() for i in range(49)]
for name, (model, settings) in models.items():
    found = getattr(tacenda_lm, model)(**settings, device="cpu")
    found.fit(text, valid=text[:9], checkpoints=f"{folder}/{name} checkpoints")
    found.save(f"{folder}/{name} {os.environ['RANK']}")
"""
HIDDEN = {"n_classes": 3, "states_per_class": 4, "width": 5, "epochs": 2}
TREE = {"width": 6, "context": 2, "copies": 2, "epochs": 2}
RANDOM, PIECES = {**TREE, "tree": "random"}, {"piece_words": 8}
BOOTSTRAP = {**PIECES, "bootstrap_width": 4, "bootstrap_epochs": 1}
FLAT = {"width": 6, "context": 2, "epochs": 2}
# the settings of each and its batch, of which the text has no whole number: some processes have no part of the last one
MODELS = {
    "two_level": ("VLHMM", HIDDEN, "batch_words", 30),
    "features": ("VLHMM", {**HIDDEN, "transitions": "features"}, "batch_words", 30),
    "hlbl": ("HLBL", {**RANDOM, "advanced": PIECES}, "batch_pieces", 1),
    "far": ("HLBL", {**RANDOM, "advanced": {**PIECES, "far_words": True}}, "batch_pieces", 2),
    "clustered": ("HLBL", {**TREE, "advanced": BOOTSTRAP}, "batch_pieces", 1),
    "softmax": ("LBL", FLAT, "batch_words", 65),
    "nce": ("LBL", {**FLAT, "loss": "nce", "advanced": {"noise_words": 9}}, "batch_words", 65),
}


def with_batch(settings, option, size):
    if option == "batch_words":
        return {**settings, option: size}
    return {**settings, "advanced": {**settings["advanced"], option: size}}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """All models of two processes and of one with twice the batch, each process having fitted all of them."""
    folder, found = tmp_path_factory.mktemp("processes"), {}
    for size in (2, 1):
        models = {
            f"{name} of {size}": (model, with_batch(settings, option, batch * (3 - size)))
            for name, (model, settings, option, batch) in MODELS.items()
        }
        run_together(SCRIPT, size, folder, json.dumps(models))
        for name in models:
            found[name] = [tacenda.load(folder / f"{name} {rank}") for rank in range(size)]
    return found


@pytest.mark.timeout(3000)  # of little work, on a busy machine too
@pytest.mark.parametrize("name", MODELS)
def test_two_processes_are_one_with_twice_the_batch(fitted, name):
    first, second = fitted[f"{name} of 2"]
    [alone] = fitted[f"{name} of 1"]
    for key, array in first.arrays().items():
        np.testing.assert_array_equal(array, second.arrays()[key], err_msg=key)
    together, by_itself = (model.fitted_on["training"] for model in (first, alone))
    assert together["steps"] == by_itself["steps"]
    # rounding decides where Adam goes from a gradient that is almost nothing, and on which side of a tree a word stands
    tolerance = 1e-2 if name == "clustered" else 1e-3
    losses = (each["epoch_losses"] for each in (together, by_itself))
    np.testing.assert_allclose(*losses, rtol=tolerance)
    value = alone.figures[0]["value"]
    assert first.figures[0]["value"] == pytest.approx(value, rel=2 * tolerance)
    if MODELS[name][0] != "VLHMM" and name != "clustered":
        for key, array in first.arrays().items():
            np.testing.assert_allclose(array, alone.arrays()[key], atol=1e-4, err_msg=key)
