"""Text in every form a model takes: a path is a file, a string is text."""

import pytest

from support.texts import decode
from tacenda.corpus import Corpus, as_corpus
from tacenda.corpus.text import sentences_of, tokens_of
from tacenda.errors import CorpusError

LINES = ["a b", "c b a"]
TOKENS = [["a", "b"], ["c", "b", "a"]]


@pytest.fixture
def path(write_file):
    return write_file("text.txt", "a b\n\nc b a\n")


def forms(path):
    return [
        path,
        [path],
        iter([path]),
        "a b\n\nc b a",
        LINES,
        iter(LINES),
        TOKENS,
        (list(tokens) for tokens in TOKENS),
        [tuple(tokens) for tokens in TOKENS],
    ]


@pytest.mark.parametrize("form", range(9))
def test_every_form_is_the_same_corpus(path, form):
    assert decode(as_corpus(forms(path)[form])) == TOKENS


@pytest.mark.parametrize("form", range(9))
def test_every_form_is_the_same_sentences(path, form):
    assert [each for each in sentences_of(forms(path)[form]) if each] == TOKENS


def test_a_tokenizer_splits_strings_and_leaves_token_lists_alone(path):
    path.write_text("It is.\n", encoding="utf8")
    for text in (path, "It is.", ["It is."]):
        assert decode(as_corpus(text, tokenizer="words")) == [["It", "is", "."]]
    assert decode(as_corpus([["It", "is."]], tokenizer="words")) == [["It", "is."]]


def test_lines_and_token_lists_can_be_mixed_only_where_each_is_read_by_itself():
    with pytest.raises(CorpusError, match="line 2 of the text is a list, not a string"):
        as_corpus(["a b", ["c"]])
    with pytest.raises(CorpusError, match="sentence 2 is a str, not a list of tokens"):
        as_corpus([["c"], "a b"])
    assert (
        [*sentences_of(["a b", ["c"]])] == [*sentences_of([["a", "b"], "c"])] == [["a", "b"], ["c"]]
    )


def test_lines_are_read_alike_wherever_they_come_from():
    lines = ["\ufeffa\tb\r\n", "c\n"]
    split = lambda line: line.split("\t")  # noqa: E731
    assert [*sentences_of(iter(lines), split)] == decode(as_corpus(lines, tokenizer=split))
    records = ['{"body": "a b\\nc"}', '{"body": "d"}']
    assert [*sentences_of(records, text_field="body")] == [["a", "b"], ["c"], ["d"]]


def test_each_line_of_a_stream_is_split_before_the_next_one_is_read():
    read = []
    stream = (read.append(line) or line for line in ["a b", "", "c"])
    for n_read, tokens in enumerate(sentences_of(stream), 1):
        assert (len(read), tokens) == (n_read, read[-1].split())


def test_a_given_vocabulary_is_used(path):
    known = as_corpus([["a", "c"]]).vocabulary
    for text in forms(path):
        assert as_corpus(text, known).vocabulary is known
    other = Corpus.from_sentences(TOKENS)
    for wrong, message in (
        (known, "of the corpus is not the one expected"),
        (other, "is a Corpus"),
    ):
        with pytest.raises(CorpusError, match=f"vocabulary {message}"):
            as_corpus(other, wrong)
    assert as_corpus(other) is other


@pytest.mark.parametrize("read", [as_corpus, Corpus.from_text, lambda text: [*sentences_of(text)]])
def test_a_string_that_names_a_file_is_refused_with_the_way_out(path, read):
    for text in (str(path), [str(path), str(path)]):
        with pytest.raises(CorpusError, match=r"is the name of a file.*give Path\('"):
            read(text)
    with pytest.raises(CorpusError, match=r"no file 'nowhere\.txt', and a string is text itself"):
        read("nowhere.txt")


def test_a_string_with_a_line_break_is_text_whatever_it_says(path):
    assert decode(as_corpus(f"{path}\n")) == [[str(path)]]


def test_strange_sentences_are_named():
    for strange in ([["a", 3]], [3], [["a"], None]):
        for read in (as_corpus, lambda text: [*sentences_of(text)]):
            with pytest.raises(CorpusError, match=r"not a (string|list)|holds (3|None)"):
                read(strange)
    for nothing in ("", [], [[]], iter(())):
        with pytest.raises(CorpusError, match="no tokens"):
            as_corpus(nothing)
    assert tokens_of("a  b") == ["a", "b"]
