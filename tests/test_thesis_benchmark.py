"""What the benchmark of the thesis learns from, is told and is tested on."""

from typing import ClassVar

import numpy as np
import pytest
from surprise import Dataset, Reader
from surprise.model_selection import train_test_split

from benchmarks.ratings.thesis import fits, published, studies
from benchmarks.reporting import Options
from tacenda.datasets import synthetic_ratings
from tacenda_surprise import PMF, BiasOnly, ConditionalPMF, ConditionalRBM


@pytest.fixture(scope="module")
def parts():
    return fits.parted(synthetic_ratings.generate(83, 60, 1501, seed=0).ratings)


def pairs(ratings):
    return set(zip(ratings.user_ids.tolist(), ratings.item_ids.tolist(), strict=True))


class Noted(fits.Bench):
    """Notes what a fit would be given; the figures are made up."""

    cells: ClassVar[list] = []

    def fit(self, model, told="", train=None, identities=None, test=None):
        self.cells.append((model, train, identities, test))
        return fits.Figures([1.0], [1], 1, 1, 0.0)


@pytest.fixture
def noted(parts):
    Noted.cells.clear()
    return Noted.of(parts, Options(no_save=True, rows_to=None))


def test_the_split_is_the_one_of_surprise(parts):
    whole = synthetic_ratings.generate(83, 60, 1501, seed=0).ratings
    data = Dataset(Reader(rating_scale=whole.scale))
    rows = zip(whole.user_ids.tolist(), whole.item_ids.tolist(), whole.values, strict=True)
    data.raw_ratings = [(user, item, value, None) for user, item, value in rows]
    trainset, testset = train_test_split(data, test_size=0.1, random_state=0)
    assert pairs(parts.test) == {(user, item) for user, item, _ in testset}
    assert len(parts.train) == trainset.n_ratings
    assert not pairs(parts.train) & pairs(parts.test)


def test_bins_hold_equally_many_users_in_the_order_of_their_counts():
    counts = np.random.default_rng(0).integers(1, 30, 47)
    bins = fits.equal_bins(counts, 10)
    assert set(np.bincount(bins, minlength=10)) == {4, 5}
    for number in range(9):
        assert counts[bins == number].max() <= counts[bins == number + 1].min()
    low, high = counts[bins == 9].min(), counts[bins == 9].max()
    assert fits.ranges(counts, bins)[9] == f"{low} to {high}"


def test_subsets_are_nested_and_as_large_as_asked_for():
    small, middle, whole = fits.nested(1000, [0.1, 0.5, 1.0])
    assert (small.sum(), middle.sum(), whole.sum()) == (100, 500, 1000)
    assert not (small & ~middle).any()


def test_nothing_is_learned_from_a_user_who_is_tested_without_ratings(parts, noted):
    studies.of_cold_users(noted, lambda: BiasOnly(biases="items"))
    assert len(noted.cells) == studies.GROUPS
    asked = set()
    for _, train, identities, test in noted.cells:
        assert not set(train.user_ids) & set(test.user_ids)
        told = set(zip(identities.user_ids, identities.item_ids, strict=True))
        assert told == pairs(parts.train)
        assert not told & pairs(parts.test)
        assert not asked & pairs(test)
        asked |= pairs(test)
    assert asked == pairs(parts.test)


def test_parts_told_hold_the_parts_learned_from_and_no_test_pair(parts, noted, monkeypatch):
    for setting in studies.SETTINGS:
        noted.cells.clear()
        studies.rows_of(noted, setting)
        told = [cell for cell in noted.cells if cell[2] is not None]
        assert len(told) == len(studies.MODELS) * len(setting.told)
        for _, train, identities, _ in told:
            known = set(zip(identities.user_ids, identities.item_ids, strict=True))
            assert len(train) == round(setting.share * len(parts.train))
            assert pairs(train) <= known
            assert not known & pairs(parts.test)


def test_parameters_are_those_learned(parts):
    users, items, levels = parts.train.n_users, parts.train.n_items, len(parts.train.levels)
    few = {"n_factors": 3, "n_epochs": 2}
    plain = (users + items) * 3
    expected = {
        PMF(biased=False, **few, random_state=0): plain,
        PMF(**few, random_state=0): plain + users + items,
        ConditionalPMF(**few, random_state=0): plain + users + items + items * 3,
        BiasOnly(biases="items"): items,
        ConditionalRBM.thesis(n_hidden=2, n_epochs=2): (
            items * levels * 2 + items * levels + 2 + items * 2
        ),
    }
    for model, number in expected.items():
        assert fits.n_parameters(model.fit(parts.train)) == number


def test_a_cell_is_measured_once_and_pooled_by_its_errors(parts, tmp_path, monkeypatch):
    monkeypatch.setenv("TACENDA_BENCH_CACHE", str(tmp_path))
    bench = fits.Bench.of(parts, Options())
    found = bench.fit(BiasOnly())
    test, model = parts.test, BiasOnly().fit(parts.train)
    scores = np.clip(model.score_pairs(test.user_ids, test.item_ids), *test.scale)
    rmse = float(np.sqrt(np.mean((scores - test.values) ** 2, dtype=float)))
    assert found.rmse == pytest.approx(rmse, abs=1e-4)
    assert sum(found.tested) == len(test)
    assert fits.pooled([found, found]).rmse == found.rmse
    monkeypatch.setattr(fits, "measured", None)
    again = fits.Bench.of(parts, Options())
    assert again.fit(BiasOnly()) == found
    with pytest.raises(TypeError):
        again.fit(BiasOnly(), "otherwise")


def test_published_tables_have_the_rows_that_ours_have():
    assert set(published.CONDITIONING) == {setting.netflix for setting in studies.SETTINGS}
    sizes = {(m, n): x for m, found in published.PARAMETERS.items() for n, x in found.items()}
    for (model, size), millions in sizes.items():
        # as the thesis counts: five levels, 17,770 movies, 480,189 users
        users, movies = 480_189, 17_770
        counts = {
            "RBM": movies * 5 * (size + 1) + size,
            "PMF": (users + movies) * (size + 1),
            "CPMF": (users + movies) * (size + 1) + movies * size,
        }
        assert millions == pytest.approx(counts[model] / 1e6, abs=0.06)
