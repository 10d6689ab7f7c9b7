"""A run that was killed and resumed is bit-identical to one that was not."""

import json
import signal
import time

import numpy as np
import pytest

from tacenda.errors import ConfigurationError
from tacenda.fitting import ArrayBatches, Trainer
from tacenda.fitting.trainer import pack, unpack


def killed(start, *arguments):
    assert start(*arguments).wait() == -signal.SIGKILL


def finished(start, kind, folder, result):
    assert start(kind, folder, result, 0, "none").wait() == 0
    with np.load(result) as file:
        outcome = dict(file)
    history = json.loads(str(outcome.pop("history")))
    return outcome, history


def assert_identical(outcome, history, expected_model, expected_history):
    expected = expected_model.state()
    assert set(outcome) == set(expected)
    for name, array in expected.items():
        assert array.dtype == outcome[name].dtype
        assert array.tobytes() == outcome[name].tobytes(), name
    wanted = json.loads(json.dumps(expected_history.as_dict()))
    for values in (wanted, history):
        del values["seconds"]
    assert history == wanted


@pytest.mark.parametrize(
    "kills",
    [
        [(2, "step")],  # before the first checkpoint
        [(17, "step"), (20, "step")],  # twice, in the middle of epochs
        [(31, "step")],  # right after the end of an epoch
        [(6, "files")],
        [(9, "manifest")],
    ],
    ids=["before any", "twice", "at an epoch's end", "tensors without manifest", "before sweeping"],
)
def test_numpy_run_killed_and_resumed_equals_an_uninterrupted_one(
    kills, models, start_worker, tmp_path
):
    for number, where in kills:
        killed(start_worker, "numpy", tmp_path / "c", tmp_path / "none.npz", number, where)
    outcome = finished(start_worker, "numpy", tmp_path / "c", tmp_path / "result.npz")
    assert_identical(*outcome, *models.run(tmp_path / "whole"))
    files = sorted(path.name for path in (tmp_path / "c").iterdir())
    assert len(files) == 3, files  # manifest, state, best: nothing left lying about


def test_run_killed_from_outside_at_an_arbitrary_moment_resumes_identically(
    models, start_worker, tmp_path
):
    worker = start_worker("numpy", tmp_path / "c", tmp_path / "none.npz", 0, "slow")
    while not (tmp_path / "c" / "checkpoint.json").exists():
        assert worker.poll() is None
        time.sleep(0.01)
    time.sleep(0.17)
    worker.kill()
    assert worker.wait() == -signal.SIGKILL
    outcome = finished(start_worker, "numpy", tmp_path / "c", tmp_path / "result.npz")
    assert_identical(*outcome, *models.run(tmp_path / "whole"))


def test_torch_lstm_with_adam_and_dropout_resumes_identically(models, start_worker, tmp_path):
    pytest.importorskip("torch")
    killed(start_worker, "torch", tmp_path / "c", tmp_path / "none.npz", 25, "step")
    outcome = finished(start_worker, "torch", tmp_path / "c", tmp_path / "result.npz")
    model, history = models.run(tmp_path / "whole", "torch")
    assert_identical(*outcome, model, history)
    assert history.evaluations[-1].value < history.evaluations[0].value


class Scalar(Trainer):
    """Minimizes x^2 with an optimizer of torch."""

    def __init__(self, make_optimizer, shape=()):
        import torch

        self.x = torch.full(shape, 2.0, requires_grad=True)
        self.optimizer = make_optimizer([self.x])
        self.learned, self.rest = {"x": self.x}, {"optimizer": self.optimizer}

    def step(self, batch, learning_rate):
        self.optimizer.zero_grad()
        (loss := (self.x**2).sum()).backward()
        self.optimizer.step()
        self.steps += 1
        return loss.detach(), 1


def scalar_model(name="Adam", shape=()):
    torch = pytest.importorskip("torch")
    return Scalar(lambda x: getattr(torch.optim, name)(x, lr=0.1), shape)


@pytest.mark.parametrize("steps_before", [0, 2])
@pytest.mark.parametrize("steps_of_the_saved", [0, 1])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_state_replaces_everything_that_a_trainer_has(
    models, kind, steps_of_the_saved, steps_before
):
    def take(model, n):
        for batch in ArrayBatches(*models.clusters(), batch_size=40).batches(0):
            for _ in range(n):
                model.step(batch, 0.1)
            return model

    make = {"numpy": models.numpy_model, "torch": scalar_model}[kind]
    straight, resumed = take(make(), steps_of_the_saved), take(make(), steps_before)
    resumed.load_state({name: array.copy() for name, array in straight.state().items()})
    for model in (straight, resumed):
        take(model, 1)
    assert resumed.state().keys() == straight.state().keys()
    for name, array in straight.state().items():
        assert array.shape == resumed.state()[name].shape
        np.testing.assert_array_equal(array, resumed.state()[name])


@pytest.mark.parametrize("kind", ["PCG64", "MT19937", "Philox", "SFC64"])
def test_generators_of_every_kind_go_on_where_they_were(kind):
    rng, other = (np.random.Generator(getattr(np.random, kind)(seed)) for seed in (1, 2))
    rng.random(5)
    rng.integers(9, dtype=np.int32)  # which keeps half of what it drew
    unpack(other, pack(rng))
    np.testing.assert_array_equal(
        other.integers(9, size=5, dtype=np.int32), rng.integers(9, size=5, dtype=np.int32)
    )


@pytest.mark.parametrize("part", [3, np.float64(3), [1, 2], None, np.random.RandomState(0)])
def test_a_part_that_could_not_be_put_back_is_not_saved(part):
    trainer = Trainer()
    trainer.learned, trainer.rest = {"x": np.zeros(2)}, {"outer": {"inner": part}}
    with pytest.raises(ConfigurationError, match="a trainer cannot restore"):
        trainer.state()


@pytest.mark.parametrize("other", [("Adagrad", ()), ("Adam", (1,)), ("Adam", (2, 2))])
def test_the_state_of_another_optimizer_of_torch_is_refused(other):
    saved, model = scalar_model(*other), scalar_model()
    saved.step(None, 0.1)
    state = {**saved.state(), "x": model.state()["x"]}
    with pytest.raises(ValueError, match=r"^optimizer: 0: .*(names differ|it is float32 \(\))"):
        model.load_state(state)


def test_a_finished_run_is_not_trained_again(models, tmp_path):
    model, history = models.run(tmp_path)
    again = models.numpy_model()
    again.step = None  # would raise if it were called
    source = models.ArrayBatches(*models.clusters(), batch_size=40)
    resumed = models.fit(again, source, models.settings(), models.FitRun(tmp_path))
    assert resumed == history
    assert again.weights["W"].tobytes() == model.weights["W"].tobytes()


def test_a_finished_run_goes_on_with_more_epochs_as_if_it_had_never_stopped(models, tmp_path):
    source = models.ArrayBatches(*models.clusters(), batch_size=40)
    rate = {"learning_rate": 0.05}
    for epochs in (2, 5):
        model = models.numpy_model()
        settings = models.settings(epochs=epochs, **rate)
        history = models.fit(model, source, settings, models.FitRun(tmp_path / "c"))
    straight = models.numpy_model()
    assert models.fit(straight, source, models.settings(epochs=5, **rate)) == history
    assert straight.weights["W"].tobytes() == model.weights["W"].tobytes()
