"""Texts of another kind than they are read as: one warning that names the remedy, and none on sound text."""

import gzip
import io
import json
import lzma
import os
import random
import unicodedata
import warnings
import zipfile
from itertools import islice
from pathlib import Path

import pytest

from support.texts import decode
from tacenda import Corpus
from tacenda.corpus.doubts import doubt_lines
from tacenda.errors import CorpusError, TacendaWarning

ENGLISH = ["the old man saw a boat near the quiet harbor .", "nobody knew why it had come ."] * 100
HAN = [chr(code) for code in range(0x4E00, 0x4E80)]
KANA = [chr(code) for code in range(0x3042, 0x3090)]
THAI = [chr(code) for code in range(0x0E01, 0x0E2F)]
KHMER = [chr(code) for code in range(0x1780, 0x17A0)]
DEVANAGARI = "हिन्दी में लिखे हुए शब्दों के चिह्न अक्षरों के साथ रहते हैं"


def _write(letters, length, n_tokens=400):
    """Sentences of words, or of clauses, of so many letters."""
    rng = random.Random(1)
    words = ["".join(rng.choices(letters, k=length)) for _ in range(n_tokens)]
    return [" ".join(words[start : start + 4]) for start in range(0, n_tokens, 4)]


KINDS = {
    "chinese": (_write(HAN, 12), 'spacy:zh"'),
    "japanese": (_write([*KANA, *HAN[:20]], 14), 'spacy:ja"'),
    "thai": (_write(THAI, 25), 'spacy:th"'),
    "khmer": (_write(KHMER, 25), "split them first"),
    "json": (
        [json.dumps({"id": i, "body": line}) for i, line in enumerate(ENGLISH)],
        'text_field="body"',
    ),
    "json of long texts": ([json.dumps({"text": "a word " * 9000})] * 20, 'text_field="text"'),
    "one json": (
        json.dumps([{"text": line} for line in ENGLISH], indent=1).split("\n"),
        "JSON document",
    ),
    "wiki": (["{{Infobox | name = a}}", *ENGLISH], "wiki markup: save it as plain text"),
    "wiki with a picture": (["[[File:A.jpg|thumb]]", *ENGLISH], "wiki markup"),
    "html": (["<!DOCTYPE html>", "<html>", *(f"<p>{line}</p>" for line in ENGLISH)], "HTML or XML"),
    "pages": ([f"<p class='a'> {line} </p>" for line in ENGLISH], "HTML or XML"),
    "tabs": ([f"{i}\t{line}" for i, line in enumerate(ENGLISH)], "tabs between the columns"),
    "csv": (
        ['a,b,"c, d"', *(f'{i},"{line}, {line}",1' for i, line in enumerate(ENGLISH))],
        "commas",
    ),
    "tagged": (
        [row for i in range(90) for row in (f"word{i} NN B-NP", f"verb{i} VB B-VP", "")],
        "spaces between the columns",
    ),
    "one line": ([" ".join(ENGLISH)], "the only line has 1,8"),
    "a word a line": (" ".join(ENGLISH).split(), "all words of a sentence on one line"),
    "utf-16": (["\0".join(line) for line in ENGLISH], 'encoding="utf-16"'),
    "identifiers": (
        [" ".join(f"{i * 10 + j:x}x" for j in range(i % 5 + 5)) for i in range(500)],
        "occur only once",
    ),
    "rtf": (["{\\rtf1\\ansi", *ENGLISH], "an RTF file"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_of_another_kind_brings_one_warning_with_the_remedy(kind, write_file):
    lines, remedy = KINDS[kind]
    path = write_file("text.txt", "\n".join(lines))
    for text in (path, lines):
        with pytest.warns(TacendaWarning) as caught:
            Corpus.from_text(text)
        assert len(caught) == 1
        assert remedy in str(caught[0].message)
        assert caught[0].filename == __file__


@pytest.mark.parametrize("kind", ["chinese", "json", "html", "one line", "tabs"])
def test_another_tokenizer_does_not_hide_it(kind):
    lines, remedy = KINDS[kind]
    with pytest.warns(TacendaWarning) as caught:
        Corpus.from_text(lines, tokenizer="words")
    assert remedy in str(caught[0].message)


def test_words_that_are_cut_at_their_marks_bring_a_warning():
    accents = [unicodedata.normalize("NFD", "öljyä yötä pöytä täällä")] * 300
    for lines in ([DEVANAGARI] * 100, accents):
        with pytest.warns(TacendaWarning, match="cuts words at their marks"):
            Corpus.from_text(lines, tokenizer="words")


def test_a_tokenizer_that_cuts_the_unknown_words_of_a_text_brings_a_warning():
    lines = ["the <unk> of a small town was open .", "she read it ."] * 100
    with pytest.warns(TacendaWarning, match=r"cuts the mark <unk>, .* about 100 times"):
        Corpus.from_text(lines, tokenizer="words")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Corpus.from_text(lines)
        Corpus.from_text(
            ["a < b and b > c , unk is a word ."] + lines[1::2] * 20, tokenizer="words"
        )


@pytest.mark.parametrize(
    ("line", "is_json"),
    [
        *((json.dumps(value), True) for value in (["a b"], [["a"]], [{"a": 1}], ["a", 'b"c'])),
        *((line, True) for line in ("[", "{", "[[", "[{", '{"a":', '["a",', '[{ "a" : {')),
        *(
            (line, False)
            for line in ('["Yes," she said.]', "[[Anarchism]] is", '{"Yes," she said.}')
        ),
    ],
)
def test_a_json_document_is_known_by_its_first_line(line, is_json):
    assert ("JSON document" in (doubt_lines([line, "a b c", *ENGLISH[:9]]) or "")) is is_json


def test_sound_text_brings_none(recwarn):
    Corpus.from_text(ENGLISH)
    Corpus.from_text(_write(HAN, 2))  # Chinese that was split into words
    Corpus.from_text(_write(THAI, 5))
    Corpus.from_text([DEVANAGARI] * 100)
    Corpus.from_text([unicodedata.normalize("NFD", "öljyä yötä pöytä täällä")] * 300)
    Corpus.from_text(["<s> the <unk> saw it </s>", "[Illustration]", "{sic}", "a < b > c"] * 100)
    Corpus.from_text(["a very small text, of one line"])
    Corpus.from_text(["three words here"] * 200)
    Corpus.from_sentences([["word"]] * 1000)  # the sentences are the user's
    Corpus.from_sentences([["a", "b"] * 5000])
    Corpus.from_text(
        [f"\tan indented paragraph, number {i}" for i in range(100)], tokenizer="words"
    )
    assert not recwarn.list


@pytest.mark.data
@pytest.mark.skipif("TACENDA_DATA" not in os.environ, reason="TACENDA_DATA is not set")
@pytest.mark.parametrize("tokenizer", ["whitespace", "words"])
def test_no_text_of_the_evaluation_data_is_doubted(tokenizer, recwarn):
    root = Path(os.environ["TACENDA_DATA"])
    for path in (
        *root.glob("lm/*/*.txt*"),
        *root.glob("languages/*/raw.txt.xz"),
        *root.glob("finnish/*.txt"),
    ):
        with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf8") as file:
            lines = list(islice(file, 3000))
        for n in (30, 300, 3000):
            Corpus.from_text(lines[:n], tokenizer=tokenizer)
    for path in (*root.glob("ud/*/*.conllu"), *root.glob("languages/*/*-dev.conllu.xz")):
        with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf8") as file:
            texts = [line[9:] for line in file if line.startswith("# text = ")]
        if texts:
            Corpus.from_text(texts, tokenizer=tokenizer)
    right = "not to be tokenized", "cuts the mark <unk>"
    said = [str(each.message) for each in recwarn]
    assert [each for each in said if not any(part in each for part in right)] == []


# ---- JSON lines and zip archives ----

RECORDS = [
    {"text": "one two\nthree", "body": "a b"},
    {"body": "c", "text": "four"},
    {"text": "", "body": ""},
]
JSONL = "\n".join(map(json.dumps, RECORDS)) + "\n\n"


def _zip(text, *names):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, text)
    return packed.getvalue()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["t.jsonl", "t.JSONL", "t.ndjson", "t.jsonl.gz", "t.jsonl.zip"])
def test_a_file_of_json_lines_is_read_by_its_name(write_file, name):
    pack = {"gz": gzip.compress, "zip": lambda data: _zip(data, "t.jsonl")}
    path = write_file(name, pack.get(name.rpartition(".")[2], bytes)(JSONL.encode()))
    assert decode(Corpus.from_text(path)) == [["one", "two"], ["three"], ["four"]]
    assert decode(Corpus.from_text(path, text_field="body")) == [["a", "b"], ["c"]]


def test_a_named_field_is_read_from_any_lines(write_file):
    for text in (write_file("t.txt", JSONL), JSONL, JSONL.splitlines()):
        found = decode(Corpus.from_text(text, text_field="text"))
        assert found == [["one", "two"], ["three"], ["four"]]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"title": "x"}', r'the object has no field \'text\'.*text_field="title"'),
        ('{"text": 3}', "its field 'text' is 3, not a text"),
        ("plain words", "it is not a JSON object"),
        ("[1]", "it is not a JSON object"),
        ("[" * 100_000, "it is not a JSON object"),
    ],
)
def test_a_line_that_is_no_such_object_is_named(write_file, line, said):
    path = write_file("t.jsonl", JSONL.rstrip("\n") + "\n" + line)
    with pytest.raises(CorpusError, match=rf"t\.jsonl, line 4: {said}"):
        Corpus.from_text(path)


def test_a_mark_in_a_record_is_refused_as_in_a_line(write_file):
    path = write_file("t.jsonl", json.dumps({"text": "a\nb </s> c"}))
    with pytest.raises(CorpusError, match=r"the text in .*t\.jsonl, line 2: </s> is written"):
        Corpus.from_text(path, marks="refuse")


def test_a_cache_knows_the_field(write_file, tmp_path):
    path = write_file("t.jsonl", JSONL)
    assert len(Corpus.from_text(path, cache=tmp_path / "c")) == 3
    assert len(Corpus.from_text(path, cache=tmp_path / "c", text_field="body")) == 2


@pytest.mark.filterwarnings("error")
def test_the_one_file_of_a_zip_archive_is_read(write_file):
    packed = _zip("one two\nthree", "folder/", "folder/t.txt", "__MACOSX/._t.txt")
    path = write_file("t.zip", packed)
    assert decode(Corpus.from_text(path)) == [["one", "two"], ["three"]]


def test_a_zip_archive_of_several_files_and_a_damaged_one_are_refused(write_file):
    path = write_file("t.docx", _zip("x", "[Content_Types].xml", "word/document.xml"))
    with pytest.raises(CorpusError, match=r"t\.docx: it is a zip archive of 2 files"):
        Corpus.from_text(path)
    path.write_bytes(_zip(""))
    with pytest.raises(CorpusError, match=r"t\.docx: it is a zip archive of 0 files"):
        Corpus.from_text(path)
    path.write_bytes(_zip("some words " * 500, "t.txt")[:-30])
    with pytest.raises(CorpusError, match="damaged zip file"):
        Corpus.from_text(path)
    packed = _zip("x", "é.txt")
    for damaged in (
        packed.replace("é".encode(), b"\xe9\xe9"),
        packed.replace(b"PK\1\2\x14\3\x14", b"PK\1\2\x14\3\x63"),
    ):
        assert damaged != packed
        path.write_bytes(damaged)
        with pytest.raises(
            CorpusError, match=r"t\.docx: its file cannot be unpacked .*: unpack it yourself"
        ):
            Corpus.from_text(path)
