"""The package that the page about plugins shows is built from that page, and does what the page says."""

import re
from pathlib import Path

import pytest

from support.processes import output_of

PAGE = Path(__file__).parents[1] / "docs" / "plugins.md"
TEXT = "the cat sat on the mat\nthe dog sat on the mat\nthe mat sat on a dog\n"


@pytest.fixture
def package(tmp_path, package_of):
    """The entry points and the folder of the package."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf8")
    return package_of(PAGE, tmp_path), tmp_path


def run(folder, *arguments):
    variables = {"PYTHONPATH": str(folder / "src"), "TACENDA_PROGRESS": "0"}
    return output_of("-m", *arguments, cwd=folder, **variables)


def test_every_plugin_of_the_page_is_listed_and_used_by_its_name(package):
    groups, folder = package
    kinds = {"embedders", "language_models", "recommenders", "kernels", "commands", "datasets"}
    assert {group.removeprefix("tacenda.") for group in groups} == kinds
    rows = [line.split() for line in run(folder, "tacenda", "plugins").splitlines()]
    for group, points in groups.items():
        for name in points:
            kind = group.removeprefix("tacenda.")
            assert [kind, name, "my-package", "0.1.0", "loaded"] in rows
    assert "my-corpus" in run(folder, "tacenda", "data", "list")
    fit = ("--text", "text.txt", "--output")
    run(folder, "tacenda", "embed", "fit", "--model", "neighbours", *fit, "vectors")
    run(folder, "tacenda", "lm", "fit", "--model", "bigrams", *fit, "bigrams")
    shown = run(folder, "tacenda", "rare", "words", "bigrams", "text.txt", "-n", "2")
    assert len(shown.splitlines()) == 2


def test_the_plugins_of_the_page_pass_their_kits(package):
    _, folder = package
    files = [
        f"tests/test_{tested}.py"
        for tested in ("embedder", "language_model", "recommender", "kernels")
    ]
    out = run(folder, "pytest", "-v", "-p", "no:cacheprovider", *files)
    for file in files:
        assert re.search(rf"^{file}::\S+ PASSED", out, re.M)
