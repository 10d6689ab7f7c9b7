"""The readers on the real files: counts as published (CoNLL, WNUT, UD) or counted independently."""

import os

import pytest

from tacenda import datasets
from tacenda.datasets import columns, conllu, treebank, word_similarity
from tacenda.errors import DataError

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not os.environ.get("TACENDA_DATA"), reason="TACENDA_DATA is not set"),
]


def files(name):
    try:
        return datasets.locate(name)
    except DataError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("name", "role", "sentences", "words"),
    [
        ("ud-english-ewt", "train", 12_544, 204_577),
        ("ud-english-ewt", "dev", 2_001, 25_147),
        ("ud-english-ewt", "test", 2_077, 25_094),
        ("ud-turkish-imst", "train", 3_435, 37_522),
        ("ud-turkish-imst", "dev", 1_100, 10_542),
        ("ud-turkish-imst", "test", 1_100, 10_032),
        ("ud-turkish-boun-2020", "train", 7_803, 98_216),
        ("ud-german-gsd", "dev", 799, 12_480),
        ("ud-german-lit", "test", 1_920, 40_450),
        ("ud-german-pud", "test", 1_000, 21_332),
        ("ud-finnish-tdt", "test", 1_555, 21_070),
        ("ud-finnish-ftb", "test", 1_867, 16_286),
        ("ud-finnish-ood", "test", 2_122, 19_383),
        ("ud-finnish-pud", "test", 1_000, 15_813),
    ],
)
def test_treebanks_have_the_sentences_and_words_they_should(name, role, sentences, words):
    counts = [len(sentence.words) for sentence in conllu.read(files(name)[role])]
    assert (len(counts), sum(counts)) == (sentences, words)


@pytest.mark.parametrize("role", ["train", "dev", "test"])
def test_words_and_spacing_give_back_the_text_of_every_sentence(role):
    """English multiword tokens are the words of which they consist, put together."""
    for sentence in conllu.read(files("ud-english-ewt")[role]):
        pairs = zip(sentence.words, sentence.space_after, strict=True)
        put_together = "".join(word + " " * space for word, space in pairs)
        assert put_together.split() == sentence.text.split()  # a few spaces in the texts are odd


@pytest.mark.parametrize(
    ("name", "scheme", "role", "sentences", "words", "entities"),
    [
        ("conll2003", "iob1", "train", 14_041, 203_621, 23_499),
        ("conll2003", "iob1", "dev", 3_250, 51_362, 5_942),
        ("conll2003", "iob1", "test", 3_453, 46_435, 5_648),
        ("wnut17", "iob2", "train", 3_394, 62_730, 1_975),
        ("wnut17", "iob2", "dev", 1_009, 15_733, 836),
        ("wnut17", "iob2", "test", 1_287, 23_394, 1_079),
    ],
)
def test_entity_sets_have_their_published_counts(name, scheme, role, sentences, words, entities):
    read = list(columns.read_ner(files(name)[role], scheme))
    opened = sum(tag[0] == "B" for _, tags in read for tag in tags)
    assert (len(read), sum(len(w) for w, _ in read), opened) == (sentences, words, entities)


@pytest.mark.parametrize(
    ("role", "sentences", "words"), [("train", 8_936, 211_727), ("test", 2_012, 47_377)]
)
def test_conll_2000_has_its_published_counts(role, sentences, words):
    counts = [len(s["word"]) for s in columns.read(files("conll2000")[role], columns.CONLL2000)]
    assert (len(counts), sum(counts)) == (sentences, words)


def test_the_treebank_sample_has_its_counts():
    sentences = list(treebank.read(files("treebank-sample")["trees"]))
    assert (len(sentences), sum(len(s.words) for s in sentences)) == (3_914, 94_084)
    assert sentences[0].words[:3] == ("Pierre", "Vinken", ",")
    assert not any("-NONE-" in s.tags for s in sentences)


@pytest.mark.parametrize(
    ("role", "pairs"),
    [("ws353", 353), ("ws353-sim", 203), ("ws353-rel", 252), ("rare-words", 2_034)],
)
def test_word_similarity_sets_have_their_pairs(role, pairs):
    read = list(word_similarity.read(files("wordsim")[role]))
    assert len(read) == pairs
    assert all(0 <= pair.score <= 10 for pair in read)


@pytest.mark.parametrize(
    "name",
    [
        *("ml-100k", "ml-1m", "ptb", "wikitext-2", "wikipedia-good-articles", "english-novels"),
        "natural-stories",
    ],
)
def test_the_other_sets_are_found_with_the_files_they_should_have(name):
    found = files(name)
    assert all(path.exists() for path in found.files.values())
    assert found.files.keys() >= datasets.get(name).files.keys() - datasets.get(name).optional
