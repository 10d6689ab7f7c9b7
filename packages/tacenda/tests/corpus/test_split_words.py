"""Counts of words of several tokens against a loop over the text."""

import copy
from collections import Counter

import pytest

from tacenda import Corpus
from tacenda.corpus.split_words import SplitWordCounter, strip_punctuation
from tacenda.corpus.word_ids import Types
from tacenda.errors import CorpusError
from tacenda.tokenizers import split_words
from tacenda.vocabulary import Normalization

LINES = [
    '"Don\'t," she said - "a well-known one... can\'t we?"',
    "The well-known U.S. man doesn't; he cannot (can't).",
    "Don't! He said: “It's o'clock.” 3.5% of 1,000 e-mails",
] * 3 + ["once-only isn't"]


def counted(lines, normalize=str):
    """Each piece between spaces, one by one."""
    found = Counter()
    for line in lines:
        for piece in line.split():
            if len(split_words(strip_punctuation(piece))) > 1:
                found[normalize(strip_punctuation(piece))] += 1
    return {word: times for word, times in found.items() if times > 1}


@pytest.mark.parametrize("options", [{}, {"lowercase": True}, {"processes": 2}])
def test_counts_are_those_of_a_loop(options):
    corpus = Corpus.from_text(LINES, tokenizer="words", count_words=True, **options)
    expected = counted(LINES, str.lower if "lowercase" in options else str)
    assert corpus.vocabulary.split_words == expected
    assert "once-only" not in expected
    assert copy.copy(corpus.vocabulary).split_words == expected
    # a text with the vocabulary of another has its counts, and so has a part
    other = Corpus.from_text(
        ["Don't"] * 9, tokenizer="words", count_words=True, vocabulary=corpus.vocabulary
    )
    assert other.vocabulary.split_words == corpus.head(1).vocabulary.split_words == expected


def test_a_word_that_is_a_token_counts_for_no_other_spelling():
    """Nor if its block was tokenized after it was counted, as several processes do it."""
    types = Types()
    split = SplitWordCounter(lambda line: line.replace("Im", "I m").split(), types)
    for words in split.count_while_reading([["Im im", "im Im"]]):
        assert words
    types["im"]  # gets its id
    assert split.counts(Normalization(lowercase=True)) == {"im": 2}


def test_nothing_is_counted_unless_asked_for_or_where_spaces_cut():
    assert Corpus.from_text(LINES, tokenizer="words").vocabulary.split_words is None
    assert Corpus.from_text(["a b"], count_words=True).vocabulary.split_words is None


def test_a_cached_corpus_has_its_counts(write_file, tmp_path):
    path = write_file("text.txt", "\n".join(LINES))
    for n, count in enumerate((False, True, True)):
        options = {"tokenizer": "words", "cache": tmp_path / "cache", "count_words": count}
        found = Corpus.from_text(path, **options).vocabulary.split_words
        assert found == (counted(LINES) if count else None), n
    [file] = (tmp_path / "cache").glob("*/split_words.json")
    for damaged in ('{"a": -1}', "[]", "{"):
        file.write_text(damaged, encoding="utf8")
        with pytest.raises(CorpusError, match="damaged"):
            Corpus.open(tmp_path / "cache")


def test_a_corpus_with_more_counts_than_a_manifest_may_hold_is_opened_again(tmp_path, monkeypatch):
    lines = [f"a{n}'s a{n}'s" for n in range(300)]
    corpus = Corpus.from_text(lines, tokenizer="words", cache=tmp_path, count_words=True)
    monkeypatch.setattr("tacenda.reading.LARGEST_JSON", 2000)
    assert Corpus.open(tmp_path).vocabulary.split_words == corpus.vocabulary.split_words


def test_memory_is_bounded_and_frequent_words_are_kept(monkeypatch):
    monkeypatch.setattr("tacenda.corpus.split_words._PRUNE_ABOVE", 8)
    split = SplitWordCounter(split_words, Types())
    blocks = [
        ["it's it's it's", *(f"a{n}'s a{n}'s" for n in range(start, start + 7))] for start in (0, 7)
    ]
    for n_before, _ in enumerate(split.count_while_reading(blocks)):
        assert len(split._counts) <= 7 * n_before + 1
    assert len(split._counts) <= 4
    assert split.counts(Normalization()) == {"it's": 6}
