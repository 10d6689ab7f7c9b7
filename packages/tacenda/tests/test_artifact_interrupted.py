"""A save that fails, is killed, or meets another: the folder holds the old model or the new one."""

import errno
import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tacenda import artifact
from tacenda.artifact import Artifact, arrays
from tacenda.errors import ArtifactError


def a_model(tag, nested=True):
    arrays = {"x": np.full(1000, tag, np.int64)}
    inner = {"inner": a_model(tag, nested=False)} if nested else {}
    return Artifact("embedders", "m", "d", "1", {"tag": tag}, arrays, [], {}, inner)


def tag_of(model):
    """The tag of a model, after making sure that all its parts are of one save."""
    tags = {model.config["tag"], *model.arrays["x"].tolist()}
    tags |= {tag_of(part) for part in model.nested.values()}
    (tag,) = tags
    return tag


@pytest.fixture
def folder(tmp_path):
    """A folder with a model, whose tag is 1."""
    artifact.write(tmp_path / "m", a_model(1))
    return tmp_path / "m"


ACTS = [
    (os, "replace"),
    (os, "fsync"),
    (Path, "mkdir"),
    (Path, "write_bytes"),
    (arrays, "write"),
]


def at_act(number, event, patch):
    """Have ``event`` happen before the act of that number that changes the disk; counts them."""
    count = [0]

    def wrap(act):
        def wrapped(*args, **kwargs):
            count[0] += 1
            if count[0] == number:
                event()
            return act(*args, **kwargs)

        return wrapped

    for owner, name in ACTS:
        patch(owner, name, wrap(getattr(owner, name)))
    return count


def disk_full():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def refusal_of(folder, model):
    try:
        artifact.write(folder, model)
    except ArtifactError as error:
        return str(error)
    return ""


def number_of_acts(tmp_path, monkeypatch):
    with monkeypatch.context() as context:
        count = at_act(0, disk_full, context.setattr)
        artifact.write(tmp_path / "counted", a_model(0))
    assert count[0] > 10
    return count[0]


def test_a_full_disk_at_any_act_leaves_the_old_model_and_no_litter(folder, tmp_path, monkeypatch):
    before = sorted(folder.rglob("*"))
    outcomes = set()
    for number in range(1, number_of_acts(tmp_path, monkeypatch)):
        with monkeypatch.context() as context:
            at_act(number, disk_full, context.setattr)
            refusal = refusal_of(folder, a_model(2))
        if refusal:
            assert "No space left on device" in refusal
            assert str(folder) in refusal
            assert tag_of(artifact.read(folder)) == 1
            assert sorted(folder.rglob("*")) == before
        else:  # what was hit only makes names durable, or follows the commit
            assert tag_of(artifact.read(folder)) == 2
        outcomes.add(bool(refusal))
        artifact.write(folder, a_model(1))
    assert outcomes == {True, False}


def test_a_first_save_that_fails_leaves_no_folder(tmp_path, monkeypatch):
    for number in range(2, number_of_acts(tmp_path, monkeypatch) - 1):
        folder = tmp_path / f"m{number}"
        with monkeypatch.context() as context:
            at_act(number, disk_full, context.setattr)
            refusal = refusal_of(folder, a_model(1))
        assert folder.exists() != bool(refusal)
        assert refusal or tag_of(artifact.read(folder)) == 1


def die_at_act(number, folder, model):
    """Save the model in a process that dies before the act of that number."""
    child = os.fork()
    # no exception may leave this block: it would run the rest of the tests twice
    if child == 0:
        try:
            at_act(number, lambda: os._exit(9), setattr)
            artifact.write(folder, model)
        finally:
            os._exit(0)
    os.waitpid(child, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_that_dies_at_any_act_leaves_a_whole_model(folder, tmp_path, monkeypatch):
    tags = []
    for number in range(1, number_of_acts(tmp_path, monkeypatch) + 1):
        die_at_act(number, folder, a_model(2))
        tags.append(tag_of(artifact.read(folder)))
        artifact.write(folder, a_model(1))
        assert len(list(folder.iterdir())) == 3  # the litter of the dead is gone
    assert tags == sorted(tags)
    assert set(tags) == {1, 2}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_first_save_that_dies_can_be_repeated(tmp_path, monkeypatch):
    for number in range(1, number_of_acts(tmp_path, monkeypatch)):
        folder = tmp_path / f"m{number}"
        die_at_act(number, folder, a_model(1))
        artifact.write(folder, a_model(2))
        assert tag_of(artifact.read(folder)) == 2
        assert len(list(folder.iterdir())) == 3


SAVE_FOREVER = """
    import sys, numpy as np
    sys.path.insert(0, sys.argv[2])
    from test_artifact_interrupted import a_model
    from tacenda import artifact
    print("ready", flush=True)
    for tag in range(int(sys.argv[3]), int(sys.argv[4])):
        artifact.write(sys.argv[1], a_model(tag))
    """


def saver(folder, start, stop):
    arguments = [str(folder), str(Path(__file__).parent), str(start), str(stop)]
    command = [sys.executable, "-c", textwrap.dedent(SAVE_FOREVER), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def test_sigkill_at_a_random_moment_leaves_a_whole_model(folder):
    moments = random.Random(0)
    for _ in range(4):
        process = saver(folder, 1, 1_000_000)
        time.sleep(moments.uniform(0.001, 0.15))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert tag_of(artifact.read(folder)) >= 0
    artifact.write(folder, a_model(7))
    assert tag_of(artifact.read(folder)) == 7
    assert len(list(folder.iterdir())) == 3


def test_what_is_left_beside_a_file_of_tensors_goes_too(folder, monkeypatch):

    def dies(arrays, path):
        path.with_name(".tmpXYZ").write_bytes(b"half")
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("tacenda.artifact.arrays.write", dies)
        with pytest.raises(ArtifactError):
            artifact.write(folder, a_model(2))
    assert tag_of(artifact.read(folder)) == 1
    assert len(list(folder.iterdir())) == 3


def test_writers_and_a_reader_at_once_never_see_half_a_model(folder):
    savers = [saver(folder, 1, 31), saver(folder, 100, 131)]
    seen = set()
    while any(process.poll() is None for process in savers):
        seen.add(tag_of(artifact.read(folder)))
    assert [process.communicate() and process.returncode for process in savers] == [0, 0]
    assert tag_of(artifact.read(folder)) in (30, 130)
    assert len(list(folder.iterdir())) == 3
    assert seen


def test_threads_that_save_to_one_folder_take_turns(tmp_path):
    folder = tmp_path / "m"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda tag: artifact.write(folder, a_model(tag % 4)), range(20)))
    assert tag_of(artifact.read(folder)) in range(4)


def test_a_model_that_another_writer_finishes_meanwhile_is_no_stranger(tmp_path, monkeypatch):
    folder = tmp_path / "m"
    folder.mkdir()
    lexists = os.path.lexists

    def and_then_it_is_there(path):
        there = lexists(path)
        if not there and Path(path) == folder / "model.json":
            monkeypatch.undo()
            artifact.write(folder, a_model(1))
        return there

    monkeypatch.setattr(os.path, "lexists", and_then_it_is_there)
    artifact.write(folder, a_model(2))
    assert tag_of(artifact.read(folder)) == 2


def test_a_file_system_that_refuses_the_bytes_is_reported_with_its_reason(folder):
    """The system's own refusal, not an imitated one: files may not grow beyond a page."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(ArtifactError, match=r"cannot save .*too large.*unchanged"):
            artifact.write(folder, a_model(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert tag_of(artifact.read(folder)) == 1
    assert len(list(folder.iterdir())) == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ArtifactError, match="Permission denied"):
        artifact.write(tmp_path / "m", a_model(1))
