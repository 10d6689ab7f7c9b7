import bz2
import contextlib
import gzip
import io
import lzma
import stat
import tarfile
import zipfile

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tacenda.datasets.archives import extract
from tacenda.errors import DataError

LIMITS = {"max_bytes": 100_000, "max_files": 5}


def zip_of(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


def tar_of(path, members, mode="w:gz"):
    """Members are (name, bytes) or ready TarInfo objects."""
    with tarfile.open(path, mode) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return path


def archive_of(kind, folder, members):
    if kind == "zip":
        return zip_of(folder / "a.zip", members)
    return tar_of(folder / "a.tgz", members)


def everything(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def refused(archive, tmp_path, match, **limits):
    with pytest.raises(DataError, match=match):
        extract(archive, tmp_path / "out", **LIMITS | limits)
    assert [path.name for path in tmp_path.iterdir()] == [archive.name]  # no trace, no temporary


FILES = [("top/a.txt", b"aa"), ("./top/deep/b.txt", b"b" * 1000), ("c", b"")]


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tgz", "a.tar.gz", "a.tar.xz", "a.tar.bz2"])
def test_an_archive_is_unpacked(tmp_path, name):
    if name == "a.zip":
        archive = zip_of(tmp_path / name, FILES)
    else:
        mode = {"tar": "w", "tgz": "w:gz"}.get(name[2:], f"w:{name.split('.')[-1]}")
        archive = tar_of(tmp_path / name, FILES, mode)
    names = extract(archive, tmp_path / "out", **LIMITS)
    assert names == ["c", "top/a.txt", "top/deep/b.txt"]
    assert everything(tmp_path / "out") == {n.removeprefix("./"): data for n, data in FILES}
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, "out"]


@pytest.mark.parametrize(("suffix", "module"), [("gz", gzip), ("xz", lzma), ("bz2", bz2)])
def test_a_single_compressed_file_is_unpacked(write_file, tmp_path, suffix, module):
    archive = write_file(f"words.txt.{suffix}", module.compress(b"words"))
    assert extract(archive, tmp_path / "out", **LIMITS) == ["words.txt"]
    assert (tmp_path / "out" / "words.txt").read_bytes() == b"words"


OUTSIDE = [
    "../evil", "a/../../evil", "/etc/evil", "//evil", "C:evil", "C:\\evil", "..\\evil", "..", ".",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("kind", ["zip", "tar"])
@pytest.mark.parametrize(
    ("members", "said"),
    [
        *(([("ok", b"1"), (name, b"evil")], "unsafe") for name in OUTSIDE),
        ([("a", b"1"), ("./A", b"2")], "twice"),
        ([(str(i), b"") for i in range(6)], "more than 5 files"),
        # a bomb, by the bytes that it really produces
        ([("a", b"\0" * 60_000), ("b", b"\0" * 60_000)], "more than 100,000 bytes"),
    ],
)
def test_members_that_are_unsafe_or_too_many_are_refused(tmp_path, kind, members, said):
    archive = archive_of(kind, tmp_path, members)
    assert archive.stat().st_size < 2_000
    refused(archive, tmp_path, said)


PARTS = st.sampled_from(["..", ".", "", "a", "b", "C:", "~", "\\", "é", "con"])
NAMES = st.lists(PARTS, min_size=1, max_size=5).map("/".join).filter(lambda name: name != "")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@given(names=st.lists(NAMES, min_size=1, max_size=4), kind=st.sampled_from(["zip", "tar"]))
def test_whatever_its_names_an_archive_stays_within_its_folder(tmp_path_factory, names, kind):
    assume(all(names))  # some old versions of hypothesis draw what the filter leaves out
    folder = tmp_path_factory.mktemp("archive")
    archive = archive_of(kind, folder, [(name, b"x") for name in names])
    with contextlib.suppress(DataError):
        extract(archive, folder / "one" / "two" / "out", **LIMITS)
    inside = folder / "one" / "two" / "out"
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert [path for path in files if not path.is_relative_to(inside)] == [archive]


@pytest.mark.parametrize("kind", ["SYMTYPE", "LNKTYPE", "CHRTYPE", "BLKTYPE", "FIFOTYPE"])
def test_links_and_devices_in_a_tar_are_refused(tmp_path, kind):
    info = tarfile.TarInfo("innocent")
    info.type, info.linkname = getattr(tarfile, kind), "/etc/passwd"
    members = [("ok", b"1"), info, ("innocent/evil", b"evil")]
    refused(tar_of(tmp_path / "a.tgz", members), tmp_path, "a link or a device")


def test_a_symbolic_link_in_a_zip_is_refused(tmp_path):
    info = zipfile.ZipInfo("innocent")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, "/etc/passwd")
    refused(tmp_path / "a.zip", tmp_path, "a link or a device")


def test_a_member_without_a_name_is_refused(tmp_path):
    with (
        zipfile.ZipFile(tmp_path / "a.zip", "w") as archive,
        archive.open(zipfile.ZipInfo(""), "w") as member,
    ):
        member.write(b"evil")
    refused(tmp_path / "a.zip", tmp_path, "unsafe")


def test_a_compressed_bomb_is_stopped(write_file, tmp_path):
    archive = write_file("a.xz", lzma.compress(b"\0" * 1_000_000))
    refused(archive, tmp_path, "more than 100,000 bytes")


def test_a_zip_that_understates_its_size_is_refused(tmp_path):
    archive = zip_of(tmp_path / "a.zip", [("a", b"\0" * 1_000_000)])
    data = archive.read_bytes().replace((1_000_000).to_bytes(4, "little"), b"\x0a\0\0\0")
    archive.write_bytes(data)
    with pytest.raises(DataError):
        extract(archive, tmp_path / "out", **LIMITS)
    assert not (tmp_path / "out").exists()


def test_a_bomb_in_the_headers_of_a_tar_is_stopped(tmp_path):
    info = tarfile.TarInfo("a")
    info.pax_headers = {"comment": "x" * 3_000_000}
    with tarfile.open(tmp_path / "a.tgz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(info)
    refused(tmp_path / "a.tgz", tmp_path, "more than 12[0-9],[0-9]+ bytes")


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_only_the_members_asked_for_are_unpacked(tmp_path, kind):
    members = [("x/a.txt", b"a"), ("./x/b.bin", b"b"), ("../evil", b"evil"), ("./x/c.txt", b"c")]
    archive = archive_of(kind, tmp_path, members)
    names = extract(archive, tmp_path / "out", members=("x/*.txt",), **LIMITS)
    assert names == ["x/a.txt", "x/c.txt"]


@pytest.mark.parametrize("kind", ["zip", "tar", "gz"])
def test_an_archive_without_what_was_asked_for_is_refused(tmp_path, kind):
    if kind == "gz":
        archive = tmp_path / "a.txt.gz"
        archive.write_bytes(gzip.compress(b"text"))
    else:
        archive = archive_of(kind, tmp_path, FILES)
    with pytest.raises(DataError, match="none of the files looked for"):
        extract(archive, tmp_path / "out", members=("*.csv",), **LIMITS)


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz", "a.tar.xz", "a.tar", "a.gz", "a.xz"])
@pytest.mark.parametrize("damage", ["cut", "noise"])
def test_a_damaged_archive_is_refused(tmp_path, name, damage):
    archive = tmp_path / name
    payload = bytes(i * i % 251 for i in range(50_000))
    if name == "a.zip":
        zip_of(archive, [("f", payload)])
    elif "tar" in name:
        tar_of(archive, [("f", payload)], "w" + {"a.tar": ""}.get(name, ":" + name[6:]))
    else:
        archive.write_bytes((gzip if name == "a.gz" else lzma).compress(payload))
    data = archive.read_bytes()
    archive.write_bytes(data[: len(data) // 2] if damage == "cut" else b"noise" * 100)
    refused(archive, tmp_path, "fetch it again")


def test_an_encrypted_member_is_refused(tmp_path):
    archive = zip_of(tmp_path / "a.zip", [("f", b"secret")])
    data = bytearray(archive.read_bytes())
    central = data.index(b"PK\x01\x02")
    data[6] |= 1
    data[central + 8] |= 1
    archive.write_bytes(bytes(data))
    refused(archive, tmp_path, "encrypted")


def test_an_unknown_kind_of_file_is_refused(tmp_path):
    (tmp_path / "a.rar").write_bytes(b"Rar!")
    refused(tmp_path / "a.rar", tmp_path, "no kind that can be unpacked")


def test_a_folder_that_is_there_already_is_left_alone(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(DataError, match="exists already"):
        extract(zip_of(tmp_path / "a.zip", FILES), tmp_path / "out", **LIMITS)


def test_unpacked_files_are_not_executable_whatever_the_archive_says(tmp_path):
    info = tarfile.TarInfo("tool")
    info.mode = 0o4777
    extract(tar_of(tmp_path / "a.tgz", [info]), tmp_path / "out", **LIMITS)
    assert (tmp_path / "out" / "tool").stat().st_mode & 0o6111 == 0
