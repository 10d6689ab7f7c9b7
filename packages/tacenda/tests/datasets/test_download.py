import hashlib
import json
import urllib.request

import pytest

from tacenda.datasets.download import _SafeRedirects, download
from tacenda.errors import DataError

BODY = bytes(range(256)) * 1024  # 256 KiB: four chunks
SHA = "sha256:" + hashlib.sha256(BODY).hexdigest()
MD5 = "md5:" + hashlib.md5(BODY).hexdigest()


class Naps(list):
    """Stands for time.sleep and remembers how long it was asked to."""

    def __call__(self, seconds):
        self.append(seconds)


def get(url, target, **options):
    return download([url], target, **{"sleep": Naps(), "timeout": 5, "attempts": 3} | options)


def leftovers(folder):
    return sorted(path.name for path in folder.iterdir())


def break_off(server, path, target, n, **manners):
    """Let one download end after n bytes, as a killed process would leave it."""
    url = server.serve(path, BODY, failures=[("drop", n), 500], **manners)
    with pytest.raises(DataError, match="could not be fetched"):
        get(url, target, attempts=1)
    server.requests.clear()
    return url


@pytest.mark.parametrize("expected", [None, SHA, MD5])
def test_a_file_arrives_whole_with_its_hash(server, tmp_path, expected):
    receipt = get(server.serve("/f", BODY), tmp_path / "f", expected=expected)
    assert (tmp_path / "f").read_bytes() == BODY
    assert receipt.sha256 == SHA.removeprefix("sha256:")
    assert receipt.verified is (expected is not None)
    assert (receipt.bytes, receipt.etag) == (len(BODY), '"one"')
    assert leftovers(tmp_path) == ["f"]


def test_the_server_is_told_who_asks_and_to_send_the_bytes_as_they_are(server, tmp_path):
    get(server.serve("/f", BODY), tmp_path / "f")
    ((_, headers),) = server.requests
    assert headers["User-Agent"].startswith("tacenda/")
    assert headers["Accept-Encoding"] == "identity"


def test_an_empty_file_is_a_file(server, tmp_path):
    assert get(server.serve("/f", b""), tmp_path / "f").bytes == 0
    assert (tmp_path / "f").read_bytes() == b""


def test_a_connection_dropped_in_the_middle_is_resumed(server, tmp_path):
    url = server.serve("/f", BODY, failures=[("drop", 100_000), ("drop", 50_000)])
    get(url, tmp_path / "f", expected=SHA)
    assert server.ranges_asked() == [None, "bytes=100000-", "bytes=150000-"]
    assert server.requests[1][1]["If-Range"] == '"one"'


def test_a_later_run_goes_on_where_an_earlier_one_stopped(server, tmp_path):
    url = break_off(server, "/f", tmp_path / "f", 70_000)
    assert leftovers(tmp_path) == ["f.part", "f.part.json"]
    get(url, tmp_path / "f", expected=SHA)
    assert server.ranges_asked() == ["bytes=70000-"]
    assert leftovers(tmp_path) == ["f"]


def test_a_date_serves_as_validator_where_there_is_no_etag(server, tmp_path):
    url = server.serve("/f", BODY, etag=None, failures=[("drop", 70_000)])
    server.resources["/f"].last_modified = "Mon, 05 Feb 2018 10:00:00 GMT"
    get(url, tmp_path / "f", expected=SHA)
    assert server.requests[1][1]["If-Range"] == "Mon, 05 Feb 2018 10:00:00 GMT"


@pytest.mark.parametrize("etag", [None, 'W/"weak"'])
def test_without_a_strong_validator_the_file_is_fetched_anew(server, tmp_path, etag):
    url = server.serve("/f", BODY, etag=etag, failures=[("drop", 70_000)])
    get(url, tmp_path / "f", expected=SHA)
    assert server.ranges_asked() == [None, None]


def test_a_server_without_ranges_restarts_cleanly(server, tmp_path):
    url = break_off(server, "/f", tmp_path / "f", 70_000, ranges=False)
    get(url, tmp_path / "f", expected=SHA)
    assert (tmp_path / "f").read_bytes() == BODY


def test_a_file_that_changed_meanwhile_restarts(server, tmp_path):
    url = break_off(server, "/f", tmp_path / "f", 70_000)
    changed = BODY[::-1]
    server.serve("/f", changed, etag='"two"')
    get(url, tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == changed


def test_a_server_that_ignores_if_range_does_not_mix_two_files(server, tmp_path):
    url = break_off(server, "/f", tmp_path / "f", 70_000)
    changed = BODY[::-1]
    server.serve("/f", changed, etag='"two"')
    server.resources["/f"].ignores_if_range = True
    get(url, tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == changed


def test_a_range_other_than_the_one_asked_for_is_not_appended(server, tmp_path):
    url = break_off(server, "/f", tmp_path / "f", 70_000)
    server.resources["/f"].content_range = f"bytes 69999-{len(BODY) - 1}/{len(BODY)}"
    get(url, tmp_path / "f", expected=SHA)
    assert server.ranges_asked() == ["bytes=70000-", None]


def test_a_complete_part_needs_no_further_request(server, tmp_path):
    url = break_off(server, "/f", tmp_path / "f", 70_000)
    (tmp_path / "f.part").write_bytes(BODY)
    get(url, tmp_path / "f", expected=SHA)
    assert server.requests == []


def test_a_part_longer_than_the_file_is_thrown_away(server, tmp_path):
    url = break_off(server, "/f", tmp_path / "f", 70_000)
    (tmp_path / "f.part").write_bytes(BODY + b"more")
    get(url, tmp_path / "f", expected=SHA)
    assert server.ranges_asked() == [None]


@pytest.mark.parametrize("state", [b"", b"[]", b'{"url": 3}', b"\xff\xfe", b'{"url": "u"}'])
def test_a_damaged_state_file_means_beginning_anew(server, tmp_path, state):
    url = break_off(server, "/f", tmp_path / "f", 70_000)
    (tmp_path / "f.part.json").write_bytes(state)
    get(url, tmp_path / "f", expected=SHA)
    assert server.ranges_asked() == [None]


def test_the_part_of_another_address_is_not_used(server, tmp_path):
    break_off(server, "/f", tmp_path / "f", 70_000)
    assert json.loads((tmp_path / "f.part.json").read_text())["url"].endswith("/f")
    get(server.serve("/other", BODY), tmp_path / "f", expected=SHA)
    assert server.ranges_asked() == [None]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_passing_fault_is_tried_again_after_ever_longer_waits(server, tmp_path, status):
    naps = Naps()
    url = server.serve("/f", BODY, failures=[status, status])
    get(url, tmp_path / "f", expected=SHA, sleep=naps, backoff=2.0)
    assert naps == [2.0, 4.0]


def test_a_missing_file_is_not_asked_for_again(server, tmp_path):
    naps = Naps()
    with pytest.raises(DataError, match=r"f could not be fetched \(http://.*: HTTP 404"):
        get(server.root + "/none", tmp_path / "f", sleep=naps)
    assert len(server.requests) == 1
    assert naps == []


def test_a_lasting_fault_ends_with_an_error(server, tmp_path):
    url = server.serve("/f", BODY, failures=[500] * 9)
    with pytest.raises(DataError, match=r"HTTP 500 .*, 3 times in a row"):
        get(url, tmp_path / "f")
    assert len(server.requests) == 3


def test_a_body_always_shorter_than_announced_ends_with_an_error(server, tmp_path):
    url = server.serve("/f", BODY, etag=None, failures=[("drop", 100_000)] * 30)
    with pytest.raises(DataError, match="ended after 100,000 of 262,144 bytes"):
        get(url, tmp_path / "f")
    assert len(server.requests) <= 4
    assert not (tmp_path / "f").exists()


def test_nobody_listening_ends_with_an_error(server, tmp_path):
    url = server.serve("/f", BODY)
    server.close()
    with pytest.raises(DataError, match="connection failed"):
        get(url, tmp_path / "f")


def test_a_wrong_hash_keeps_nothing(server, tmp_path):
    with pytest.raises(DataError, match=r"its sha256 is .* and should be 0000"):
        get(server.serve("/f", BODY), tmp_path / "f", expected="sha256:" + "0" * 64)
    assert leftovers(tmp_path) == []


def test_an_earlier_file_stays_when_the_new_one_is_wrong(server, tmp_path):
    (tmp_path / "f").write_text("the old one")
    with pytest.raises(DataError):
        get(server.serve("/f", BODY), tmp_path / "f", expected="sha256:" + "0" * 64)
    assert (tmp_path / "f").read_text() == "the old one"


def test_the_next_address_helps_out(server, tmp_path):
    urls = [
        server.root + "/gone",
        server.serve("/changed", b"x"),
        server.serve("/good", BODY),
    ]
    receipt = download(urls, tmp_path / "f", expected=SHA, sleep=Naps())
    assert receipt.url == urls[2]


@pytest.mark.parametrize("length", [True, False])
def test_a_body_longer_than_expected_is_refused(server, tmp_path, length):
    with pytest.raises(DataError, match="262,143"):
        get(server.serve("/f", BODY, length=length), tmp_path / "f", max_bytes=len(BODY) - 1)
    assert leftovers(tmp_path) == []


def test_a_body_of_unannounced_length_arrives(server, tmp_path):
    assert get(server.serve("/f", BODY, length=False), tmp_path / "f").bytes == len(BODY)


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
    request = urllib.request.Request("https://example.invalid/f")
    with pytest.raises(Exception, match="not safe to follow"):
        _SafeRedirects().redirect_request(request, None, 302, "", {}, "http://example.invalid/f")


def test_only_http_is_fetched(tmp_path):
    (tmp_path / "secret").write_text("secret")
    with pytest.raises(DataError, match="neither http nor https"):
        get(f"file://{tmp_path}/secret", tmp_path / "f")


def test_a_folder_that_cannot_be_made_is_named(server, tmp_path):
    (tmp_path / "folder").write_text("a file")
    with pytest.raises(DataError, match=r"folder/f cannot be written: .*"):
        get(server.serve("/f", BODY), tmp_path / "folder" / "f")


def test_a_part_that_cannot_be_written_is_named_and_not_tried_again(server, tmp_path):
    (tmp_path / "f.part").mkdir()
    with pytest.raises(DataError, match=r"f\.part cannot be written"):
        get(server.serve("/f", BODY), tmp_path / "f")
    assert len(server.requests) == 1


def test_a_full_disk_is_named_and_not_tried_again(server, tmp_path, monkeypatch):
    def no_space(stream, chunk, path):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("tacenda.datasets.download._write", no_space)
    with pytest.raises(DataError, match=r"f\.part cannot be written: No space left"):
        get(server.serve("/f", BODY), tmp_path / "f")
    assert len(server.requests) == 1
