"""Text in a file gives the vectors of text in memory."""

import numpy as np
import pytest

from tacenda import Corpus
from tacenda.corpus import storage
from tacenda_embeddings import SumEmbed, VarEmbed
from tacenda_embeddings.varembed import initial_vectors
from tacenda_embeddings.varembed.initial_vectors import balance_counts


def text_of(n, n_words=60, seed=0):
    drawn = np.random.default_rng(seed).zipf(1.2, n) % n_words
    lines = (" ".join(f"w{i}" for i in line) for line in np.split(drawn, range(7, n, 7)))
    return "".join(line + "\n" for line in lines)


@pytest.fixture
def in_files(monkeypatch):
    """Everything that could go to a file does, and is read in small pieces."""
    monkeypatch.setattr(storage, "SPILL_BYTES", 100)
    monkeypatch.setattr(initial_vectors, "_COUNTING_BYTES", 1)
    monkeypatch.setattr(initial_vectors, "_ENTRIES_PER_BLOCK", 50)


@pytest.mark.parametrize("adjacent", [0.0, 0.5])
def test_matrices_in_files_are_the_same(request, adjacent):
    corpus = Corpus.from_text(text_of(2000))
    here = balance_counts(corpus, 3, adjacent)
    request.getfixturevalue("in_files")
    there = balance_counts(corpus, 3, adjacent)
    dense = np.random.default_rng(1).standard_normal((len(corpus.vocabulary), 5)).astype(np.float32)
    assert len(here) == len(there) == (3 if adjacent else 1)
    identity = np.eye(len(corpus.vocabulary), dtype=np.float32)
    for (one, transpose), (other, _) in zip(here, there, strict=True):
        assert isinstance(other._entries.data, np.memmap)
        assert np.array_equal(one @ dense, other @ dense)
        np.testing.assert_allclose(
            one @ identity, (transpose @ identity).T, rtol=1e-6 * (one is transpose)
        )


def test_vectors_from_counts_of_a_file_are_those_of_the_text_in_memory(request, tmp_path):
    text, model = text_of(1500), SumEmbed(width=4, advanced={"n_morphemes": 40})
    here = model.fit(Corpus.from_text(text)).arrays()
    request.getfixturevalue("in_files")
    there = model.fit(Corpus.from_text(text, cache=tmp_path / "corpus")).arrays()
    for name, array in here.items():
        assert np.array_equal(array, there[name]), name


def test_a_fit_to_a_file_is_that_of_the_text_in_memory(request, tmp_path):
    pytest.importorskip("torch", reason="fitting needs torch (tacenda-embeddings[varembed])")
    from tacenda_embeddings.varembed.training import concatenate

    advanced = {"hidden": 4, "negatives": 8, "batch_streams": 4, "unrolled_tokens": 8}
    settings = {"width": 4, "epochs": 1, "advanced": {**advanced, "n_morphemes": 40}}
    text = text_of(1500)
    here = VarEmbed(**settings).fit(Corpus.from_text(text), valid=text_of(200, seed=1))
    request.getfixturevalue("in_files")
    corpus = Corpus.from_text(text, cache=tmp_path / "corpus")
    assert isinstance(concatenate(corpus), np.memmap)
    there = VarEmbed(**settings).fit(corpus, valid=text_of(200, seed=1))
    for name, array in here.arrays().items():
        assert np.array_equal(array, there.arrays()[name]), name
    assert here.figures == there.figures
