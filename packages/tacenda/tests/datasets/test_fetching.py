import errno
import hashlib
import io
import json
import os
import zipfile
from dataclasses import replace

import pytest

from tacenda import datasets, store
from tacenda.datasets.fetching import MANIFEST
from tacenda.errors import DataError

TRAIN, TEST = b"training text\n" * 50, b"test text\n" * 20
OPTIONS = {"attempts": 1, "timeout": 5}

pytest.importorskip("pooch")


def zipped(members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def sha(data):
    return hashlib.sha256(data).hexdigest()


def archive(server, members=None, **settings):
    """A download of a zip file that the server serves."""
    body = zipped(members or {"toy-corpus-2/train.txt": TRAIN, "toy-corpus-2/test.txt": TEST})
    url = server.serve("/toy.zip", body)
    usual = {"urls": (url,), "filename": "toy.zip", "unpack": True}
    return datasets.Download(**usual | settings)


def loose(server):
    return tuple(
        datasets.Download(urls=(server.serve(f"/{name}", body),), filename=name)
        for name, body in (("train.txt", TRAIN), ("test.txt", TEST))
    )


def manifest(folder):
    return json.loads((folder / MANIFEST).read_text())


@pytest.fixture
def offered(server, data_folders, register):
    """The archive that the server serves is registered as the dataset toy."""
    register(downloads=(archive(server),))


def test_an_archive_is_fetched_unpacked_and_found(offered, data_folders):
    with pytest.raises(DataError, match="run `tacenda data fetch toy`"):
        datasets.locate("toy")
    fetched = datasets.fetch("toy", **OPTIONS)
    here = datasets.locate("toy")
    assert here.path == data_folders[1] / "toy" / "toy-corpus-2"
    assert here.source == "cache"
    assert here["train"].read_bytes() == TRAIN
    assert fetched.dataset == here
    assert [path.name for path in data_folders[1].iterdir() if path.is_dir()] == ["toy"]


def test_a_folder_of_the_users_choice_becomes_a_data_folder(offered, tmp_path, monkeypatch):
    fetched = datasets.fetch("toy", tmp_path / "mine", **OPTIONS)
    assert fetched.dataset.source == str(tmp_path / "mine")
    monkeypatch.setenv("TACENDA_DATA", str(tmp_path / "mine"))
    assert datasets.locate("toy").source == "TACENDA_DATA"


@pytest.mark.parametrize("is_known", [False, True])
def test_the_manifest_records_what_came_and_whether_its_hash_was_known(
    server, data_folders, register, is_known
):
    download = archive(server)
    digest = sha(server.resources["/toy.zip"].body)
    register(downloads=(replace(download, hash=f"sha256:{digest}" if is_known else None),))
    datasets.fetch("toy", **OPTIONS)
    (entry,) = manifest(data_folders[1] / "toy")["downloads"]
    found = entry["url"], entry["sha256"], entry["verified"]
    assert found == (f"{server.root}/toy.zip", digest, is_known)


@pytest.mark.parametrize(
    ("members", "options", "said"),
    [
        (None, {"hash": "md5:" + "0" * 32}, "does not match the known hash"),
        ({"toy-corpus-2/train.txt": TRAIN}, {}, "lacks files it should have"),
        ({"../../evil": b"evil", "train.txt": b""}, {}, "unsafe"),
    ],
    ids=["of another hash", "without the files promised", "that is hostile"],
)
def test_nothing_is_left_of_an_archive(
    server, data_folders, register, tmp_path, members, options, said
):
    register(downloads=(archive(server, members, **options),))
    with pytest.raises(DataError, match=said):
        datasets.fetch("toy", **OPTIONS)
    assert not (data_folders[1] / "toy").exists()
    assert not list(tmp_path.rglob("evil"))


def test_what_is_here_is_not_fetched_again_unless_forced(offered, server):
    datasets.fetch("toy", **OPTIONS)
    server.requests.clear()
    assert datasets.fetch("toy", **OPTIONS).receipts == ()
    assert server.requests == []
    datasets.locate("toy")["train"].unlink()
    with pytest.raises(DataError, match=r"lacks files it should have"):
        datasets.fetch("toy", **OPTIONS)
    assert len(datasets.fetch("toy", force=True, **OPTIONS).receipts) == 1
    assert datasets.locate("toy")["train"].read_bytes() == TRAIN


def test_a_later_fetch_compares_with_the_recorded_hash(offered, server):
    datasets.fetch("toy", **OPTIONS)
    changed = {"toy-corpus-2/train.txt": b"new", "toy-corpus-2/test.txt": b"new"}
    server.serve("/toy.zip", zipped(changed))
    with pytest.raises(DataError, match=r"recorded .*: the file was changed"):
        datasets.fetch("toy", force=True, **OPTIONS)
    assert datasets.locate("toy")["train"].read_bytes() == TRAIN  # the old one is whole
    datasets.fetch("toy", force=True, accept_changed=True, **OPTIONS)
    assert datasets.locate("toy")["train"].read_bytes() == b"new"


@pytest.mark.parametrize(
    ("error", "raised"),
    [(OSError("the disk is full"), DataError), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_a_data_set_that_cannot_be_replaced_stays(
    offered, data_folders, monkeypatch, error, raised
):
    datasets.fetch("toy", **OPTIONS)

    own = store.commit

    def fail(source, target):
        if target.name == "toy":
            raise error
        own(source, target)

    monkeypatch.setattr(store, "commit", fail)
    with pytest.raises(raised, match=str(error) or None):
        datasets.fetch("toy", force=True, **OPTIONS)
    assert datasets.locate("toy")["train"].read_bytes() == TRAIN
    folders = {path.name for path in data_folders[1].iterdir() if path.is_dir()}
    assert folders == {".toy.downloads", "toy"}  # the downloads are there for the next fetch


def test_what_lies_in_tacenda_data_is_not_fetched(offered, server, data_folders):
    folder = data_folders[0] / "text" / "toy"
    folder.mkdir(parents=True)
    (folder / "train.txt").touch()
    (folder / "test.txt.xz").touch()
    assert datasets.fetch("toy", **OPTIONS).dataset.path == folder
    assert server.requests == []


def test_a_folder_that_tacenda_did_not_make_is_never_replaced(offered, data_folders):
    (data_folders[1] / "toy").mkdir(parents=True)
    (data_folders[1] / "toy" / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match="Tacenda did not download it"):
        datasets.fetch("toy", force=True, **OPTIONS)
    assert (data_folders[1] / "toy" / "notes.txt").read_text() == "mine"


def test_two_downloads_with_one_file_are_refused(server, data_folders, register):
    both = (archive(server), archive(server, filename="again.zip"))
    register(downloads=both)
    with pytest.raises(DataError, match="two downloads hold a file"):
        datasets.fetch("toy", **OPTIONS)


def test_a_fetch_that_failed_half_way_can_be_repeated(server, data_folders, register):
    register(downloads=loose(server))
    server.resources["/test.txt"].failures = [404]
    with pytest.raises(DataError):
        datasets.fetch("toy", **OPTIONS)
    datasets.fetch("toy", **OPTIONS)
    for role, body in (("train", TRAIN), ("test", TEST)):
        assert datasets.locate("toy")[role].read_bytes() == body


def test_a_second_process_waits_its_turn(offered, data_folders):
    fcntl = pytest.importorskip("fcntl")
    data_folders[1].mkdir(parents=True)
    with (data_folders[1] / ".toy.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(DataError, match="another process is fetching toy"):
            datasets.fetch("toy", **OPTIONS)


def test_a_dataset_that_is_not_free_says_how_to_obtain_it(data_folders, register):
    register(obtain="ask the owner")
    for action in (datasets.fetch, datasets.locate):
        with pytest.raises(DataError, match="ask the owner"):
            action("toy")


@pytest.mark.parametrize("text", ["{", "[]", '{"downloads": [{}]}', '{"downloads": 3}'])
def test_a_damaged_manifest_is_named(offered, data_folders, text):
    datasets.fetch("toy", **OPTIONS)
    (data_folders[1] / "toy" / MANIFEST).write_text(text)
    with pytest.raises(DataError, match=r"tacenda-dataset.json is damaged"):
        datasets.fetch("toy", **OPTIONS)


def test_an_output_that_is_a_file_is_named(offered, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot hold the dataset toy"):
        datasets.fetch("toy", tmp_path / "file", **OPTIONS)


@pytest.mark.parametrize("wrong", [float("inf"), float("nan"), 0, "30", None, True])
@pytest.mark.parametrize("option", ["timeout", "attempts"])
def test_a_limit_that_makes_no_sense_is_refused(option, wrong, offered):
    with pytest.raises(DataError, match=f"^{option} is {wrong!r}; "):
        datasets.fetch("toy", **{option: wrong})


def test_what_does_not_unpack_is_asked_for_again(offered, server):
    for body, said in (
        (b"<html>please log in</html>", "a web page came instead of the file"),
        (b"PK no archive", "cannot be unpacked"),
        (zipped({"other.txt": b"x"}), "lacks files"),
    ):
        server.serve("/toy.zip", body)
        for more in ({}, {"force": True}):
            with pytest.raises(DataError, match=said):
                datasets.fetch("toy", **OPTIONS, **more)
    archive(server)  # the server is right again
    assert datasets.fetch("toy", **OPTIONS).dataset["train"].read_bytes() == TRAIN


def test_a_full_disk_does_not_cost_the_download(offered, server, monkeypatch):
    def full(*more, **extra):
        raise DataError("toy.zip cannot be unpacked") from OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patched:
        patched.setattr("tacenda.datasets.fetching.extract", full)
        with pytest.raises(DataError, match="cannot be unpacked"):
            datasets.fetch("toy", **OPTIONS)
    server.serve("/toy.zip", b"nothing any more")
    assert datasets.fetch("toy", **OPTIONS).dataset["train"].read_bytes() == TRAIN


def test_a_pipe_in_the_place_of_a_download_is_not_waited_for(offered, data_folders):
    folder = data_folders[1] / ".toy.downloads"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "toy.zip")
    assert datasets.fetch("toy", **OPTIONS).dataset["train"].read_bytes() == TRAIN
