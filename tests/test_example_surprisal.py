"""The surprisal example: its files agree with each other, on generated text, own text and own document."""

import csv
from html.parser import HTMLParser
from pathlib import Path

import pytest

from support.processes import run_python

ROOT = Path(__file__).parents[1]


def example(output, *arguments, **environment):
    variables = {"TACENDA_DATA": None, "OMP_NUM_THREADS": "1", **environment}
    script = "examples/surprisal/surprisal.py"
    return run_python(script, "--output", output, *arguments, cwd=ROOT, **variables)


class Tokens(HTMLParser):
    """The titles of a picture: the figures of its tokens."""

    def __init__(self, html):
        super().__init__()
        self.titles = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        assert tag != "script"
        if "title" in dict(attrs):
            self.titles.append(dict(attrs)["title"])


def table(output):
    with (output / "surprisal.tsv").open(encoding="utf8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def titles(output):
    return Tokens((output / "surprisal.html").read_text(encoding="utf8")).titles


def test_picture_and_table_say_the_same_and_the_second_run_uses_what_is_there(tmp_path):
    first = example(tmp_path, "--lines", "300")
    assert first.returncode == 0, first.stderr
    rows = table(tmp_path)
    shown = [title for title in titles(tmp_path) if not title.startswith("end of sentence")]
    assert len(shown) == len(rows) > 30
    for row, title in zip(rows, shown, strict=True):
        assert title.startswith(f"{row['token']}: {float(row['surprisal']):.2f} bits")
        assert ("outside the vocabulary" in title) == (row["oov"] == "1")
    assert {row["oov"] for row in rows if row["token"] == "Jabberwocky"} == {"1"}
    second = example(tmp_path, "--lines", "300")
    assert "using the fitted language model" in second.stdout
    assert table(tmp_path) == rows


def test_own_text_and_own_document(tmp_path):
    (tmp_path / "text.txt").write_text("The cat sat. A dog ran.\n" * 20, encoding="utf8")
    document = tmp_path / "document.txt"
    document.write_text("The <script>cat</script> sat.", encoding="utf8")
    done = example(tmp_path / "out", str(document), "--text", str(tmp_path / "text.txt"))
    assert done.returncode == 0, done.stderr
    bits = {row["token"]: float(row["surprisal"]) for row in table(tmp_path / "out")}
    assert bits["The"] < 2 < bits["<"]
    assert any("script" in title for title in titles(tmp_path / "out"))


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["missing.txt"], {}),
        (["--text", "missing.txt"], {}),
        ([], {"TACENDA_DATA": "/nonexistent"}),
    ],
)
def test_what_is_missing_is_one_clear_line(tmp_path, arguments, environment):
    done = example(
        tmp_path, "--lines", "20", *arguments, TACENDA_CACHE=str(tmp_path), **environment
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1
    assert "missing.txt" in done.stderr or "TACENDA_DATA" in done.stderr
