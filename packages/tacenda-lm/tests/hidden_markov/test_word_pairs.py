"""Neighbors of words: those of a plain count, in memory and in files."""

from collections import Counter

import numpy as np
import pytest

from tacenda.corpus import storage
from tacenda.corpus.storage import lay_out
from tacenda_lm import sequences
from tacenda_lm.hidden_markov import word_pairs
from tacenda_lm.hidden_markov.word_classes import word_classes
from tacenda_lm.hidden_markov.word_pairs import WordPairs


def stream_of(n, types, seed=0):
    """Sentences of words drawn by chance; word 0 before and after each."""
    drawn = np.random.default_rng(seed).zipf(1.3, n) % types
    return np.array([0, *drawn, 0], np.int32)


@pytest.fixture
def in_files(monkeypatch):
    """Everything that could go to a file does, and is read in small pieces."""
    monkeypatch.setattr(storage, "SPILL_BYTES", 100)
    monkeypatch.setattr(sequences, "PASS_ITEMS", 100)
    monkeypatch.setattr(word_pairs, "_COUNTING_BYTES", 1)
    monkeypatch.setattr(word_pairs, "_PAIRS_PER_BLOCK", 10)


def assert_counted(stream, types):
    pairs = WordPairs(stream[1:], types)
    expected = Counter(zip(stream[:-1].tolist(), stream[1:].tolist(), strict=True))
    found = {
        (word, int(pairs.after.words[at])): int(pairs.after.counts[at])
        for word in range(types)
        for at in range(pairs.after.borders[word], pairs.after.borders[word + 1])
    }
    assert found == expected
    turned = {
        (int(pairs.before.words[at]), word): int(pairs.before.counts[at])
        for word in range(types)
        for at in range(pairs.before.borders[word], pairs.before.borders[word + 1])
    }
    assert turned == expected
    blocks = list(pairs.blocks())
    assert {
        (a, b): n
        for block in blocks
        for a, b, n in zip(*map(np.ndarray.tolist, block), strict=True)
    } == expected
    return pairs


@pytest.mark.parametrize(
    "stream", [np.zeros(1, np.int32), *(stream_of(n, 30) for n in (0, 1, 63, 1500))], ids=len
)
def test_pairs_are_those_of_a_plain_count(stream):
    assert_counted(stream, 30)


@pytest.mark.usefixtures("in_files")
def test_pairs_in_files_are_the_same():
    pairs = assert_counted(lay_out([stream_of(1500, 30)], np.int32), 30)
    assert isinstance(pairs._counted[0].lags[0].data, np.memmap)


@pytest.mark.parametrize("method", ["exchange", "predictive", "brown"])
def test_classes_of_pairs_in_files_are_the_same(request, method):
    stream = stream_of(3000, 60)
    expected = word_classes(stream[1:], 60, 7, boundary=0, method=method)
    request.getfixturevalue("in_files")
    there = lay_out([stream[1:]], np.int32)
    assert isinstance(there, np.memmap)
    assert np.array_equal(word_classes(there, 60, 7, boundary=0, method=method), expected)
