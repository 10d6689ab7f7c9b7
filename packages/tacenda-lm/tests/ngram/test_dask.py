"""An n-gram model of a text on a cluster is that of one machine, bit for bit."""

from types import SimpleNamespace

import numpy as np
import pytest

from tacenda import Corpus
from tacenda.errors import ConfigurationError, CorpusError, DataError, FittingError
from tacenda_lm import HLBL, KneserNey

pytest.importorskip("distributed", reason="needs tacenda-lm[dask]")

import distributed

from support.cluster import two_workers
from tacenda.dask import ClusterCorpus
from tacenda_lm import dask as on_cluster


@pytest.fixture(scope="module")
def client():
    with two_workers() as client:
        yield client


@pytest.fixture
def file(write_file):
    rng = np.random.default_rng(0)
    lines = (rng.zipf(1.3, rng.integers(0, 9)) % 300 for _ in range(400))
    return write_file("text.txt", "".join(" ".join(f"w{i}" for i in line) + "\n" for line in lines))


def assert_same(there, here):
    for name, array in here.arrays().items():
        assert np.array_equal(there.arrays()[name], array), name
    assert there.fitted_on == here.fitted_on
    assert there.figures == here.figures


@pytest.mark.parametrize("partition_bytes", [300, 10**6])
@pytest.mark.parametrize("order", [1, 2, 5])
def test_the_table_is_that_of_one_machine(client, file, order, partition_bytes):
    """Held-out text may be an iterator."""
    corpus = ClusterCorpus.from_text(file, client=client, partition_bytes=partition_bytes)
    there = on_cluster.fit(KneserNey(order=order), corpus, valid=iter(["w1 w2", "w3"]))
    assert_same(there, KneserNey(order=order).fit(file, valid="w1 w2\nw3\n"))


def test_rows_in_many_pieces_make_the_same_table(client, file, monkeypatch):
    monkeypatch.setattr(on_cluster, "_PIECE_BYTES", 5000)
    options = {"max_vocabulary": 100, "oov": "classes"}
    corpus = ClusterCorpus.from_text(file, client=client, partition_bytes=1000, **options)
    assert len(on_cluster._choose_cuts(corpus, 4, 9)) > 3
    settings = {"order": 4, "memory_gb": 1e-3, "prune": 1e-7}
    there = on_cluster.fit(KneserNey(**settings), corpus)
    assert_same(there, KneserNey(**settings).fit(Corpus.from_text(file, **options)))


def test_a_cluster_that_gives_up_before_it_counts_is_a_clear_error(client, file, monkeypatch):
    def die(*_):
        raise distributed.KilledWorker("task", SimpleNamespace(address="tcp://worker"), 3)

    monkeypatch.setattr(on_cluster, "_PIECE_BYTES", 5000)
    monkeypatch.setattr(on_cluster, "_sample", die)
    corpus = ClusterCorpus.from_text(file, client=client)
    with pytest.raises(FittingError, match="workers of the cluster died again and again"):
        on_cluster.fit(KneserNey(order=2), corpus)


def test_marks_in_the_text_are_refused_or_kept(client, write_file):
    path = write_file("marked.txt", "a b </s> c\n<s> a b\n" * 5)
    corpus = ClusterCorpus.from_text(path, client=client)
    with pytest.raises(CorpusError, match="</s> is written in the text"):
        on_cluster.fit(KneserNey(order=2), corpus)
    there = on_cluster.fit(KneserNey(order=2), corpus, marks="keep")
    assert_same(there, KneserNey(order=2).fit(path, marks="keep"))
    path = write_file("marked.txt", "<s> a b\n" * 5)
    corpus = ClusterCorpus.from_text(path, client=client)
    for marks in ("refuse", "skip"):
        with pytest.raises(CorpusError, match=r"<s> is written .*skip. to ClusterCorpus.from_text"):
            on_cluster.fit(KneserNey(order=2), corpus, marks=marks)
    corpus = ClusterCorpus.from_text(path, client=client, marks="skip")
    there = on_cluster.fit(KneserNey(order=2), corpus, marks="skip")
    assert_same(there, KneserNey(order=2).fit(path, marks="skip"))


def test_what_cannot_be_counted_is_a_clear_error(client, file, monkeypatch):
    corpus = ClusterCorpus.from_text(file, client=client)
    with pytest.raises(ConfigurationError, match=r"KneserNey\(\), not for <HLBL.*trained in steps"):
        on_cluster.fit(HLBL(), corpus)
    with pytest.raises(CorpusError, match="no text on a cluster: make one with ClusterCorpus"):
        on_cluster.fit(KneserNey(order=2), Corpus.from_text(file))
    monkeypatch.setattr(on_cluster, "_MAX_COUNT", corpus.type_counts.max())
    with pytest.raises(DataError, match="2\\^32 times"):
        on_cluster.fit(KneserNey(order=2), corpus)
