"""What is kept of words: bounded, forgotten where spaCy asks for it, and of no model that was fitted again."""

import numpy as np
import pytest
import spacy
from numpy.testing import assert_array_equal
from spacy.tokens import Doc

from support.pipelines import pipeline
from tacenda import Corpus
from tacenda.spacy import documents
from tacenda.spacy.documents import WordCache


@pytest.fixture
def vocab():
    return spacy.blank("en").vocab


def cache_of(vocabulary):
    """Return a cache of the lengths of words, and the words that it looks up."""
    asked = []

    def look_up(text):
        asked.append(text)
        return len(text)

    return WordCache(look_up, -1, vocabulary), asked


def test_words_are_looked_up_once(vocab):
    cache, asked = cache_of(())
    for _ in range(2):
        doc = Doc(vocab, words=["a", "bb", " ", "bb"])
        assert cache.read([doc, doc]) == [1, 2, -1, 2] * 2
    assert asked == ["a", "bb"]


def test_of_a_memory_zone_only_words_of_the_model_are_kept(vocab):
    cache, asked = cache_of({"cat"})
    cache.read([Doc(vocab, words=["before"])])
    for _ in range(2):
        with vocab.memory_zone():
            docs = [
                Doc(vocab, words=each) for each in (["cat", "dog", " ", "dog"], ["dog", "before"])
            ]
            assert cache.read(docs) == [3, 3, -1, 3, 3, 6]
        assert len(cache) == 2
    assert asked == ["before", "cat", "dog", "dog"]  # once in each zone


def test_the_number_of_words_kept_is_bounded(vocab, monkeypatch):
    monkeypatch.setattr(documents, "CACHE_LIMIT", 10)
    cache, _ = cache_of(())
    for start in range(0, 100, 7):
        words = [f"w{i}" for i in range(start, start + 7)]
        assert cache.read([Doc(vocab, words=words)]) == list(map(len, words))
        assert len(cache) <= 10


def test_a_model_that_is_fitted_again_is_read_as_it_is_now(any_toy, toy_corpus):
    nlp = pipeline(any_toy)
    words = toy_corpus.vocabulary.words[:9]
    nlp(Doc(nlp.vocab, words=words))
    any_toy.fit(Corpus.from_sentences([list(reversed(words)) * 3, words[:4]]))
    doc = nlp(Doc(nlp.vocab, words=words))
    assert_array_equal(doc.tensor, any_toy.transform([words])[0])


def test_a_pipeline_in_zones_gives_what_it_gives_without(toy):
    nlp, plain = pipeline(toy), pipeline(toy)
    lines = [f"the cat saw zone{i} a zone{i} bird" for i in range(20)]
    expected = [doc.tensor for doc in plain.pipe(lines)]
    found: list[np.ndarray] = []
    for i in range(0, 20, 5):
        with nlp.memory_zone():
            found += [doc.tensor for doc in nlp.pipe(lines[i : i + 5])]
    assert_array_equal(found, expected)
