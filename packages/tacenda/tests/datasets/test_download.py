import gzip
import hashlib
import time
from types import SimpleNamespace

import pytest

from tacenda.datasets import Download, fetching
from tacenda.datasets.fetching import download
from tacenda.errors import DataError

pytest.importorskip("pooch")

BODY = bytes(range(256)) * 1024  # 256 KiB: four chunks
SHA = "sha256:" + hashlib.sha256(BODY).hexdigest()
MD5 = "md5:" + hashlib.md5(BODY).hexdigest()


@pytest.fixture(autouse=True)
def naps(monkeypatch):
    """Stands for time.sleep and remembers how long it was asked to."""
    naps = []
    monkeypatch.setattr(time, "sleep", naps.append)
    return naps


def get(url, target, expected=None, **options):
    urls = (url,) if isinstance(url, str) else url
    item = Download(urls=urls, filename=target.name, hash=expected, **options)
    return download(item, target, timeout=5, attempts=3)


def leftovers(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("expected", [None, SHA, MD5])
def test_a_file_arrives_whole_with_its_hash(server, tmp_path, expected):
    receipt = get(server.serve("/f", BODY), tmp_path / "f", expected=expected)
    assert (tmp_path / "f").read_bytes() == BODY
    assert receipt.sha256 == SHA.removeprefix("sha256:")
    assert receipt.verified is (expected is not None)
    assert receipt.bytes == len(BODY)
    assert leftovers(tmp_path) == ["f"]


def test_the_server_is_told_who_asks_and_to_send_the_bytes_as_they_are(server, tmp_path):
    get(server.serve("/f", BODY), tmp_path / "f")
    ((_, headers),) = server.requests
    assert headers["User-Agent"].startswith("tacenda/")
    assert headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize(
    ("body", "length"), [(b"", True), (BODY, False)], ids=["empty", "unannounced"]
)
def test_a_body_of_any_length_arrives(server, tmp_path, body, length):
    assert get(server.serve("/f", body, length=length), tmp_path / "f").bytes == len(body)
    assert (tmp_path / "f").read_bytes() == body


def test_a_compressed_file_that_the_server_calls_encoded_stays_compressed(server, tmp_path):
    packed = gzip.compress(BODY)
    get(server.serve("/f", packed, encoding="x-gzip"), tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == packed


def test_a_file_that_is_there_with_its_hash_needs_no_request(server, tmp_path):
    url = server.serve("/f", BODY)
    (tmp_path / "f").write_bytes(BODY)
    assert get(url, tmp_path / "f", expected=SHA).verified
    assert server.requests == []


@pytest.mark.parametrize("fault", [429, 500, 503, ("drop", 100_000)], ids=str)
def test_a_passing_fault_is_tried_again_after_longer_waits(server, tmp_path, naps, fault):
    url = server.serve("/f", BODY, failures=[fault, fault])
    get(url, tmp_path / "f", expected=SHA)
    assert (tmp_path / "f").read_bytes() == BODY
    assert len(server.requests) == 3
    assert len(naps) == 2
    assert 0 < naps[0] < naps[1]


def test_a_missing_file_is_not_asked_for_again(server, tmp_path, naps):
    with pytest.raises(DataError, match=r"f could not be fetched \(http://.*404"):
        get(server.root + "/none", tmp_path / "f")
    assert len(server.requests) == 1
    assert naps == []


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (500, r"could not be fetched \(http://.*500"),
        (("drop", 100_000), r"100000 bytes read|after 100,000 of 262,144 bytes"),
    ],
    ids=["of the server", "of the connection"],
)
def test_a_lasting_fault_ends_with_an_error(server, tmp_path, failure, said):
    url = server.serve("/f", BODY, failures=[failure] * 30)
    with pytest.raises(DataError, match=said):
        get(url, tmp_path / "f")
    assert len(server.requests) == 3
    assert leftovers(tmp_path) == []


def test_nobody_listening_ends_with_an_error(server, tmp_path):
    url = server.serve("/f", BODY)
    server.close()
    with pytest.raises(DataError, match=r"could not be fetched.*refused"):
        get(url, tmp_path / "f")


@pytest.mark.parametrize("before", [[], ["f"]])
def test_a_file_with_a_wrong_hash_changes_nothing(server, tmp_path, before):
    for name in before:
        (tmp_path / name).write_text("the old one")
    with pytest.raises(DataError, match=r"does not match the known hash: expected .*0000"):
        get(server.serve("/f", BODY), tmp_path / "f", expected="sha256:" + "0" * 64)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["the old one"] * len(before)


def test_the_next_address_helps_out(server, tmp_path):
    urls = server.root + "/gone", server.serve("/changed", b"x"), server.serve("/good", BODY)
    receipt = get(urls, tmp_path / "f", expected=SHA)
    assert receipt.url == urls[2]


@pytest.mark.parametrize("length", [True, False])
def test_a_body_longer_than_expected_is_refused(server, tmp_path, length):
    with pytest.raises(DataError, match="262,143"):
        get(server.serve("/f", BODY, length=length), tmp_path / "f", max_bytes=len(BODY) - 1)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("scheme", ["file", "ftp", "data"])
def test_a_redirect_to_http_is_followed_and_to_another_scheme_is_not(server, tmp_path, scheme):
    good = server.serve("/good", BODY)
    get(server.serve("/moved", b"", location=good), tmp_path / "f", expected=SHA)
    (tmp_path / "secret").write_text("secret")
    trap = server.serve("/trap", b"", location=f"{scheme}://127.0.0.1{tmp_path}/secret")
    with pytest.raises(DataError, match="redirect"):
        get(trap, tmp_path / "g")
    assert not (tmp_path / "g").exists()


def test_a_redirect_from_https_to_http_is_not_followed():
    response = SimpleNamespace(
        is_redirect=True,
        headers={"location": "http://example.invalid/f"},
        url="https://example.invalid/f",
    )
    with pytest.raises(Exception, match="not safe to follow"):
        fetching._refuse_unsafe_redirect(response)


def test_a_folder_that_cannot_be_made_is_named(server, tmp_path):
    (tmp_path / "folder").write_text("a file")
    with pytest.raises(DataError, match=r"folder/f cannot be written: .*"):
        get(server.serve("/f", BODY), tmp_path / "folder" / "f")


def test_a_full_disk_is_named_and_not_tried_again(server, tmp_path, monkeypatch):
    def no_space(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fetching, "track", no_space)
    with pytest.raises(DataError, match=r"f cannot be written: No space left"):
        get(server.serve("/f", BODY), tmp_path / "f")
    assert len(server.requests) == 1


def test_without_pooch_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    with pytest.raises(DataError, match=r"pip install 'tacenda\[data\]'"):
        get("http://127.0.0.1/f", tmp_path / "f")
