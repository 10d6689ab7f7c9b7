"""``tacenda lm surprisal``: the same table on the command line, and what a mistake looks like."""

import csv
import gzip
import io
import math
import os
import subprocess
import sys
import warnings

import pytest

import tacenda
from tacenda import Corpus
from tacenda.errors import ConfigurationError
from tacenda.tokenizers import split_words
from tacenda_lm import KneserNey, surprisal_table

LINES = ["The cat sat on the mat, and didn't stir.", "The dog sat."]


@pytest.fixture
def saved(tmp_path):
    KneserNey(order=3).fit(Corpus.from_text(LINES * 3, tokenizer="words")).save(tmp_path / "m")
    return tmp_path / "m"


@pytest.fixture
def story(tmp_path):
    path = tmp_path / "story.txt"
    path.write_text("The cat sat. The dog didn't.\nThe mat\n", encoding="utf8")
    return path


def rows(text, delimiter=","):
    return list(csv.DictReader(io.StringIO(text), delimiter=delimiter))


def test_rows_are_those_of_the_function(run, saved, story):
    status, out, err = run("surprisal", saved, story, "--previous", 2, "--split", "sentences")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = surprisal_table(tacenda.load(saved), story, previous=2, split="sentences")
    assert (status, err) == (0, "".join(f"note: {note}\n" for note in table.notes))
    found = rows(out)
    assert tuple(found[0]) == table.columns
    assert [row["word"] for row in found] == table["word"]
    assert [float(row["surprisal"]) for row in found] == pytest.approx(table["surprisal"].tolist())
    assert [row["sentence"] for row in found] == ["1"] * 3 + ["2"] * 3 + ["3"] * 2


def test_files_are_written_by_their_ending(run, saved, story, tmp_path):
    status, out, _ = run("surprisal", saved, story, story, "--output", tmp_path / "t.tsv")
    assert (status, out) == (0, "")
    found = rows((tmp_path / "t.tsv").read_text(encoding="utf8"), "\t")
    assert len(found) == 16
    assert run("surprisal", saved, story, "--tabs")[1].splitlines()[0].startswith("text\tsentence")


def test_regions_of_items(run, saved, tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("item,region,rt\n1,The cat,300\n1,sat.,310\n2,The,299\n", encoding="utf8")
    status, out, _ = run("surprisal", saved, path, "--region", "region", "--item", "item")
    assert status == 0
    found = rows(out)
    assert [(row["rt"], row["word"], row["text"]) for row in found] == [
        ("300", "The cat", "1"),
        ("310", "sat.", "1"),
        ("299", "The", "2"),
    ]


@pytest.mark.parametrize("name", ["items.csv", "items.tsv.gz", "items.txt"])
def test_a_table_without_region_is_announced(run, saved, tmp_path, name):
    path = tmp_path / name
    text = "item\tregion\n" + "".join(f"{i}\tThe cat\n" for i in range(12))
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    status, _, err = run("surprisal", saved, path)
    assert status == 0
    assert err.startswith(f"note: {name} looks like a table, and all its columns are read as ")
    assert "--region COLUMN" in err.splitlines()[0]
    assert "looks like" not in run("surprisal", saved, path, "--region", "region")[2]


def test_a_text_without_words_is_announced(run, saved, tmp_path):
    (tmp_path / "blank.txt").write_text("\n  \n", encoding="utf8")
    status, out, err = run("surprisal", saved, tmp_path / "blank.txt")
    assert (status, len(rows(out))) == (0, 0)
    assert err.startswith("note: blank.txt has no words, and no rows\n")


def test_a_text_in_another_format_is_announced_without_options_that_are_not_there(
    run, saved, tmp_path
):
    path = tmp_path / "t.txt"
    path.write_text('{"text": "The cat sat."}\n' * 3, encoding="utf8")
    first = run("surprisal", saved, path)[2].splitlines()[0]
    assert first == (
        "note: the lines are JSON objects, and are read as text: save their text as plain text"
    )


def test_a_sentence_a_row_becomes_a_row_a_word(run, saved, tmp_path):
    path = tmp_path / "items.txt"
    path.write_text("id|text\n7|The cat sat.\n8|The dog\n", encoding="utf8")
    status, out, err = run(
        "surprisal", saved, path, "--region", "text", "--words", "--delimiter", "|"
    )
    assert status == 0
    found = [(row["id"], row["word"], row["file_text"], row["text"]) for row in rows(out)]
    assert found[:3] == [("7", word, "The cat sat.", "1") for word in ("The", "cat", "sat.")]
    assert found[3:] == [("8", word, "The dog", "2") for word in ("The", "dog")]
    assert "calls 'text' of the file 'file_text'" in err
    path.write_text("id\ttext\n7\tThe; cat, sat.\n", encoding="utf8")
    for tab in ("\t", "\\t", "tab"):
        options = ("--region", "text", "--delimiter", tab)
        assert [row["word"] for row in rows(run("surprisal", saved, path, *options)[1])] == [
            "The; cat, sat."
        ]


def test_items_may_come_from_standard_input_or_have_undecodable_bytes(
    run, saved, tmp_path, monkeypatch
):
    content = b"region,rt\nThe cat,300\nsat\xff.,310\n"
    path = tmp_path / "items.csv"
    path.write_bytes(content)
    assert run("surprisal", saved, path, "--region", "region")[0] == 1
    options = ("--region", "region", "--errors", "replace")
    status, out, _ = run("surprisal", saved, path, *options)
    assert status == 0
    found = rows(out)
    assert [row["word"] for row in found] == ["The cat", "sat\ufffd."]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    status, out, _ = run("surprisal", saved, "-", *options)
    assert status == 0
    assert rows(out) == [{**row, "text": "standard input"} for row in found]


def test_what_can_be_misread_goes_to_standard_error(run, saved, story):
    story.write_text("The zebra sat.\n", encoding="utf8")
    status, out, err = run("surprisal", saved, story, "--unknown", "class")
    assert status == 0
    assert len(rows(out)) == 3
    assert err.startswith(
        "note: 1 of 4 tokens are unknown and have the probability of all unknown words together"
    )
    assert "Warning" not in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--unknown", "even"], "unseen_types"),
        (["--unknown", "cheap"], "cheap"),
        (["--split", "pages"], "pages"),
        (["--context", "world"], "world"),
        (["--region", "word"], "word"),
        (["--output", "table.xlsx"], "table.xlsx"),
        (["--output", "no/such/folder/t.csv"], "no/such"),
        (["--encoding", "none"], "none"),
    ],
)
def test_a_mistake_is_one_line_and_status_1(run, saved, story, arguments, said):
    status, out, err = run("surprisal", saved, story, *arguments)
    assert (status, out) == (1, "")
    assert said in err
    assert err.count("\n") == 1


@pytest.fixture
def stdin(monkeypatch):
    def given(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return given


def test_a_word_on_standard_input_is_no_file_name(run, saved, story, stdin, monkeypatch):
    monkeypatch.chdir(story.parent)
    stdin(b"story.txt")
    status, out, _ = run("surprisal", saved, "-")
    assert (status, [row["word"] for row in rows(out)]) == (0, ["story.txt"])


def test_standard_input_is_read_once(run, saved, stdin):
    stdin(b"The cat")
    assert run("surprisal", saved, "-", "-")[0] == 2


def test_what_is_printed_is_utf_8(saved, story):
    story.write_text("The caf\u00e9\n", encoding="utf8")
    done = subprocess.run(
        [sys.executable, "-m", "tacenda", "lm", "surprisal", saved, story],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert ",caf\u00e9,".encode() in done.stdout


def test_a_note_names_the_option(run, saved, tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("word\nThe\ncat.\nThe\ndog.\n", encoding="utf8")
    status, _, err = run("surprisal", saved, path, "--region", "word")
    assert status == 0
    assert "use --split sentences" in err
    path.write_text("s,word\n1,The\n1,cat.\n2,The\n2,dog.\n", encoding="utf8")
    status, out, err = run("surprisal", saved, path, "--region", "word", "--sentence", "s")
    assert (status, [row["sentence"] for row in rows(out)]) == (0, ["1", "1", "2", "2"])
    assert "--split" not in err


@pytest.mark.parametrize("option", [["--words"], ["--delimiter", ";"], ["--sentence", "s"]])
def test_an_option_of_items_without_a_region_is_wrong_usage(run, saved, story, option):
    status, _, err = run("surprisal", saved, story, *option)
    assert status == 2
    assert f"{option[0]} needs --region" in err


def test_words_of_several_tokens_are_counted_where_asked_for(run, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(LINES * 3), encoding="utf8")
    fit = ("fit", "--text", text, "--tokenizer", "words", "--order", 2, "-o", tmp_path / "m")
    assert run(*fit, "--count-words")[0] == 0
    new = tmp_path / "new.txt"
    new.write_text("didn't", encoding="utf8")
    [row] = rows(run("surprisal", tmp_path / "m", new)[1])
    n_tokens = len(split_words(" ".join(LINES)))  # the text is three times the same
    assert float(row["log_frequency"]) == pytest.approx(math.log2(1 / n_tokens))
    status, _, err = run(*fit, "--force", "--count-words", "--scheduler", "local")
    assert (status, "leave out --scheduler" in err.replace("\n", " ")) == (2, True)


def test_more_words_before_than_a_row_can_hold_are_refused(run, saved, story):
    status, out, err = run("surprisal", saved, story, "--previous", 10**23)
    assert (status, out) == (2, "")
    assert "--previous" in err
    with pytest.raises(ConfigurationError, match="at most 1,000 words"):
        surprisal_table(tacenda.load(saved), story, previous=10**23)


def test_an_item_column_without_a_region_is_wrong_usage(run, saved, story):
    assert run("surprisal", saved, story, "--item", "item")[0] == 2
    assert run("surprisal", saved, story, "--sentence", "s")[0] == 2
    assert run("surprisal", saved)[0] == 2
