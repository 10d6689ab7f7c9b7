import errno
import json
import os
from dataclasses import replace
from functools import partial, reduce
from operator import getitem

import numpy as np
import pytest

from tacenda import store
from tacenda.errors import ConfigurationError, FittingError
from tacenda.fitting import ArrayBatches, Callback, FitRun, Schedule, fit
from tacenda.fitting.checkpoint import MANIFEST, Checkpoint, CheckpointFolder


def source(models, **changes):
    return ArrayBatches(*models.clusters(), **({"batch_size": 40} | changes))


@pytest.fixture
def saved(models, tmp_path):
    models.fit(models.numpy_model(), source(models), models.settings(), FitRun(tmp_path))
    return tmp_path


def resume(models, folder, *, model=None, data=None, settings=None, identity=None, **options):
    model, data = model or models.numpy_model(), data or source(models)
    return fit(model, data, settings or models.settings(), FitRun(folder, **options), identity)


def test_arrays_of_every_kind_come_back_as_they_were(tmp_path):
    state = {
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "strided": np.arange(10, dtype=np.int64)[::3],
        "scalar": np.array(7, np.int64),
        "empty": np.zeros((0, 4), np.float32),
        "bool": np.array([True, False]),
        "half": np.array([1.5], np.float16),
        "bytes": np.arange(5, dtype=np.uint8),
    }
    CheckpointFolder(tmp_path).write(Checkpoint({"a": 1}, {"b": [0.1]}, state, None), 0)
    read = CheckpointFolder(tmp_path).read()
    assert (read.identity, read.progress, read.best) == ({"a": 1}, {"b": [0.1]}, None)
    for name, array in state.items():
        np.testing.assert_array_equal(read.state[name], array)
        assert read.state[name].dtype == array.dtype


def test_settings_may_be_numbers_of_numpy(models, tmp_path):
    numbers = {"epochs": np.int64(2), "patience": np.int32(3), "learning_rate": np.float32(0.5)}
    changes = {name: number.item() for name, number in numbers.items()}
    first, again = (
        models.fit(models.numpy_model(), source(models), models.settings(**given), FitRun(tmp_path))
        for given in (numbers, changes)
    )
    assert first == again

    class Rounded(Schedule):
        def at(self, position):
            return np.float32(self.rate)

    models.fit(
        models.numpy_model(),
        source(models),
        models.settings(learning_rate=Rounded(0.5)),
        FitRun(tmp_path / "own"),
    )


def test_best_parameters_are_written_only_when_they_change(tmp_path, monkeypatch):
    written = []
    replace = store.write_file
    monkeypatch.setattr(store, "write_file", lambda p, d: (written.append(p.name), replace(p, d)))
    folder = CheckpointFolder(tmp_path)
    for version, x in [(1, 0.0), (1, 1.0), (2, 2.0)]:
        best = {"x": np.array(float(version))}
        folder.write(Checkpoint({}, {}, {"x": np.array(x)}, best), version)
    assert sum(name.startswith("best-") for name in written) == 2
    assert CheckpointFolder(tmp_path).read().best["x"] == 2.0
    folder.release()
    assert len(list(tmp_path.iterdir())) == 3


def other_data(models):
    return ArrayBatches(*models.clusters(seed=8), batch_size=40)


def another_kind(models):
    return type("Other", (models.SoftmaxRegression,), {})()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda its: {"data": other_data(its)}, r"a different fit, in which data: .* resume=False"),
        (lambda its: {"data": source(its, seed=1)}, "a different fit, in which data"),
        (lambda its: {"identity": {"width": 7}}, r"configuration \(width: None -> 7\)"),
        (
            lambda its: {"settings": its.settings(learning_rate=Schedule(0.3))},
            r"settings \(learning_rate \(rate: .*, schedule: WarmUp -> Schedule, ",
        ),
        (lambda its: {"model": another_kind(its)}, "a different fit, in which model"),
        (lambda its: {"model": its.SoftmaxRegression(width=6)}, "does not fit this model"),
    ],
    ids=["data", "order of batches", "configuration", "schedule", "kind of model", "shape"],
)
def test_what_is_another_than_the_checkpoint_was_of_is_refused_and_named(
    models, saved, change, said
):
    with pytest.raises(FittingError, match=said):
        resume(models, saved, **change(models))


def test_starting_afresh_ignores_what_is_there(models, saved):
    assert resume(models, saved, data=other_data(models), resume=False).steps == 40
    assert len(list(saved.iterdir())) == 3


def test_resuming_needs_a_checkpoint_when_it_is_asked_for(models, tmp_path):
    with pytest.raises(FittingError, match="no checkpoint"):
        resume(models, tmp_path, resume=True)
    with pytest.raises(ConfigurationError, match="needs checkpoints"):
        FitRun(resume=True)


def _truncate(folder):
    path = next(folder.glob("state-*"))
    path.write_bytes(path.read_bytes()[:-1])


def _flip(folder):
    path = next(folder.glob("best-*"))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _edit(*place, **changes):
    """Alter what the manifest of a checkpoint says, at the top or in a place within."""

    def edit(folder):
        manifest = json.loads((folder / MANIFEST).read_text())
        reduce(getitem, place, manifest).update(changes)
        (folder / MANIFEST).write_text(json.dumps(manifest))

    return edit


_progress = partial(_edit, "progress")


def _arrays(alter):
    """Alter every array of floats of a checkpoint, whose hashes are right again."""

    def edit(folder):
        checkpoint = CheckpointFolder(folder).read()
        state = {
            name: alter(array) if array.dtype.kind == "f" else array
            for name, array in checkpoint.state.items()
        }
        CheckpointFolder(folder).write(replace(checkpoint, state=state), 1)

    return edit


@pytest.mark.parametrize(
    "damage",
    [
        _truncate,
        _flip,
        lambda folder: next(folder.glob("state-*")).unlink(),
        lambda folder: (folder / MANIFEST).write_text("{"),
        lambda folder: (folder / MANIFEST).write_text("[]"),
        lambda folder: (folder / MANIFEST).write_bytes(b"\xff\xfe"),
        _edit(format=2),
        _edit(files={}),
        _edit(progress={}),
        _edit(progress=[]),
        _edit(identity=[]),
        _edit(files=[]),
        _edit("files", "state", name="../state-secret"),
        _progress("history", epochs="x"),
        _progress("history", epochs=-1),
        _progress("history", epochs=10**30),
        _progress("history", epoch_losses=[]),
        _progress("history", stopped=["x"], seconds={}),
        _progress("meter", rate=10**400),
        _progress("meter", norms=-0.5),
        _progress("best", version=[]),
        lambda folder: (folder / MANIFEST).write_text("[" * 200_000),
        lambda folder: (folder / MANIFEST).write_text(f'{{"format": {"1" * 5000}}}'),
        _arrays(lambda array: array * np.nan),
        _arrays(lambda array: array + 1e30),
        _arrays(lambda array: array.astype(np.float16)),
        _arrays(lambda array: array[..., None]),
    ],
)
def test_a_damaged_checkpoint_gets_a_clear_error(damage, models, saved):
    damage(saved)
    with pytest.raises(FittingError, match="start over with resume=False"):
        resume(models, saved)


def test_a_full_disk_at_the_first_checkpoint_ends_the_fit(models, tmp_path, monkeypatch):
    def full(path, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "write_file", full)
    with pytest.raises(FittingError, match="No space left on device"):
        resume(models, tmp_path)


def test_a_full_disk_later_warns_and_the_old_checkpoint_stays_whole(models, tmp_path, monkeypatch):
    replace, calls = store.write_file, []

    def full(path, data):
        calls.append(path)
        if len(calls) > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(path, data)

    monkeypatch.setattr(store, "write_file", full)
    with pytest.warns(RuntimeWarning, match="the fit goes on"):
        history = resume(models, tmp_path, every_steps=3, every_seconds=None)
    assert history.steps == 40
    assert CheckpointFolder(tmp_path).read().progress["history"]["steps"] == 3


def test_a_checkpoint_stays_whole_when_the_files_of_the_last_cannot_be_removed(
    tmp_path, monkeypatch
):
    def unreadable(*_):
        raise OSError(errno.EIO, "Input/output error")

    folder = CheckpointFolder(tmp_path)
    folder.write(Checkpoint({}, {}, {"x": np.array(1.0)}, None), 0)
    monkeypatch.setattr(store, "sweep", unreadable)
    with pytest.raises(FittingError, match="Input/output error"):
        folder.write(Checkpoint({}, {}, {"x": np.array(2.0)}, None), 0)
    assert CheckpointFolder(tmp_path).read().state["x"] == 2.0


def test_a_file_where_the_folder_should_be_gets_a_clear_error(models, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(FittingError, match="cannot save a checkpoint"):
        resume(models, tmp_path / "file")


def _moment(epoch, value, best):
    state, best = ({"x": np.full(3, each)} for each in (value, best))
    return Checkpoint({"run": 1}, {"epoch": epoch}, state, best)


def test_a_checkpoint_that_does_not_fit_on_the_disk_leaves_the_one_before_it(tmp_path, monkeypatch):
    folder, own = CheckpointFolder(tmp_path), store.write_file

    def write_file(path, data):
        if path.name == MANIFEST:
            raise OSError(errno.ENOSPC, "No space left on device")
        own(path, data)

    for version in (1, 2):
        moment, before = _moment(version, version, version), set(tmp_path.iterdir())
        with monkeypatch.context() as patch:
            patch.setattr(store, "write_file", write_file)
            with pytest.raises(FittingError, match="No space left"):
                folder.write(moment, version)
        assert set(tmp_path.iterdir()) == before | {tmp_path / ".tacenda-owner"}
        folder.write(moment, version)
        np.testing.assert_array_equal(folder.read().best["x"], moment.best["x"])
    folder.release()


def test_a_folder_that_one_fit_keeps_is_refused_to_another(tmp_path):
    first, second = CheckpointFolder(tmp_path), CheckpointFolder(tmp_path)
    first.write(_moment(5, 5.0, 4.0), best_version=4)
    with pytest.raises(
        FittingError, match=rf"another fit \(process {os.getpid()} on .*\) keeps its checkpoints in"
    ):
        second.write(_moment(1, 1.0, 1.0), best_version=1)
    first.write(_moment(6, 6.0, 4.0), best_version=4)  # its best parameters are not written again
    read = CheckpointFolder(tmp_path).read()
    assert (read.state["x"][0], read.best["x"][0]) == (6.0, 4.0)
    first.release()
    second.write(_moment(1, 1.0, 1.0), best_version=1)
    assert CheckpointFolder(tmp_path).read().progress == {"epoch": 1}


@pytest.mark.parametrize("more", [{}, {"resume": False}])
def test_a_fit_does_not_begin_in_a_folder_that_another_keeps(models, saved, more):
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    other = CheckpointFolder(saved)
    other.claim()
    with pytest.raises(FittingError, match="another fit"):
        resume(models, saved, **more)
    other.release()
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before
    resume(models, saved, **more)


def test_a_fit_that_ends_with_an_error_lets_the_folder_go(models, saved):
    class Stop(Callback):
        def on_step(self, run):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as kept:  # the traceback holds on to the loop
        resume(models, saved, resume=False, callbacks=[Stop()])
    resume(models, saved, resume=False)
    assert kept


def test_a_folder_is_free_when_its_owner_was_killed(tmp_path):
    (tmp_path / ".tacenda-owner").write_text("process 1 on nowhere")  # what a kill leaves behind
    folder = CheckpointFolder(tmp_path)
    folder.write(_moment(1, 1.0, 1.0), best_version=1)
    folder.release()
    assert not (tmp_path / ".tacenda-owner").exists()


@pytest.mark.parametrize("more", [{}, {"resume": False}])
def test_a_folder_that_cannot_be_kept_is_named(models, saved, more):
    (saved / ".tacenda-owner").mkdir()
    with pytest.raises(FittingError, match=r"cannot save a checkpoint in .*: Is a directory"):
        resume(models, saved, **more)


@pytest.mark.parametrize("kind", ["a pipe", "a device"])
def test_a_state_that_is_no_regular_file_is_refused(models, saved, kind):
    (state,) = saved.glob("state-*")
    state.unlink()
    if kind == "a pipe":
        os.mkfifo(state)  # who opens it for reading waits for a writer
    else:
        state.symlink_to("/dev/zero")
        _edit("files", "state", size=0)(saved)
    with pytest.raises(FittingError, match="it is not a file"):
        resume(models, saved)
