"""Machines trained by two processes, as torchrun starts them: those of one process with twice the batch."""

import json

import numpy as np
import pytest

from support.processes import run_together
from tacenda_surprise import RatingAlgorithm

pytest.importorskip("torch")

SCRIPT = """
import json, os, sys
import numpy as np
from surprise import Dataset, Reader
import tacenda_surprise
folder, models = sys.argv[1], json.loads(sys.argv[2])
rng = np.random.default_rng(0)
with open(f"{folder}/ratings {os.environ['RANK']}", "w") as file:
    for user, item in np.argwhere(rng.random((41, 23)) < 0.4):
        file.write(f"u{user} i{item} {1 + (user * 3 + item * 7 + user * item) % 5}\\n")
reader = Reader(line_format="user item rating", rating_scale=(1, 5))
train = Dataset.load_from_file(file.name, reader).build_full_trainset()
for name, (model, arguments) in models.items():
    found = getattr(tacenda_surprise, model)(**arguments, random_state=0).fit(train)
    found.save(f"{folder}/{name} {os.environ['RANK']}")
"""
SMALL = {"n_hidden": 6, "n_epochs": 3, "orientation": "user"}
# a batch of which the users are no whole number: a process has nothing of the last one
MODELS = {
    "plain": ("RBM", SMALL),
    "told": ("ConditionalRBM", {**SMALL, "ordinal": False}),
    "persistent": ("RBM", {**SMALL, "persistent": True}),
}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """All models of two processes and of one with twice the batch."""
    folder, found = tmp_path_factory.mktemp("processes"), {}
    for size in (2, 1):
        models = {
            f"{name} of {size}": (model, {**arguments, "batch_cases": 8 // size})
            for name, (model, arguments) in MODELS.items()
        }
        run_together(SCRIPT, size, folder, json.dumps(models))
        for name in models:
            found[name] = [RatingAlgorithm.load(folder / f"{name} {rank}") for rank in range(size)]
    return found


@pytest.mark.timeout(3000)  # of little work, on a busy machine too
@pytest.mark.parametrize("name", MODELS)
def test_two_processes_are_one_with_twice_the_batch(fitted, name):
    first, second = fitted[f"{name} of 2"]
    [alone] = fitted[f"{name} of 1"]
    pairs = [(f"u{user}", f"i{item}") for user in range(41) for item in range(23)]
    together, other, by_itself = (
        np.array([model.predict(*pair).est for pair in pairs]) for model in (first, second, alone)
    )
    np.testing.assert_array_equal(together, other)
    np.testing.assert_allclose(together, by_itself, atol=1e-4)
    assert np.ptp(together) > 0.1
