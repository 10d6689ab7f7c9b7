"""What Surprise's own suite checks of every prediction algorithm, and a small data set for it."""

# ruff: noqa: S301 - pickles of our own

from __future__ import annotations

import pickle
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from surprise import (
    AlgoBase,
    Dataset,
    PredictionImpossible,
    Reader,
    Trainset,
    accuracy,
    dump,
)
from surprise.model_selection import cross_validate, train_test_split

from tacenda.datasets import synthetic_ratings
from tacenda_surprise.algorithm import TacendaAlgorithm

Testset = list[tuple[Any, Any, Any]]


def dataset(triples: Any, scale: tuple[float, float] = (1, 5)) -> Dataset:
    """A Surprise Dataset of (user, item, rating) triples, whatever the types of the ids."""
    data = Dataset(Reader(rating_scale=scale))
    data.raw_ratings = [(user, item, rating, None) for user, item, rating in triples]
    data.has_been_split = False
    data.build_full_trainset = lambda: data.construct_trainset(data.raw_ratings)
    return data


def small_dataset() -> Dataset:
    """1150 ratings of 60 users and 60 items, raw ids being text."""
    ratings = synthetic_ratings.generate(60, 60, 1150, rank=2, noise=0.5, seed=2).ratings
    raw = zip(ratings.user_ids, ratings.item_ids, ratings.values, strict=True)
    return dataset([(f"user {u}", f"item {i}", float(r)) for u, i, r in raw])


@cache
def parts() -> tuple[Trainset, Testset]:
    """Four fifths of `small_dataset` to train, the rest to test."""
    trainset, testset = train_test_split(small_dataset(), test_size=0.2, random_state=0)
    return trainset, testset


class SurpriseTests:
    """Inherit, and define ``make_algorithm``.

    Attributes
    ----------
    random
        Whether another seed gives another result.
    epochs
        Least number of lines that ``verbose=True`` prints.
    """

    random: bool = True
    epochs: int = 1
    _made: Any

    def make_algorithm(self, **settings: Any) -> TacendaAlgorithm[Any]:
        """A new unfitted algorithm, small enough to fit in a second; ``random_state`` is 0 if not given."""
        raise NotImplementedError("define make_algorithm(**settings) in your test class")

    @pytest.fixture
    def parts(self) -> tuple[Trainset, Testset]:
        """Four fifths to train, the rest to test."""
        return parts()

    @pytest.fixture
    def trainset(self, parts: Any) -> Trainset:
        """To fit to."""
        return parts[0]

    @pytest.fixture
    def testset(self, parts: Any) -> Testset:
        """With an unknown user, an unknown item, and both."""
        (user, item, _), *_ = parts[1]
        more = [("nobody", item, 3.0), (user, "nothing", 3.0), ("nobody", "nothing", 2.0)]
        return [*parts[1], *more]

    @pytest.fixture
    def algo(self, trainset: Trainset) -> Any:
        """The fitted algorithm that all tests of a class share; predicting must not change it."""
        cls = type(self)
        if "_made" not in vars(cls):
            cls._made = self.make_algorithm().fit(trainset)
        return cls._made

    # -- what Surprise's own tests check -----------------------------------------------------------

    def test_fit_returns_the_algorithm_and_sets_its_trainset(self, trainset: Trainset) -> None:
        algo = self.make_algorithm()
        assert isinstance(algo, AlgoBase)
        assert algo.fit(trainset) is algo
        assert algo.trainset is trainset

    def test_predictions_are_in_range_and_better_than_the_mean(self, algo: Any, parts: Any) -> None:
        predictions = algo.test(parts[1])
        assert all(1 <= p.est <= 5 for p in predictions)
        mean = [p._replace(est=algo.trainset.global_mean) for p in predictions]
        assert accuracy.rmse(predictions, verbose=False) < accuracy.rmse(mean, verbose=False)

    def test_unknown_users_and_items(self, algo: Any, testset: Testset) -> None:
        known = testset[0]
        for uid, iid in ((known[0], "nothing"), ("nobody", known[1]), ("nobody", "nothing")):
            prediction = algo.predict(uid, iid)
            assert 1 <= prediction.est <= 5
            assert prediction.details["was_impossible"] is not algo.predicts_unknown
            if not algo.predicts_unknown:
                assert "unknown" in prediction.details["reason"]
                assert prediction.est == pytest.approx(algo.trainset.global_mean)

    def test_estimate_takes_inner_ids_and_marks_of_unknown_ones(self, algo: Any) -> None:
        assert np.isfinite(float(algo.estimate(0, 0)))
        try:
            assert np.isfinite(float(algo.estimate("UKN__nobody", 0)))
        except PredictionImpossible:
            assert not algo.predicts_unknown

    def test_clipping_can_be_left_out(self, algo: Any, trainset: Trainset) -> None:
        pairs = [
            (trainset.to_raw_uid(u), trainset.to_raw_iid(i)) for u in range(9) for i in range(9)
        ]
        free = [algo.predict(*pair, clip=False).est for pair in pairs]
        clipped = algo.predict_many(*zip(*pairs, strict=True))
        np.testing.assert_allclose(np.clip(free, 1, 5), clipped)

    def test_is_cross_validated_in_processes(self) -> None:
        result = cross_validate(self.make_algorithm(), small_dataset(), cv=2, n_jobs=2)
        assert (result["test_rmse"] < 1.5).all()

    def test_pickles_before_and_after_fitting(self, trainset: Trainset, testset: Testset) -> None:
        before = pickle.loads(pickle.dumps(self.make_algorithm()))
        after = pickle.loads(pickle.dumps(before.fit(trainset)))
        assert after.test(testset) == before.test(testset)

    def test_dump(self, algo: Any, testset: Testset, tmp_path: Path) -> None:
        predictions = algo.test(testset)
        dump.dump(str(tmp_path / "file"), predictions, algo)
        found, loaded = dump.load(str(tmp_path / "file"))
        assert found == predictions
        assert loaded.test(testset) == predictions

    def test_one_seed_gives_one_result(self, trainset: Trainset, testset: Testset) -> None:
        one, same, other = (
            self.make_algorithm(random_state=s).fit(trainset).test(testset) for s in (1, 1, 2)
        )
        assert one == same
        assert (one != other) is self.random

    def test_biases_and_factors_are_float64_arrays(self, algo: Any, trainset: Trainset) -> None:
        if algo.bu is None:
            assert algo.bi is None
            return
        assert algo.bu.shape == (trainset.n_users,)
        assert algo.bi.shape == (trainset.n_items,)
        assert algo.pu.shape == (trainset.n_users, algo.qi.shape[1])
        assert len(algo.qi) == trainset.n_items
        assert {a.dtype for a in (algo.bu, algo.bi, algo.pu, algo.qi)} == {np.dtype(float)}
        by_hand = trainset.global_mean + algo.bu[3] + algo.bi[4] + algo.pu[3] @ algo.qi[4]
        assert algo.estimate(3, 4) == pytest.approx(by_hand, abs=1e-4)

    def test_fitting_again_forgets_the_first_trainset(
        self, trainset: Trainset, testset: Testset
    ) -> None:
        other = dataset([("a", "x", 1.0), ("a", "y", 4.0), ("b", "x", 2.0)]).build_full_trainset()
        again = self.make_algorithm().fit(other).fit(trainset)
        assert again.test(testset) == self.make_algorithm().fit(trainset).test(testset)

    def test_verbose_prints_a_line_for_every_epoch(self, trainset: Trainset, capsys: Any) -> None:
        self.make_algorithm(verbose=True).fit(trainset)
        lines = [
            line for line in capsys.readouterr().out.splitlines() if "Processing epoch" in line
        ]
        assert len(lines) >= self.epochs
