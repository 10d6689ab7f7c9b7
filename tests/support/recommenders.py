"""`AlgorithmTests`: what `tacenda_surprise.RatingAlgorithm` promises of every algorithm, beyond `check_recommender`."""

from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from surprise import AlgoBase, Trainset, dump
from surprise.model_selection import cross_validate

from tacenda.errors import ConfigurationError, DataError
from tacenda_surprise import (
    PMF,
    RBM,
    BayesianPMF,
    BiasOnly,
    ConditionalBayesianPMF,
    ConditionalPMF,
    ConditionalRBM,
    RatingAlgorithm,
)
from tacenda_surprise.testing import check_recommender, make_dataset, small_dataset

Testset = list[tuple[Any, Any, Any]]

SMALL: dict[str, Any] = {"n_factors": 4, "n_epochs": 8, "random_state": 0}
MACHINE: dict[str, Any] = {"n_hidden": 6, "n_epochs": 12, "random_state": 0}
CHAIN: dict[str, Any] = {"n_factors": 3, "burn_in": 4, "n_samples": 8, "random_state": 0}
#: Makers of one small algorithm of every kind.
MODELS = {
    "BiasOnly": BiasOnly,
    "PMF": partial(PMF, **SMALL),
    "ALS": partial(PMF, solver="als", **SMALL),
    "ConditionalPMF": partial(ConditionalPMF, **SMALL),
    "stopped early": partial(ConditionalPMF, validation=0.05, **SMALL),
    "BayesianPMF": partial(BayesianPMF, **CHAIN),
    "ConditionalBayesianPMF": partial(ConditionalBayesianPMF, **CHAIN),
    "RBM": partial(RBM, **MACHINE),
    "RBM of the thesis": partial(RBM.thesis, **MACHINE),
    "ConditionalRBM": partial(ConditionalRBM, **MACHINE),
}


def trainset_of(rows: Testset, scale: tuple[float, float] = (1, 5)) -> Trainset:
    """A trainset of (user, item, rating), whatever the types of the ids."""
    return make_dataset(rows, scale).build_full_trainset()


class AlgorithmTests:
    """Inherit, and define ``make_model(**options)``; ``trainset`` and ``testset`` are fixtures of the package's tests.

    Attributes
    ----------
    random
        Whether another seed gives another result.
    epochs
        Least number of lines that ``verbose=True`` prints.
    like_fitted
        Least correlation of a user's estimates folded in and fitted.
    """

    random: bool = True
    epochs: int = 1
    like_fitted: float = 0.5
    _made: Any

    def test_is_a_recommender(self) -> None:
        check_recommender(self.make_model, random=self.random)

    def make_algorithm(self, **options: Any) -> RatingAlgorithm:
        """The same without the options that it does not have."""
        known = inspect.signature(type(self.make_model())).parameters
        return self.make_model(**{name: options[name] for name in options if name in known})

    @pytest.fixture
    def algo(self, trainset: Trainset) -> Any:
        """The algorithm fitted to a trainset that all tests of a class share; predicting must not change it."""
        cls = type(self)
        if "_made" not in vars(cls):
            cls._made = self.make_algorithm().fit(trainset)
        return cls._made

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

    def test_dump(self, algo: Any, testset: Testset, tmp_path: Path) -> None:
        predictions = algo.test(testset)
        dump.dump(str(tmp_path / "file"), predictions, algo)
        found, loaded = dump.load(str(tmp_path / "file"))
        assert found == predictions
        assert loaded.test(testset) == predictions

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

    def test_verbose_prints_a_line_for_every_epoch(self, trainset: Trainset, capsys: Any) -> None:
        self.make_algorithm(verbose=True).fit(trainset)
        lines = [
            line for line in capsys.readouterr().out.splitlines() if "Processing epoch" in line
        ]
        assert len(lines) >= self.epochs

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
        best = algo.top_n(7, by="rating")
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

    def test_lists_are_of_items_likely_to_be_chosen_and_leave_out_what_they_shall(
        self, algo: Any, trainset: Trainset
    ) -> None:
        uid = trainset.to_raw_uid(0)
        counts = {trainset.to_raw_iid(i): len(trainset.ir[i]) for i in trainset.all_items()}

        def median(by: str) -> float:
            lists = algo.top_n(7, by=by).values()
            return float(np.median([counts[iid] for best in lists for iid, _ in best]))

        assert median("choice") >= median("both") >= median("rating")
        for iid, estimate in algo.top_n(7, [uid])[uid]:
            assert estimate == pytest.approx(algo.predict(uid, iid).est, abs=1e-4)
        everything = [iid for iid, _ in algo.top_n(1000, [uid])[uid]]
        some = algo.top_n(3, [uid], candidates=[*everything[-5:], "no such item"])[uid]
        assert {iid for iid, _ in some} == set(everything[-5:-2])
        without = algo.top_n(3, [uid], exclude=everything[:2])[uid]
        assert [iid for iid, _ in without] == everything[2:5]
        least = sorted(counts.values())[len(counts) // 2]
        supported = {iid for iid, _ in algo.top_n(1000, [uid], min_ratings=least)[uid]}
        assert supported == {iid for iid in everything if counts[iid] >= least}
        with pytest.raises(ConfigurationError, match="'both', 'rating' or 'choice'"):
            algo.top_n(3, by="chance")
        with pytest.raises(ConfigurationError, match="give a list of ids"):
            algo.top_n(3, "ab")
        with pytest.raises(ConfigurationError, match="give a list of ids"):
            algo.predict_many("ab", ["c", "d"])

    def test_top_n_of_some_users_with_what_they_have_seen(
        self, algo: Any, trainset: Trainset
    ) -> None:
        uid = trainset.to_raw_uid(0)
        found = algo.top_n(1000, [uid], exclude_seen=False)
        assert list(found) == [uid]
        assert len(found[uid]) == trainset.n_items
        with pytest.raises(DataError, match="'nobody' is not in the trainset"):
            algo.top_n(3, ["nobody"])
        with pytest.raises(ConfigurationError, match="at least 1"):
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
        listed = [one for one in folded.top_n(60) if one[0] not in items[:5]]
        assert folded.top_n(60, exclude=items[:5]) == listed
        one = algo.predict_proba(["newcomer"], ["item 7"])[0]
        np.testing.assert_allclose(folded.predict_proba("item 7"), one, atol=1e-6)
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
        again = RatingAlgorithm.load(tmp_path / "algo")
        asked = [*testset, ("newcomer", "item 7", None)]
        assert type(again) is type(algo)
        assert again.config_dict() == algo.config_dict()
        assert again.test(asked) == algo.test(asked)
        assert again.top_n(5) == algo.top_n(5)
        everything = sorted(algo.trainset.all_ratings())
        assert sorted(again.trainset.all_ratings()) == everything
        assert again.fit(trainset).test(testset) == algo.test(testset)

    def test_goes_on_with_more_ratings_in_raw_ids(
        self, trainset: Trainset, testset: Testset
    ) -> None:
        algo = self.make_algorithm().fit(trainset)
        triples = [("newcomer", f"item {k}", 1.0 + k % 5) for k in range(12)]
        more = [*triples, ("user 1", "new item", 5.0), ("user 2", "new item", 4.0)]
        added = trainset_of(more)
        before = algo.test(testset)
        folded = algo.fold_in({iid: value for _, iid, value in triples}, uid="newcomer")
        other = algo.fold_in({"item 3": 5.0, "item 4": 1.0}, uid="other").top_n(3)
        assert algo.partial_fit(added) is algo
        assert algo.trainset.n_ratings == trainset.n_ratings + len(more)
        assert algo.trainset.to_inner_uid("user 1") == trainset.to_inner_uid("user 1")
        items = [f"item {k}" for k in range(60) if f"item {k}" in algo.trainset._raw2inner_id_items]
        found = algo.predict_many(["newcomer"] * len(items), items)
        assert np.corrcoef(found, [folded.predict(iid) for iid in items])[0, 1] > self.like_fitted
        assert not {iid for iid, _ in algo.top_n(60, ["newcomer"])["newcomer"]} & {
            iid for _, iid, _ in triples
        }
        assert algo.predict("user 3", "new item").details["was_impossible"] is False
        moved = [abs(a.est - b.est) for a, b in zip(algo.test(testset), before, strict=True)]
        assert np.mean(moved) < 0.3
        assert len(algo.top_n(3, ["other"])["other"]) == len(other)
        assert algo.test(testset) == AlgoBase.test(algo, testset)
