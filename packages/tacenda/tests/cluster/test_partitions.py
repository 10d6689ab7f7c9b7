"""Files cut into partitions have the lines of the whole files, each once and in order."""

import bz2
import gzip
import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacenda.cli import paths
from tacenda.corpus.lines import text_blocks
from tacenda.errors import ConfigurationError, CorpusError

fsspec = pytest.importorskip("fsspec", reason="needs tacenda[dask]")
pytest.importorskip("distributed", reason="needs tacenda[dask]")

from fsspec.utils import read_block  # noqa: E402

from tacenda.dask.partitions import partitions  # noqa: E402


def lines_of(found, **reading):
    """The lines that are not empty: a line end may stand at a cut, and empty lines are no sentences."""
    return [line for each in found for block in each.blocks(**reading) for line in block if line]


def put(name, data):
    with fsspec.open(name, "wb") as file:
        file.write(data)
    return name


@given(
    st.text(st.sampled_from("ab \n\r\u00e4\u2028\ufeff\U0001f600"), max_size=60), st.integers(1, 40)
)
def test_partitions_have_the_lines_of_the_file_whatever_their_size(text, n_bytes):
    address = put("memory://cut.txt", text.encode())
    whole = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    assert lines_of(partitions(address, n_bytes)) == [line for line in whole if line]


def test_they_are_read_as_a_file_on_disk_is(write_file):
    path = write_file("text.txt", "\ufeffa b\r\nc\n\n\ufeffd \u00e4\ne".encode())
    whole = [line for block in text_blocks(path) for line in block if line]
    for n_bytes in range(1, 30):
        assert lines_of(partitions(path, n_bytes)) == whole


def test_a_text_at_an_address_is_read_in_pieces(monkeypatch):
    """As the commands read it, which have no cluster."""
    sizes = []
    monkeypatch.setattr(paths, "_REMOTE_BLOCK_BYTES", 40)
    monkeypatch.setattr(
        "tacenda.dask.partitions.read_block",
        lambda file, begin, length, end: (
            sizes.append(length) or read_block(file, begin, length, end)
        ),
    )
    address = put("memory://long.txt", b"a line of words\n" * 50)
    lines = [line for line in paths.input_texts([address], "utf-8", "strict") if line]
    assert lines == ["a line of words"] * 50
    assert len(sizes) == 20
    assert max(sizes) <= 41


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_file_is_one_partition_known_by_its_content(compress):
    address = put("memory://packed", compress(b"a\nb\n" * 99))
    found = partitions(address, 5)
    assert len(found) == 1
    assert lines_of(found) == ["a", "b"] * 99


def test_files_in_encodings_whose_line_feed_is_no_byte_of_its_own_are_not_cut():
    text = "a\u0a0a\nb"  # 0x0A is a byte of the letter
    found = partitions(put("memory://wide.txt", text.encode("utf-16")), 2, "utf-16")
    assert len(found) == 1
    assert lines_of(found, encoding="utf-16") == text.split("\n")


def test_addresses_are_read_in_their_order_and_a_glob_in_that_of_the_names():
    for name in ("b", "a", "c"):
        put(f"memory://folder/{name}.txt", f"{name}\n".encode())
    files = fsspec.open_files("memory://folder/*.txt")  # which may have options
    assert lines_of(partitions(files, 100)) == ["a", "b", "c"]
    assert lines_of(partitions(files[0], 1)) == ["a"]
    assert lines_of(partitions("memory://folder/*.txt", 100)) == ["a", "b", "c"]
    listed = ["memory://folder/c.txt", "memory://folder/a.txt"]
    assert lines_of(partitions(listed, 100)) == ["c", "a"]


def test_an_error_names_the_file_and_where_reading_began():
    address = put("memory://bad.txt", b"good\n" * 10 + b"b\xffd\n")
    with pytest.raises(CorpusError, match=r"bad.txt from byte \d+ on is not utf-8 at line"):
        lines_of(partitions(address, 20))
    data = b"good\n" * 10 + b"b\xffd\n"
    for n_bytes in (5, 7, 20, 99):
        with pytest.raises(CorpusError, match=rf"byte offset {data.index(0xFF)} \(0xff"):
            lines_of(partitions(address, n_bytes))
    marked = put("memory://marked.txt", b"a </s> b\n")
    with pytest.raises(CorpusError, match=r"marked.txt, line 1: </s>"):
        lines_of(partitions(marked, 20), marks="refuse")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])  # which is not cut
def test_a_file_that_was_written_to_since_is_an_error(encoding):
    address = put("memory://growing.txt", b"a\n" * 10)
    found = partitions(address, 5, encoding)
    put(address, b"a\n" * 11)
    with pytest.raises(CorpusError, match=r"growing.txt has been written to"):
        lines_of(found, encoding=encoding)
    fsspec.filesystem("memory").rm(address)
    with pytest.raises(CorpusError, match=r"there is no file .*growing.txt"):
        lines_of(found, encoding=encoding)


def test_partitions_of_a_file_are_read_side_by_side(write_file):
    found = partitions(write_file("shared.txt", b"ab\n" * 20), 30)
    with found[0].file as opened:
        assert lines_of(found) == ["ab"] * 20
        assert opened.read() == b"ab\n" * 20


def test_what_cannot_be_read_is_a_clear_error(tmp_path):
    with pytest.raises(CorpusError, match=r"no file .*missing.txt"):
        partitions(tmp_path / "missing.txt", 10)
    with pytest.raises(CorpusError, match=r"no file matches .*\*.txt"):
        partitions(str(tmp_path / "*.txt"), 10)
    with pytest.raises(CorpusError, match="is a directory"):
        partitions(tmp_path, 10)
    with pytest.raises(CorpusError, match="at least one address"):
        partitions([], 10)
    for addresses in (None, 3, [3], b"x"):
        with pytest.raises(CorpusError, match="names no file to read: give an address"):
            partitions(addresses, 100)
    with pytest.raises(CorpusError, match="'many' bytes: give at least 1"):
        partitions("memory://x", "many")
    with pytest.raises(CorpusError, match="at least 1"):
        partitions(tmp_path, 0)
    with pytest.raises(CorpusError, match="cannot read nonsense://x"):
        partitions("nonsense://x", 10)
    with pytest.raises(CorpusError, match="unknown encoding"):
        partitions(put("memory://x", b"a"), 10, "no-such-encoding")
    with pytest.raises(CorpusError, match=r"encoding is 'a\\x00b': embedded null character"):
        partitions(put("memory://x", b"a"), 10, "a\0b")


# of ftplib's client, which is closed though it was never opened
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_address_without_a_host_is_a_clear_error():
    with pytest.raises(CorpusError, match="cannot read ftp:///x"):
        partitions("ftp:///x", 80)


def test_a_file_system_whose_package_is_missing_is_named(monkeypatch):
    def missing(*_, **__):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec, "open_files", missing)
    with pytest.raises(ConfigurationError, match="s3fs"):
        partitions("s3://bucket/x", 10)
