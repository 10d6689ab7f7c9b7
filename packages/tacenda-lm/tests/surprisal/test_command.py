"""``tacenda lm surprisal``: the same table on the command line, and what a mistake looks like."""

import csv
import gzip
import io
import math

import pytest

import tacenda
from support.processes import output_of
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
def story(write_file):
    return write_file("story.txt", "The cat sat. The dog didn't.\nThe mat\n")


def rows(text, delimiter=","):
    return list(csv.DictReader(io.StringIO(text), delimiter=delimiter))


@pytest.mark.filterwarnings("ignore")
def test_rows_are_those_of_the_function(run, saved, story):
    status, out, err = run("surprisal", saved, story, "--previous", 2, "--split", "sentences")
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


def test_regions_of_items(printed, saved, write_file):
    path = write_file("items.csv", "item,region,rt\n1,The cat,300\n1,sat.,310\n2,The,299\n")
    found = rows(printed("surprisal", saved, path, "--region", "region", "--item", "item"))
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


def test_a_text_without_words_is_announced(run, saved, write_file):
    status, out, err = run("surprisal", saved, write_file("blank.txt", "\n  \n"))
    assert (status, len(rows(out))) == (0, 0)
    assert err.startswith("note: blank.txt has no words, and no rows\n")


def test_a_text_in_another_format_is_announced_without_options_that_are_not_there(
    run, saved, write_file
):
    path = write_file("t.txt", '{"text": "The cat sat."}\n' * 3)
    assert run("surprisal", saved, path)[2].splitlines()[0] == (
        "note: the lines are JSON objects, and are read as text: save their text as plain text"
    )


def test_a_sentence_a_row_becomes_a_row_a_word(run, printed, saved, write_file):
    path = write_file("items.txt", "id|text\n7|The cat sat.\n8|The dog\n")
    status, out, err = run(
        "surprisal", saved, path, "--region", "text", "--words", "--delimiter", "|"
    )
    assert status == 0
    found = [(row["id"], row["word"], row["file_text"], row["text"]) for row in rows(out)]
    assert found[:3] == [("7", word, "The cat sat.", "1") for word in ("The", "cat", "sat.")]
    assert found[3:] == [("8", word, "The dog", "2") for word in ("The", "dog")]
    assert "calls 'text' of the file 'file_text'" in err
    path = write_file("items.txt", "id\ttext\n7\tThe; cat, sat.\n")
    for tab in ("\t", "\\t", "tab"):
        [row] = rows(printed("surprisal", saved, path, "--region", "text", "--delimiter", tab))
        assert row["word"] == "The; cat, sat."


def test_items_may_come_from_standard_input_or_have_undecodable_bytes(
    run, printed, saved, write_file, stdin
):
    content = b"region,rt\nThe cat,300\nsat\xff.,310\n"
    path = write_file("items.csv", content)
    assert run("surprisal", saved, path, "--region", "region")[0] == 1
    options = ("--region", "region", "--errors", "replace")
    found = rows(printed("surprisal", saved, path, *options))
    assert [row["word"] for row in found] == ["The cat", "sat\ufffd."]
    stdin(content)
    again = rows(printed("surprisal", saved, "-", *options))
    assert again == [{**row, "text": "standard input"} for row in found]


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
def test_a_mistake_is_one_line_and_status_1(refused, saved, story, arguments, said):
    err = refused("surprisal", saved, story, *arguments)
    assert said in err
    assert err.count("\n") == 1


def test_a_word_on_standard_input_is_no_file_name(printed, saved, story, stdin, monkeypatch):
    monkeypatch.chdir(story.parent)
    stdin(b"story.txt")
    assert [row["word"] for row in rows(printed("surprisal", saved, "-"))] == ["story.txt"]


@pytest.mark.parametrize("texts", [[], ["-", "-"]])
def test_no_text_and_standard_input_twice_are_wrong_usage(run, saved, texts):
    assert run("surprisal", saved, *texts)[0] == 2


def test_what_is_printed_is_utf_8(saved, story):
    story.write_text("The caf\u00e9\n", encoding="utf8")
    command = ("-m", "tacenda", "lm", "surprisal", saved, story)
    assert ",caf\u00e9," in output_of(*command, PYTHONIOENCODING="ascii")


def test_a_note_names_the_option(run, saved, write_file):
    path = write_file("items.csv", "word\nThe\ncat.\nThe\ndog.\n")
    status, _, err = run("surprisal", saved, path, "--region", "word")
    assert status == 0
    assert "use --split sentences" in err
    path = write_file("items.csv", "s,word\n1,The\n1,cat.\n2,The\n2,dog.\n")
    status, out, err = run("surprisal", saved, path, "--region", "word", "--sentence", "s")
    assert (status, [row["sentence"] for row in rows(out)]) == (0, ["1", "1", "2", "2"])
    assert "--split" not in err


@pytest.mark.parametrize(
    "option",
    [["--words"], ["--delimiter", ";"], ["--sentence", "s"], ["--item", "item"], ["--no-quotes"]],
)
def test_an_option_of_items_without_a_region_is_wrong_usage(refused, saved, story, option):
    err = refused("surprisal", saved, story, *option, status=2)
    said = f"{option[0].replace('no-', '')} has no effect without --region COLUMN"
    assert said in " ".join(err.split())


def test_words_of_several_tokens_are_counted_where_asked_for(
    refused, printed, write_file, tmp_path
):
    text = write_file("text.txt", "\n".join(LINES * 3))
    fit = ("fit", "--text", text, "--tokenizer", "words", "--order", 2, "-o", tmp_path / "m")
    printed(*fit, "--count-words")
    [row] = rows(printed("surprisal", tmp_path / "m", write_file("new.txt", "didn't")))
    n_tokens = len(split_words(" ".join(LINES)))  # the text is three times the same
    assert float(row["log_frequency"]) == pytest.approx(math.log2(1 / n_tokens))
    err = refused(*fit, "--force", "--count-words", "--scheduler", "local", status=2)
    assert "leave out --scheduler" in err.replace("\n", " ")


def test_more_words_before_than_a_row_can_hold_are_refused(refused, saved, story):
    assert "--previous" in refused("surprisal", saved, story, "--previous", 10**23, status=2)
    with pytest.raises(ConfigurationError, match="from 0 to 1,000"):
        surprisal_table(tacenda.load(saved), story, previous=10**23)
