"""What `tacenda_surprise.algorithm.TacendaAlgorithm` promises beyond what Surprise does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from surprise import AlgoBase, Trainset

from tacenda.errors import ConfigurationError, DataError, NotFittedError
from tacenda_surprise.algorithm import TacendaAlgorithm
from tacenda_surprise.models.base import RatingModel
from tacenda_surprise.testing.surprise_suite import SurpriseTests, Testset, dataset


class AlgorithmTests(SurpriseTests):
    """Inherit, and define ``make_algorithm``.

    Attributes
    ----------
    like_fitted
        Least correlation of a user's estimates folded in and fitted.
    """

    like_fitted: float = 0.5

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
        assert len(folded.top_n(4, by="choice", exclude=items[:5])) == 4
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
        again: TacendaAlgorithm[Any] = TacendaAlgorithm.load(tmp_path / "algo")
        asked = [*testset, ("newcomer", "item 7", None)]
        assert type(again) is type(algo)
        assert again._saved_arguments() == algo._saved_arguments()
        assert again.test(asked) == algo.test(asked)
        assert again.top_n(5) == algo.top_n(5)
        everything = sorted(algo.trainset.all_ratings())
        assert sorted(again.trainset.all_ratings()) == everything
        assert again.fit(trainset).test(testset) == algo.test(testset)

    def test_goes_on_with_more_ratings(self, trainset: Trainset, testset: Testset) -> None:
        algo = self.make_algorithm().fit(trainset)
        triples = [("newcomer", f"item {k}", 1.0 + k % 5) for k in range(12)]
        more = [*triples, ("user 1", "new item", 5.0), ("user 2", "new item", 4.0)]
        added = dataset(more).build_full_trainset()
        before = algo.test(testset)
        model_class: Any = type(algo.model)
        if model_class._go_on is RatingModel._go_on:
            with pytest.raises(ConfigurationError, match="fit it anew"):
                algo.partial_fit(added)
            assert algo.test(testset) == before
            return
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
