"""Lags counted on a cluster are those counted on one machine, bit for bit."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from tacenda import Corpus
from tacenda.errors import ConfigurationError, CorpusError, DataError, FittingError
from tacenda_embeddings import LDS, VarEmbed
from tacenda_embeddings.lds.lagged_counts import LaggedCounts

pytest.importorskip("distributed", reason="needs tacenda-embeddings[dask]")

import distributed

from support.cluster import two_workers
from tacenda.dask import ClusterCorpus
from tacenda_embeddings import dask as on_cluster


@pytest.fixture(scope="module")
def client():
    with two_workers() as client:
        yield client


def assert_same(there, here):
    assert there.n_tokens == here.n_tokens
    assert np.array_equal(there.unigram, here.unigram)
    assert there.unigram.dtype == here.unigram.dtype
    for ours, theirs in zip(there.lags, here.lags, strict=True):
        for mine, other in zip(ours, theirs, strict=True):
            assert mine.dtype == other.dtype
            assert np.array_equal(mine, other)
    assert there.fitted_on == here.fitted_on


def text_of(rng, n_lines, n_words=30):
    lines = (rng.zipf(1.4, rng.integers(0, 9)) % n_words for _ in range(n_lines))
    return "".join(" ".join(f"w{i}" for i in line) + "\n" for line in lines)


def test_a_cluster_that_gives_up_is_a_clear_error(client, write_file, monkeypatch):
    def die(*_):
        raise distributed.KilledWorker("task", SimpleNamespace(address="tcp://worker"), 3)

    monkeypatch.setattr(on_cluster, "_find_last_ids", die)
    corpus = ClusterCorpus.from_text(write_file("text.txt", "a b\n"), client=client)
    with pytest.raises(FittingError, match="workers of the cluster died again and again"):
        on_cluster.count_lags(corpus)


@pytest.mark.parametrize("partition_bytes", [9, 40, 10**6])
def test_counts_are_those_of_one_machine(client, write_file, partition_bytes):
    """Parts of less than a line, of less than the lags, and of everything."""
    path = write_file("text.txt", text_of(np.random.default_rng(0), 8))
    corpus = ClusterCorpus.from_text(path, client=client, partition_bytes=partition_bytes)
    assert_same(
        on_cluster.count_lags(corpus, 5), LaggedCounts.from_corpus(Corpus.from_text(path), 5)
    )


@pytest.mark.parametrize("text", ["a\n", "a b\n", "\n\na\n\n\nb\n\n"])
def test_a_stream_shorter_than_the_lags_goes_round(client, write_file, text):
    path = write_file("text.txt", text)
    corpus = ClusterCorpus.from_text(path, client=client, partition_bytes=2)
    assert_same(
        on_cluster.count_lags(corpus, 7), LaggedCounts.from_corpus(Corpus.from_text(path), 7)
    )


def test_pieces_of_rows_make_the_same_matrices(client, write_file, tmp_path, monkeypatch):
    path = write_file("text.txt", text_of(np.random.default_rng(1), 300))
    monkeypatch.setattr(on_cluster, "_BLOCK_BYTES", 2000)
    corpus = ClusterCorpus.from_text(path, client=client, partition_bytes=1500)
    assert len(on_cluster._choose_row_bounds(corpus.type_counts)) > 3
    counts = on_cluster.count_lags(corpus, 2, scratch=tmp_path)
    assert_same(counts, LaggedCounts.from_corpus(Corpus.from_text(path), 2))
    del counts
    assert [each.name for each in tmp_path.iterdir()] == ["text.txt"]


def test_an_lds_has_the_parameters_of_one_machine(client, write_file):
    path = write_file("text.txt", text_of(np.random.default_rng(3), 200, 60))
    corpus = ClusterCorpus.from_text(path, client=client, partition_bytes=2000)
    there = on_cluster.fit(LDS(n_states=4), corpus)
    here = LDS(n_states=4).fit(Corpus.from_text(path))
    for name, array in here.arrays().items():
        assert np.array_equal(there.arrays()[name], array), name
    assert there.fitted_on == here.fitted_on


def test_what_cannot_be_counted_is_a_clear_error(client, write_file):
    corpus = ClusterCorpus.from_text(write_file("text.txt", "a b\n"), client=client)
    with pytest.raises(ConfigurationError, match="at least 1"):
        on_cluster.count_lags(corpus, 0)
    for other in (object(), LDS, VarEmbed()):
        with pytest.raises(
            ConfigurationError, match=r"such as LDS\(\), not for .*trained in steps"
        ):
            on_cluster.fit(other, corpus)
    here = Corpus.from_sentences([["a", "b"]])
    for count in (on_cluster.count_lags, partial(on_cluster.fit, LDS())):
        with pytest.raises(CorpusError, match="no text on a cluster: make one with ClusterCorpus"):
            count(here)


def test_a_folder_that_cannot_be_written_to_is_refused_before_the_work(
    client, write_file, monkeypatch, tmp_path
):
    path = write_file("text.txt", "a b\n")
    corpus = ClusterCorpus.from_text(path, client=client)
    monkeypatch.setattr(on_cluster, "compute", None)
    for bad in (tmp_path / "gone", path, ""):
        with pytest.raises(DataError, match=r"write counts to .* as scratch$|names no file"):
            on_cluster.count_lags(corpus, 2, scratch=bad)
