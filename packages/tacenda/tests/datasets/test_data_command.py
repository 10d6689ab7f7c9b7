import pytest
from typer.testing import CliRunner

from tacenda import datasets
from tacenda.cli.main import data as app
from tacenda.cli.main import format_size
from tacenda.errors import DataError


def run(*arguments):
    result = CliRunner().invoke(app, list(arguments))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def row(output, name):
    (line,) = [line for line in output.splitlines() if line.startswith(f"{name} ")]
    return line


def test_list_shows_license_size_place_and_address(data_folders):
    folder = data_folders[0] / "ml-100k"
    folder.mkdir()
    (folder / "u.data").touch()
    output = run("list")
    here = row(output, "ml-100k")
    assert "GroupLens" in here
    assert "4.9 MB" in here
    assert f"TACENDA_DATA: {folder}" in here
    assert "https://files.grouplens.org/datasets/movielens/ml-100k.zip" in here
    assert " -  " in row(output, "ptb")
    assert "not to be downloaded" in row(output, "conll2003")


def test_list_marks_addresses_that_nobody_confirmed(data_folders, register):
    download = datasets.Download(urls=("https://a.invalid/x",), filename="x", confirmed=False)
    register(downloads=(download,))
    output = run("list")
    assert row(output, "toy").endswith("https://a.invalid/x *")
    assert not row(output, "ml-100k").endswith("*")
    assert "* not confirmed" in output


@pytest.fixture
def toy(server, data_folders, register):
    pytest.importorskip("pooch")
    files = {"train": ("train.txt",)}
    url = server.serve("/train.txt", b"text")
    download = datasets.Download(urls=(url,), filename="train.txt")
    return register(files=files, downloads=(download,), license_text="Only for fun.")


def test_fetch_shows_the_license_before_it_asks_for_anything(server, toy):
    server.resources.clear()
    result = CliRunner().invoke(app, ["fetch", "toy"])
    assert "Only for fun." in result.output
    assert toy.downloads[0].urls[0] in result.output
    assert isinstance(result.exception, DataError)


def test_fetch_prints_an_unknown_hash_and_says_so(toy, data_folders):
    output = run("fetch", "toy")
    assert "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1" in output
    assert "unverified: no hash is published" in output
    assert f"toy is in {data_folders[1] / 'toy'}" in output
    assert "already; nothing was fetched" in run("fetch", "toy")
    assert "the same as fetched before" in run("fetch", "toy", "--force")


def test_fetch_puts_it_where_it_is_told(toy, tmp_path):
    run("fetch", "toy", "--output", str(tmp_path / "here"))
    assert (tmp_path / "here" / "toy" / "train.txt").read_bytes() == b"text"


def test_sizes_are_short():
    sizes = None, 0, 999, 1000, 999_949, 999_960, 34_869_662, 999_960_000, 12_345_600_000_000
    texts = "?, 0 B, 999 B, 1.0 kB, 999.9 kB, 1.0 MB, 34.9 MB, 1.0 GB, 12345.6 GB"
    assert ", ".join(map(format_size, sizes)) == texts
