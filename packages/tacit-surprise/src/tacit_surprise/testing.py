"""Conformance of a rating algorithm for Surprise: subclass `AlgorithmTests` in a test file and say which.

    from tacit_surprise.testing import AlgorithmTests

    class TestMine(AlgorithmTests):
        def make_algorithm(self, **settings):
            return Recommender("mine", n_factors=4, random_state=settings.pop("random_state", 0), **settings)

The tests are what Surprise's own suite checks of every prediction algorithm, and what
`tacit_surprise.algorithm.TacitAlgorithm` promises beyond that. ``settings`` are ``random_state``, ``verbose``
and ``callbacks``.
"""

# ruff: noqa: S301 - pickles of our own

from __future__ import annotations

import pickle
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from surprise import AlgoBase, Dataset, PredictionImpossible, Reader, Trainset, accuracy, dump
from surprise.model_selection import cross_validate, train_test_split

from tacit.datasets import synthetic_ratings
from tacit.errors import ConfigurationError, DataError, NotFittedError
from tacit_surprise.algorithm import TacitAlgorithm

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
def _parts() -> tuple[Trainset, Testset]:
    trainset, testset = train_test_split(small_dataset(), test_size=0.2, random_state=0)
    return trainset, testset


class AlgorithmTests:
    """Inherit, and define ``make_algorithm``.

    Attributes:
        random: whether another seed gives another result.
        like_fitted: least correlation of a user's estimates folded in and fitted.
        epochs: least number of lines that ``verbose=True`` prints.
    """

    random: bool = True
    like_fitted: float = 0.5
    epochs: int = 1
    _made: Any

    def make_algorithm(self, **settings: Any) -> TacitAlgorithm:
        """A new unfitted algorithm, small enough to fit in a second; ``random_state`` is 0 if not given."""
        raise NotImplementedError("define make_algorithm(**settings) in your test class")

    @pytest.fixture
    def parts(self) -> tuple[Trainset, Testset]:
        """Four fifths to train, the rest to test."""
        return _parts()

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

    # -- beyond Surprise ---------------------------------------------------------------------------

    def test_test_gives_what_predicting_one_by_one_gives(
        self, algo: Any, testset: Testset, capsys: Any
    ) -> None:
        assert algo.test(testset) == AlgoBase.test(algo, testset)
        assert algo.test([]) == []
        unlabelled = [(uid, iid, None) for uid, iid, _ in testset]
        assert algo.test(iter(unlabelled)) == AlgoBase.test(algo, unlabelled)
        algo.test(testset[:2], verbose=True)
        assert capsys.readouterr().out.count("user: ") == 2

    def test_top_n_is_the_best_of_what_is_not_rated(self, algo: Any, trainset: Trainset) -> None:
        best = algo.top_n(7)
        assert set(best) == {trainset.to_raw_uid(u) for u in trainset.all_users()}
        for uid in list(best)[::13]:
            u = trainset.to_inner_uid(uid)
            left = sorted(set(trainset.all_items()) - {i for i, _ in trainset.ur[u]})
            expected = sorted((algo.estimate(u, i) for i in left), reverse=True)[:7]
            found = [trainset.to_inner_iid(iid) for iid, _ in best[uid]]
            assert len(set(found)) == 7
            assert set(found) <= set(left)
            np.testing.assert_allclose(
                [algo.estimate(u, i) for i in found], expected, atol=1e-4, rtol=0
            )
            for iid, estimate in best[uid]:
                assert estimate == pytest.approx(algo.predict(uid, iid).est, abs=1e-4)

    def test_top_n_of_some_users_with_what_they_have_seen(
        self, algo: Any, trainset: Trainset
    ) -> None:
        uid = trainset.to_raw_uid(0)
        found = algo.top_n(1000, [uid], exclude_seen=False)
        assert list(found) == [uid]
        assert len(found[uid]) == trainset.n_items
        with pytest.raises(DataError, match="'nobody' is not in the trainset"):
            algo.top_n(3, ["nobody"])
        with pytest.raises(ConfigurationError, match="at least one item"):
            algo.top_n(0)

    def test_probabilities_and_deviations(self, algo: Any, testset: Testset) -> None:
        uids, iids = [t[0] for t in testset], [t[1] for t in testset]
        p, std = algo.predict_proba(uids, iids), algo.predict_std(uids, iids)
        assert p.shape == (len(testset), 5)
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)
        np.testing.assert_array_equal(algo.levels, [1, 2, 3, 4, 5])
        assert (std > 0.3).all()
        assert (std < 2).all()
        with pytest.raises(ConfigurationError, match="2 users and 1 items"):
            algo.predict_many(["a", "b"], ["c"])

    def test_a_new_user_is_folded_in_under_an_id(self, trainset: Trainset) -> None:
        algo = self.make_algorithm().fit(trainset)
        like = trainset.to_raw_uid(0)
        items = [trainset.to_raw_iid(i) for i in trainset.all_items()]
        ratings = {trainset.to_raw_iid(i): r for i, r in trainset.ur[0]}
        folded = algo.fold_in(ratings, rated=["item 3", "no such item"], uid="newcomer")
        estimates = [folded.predict(iid) for iid in items]
        fitted = [algo.predict(like, iid).est for iid in items]
        assert np.corrcoef(estimates, fitted)[0, 1] > self.like_fitted
        users = ["newcomer"] * len(items)
        asked = [("newcomer", iid, None) for iid in [*items, "no such item"]]
        assert algo.test(asked) == AlgoBase.test(algo, asked)
        assert [p.est for p in algo.test(asked)][:-1] == estimates
        np.testing.assert_array_equal(algo.predict_many(users, items), estimates)
        deviations = [folded.predict_std(iid) for iid in items]
        np.testing.assert_array_equal(algo.predict_std(users, items), deviations)
        np.testing.assert_allclose(algo.predict_proba(users, items).sum(axis=1), 1, atol=1e-5)
        assert algo.top_n(4, ["newcomer", like])["newcomer"] == folded.top_n(4)
        assert not {iid for iid, _ in folded.top_n(60)} & {*ratings, "item 3"}

    def test_what_makes_no_sense_cannot_be_folded_in(self, algo: Any, trainset: Trainset) -> None:
        with pytest.raises(ConfigurationError, match="is in the trainset already"):
            algo.fold_in({}, uid=trainset.to_raw_uid(0))
        for value in (9.0, float("nan"), float("inf")):
            with pytest.raises(DataError, match="off the scale 1 to 5"):
                algo.fold_in({"item 3": value})

    def test_comes_back_from_disk_as_it_was(
        self, trainset: Trainset, testset: Testset, tmp_path: Path
    ) -> None:
        algo = self.make_algorithm().fit(trainset)
        algo.fold_in({"item 3": 5, "item 4": 1}, rated=["item 5"], uid="newcomer")
        algo.save(tmp_path / "algo")
        again = TacitAlgorithm.load(tmp_path / "algo")
        asked = [*testset, ("newcomer", "item 7", None)]
        assert type(again) is type(algo)
        assert again._arguments() == algo._arguments()
        assert again.test(asked) == algo.test(asked)
        assert again.top_n(5) == algo.top_n(5)
        everything = sorted(algo.trainset.all_ratings())
        assert sorted(again.trainset.all_ratings()) == everything
        assert again.fit(trainset).test(testset) == algo.test(testset)

    def test_nothing_works_before_fitting(self) -> None:
        calls: dict[str, tuple[Any, ...]] = {
            "top_n": (),
            "fold_in": ({},),
            "predict_many": ([], []),
            "predict_std": ([], []),
            "test": ([],),
            "estimate": (0, 0),
        }
        for name, arguments in calls.items():
            with pytest.raises(NotFittedError, match="call fit"):
                getattr(self.make_algorithm(), name)(*arguments)
