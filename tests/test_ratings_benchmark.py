"""The benchmark of the ratings gives every library the same folds, and measures what is not measured yet."""

import json
import sys

import numpy as np
import pytest

from benchmarks import kept, reporting
from benchmarks.ratings import accuracy, data, measuring, peer_process, peers
from benchmarks.ratings.data import Fold
from benchmarks.ratings.peers import PEERS, Measured, Peer, told
from support.recommenders import trainset_of
from tacenda.datasets import synthetic_ratings

STUB = """
import json, math, os
class MF:
    def __init__(self, seed, k=10):
        self.k = k
    def fit(self, dataset):
        self.dataset = dataset
        with open(os.environ["STUB_LEARNED"], "a") as file:
            print(json.dumps([list(map(float, column)) for column in dataset.triples]), file=file)
    def rate(self, user, item):
        return math.nan if item < 0 else self.k + (7 * user + item) % 9
"""
DATA = """
class Dataset:
    def __init__(self, n_users, n_items, users, items, triples):
        self.triples = triples
"""


@pytest.fixture(scope="module")
def fold():
    ratings = synthetic_ratings.generate(40, 30, 300, seed=0).ratings
    columns = ratings.user_ids, ratings.item_ids, ratings.values.astype(float)
    rows = [(f"u{user}", f"i{item}", value) for user, item, value in zip(*columns, strict=True)]
    trainset = trainset_of([row for number, row in enumerate(rows) if number % 8])
    return Fold(trainset, [*rows[::8], ("u1", "nothing rated", 3.0)])


@pytest.fixture
def cornac(tmp_path, monkeypatch):
    """A library of this name, whose predictions say which pair they are for; returns what it learned from."""
    package = tmp_path / "cornac"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "models.py").write_text(STUB)
    (package / "data.py").write_text(DATA)
    metadata = tmp_path / "cornac-9.9.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: cornac\nVersion: 9.9\n")
    learned = tmp_path / "learned"
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", "of the other interpreter")
    monkeypatch.setenv("STUB_LEARNED", str(learned))
    monkeypatch.setenv("TACENDA_PEERS_PYTHON", str(python))
    peers.versions.cache_clear()
    yield lambda: [np.array(json.loads(line)) for line in learned.read_text().splitlines()]
    peers.versions.cache_clear()


def test_a_library_of_another_interpreter_predicts_the_pairs_of_the_fold(cornac, fold):
    peer = Peer("cornac MF", "cornac", "MF")
    small, large = peers.measure(peer, [{"k": -4}, {"k": 0}], [fold], seed=0)
    trainset = fold.trainset
    expected = []
    for uid, iid, _ in fold.testset[:-1]:
        user, item = trainset.to_inner_uid(uid), trainset.to_inner_iid(iid)
        expected.append((7 * user + item) % 9)
    assert large.estimates[:-1] == pytest.approx(np.clip(expected, 1, 5))
    assert small.estimates[:-1] == pytest.approx(np.clip(np.array(expected) - 4, 1, 5))
    assert large.estimates[-1] == pytest.approx(trainset.global_mean)  # where it says nothing
    assert large.fit >= 0
    assert measuring.library(peer) == "cornac 9.9"


def test_libraries_learn_from_ratings_in_a_random_order_that_the_seed_decides(cornac, fold):
    peer = Peer("cornac MF", "cornac", "MF")
    for seed in (0, 0, 1):
        list(peers.measure(peer, [{}], [fold], seed))
    first, again, other = cornac()[1::2]  # each process warms up first
    users = first[0]
    assert (np.diff(users) < 0).any()
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    given = sorted(fold.trainset.all_ratings())
    for learned in (first, other):
        assert sorted(map(tuple, learned.T.tolist())) == given


def test_a_library_that_is_not_installed_has_no_version(cornac):
    assert measuring.library(Peer("?", "no-such-library", "?")) is None


def test_a_factorization_machine_is_told_only_of_what_it_knows():
    model = peer_process.MyFM.__new__(peer_process.MyFM)
    model._sizes = [3, 4]
    rows = model._rows(np.array([2, -1, 0]), np.array([1, 3, -1])).toarray()
    expected = np.zeros((3, 7))
    expected[0, [2, 4]] = expected[1, 6] = expected[2, 0] = 1
    assert np.array_equal(rows, expected)


def test_folds_that_are_measured_are_not_measured_again(tmp_path, fold, monkeypatch):
    monkeypatch.setenv("TACENDA_BENCH_CACHE", str(tmp_path))
    asked = []

    def measure(folds):
        for each in folds:
            asked.append(each)
            yield Measured(np.full(len(each.testset), 3.0), fit=1.0, test=2.0)

    def row(entry, repeats=1):
        return accuracy.figures(entry, [fold, fold], repeats, kept.Cells("cells"))

    entry = accuracy.Entry("a", "defaults", "library 1", measure)
    first = row(entry)
    assert len(asked) == 2
    assert row(entry) == first
    assert len(asked) == 2
    assert row(entry, repeats=2)["fit s"]["repeats"] == 4
    assert len(asked) == 4
    row(entry._replace(library="library 2"))
    assert len(asked) == 6
    truth = np.array([rating for _, _, rating in fold.testset])
    assert first["RMSE"] == pytest.approx(np.sqrt(((truth - 3) ** 2).mean()), abs=1e-4)
    assert first["spread"] == 0


def test_settings_of_peers_are_chosen_on_ratings_of_the_training_part(fold):
    again = data.held_out(fold)
    training, left = (
        {(part.to_raw_uid(u), part.to_raw_iid(i)) for u, i, _ in part.all_ratings()}
        for part in (fold.trainset, again.trainset)
    )
    held = {(u, i) for u, i, _ in again.testset}
    assert left | held == training
    assert not left & held


@pytest.mark.parametrize("peer", [peer for peer in PEERS if peer.in_surprise], ids=lambda p: p.name)
def test_surprise_takes_the_settings_of_its_peers(peer):
    for settings in (peer.default, *peer.candidates):
        measuring.in_surprise(peer, settings)
        assert told(settings)


BETTER = (
    ("ConditionalPMF", "PMF"),
    ("BayesianPMF", "PMF"),
    ("ConditionalBayesianPMF", "ConditionalPMF"),
    ("ConditionalBayesianPMF", "BayesianPMF"),
    ("ConditionalRBM", "RBM"),
    ("RBM", "RBM of the thesis"),
    ("Blend of ConditionalBayesianPMF and ConditionalRBM", "ConditionalBayesianPMF"),
    ("Blend of ConditionalBayesianPMF and ConditionalRBM", "ConditionalRBM"),
    ("ConditionalPMF", "Surprise SVDpp"),
)


@pytest.mark.parametrize("name", data.NAMES)
def test_what_the_pages_call_better_is_better_in_every_fold(name):
    rows = reporting.stored(f"ratings-{name}")["rows"]
    folds = {row["algorithm"]: row["RMSE of folds"] for row in rows}
    for better, worse in BETTER:
        assert all(np.array(folds[better]) < folds[worse]), f"{better}, {worse}"
    times = {row["algorithm"]: row["fit s"]["median"] for row in rows}
    assert 2 * times["ConditionalPMF"] < times["Surprise SVDpp"]  # "in less time"
