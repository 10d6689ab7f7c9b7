"""Files and folders that change in one step, with the permissions that the umask gives."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from support.plugins import registered
from tacenda import artifact, datasets, reading, store
from tacenda.corpus import Corpus
from tacenda.datasets import fetching
from tacenda.errors import ArtifactError, DataError
from tacenda.fitting.checkpoint import Checkpoint, CheckpointFolder

posix = pytest.mark.skipif(os.name != "posix", reason="needs a umask and file locks")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def save_artifact(folder):
    parts = ("embedders", "m", "d", "1", {}, {"x": np.arange(9)})
    nested = {"inner": artifact.Artifact(*parts)}
    artifact.write(folder / "model", artifact.Artifact(*parts, nested=nested))


def save_checkpoint(folder):
    arrays = {"x": np.arange(9.0)}
    CheckpointFolder(folder / "checkpoint").write(Checkpoint({}, {}, arrays, arrays), 1)


def save_corpus(folder):
    Corpus.from_sentences([["a", "b"], ["c"]], cache=folder / "corpus")


def save_dataset(folder):
    pytest.importorskip("pooch")
    spec = datasets.DatasetSpec(
        name="toy",
        title="A toy",
        license="CC0",
        license_text="Do as you like.",
        homepage="https://example.invalid",
        files={"text": ("text.txt",)},
        downloads=(datasets.Download(urls=("http://127.0.0.1/text.txt",), filename="text.txt"),),
    )
    with registered("datasets", "toy", [spec]), pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetching, "_stream", lambda url, path, *_: Path(path).write_bytes(b""))
        datasets.fetch("toy", folder)


@posix
@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077, 0o002])
@pytest.mark.parametrize("save", [save_artifact, save_checkpoint, save_corpus, save_dataset])
def test_files_are_as_readable_as_any_others(tmp_path, save, umask):
    before = os.umask(umask)
    try:
        folder = tmp_path / "folder"
        folder.mkdir()
        save(folder)
        plain = folder / "plain"
        plain.write_text("as any other")
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()}
    assert modes == {plain.stat().st_mode & 0o777} == {0o666 & ~umask}
    assert {p.stat().st_mode & 0o777 for p in folder.rglob("*") if p.is_dir()} == {0o777 & ~umask}


def test_a_file_is_replaced_in_one_step_or_not_at_all(tmp_path):
    path = tmp_path / "file"
    store.write_file(path, b"one")
    store.write_file(path, b"two")

    def interrupted():
        with store.replacing(path) as part:
            part.write_bytes(b"thr")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"two"
    assert names(tmp_path) == ["file"]


@posix
def test_the_file_behind_a_link_is_replaced_and_the_link_stays(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with store.replacing(link) as part:
        part.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    store.write_file(link, b"its own")  # what a folder of ours names is never another's
    assert (link.is_symlink(), target.read_text()) == (False, "new")


@posix
def test_a_pipe_is_not_replaced(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(DataError, match="not a regular file"), store.replacing(path) as part:
        part.write_text("x")
    assert path.is_fifo()


def test_an_error_of_the_caller_is_not_swallowed(tmp_path):
    """Least of all one that looks like a folder swept away."""

    def missing():
        with store.new_folder(tmp_path):
            raise FileNotFoundError("the caller's")

    with pytest.raises(FileNotFoundError, match="the caller's"):
        missing()


def test_sweeping_removes_what_is_ours_and_neither_kept_nor_in_use(tmp_path):
    for name in ("part-1", "part-2", "notes.txt", f".tacenda-{'0' * 32}"):
        (tmp_path / name).mkdir()
    with store.new_folder(tmp_path, "part-") as running:
        store.sweep(tmp_path, {"part-1"}, lambda name: name.startswith("part-"))
        assert names(tmp_path) == sorted(["notes.txt", "part-1", running.name])
    store.sweep(tmp_path, {"part-1"}, lambda name: name.startswith("part-"))
    assert names(tmp_path) == ["notes.txt", "part-1"]


def test_without_locks_only_what_is_old_is_swept(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "fcntl", None)
    for name in ("part-old", "part-young"):
        (tmp_path / name).mkdir()
    os.utime(tmp_path / "part-old", (0, 0))
    store.sweep(tmp_path, (), lambda name: name.startswith("part-"))
    assert names(tmp_path) == ["part-young"]


@posix
def test_an_interrupt_while_a_temporary_folder_is_removed_leaves_nothing(tmp_path, monkeypatch):
    own, interrupts = shutil.rmtree, iter([KeyboardInterrupt])

    def remove(path):
        for interrupt in interrupts:
            raise interrupt
        own(path)

    monkeypatch.setattr(shutil, "rmtree", remove)
    with pytest.raises(KeyboardInterrupt), store.temporary(tmp_path) as place:
        (place / "part").write_text("half")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_while_a_temporary_folder_is_made_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "locked", interrupt)
    with pytest.raises(KeyboardInterrupt), store.temporary(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_writer_is_swept_and_that_of_a_living_one_is_not(tmp_path):
    script = """
        import sys, time
        from pathlib import Path
        from tacenda import store
        with store.temporary(Path(sys.argv[1])) as scratch:
            (scratch / "half").write_text("written")
            print(flush=True)
            time.sleep(60)
        """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        writer.stdout.readline()
        store.sweep(tmp_path, (), store.is_temporary)
        assert len(names(tmp_path)) == 1
        writer.send_signal(signal.SIGKILL)
    store.sweep(tmp_path, (), store.is_temporary)
    assert names(tmp_path) == []


@posix
def test_a_lock_that_is_held_is_waited_for_or_refused(tmp_path):
    with store.locked(tmp_path) as held:
        assert held
        with pytest.raises(BlockingIOError), store.locked(tmp_path, wait=False):
            pass
    with store.locked(tmp_path, wait=False) as held:
        assert held


@posix
def test_a_lock_is_free_again_though_a_child_that_was_forked_meanwhile_lives_on(tmp_path):
    with store.locked(tmp_path):
        child = os.fork()
        if child == 0:
            signal.pause()
    try:
        with store.locked(tmp_path, wait=False) as held:
            assert held
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@posix
@pytest.mark.parametrize("hold", [partial(store.locked, wait=False), store.claim])
def test_a_forked_child_that_ends_leaves_the_folder_to_its_parent(tmp_path, hold):
    with ExitStack() as stack:
        stack.enter_context(hold(tmp_path))
        child = os.fork()
        if child == 0:
            stack.close()
            os._exit(0)
        os.waitpid(child, 0)
        said = f"process {os.getpid()} " if hold is store.claim else "Errno"
        with pytest.raises(BlockingIOError, match=said), hold(tmp_path):
            pass
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "Expecting value"),
        (b"\xff", "decode"),
        (b"[" * 200_000, "nested too deep"),
        (b"[" * 200 + b"]" * 200, "nested more than 100 deep"),
        (b"1" * 5000, "4300"),
        (b"[1e999]", "too large"),
        (b"[NaN]", "NaN is not JSON"),
        (b'{"a": 1, "a": 2}', "'a' appears twice"),
    ],
)
def test_json_that_could_not_be_written_again_is_refused(data, reason):
    with pytest.raises(ValueError, match=reason):
        reading.parse_json(data)


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    with (tmp_path / "large").open("wb") as file:
        file.truncate(6 << 30)
    with pytest.raises(ValueError, match="are not read"):
        reading.read_json(tmp_path / "large")


@pytest.mark.parametrize("path", [None, 3, "", b"x", ["x"], "a\0b", "\ud800", "x" * 5000])
def test_what_cannot_name_a_file_is_a_clear_error(path):
    with pytest.raises(ArtifactError, match="file"):
        reading.path_of(path, ArtifactError)


def test_any_name_that_a_file_could_have_is_a_path(tmp_path):
    for path in (tmp_path / "new", str(tmp_path), "\udcff", ".", "a b\n"):
        assert reading.path_of(path, ArtifactError) == Path(path)


def test_the_size_of_a_folder_is_that_of_all_files_in_it(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "a").write_bytes(bytes(3))
    (tmp_path / "inner" / "b").write_bytes(bytes(4))
    assert store.size_of(tmp_path) == 7


def test_a_folder_in_use_stays_however_old_it_seems(tmp_path):
    with store.new_folder(tmp_path, "build-") as mine:
        (mine / "ids.npy").write_bytes(b"hours of work")
        os.utime(mine, (0, 0))  # as after a day, or when the clock jumps
        for alone in (True, False):
            store.sweep(tmp_path, (), lambda name: name.startswith("build-"), alone=alone)
        assert (mine / "ids.npy").exists()
    store.sweep(tmp_path, (), lambda name: name.startswith("build-"), alone=False)
    assert not mine.exists()


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_only_regular_files_are_opened(tmp_path, make):
    make(tmp_path / "x")
    for read in (reading.open_regular, reading.read_json):
        with pytest.raises(ValueError, match="not a file"):
            read(tmp_path / "x")


def test_a_link_to_a_regular_file_is_opened(tmp_path):
    (tmp_path / "file").write_text("[1]")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert reading.read_json(tmp_path / "link") == [1]


def test_a_lock_that_is_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "lock")
    with store.locked(tmp_path / "lock", wait=False) as has_lock:
        assert has_lock


def test_what_this_user_may_not_look_into_is_a_clear_error(tmp_path, monkeypatch):
    def lstat(path):  # root may look into everything
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "lstat", lstat)
    with pytest.raises(ArtifactError, match=r"no access to '/root/models' for this user"):
        reading.path_of("/root/models", ArtifactError)


def test_a_folder_that_cannot_be_claimed_on_a_full_disk_is_left_as_it_was(tmp_path, monkeypatch):
    def write(handle, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match="No space left"), store.claim(tmp_path):
        pass
    assert names(tmp_path) == []


def test_a_link_instead_of_the_owner_is_refused_and_not_written_through(tmp_path):
    (tmp_path / "precious").write_text("words")
    (tmp_path / ".tacenda-owner").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic link"), store.claim(tmp_path):
        pass
    assert (tmp_path / "precious").read_text() == "words"
