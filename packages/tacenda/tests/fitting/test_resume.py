"""A run that was killed and resumed is bit-identical to one that was not."""

import json
import signal
import time

import numpy as np
import pytest

from tacenda.fitting import Trainer


@pytest.fixture(scope="module")
def uninterrupted(models, tmp_path_factory):
    def outcome(kind):
        return models.run(tmp_path_factory.mktemp(kind), kind)

    return outcome


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
    kills, models, start_worker, uninterrupted, tmp_path
):
    for number, where in kills:
        killed(start_worker, "numpy", tmp_path / "c", tmp_path / "none.npz", number, where)
    outcome = finished(start_worker, "numpy", tmp_path / "c", tmp_path / "result.npz")
    assert_identical(*outcome, *uninterrupted("numpy"))
    files = sorted(path.name for path in (tmp_path / "c").iterdir())
    assert len(files) == 3, files  # manifest, state, best: nothing left lying about


def test_run_killed_from_outside_at_an_arbitrary_moment_resumes_identically(
    models, start_worker, uninterrupted, tmp_path
):
    worker = start_worker("numpy", tmp_path / "c", tmp_path / "none.npz", 0, "slow")
    while not (tmp_path / "c" / "checkpoint.json").exists():
        assert worker.poll() is None
        time.sleep(0.01)
    time.sleep(0.17)
    worker.kill()
    assert worker.wait() == -signal.SIGKILL
    outcome = finished(start_worker, "numpy", tmp_path / "c", tmp_path / "result.npz")
    assert_identical(*outcome, *uninterrupted("numpy"))


def test_torch_lstm_with_adam_and_dropout_resumes_identically(
    models, start_worker, uninterrupted, tmp_path
):
    pytest.importorskip("torch")
    killed(start_worker, "torch", tmp_path / "c", tmp_path / "none.npz", 25, "step")
    outcome = finished(start_worker, "torch", tmp_path / "c", tmp_path / "result.npz")
    model, history = uninterrupted("torch")
    assert_identical(*outcome, model, history)
    assert history.evaluations[-1].value < history.evaluations[0].value


def test_an_optimizer_of_scalars_comes_back_in_its_shapes():
    torch = pytest.importorskip("torch")

    class Scalar(Trainer):
        def __init__(self):
            self.x = torch.tensor(2.0, requires_grad=True)
            self.adam = torch.optim.Adam([self.x])
            self.learned, self.rest = {"x": self.x}, {"adam": self.adam}

        def step(self, batch, learning_rate):
            self.adam.zero_grad()
            (loss := self.x**2).backward()
            self.adam.step()
            return loss.detach(), 1

    straight, resumed = Scalar(), Scalar()
    straight.step(None, 0.1)
    resumed.load_state({name: array.copy() for name, array in straight.state().items()})
    for model in (straight, resumed):
        model.step(None, 0.1)
    for name, array in straight.state().items():
        assert array.shape == resumed.state()[name].shape
        np.testing.assert_array_equal(array, resumed.state()[name])


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
