"""What the benchmark of the thesis learns from, is told and is tested on."""

from typing import ClassVar

import numpy as np
import pytest
from surprise.model_selection import train_test_split

from benchmarks.ratings.thesis import __main__ as thesis
from benchmarks.reporting import Options
from tacenda.datasets import synthetic_ratings
from tacenda_surprise import BiasOnly
from tacenda_surprise.testing import make_dataset


@pytest.fixture(scope="module")
def parts():
    return thesis.parted(synthetic_ratings.generate(83, 60, 1501, seed=0).ratings)


def pairs(ratings):
    return set(zip(ratings.user_ids.tolist(), ratings.item_ids.tolist(), strict=True))


class Noted(thesis.Bench):
    """Notes what a fit would be given; the figures are made up."""

    given: ClassVar[list] = []

    def fit(self, model, told="", train=None, identities=None):
        self.given.append((train, identities))
        return 1.0


@pytest.fixture
def noted(parts):
    Noted.given.clear()
    return Noted(parts, Options(no_save=True, rows_to=None))


def test_the_split_is_the_one_of_surprise(parts):
    whole = synthetic_ratings.generate(83, 60, 1501, seed=0).ratings
    rows = zip(whole.user_ids.tolist(), whole.item_ids.tolist(), whole.values, strict=True)
    data = make_dataset(rows, whole.scale)
    trainset, testset = train_test_split(data, test_size=0.1, random_state=0)
    assert pairs(parts.test) == {(user, item) for user, item, _ in testset}
    assert len(parts.train) == trainset.n_ratings
    assert not pairs(parts.train) & pairs(parts.test)


def test_subsets_are_nested_and_as_large_as_asked_for():
    small, middle, whole = thesis.nested(1000, [0.1, 0.5, 1.0])
    assert (small.sum(), middle.sum(), whole.sum()) == (100, 500, 1000)
    assert not (small & ~middle).any()


def test_parts_told_hold_the_parts_learned_from_and_no_test_pair(parts, noted):
    for setting in thesis.SETTINGS:
        noted.given.clear()
        thesis.rows_of(noted, setting)
        told = [cell for cell in noted.given if cell[1] is not None]
        assert len(told) == len(thesis.MODELS) * len(setting.told)
        for train, identities in told:
            known = set(zip(identities.user_ids, identities.item_ids, strict=True))
            assert len(train) == round(setting.share * len(parts.train))
            assert pairs(train) <= known
            assert not known & pairs(parts.test)


def test_a_cell_is_measured_once(parts, tmp_path, monkeypatch):
    monkeypatch.setenv("TACENDA_BENCH_CACHE", str(tmp_path))
    found = thesis.Bench(parts, Options()).fit(BiasOnly())
    test, model = parts.test, BiasOnly().fit(parts.train)
    scores = np.clip(model.score_pairs(test.user_ids, test.item_ids), *test.scale)
    rmse = float(np.sqrt(np.mean((scores - test.values) ** 2, dtype=float)))
    assert found == pytest.approx(rmse, abs=1e-4)
    monkeypatch.setattr(thesis, "measure", None)
    again = thesis.Bench(parts, Options())
    assert again.fit(BiasOnly()) == found
    with pytest.raises(TypeError):
        again.fit(BiasOnly(), "otherwise")


def test_tables_have_rows_for_every_size_and_the_numbers_of_the_thesis(parts, monkeypatch):
    found = {}

    class Fixed(thesis.Bench):
        def fit(self, model, *_, **__):
            return 1.0

        def report(self, study, rows, *_, **__):
            found[study] = rows

    for study in thesis.STUDIES.values():
        study(Fixed(parts, Options()))
    assert [row["RBM published"] for row in found["machines"]] == [0.9277, 0.918, 0.9127]
    assert [row["factors"] for row in found["factorizations"]] == [10, 25, 50, 100, 200, 500]
    assert len(found["conditioning"]) == 10
    assert found["conditioning"][-1]["RBM published"] == 0.9259
