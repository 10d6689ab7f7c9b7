"""Text in a file gives what text in memory gives, read in pieces."""

import functools

import numpy as np
import pytest

from tacenda import Corpus
from tacenda_lm import HLBL, VLHMM, sequences
from tacenda_lm.hidden_markov.parameters import Lexicon
from tacenda_lm.hidden_markov.tables import Observed, pairs_of
from tacenda_lm.sequences import encode_corpus
from tacenda_lm.streams import Stream

TEXT = "".join(
    " ".join(f"w{i}" for i in line) + "\n"
    for line in np.split(np.random.default_rng(0).zipf(1.5, 900) % 40, range(0, 900, 7))
)
TEXT += "a </s> b\n"


@pytest.fixture
def corpora(tmp_path, monkeypatch):
    """The text in memory, and in a file that is read in small pieces."""
    here, there = Corpus.from_text(TEXT), Corpus.from_text(TEXT, cache=tmp_path / "corpus")
    assert isinstance(there.ids, np.memmap)
    monkeypatch.setattr(sequences, "PASS_ITEMS", 100)
    monkeypatch.setattr(there, "blocks", functools.partial(there.blocks, 50))
    return here, there


@pytest.mark.parametrize("across", [False, True])
def test_streams_are_the_same(corpora, across):
    here, there = (Stream.of_corpus(each, across) for each in corpora)
    assert np.array_equal(here.ids, there.ids)
    assert np.array_equal(here.offsets, there.offsets)
    for start, end in ((0, 9), (5, 5), (17, len(here.ids))):
        assert np.array_equal(there.firsts_within(start, end), here.firsts[start:end])


def test_sentences_with_their_ends_are_the_same(corpora):
    for here, there in zip(*map(encode_corpus, corpora), strict=True):
        assert np.array_equal(here, there)


def test_pairs_of_classes_are_those_of_the_whole_text(corpora, monkeypatch):
    ids, offsets = encode_corpus(corpora[1])
    n_types = len(corpora[1].vocabulary)
    lexicon = Lexicon.of(np.arange(n_types, dtype=np.int32) % 7, 7)
    seen = Observed.of(ids, offsets, lexicon)
    monkeypatch.setattr("tacenda_lm.hidden_markov.tables.PASS_ITEMS", 100)
    assert np.array_equal(pairs_of(ids, offsets, lexicon), seen.sources * 7 + seen.targets)


@pytest.mark.parametrize(
    "model",
    [
        HLBL(width=4, context=2, epochs=1, copies=1, tree="random"),
        VLHMM(n_classes=5, states_per_class=4, width=4, epochs=1),
    ],
    ids=lambda model: model.name,
)
def test_models_are_the_same(corpora, model):
    arrays = [model.fit(each, marks="keep").arrays() for each in corpora]
    for name, array in arrays[0].items():
        assert np.array_equal(array, arrays[1][name]), name
