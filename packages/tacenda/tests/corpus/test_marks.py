"""``<s>`` and ``</s>`` that are written in a text: refused with their line, read as spaces, or kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.texts import decode
from tacenda import Corpus
from tacenda.corpus.lines import texts_of
from tacenda.corpus.text import as_corpus, sentences_of
from tacenda.errors import CorpusError

LINES = ["a b", "<s> c </s>", "a"]


@pytest.fixture
def path(write_file):
    return write_file("text.txt", "\n".join(LINES) + "\n")


def test_a_mark_is_refused_with_the_file_and_its_line(path):
    other = path.with_name("other.txt")
    other.write_text("x\n" * 50_000 + "y </s>\n", encoding="utf8")
    with pytest.raises(CorpusError, match=r"text\.txt, line 2: <s> is written"):
        Corpus.from_text(path, marks="refuse")
    with pytest.raises(CorpusError, match=r"other\.txt, line 50001: </s> is written"):
        Corpus.from_text([other, path], marks="refuse")
    with pytest.raises(CorpusError, match=r'the text, line 2: <s> .* marks="skip"'):
        Corpus.from_text("\n".join(LINES), marks="refuse")
    with pytest.raises(CorpusError, match="sentence 2: <s>"):
        Corpus.from_sentences(map(str.split, LINES), marks="refuse")
    for tokenizer in ("whitespace", "words"):
        with pytest.raises(CorpusError, match="sentence 2: <s>"):
            list(sentences_of(LINES, tokenizer, marks="refuse"))


def test_marks_that_are_skipped_are_spaces(path):
    expected = [["a", "b"], ["c"], ["a"]]
    for corpus in (
        Corpus.from_text(path, marks="skip"),
        Corpus.from_text(path, marks="skip", processes=2),
        Corpus.from_sentences(map(str.split, LINES), marks="skip"),
        Corpus.from_sentences(map(tuple, map(str.split, LINES)), marks="skip"),
        as_corpus(LINES, marks="skip"),
    ):
        assert decode(corpus) == expected
        assert "<s>" not in corpus.vocabulary
    for tokenizer in ("whitespace", "words"):
        assert list(sentences_of(path, tokenizer, marks="skip")) == expected
        assert list(sentences_of(LINES, tokenizer, marks="skip")) == expected


def test_a_corpus_keeps_marks_unless_told_otherwise(path):
    corpus = Corpus.from_text(path)
    assert decode(corpus) == [line.split() for line in LINES]
    assert as_corpus(corpus) is corpus
    for marks in ("refuse", "skip"):
        with pytest.raises(CorpusError, match=r"sentence 2 of the corpus: </?s> .* make the"):
            as_corpus(corpus, marks=marks)
    clean = Corpus.from_sentences([["a"]])
    assert as_corpus(clean, marks="refuse") is clean


def test_the_sentence_of_a_mark_is_found_behind_many_others():
    text = [["a", "b"]] * 700_000 + [["a", "</s>"]]
    with pytest.raises(CorpusError, match="sentence 700001 of the corpus"):
        Corpus.from_sentences(text).refuse_marks()


@pytest.mark.parametrize("line", ["<s>a", "a</s>", "<S> a", "<s >", "s>", "<s/>", "x<s> y"])
def test_what_only_looks_like_a_mark_is_a_word(line):
    assert list(texts_of([[line]], "it", "refuse")) == [[line]]
    assert list(texts_of([[line]], "it", "skip")) == [[line]]


@given(st.lists(st.lists(st.sampled_from(["<s>", "</s>", "a", "<s>b", "s>"]), max_size=6)))
def test_lines_and_token_lists_follow_one_rule(sentences):
    expected = [[token for token in tokens if token not in ("<s>", "</s>")] for tokens in sentences]
    assert list(sentences_of(sentences, marks="skip")) == expected
    lines = list(map(" ".join, sentences))
    found = texts_of([lines[:2], lines[2:]], "it", "skip")
    assert [line.split() for block in found for line in block] == expected
    assert list(sentences_of(sentences, marks="keep")) == sentences


def test_another_treatment_is_refused():
    for act in (
        lambda: Corpus.from_text("a", marks="drop"),
        lambda: Corpus.from_sentences([["a"]], marks="drop"),
        lambda: list(sentences_of("a", marks="drop")),
    ):
        with pytest.raises(CorpusError, match=r"marks is 'drop'; use \"refuse\""):
            act()


def test_caches_of_other_treatments_are_not_mixed_up(path, tmp_path):
    cache = tmp_path / "cache"
    kept = Corpus.from_text(path, cache=cache)
    skipped = Corpus.from_text(path, cache=cache, marks="skip")
    assert (kept.n_tokens, skipped.n_tokens) == (6, 4)


def test_written_unknown_words_are_counted_apart_from_rare_ones(tmp_path):
    text = [["a", "<unk>", "a"], ["<unk>", "b"]]
    assert Corpus.from_sentences(text, min_count=2).origin["written_unknown"] == 2
    again = Corpus.from_sentences(text, cache=tmp_path / "c", cache_key="1")
    assert again.origin == Corpus.open(tmp_path / "c").origin
    hit = Corpus.from_sentences(text, cache=tmp_path / "c", cache_key="1")
    assert hit.origin == again.origin
    assert hit.origin["written_unknown"] == 2
    assert "written_unknown" not in Corpus.from_sentences([["a"]], min_count=2).origin


def test_a_part_does_not_have_the_written_unknown_words_of_the_whole():
    corpus = Corpus.from_sentences([["a", "<unk>"], ["<unk>", "b"], ["a"]])
    rest, held_out = corpus.split(1 / 3)
    for part in (corpus.head(1), rest, held_out):
        assert "written_unknown" not in part.origin
        assert part.origin["tokenizer"] == corpus.origin["tokenizer"]
    assert corpus.head(3).origin == corpus.origin


def test_ascii_whitespace_leaves_other_spaces_in_words():
    line = "a\u00a0b c\u3000d\te\x0bf\u2003g"
    assert list(sentences_of([line], "ascii_whitespace")) == [
        ["a\u00a0b", "c\u3000d", "e", "f\u2003g"]
    ]
    assert list(sentences_of([line])) == [list("abcdefg")]


@given(st.text(st.sampled_from("a \t\n\r\x0b\x0c\x1c\x85\u00a0\u3000\0é")))
def test_ascii_whitespace_splits_as_bytes_are_split(line):
    expected = [piece.decode() for piece in line.encode().split()]
    assert list(sentences_of([line], "ascii_whitespace")) == [expected]
