"""The one-pass builder against the plainest possible two-pass one, in memory."""

import os
import weakref
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.texts import decode
from tacenda.corpus import Corpus, lines, storage, word_ids
from tacenda.errors import CorpusError
from tacenda.vocabulary import Normalization

token = st.text("abcAB019-</s>unk", min_size=1, max_size=5)
any_token = st.text(st.characters(), max_size=4)  # empty, spaces and line ends included
sentences = st.lists(st.lists(token, max_size=6), max_size=12)


@pytest.fixture
def tiny_blocks(monkeypatch):
    """Everything that has a block size takes many blocks for a handful of words."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", 16)
    monkeypatch.setattr(word_ids, "BLOCK_TOKENS", 3)
    monkeypatch.setattr(storage, "PASS_ITEMS", 5)
    monkeypatch.setattr(storage, "SPILL_BYTES", 40)


def naive(texts, max_vocabulary, min_count, normalize, n_sentences):
    counts = Counter(normalize(w) for s in texts for w in s if w not in ("</s>", "<unk>"))
    ranked = sorted(counts, key=lambda w: (-counts[w], w))
    kept = {w for w in ranked[:max_vocabulary] if counts[w] >= min_count} | {"</s>", "<unk>"}
    words = [[w if w in kept else normalize(w) for w in s] for s in texts]
    words = [[w if w in kept else "<unk>" for w in s] for s in words]
    final = Counter({"<unk>": 0, "</s>": n_sentences})
    final.update(w for s in words for w in s)
    return words, sorted(final.items(), key=lambda item: (-item[1], item[0]))


def check(corpus, texts, max_vocabulary=None, min_count=1, normalize=str):
    texts = [list(s) for s in texts if s]
    words, counts = naive(texts, max_vocabulary, min_count, normalize, len(texts))
    v = corpus.vocabulary
    assert list(zip(v.words, v.counts.tolist(), strict=True)) == counts
    assert [v.decode(corpus.sentence(i)) for i in range(len(corpus))] == words
    assert [v.decode(s) for s in corpus] == words
    assert corpus.n_tokens == sum(map(len, texts))
    assert corpus.n_sentences == len(texts)
    assert corpus.ids.dtype == np.int32
    assert corpus.offsets.dtype == np.int64


@given(sentences, st.none() | st.integers(1, 6), st.integers(1, 3), st.booleans(), st.booleans())
def test_the_builder_agrees_with_a_naive_one(texts, max_vocabulary, min_count, digits, lowercase):
    settings = {
        "max_vocabulary": max_vocabulary,
        "min_count": min_count,
        "digits": digits,
        "lowercase": lowercase,
    }
    if not any(texts):
        with pytest.raises(CorpusError, match="no tokens in the text"):
            Corpus.from_sentences(texts, **settings)
        return
    normalize = Normalization(digits, lowercase)
    corpus = Corpus.from_sentences(texts, **settings)
    check(corpus, texts, max_vocabulary, min_count, normalize)
    lines = [" ".join(s) for s in texts]
    check(Corpus.from_text(iter(lines), **settings), texts, max_vocabulary, min_count, normalize)


TEXTS = [["the", "cat", "sat"], [], ["on"], ["the", "mat", "and", "the", "hat"] * 7, ["a"]] * 5


@pytest.mark.usefixtures("tiny_blocks")
def test_many_small_blocks_and_a_spill_change_nothing(write_file, tmp_path):
    path = write_file("text.txt", "\n".join(" ".join(s) for s in TEXTS))
    for corpus in (
        Corpus.from_sentences(TEXTS, max_vocabulary=4),
        Corpus.from_text(path, max_vocabulary=4),
        Corpus.from_text(path, max_vocabulary=4, cache=tmp_path / "cache"),
    ):
        assert isinstance(corpus.ids, np.memmap)
        check(corpus, TEXTS, max_vocabulary=4)


@pytest.mark.usefixtures("tiny_blocks")
def test_a_temporary_file_has_no_name_and_goes_with_the_last_corpus_that_uses_it(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    corpus = Corpus.from_sentences(TEXTS)
    assert list(tmp_path.iterdir()) == []
    head = corpus.head(2)
    expected = [s.tolist() for s in head]
    gone = weakref.ref(corpus)
    del corpus
    assert gone() is None
    assert [s.tolist() for s in head] == expected


@pytest.mark.usefixtures("tiny_blocks")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_leaves_the_temporary_file_to_its_parent():
    corpus = Corpus.from_sentences(TEXTS)
    expected = [s.tolist() for s in corpus]
    child = os.fork()
    if child == 0:
        del corpus
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert [s.tolist() for s in corpus] == expected


@pytest.mark.usefixtures("tiny_blocks")
def test_a_failed_build_leaves_no_temporary_file(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    def failing():
        yield from TEXTS * 3
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        Corpus.from_sentences(failing())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("tiny_blocks")
@pytest.mark.parametrize("in_memory", [0, 150, 1000])
def test_an_array_may_grow_while_it_is_read(in_memory):
    array = storage.GrowingArray(np.int64, in_memory=in_memory)
    array.append(np.arange(12))
    for n, block in enumerate(array.blocks()):
        assert block.tolist() == list(range(12))[5 * n : 5 * n + 5]
        array.append(np.arange(n, n + 3) + 12 + 2 * n)
    assert array.finish().tolist() == list(range(21))


def test_small_corpora_stay_in_memory_and_cannot_be_written_to():
    corpus = Corpus.from_sentences(TEXTS)
    assert not isinstance(corpus.ids, np.memmap)
    for array in (corpus.ids, corpus.offsets):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@given(st.lists(st.lists(any_token, min_size=1, max_size=4), min_size=1, max_size=6))
def test_tokens_of_any_characters_survive(texts):
    assert decode(Corpus.from_sentences(texts)) == texts


def test_a_held_out_text_is_encoded_with_the_vocabulary_given():
    v = Corpus.from_sentences(TEXTS, digits=True).vocabulary
    corpus = Corpus.from_text(["the dog sat", "the 7"], vocabulary=v)
    assert corpus.vocabulary is v
    assert [v.decode(s) for s in corpus] == [["the", "<unk>", "sat"], ["the", "<unk>"]]
    assert corpus.ids.tolist() == v.encode(["the", "dog", "sat", "the", "7"]).tolist()


def test_settings_that_contradict_a_given_vocabulary_are_refused():
    v = Corpus.from_sentences(TEXTS, digits=True).vocabulary
    Corpus.from_sentences(TEXTS, vocabulary=v, digits=True)
    with pytest.raises(CorpusError, match="lowercase=True contradicts the given vocabulary"):
        Corpus.from_sentences(TEXTS, vocabulary=v, lowercase=True)
    with pytest.raises(CorpusError, match="max_vocabulary=5 contradicts"):
        Corpus.from_sentences(TEXTS, vocabulary=v, max_vocabulary=5)


def test_oov_classes_hold_the_counts_of_the_words_they_stand_for():
    texts = [["the", "dreaming", "Zorgson"]] * 3 + [["the", "gleaming", "x9"]] * 4
    corpus = Corpus.from_sentences(texts, max_vocabulary=1, oov="classes", min_class_count=4)
    named = dict(zip(corpus.vocabulary.words, corpus.vocabulary.counts.tolist(), strict=True))
    # three names are too few even for the class of capitalized words
    assert named == {"</s>": 7, "<oov:x:ing>": 7, "the": 7, "<oov:x0>": 4, "<unk>": 3}
    assert corpus.type_counts.tolist() == corpus.vocabulary.counts.tolist()


def test_a_sentence_of_a_hundred_thousand_tokens_is_a_sentence():
    words = [f"w{i % 1000}" for i in range(100_000)]
    corpus = Corpus.from_text([" ".join(words), "end"])
    assert corpus.n_sentences == 2
    assert corpus.vocabulary.decode(corpus.sentence(0)) == words


def test_a_vocabulary_of_one_word_is_no_error():
    corpus = Corpus.from_text(["a a a", "a"])
    assert corpus.vocabulary.words == ("a", "</s>", "<unk>")
    assert corpus.describe()["oov_rate"] == 0


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (lambda: Corpus.from_sentences([]), "no tokens in the text"),
        (lambda: Corpus.from_text(["", "  "]), "no tokens in the text"),
        (lambda: Corpus.from_sentences(["a b"]), "sentence 1 is a str"),
        (lambda: Corpus.from_sentences(5), "sentences must be a list of lists of tokens, not 5"),
        (lambda: Corpus.from_sentences([["a"], 3]), "sentence 2 is a int"),
        (lambda: Corpus.from_sentences([["a", 3]]), r"a token is a int \(3\)"),
        (lambda: Corpus.from_sentences([["a", ["b"]]]), "a token is not a string"),
        (lambda: Corpus.from_text([["a", "b"]]), "line 1 of the text is a list"),
        (lambda: Corpus.from_text(["a"], tokenizer=str.upper), "tokenizer returned a str"),
        (lambda: Corpus.from_text(["a"], tokenizer="wards"), "no tokenizer 'wards'"),
        (lambda: Corpus.from_text(["a"], max_vocabulary=0), "max_vocabulary is 0"),
        (lambda: Corpus.from_text(["a"], min_count=0), "min_count is 0"),
        (lambda: Corpus.from_text(["a"], min_count="2"), "min_count is '2'; it must be a whole"),
        (lambda: Corpus.from_text(["a"], max_vocabulary=True), "max_vocabulary is True; it must"),
        (lambda: Corpus.from_text(["a"], max_vocabulary=1.5), "max_vocabulary is 1.5; it must be"),
        (lambda: Corpus.from_text(["a"], oov="many"), "oov is 'many'"),
        (lambda: Corpus.from_text(["a"], processes=0), "processes is 0"),
    ],
)
def test_unusable_sources_and_settings_are_clear_errors(source, message):
    with pytest.raises(CorpusError, match=message):
        source()


@pytest.mark.parametrize(
    "wrong", [{"oov": "sinlge"}, {"oov": 5}, {"min_count": 0}, {"max_vocabulary": -1}]
)
def test_a_wrong_option_is_refused_before_the_text_is_read(wrong):
    def lines():
        raise AssertionError("the text was read")
        yield

    with pytest.raises(CorpusError, match=f"{next(iter(wrong))} is"):
        Corpus.from_text(lines(), **wrong)


def test_any_callable_tokenizes():
    corpus = Corpus.from_text(["abc", "ca"], tokenizer=list)
    assert decode(corpus) == [["a", "b", "c"], ["c", "a"]]


def test_spacy_tokens_reach_the_corpus_without_whitespace():
    spacy = pytest.importorskip("spacy", reason="the spacy extra is not installed")
    lines = ["Don't  panic.", "", "It's 5pm in the U.K., isn't it?  "]
    corpus = Corpus.from_text(lines, tokenizer="spacy:en")
    docs = map(spacy.blank("en"), lines)
    expected = [[t.text for t in doc if not t.is_space] for doc in docs if len(doc)]
    assert decode(corpus) == expected
