"""What Surprise promises of every prediction algorithm, and what ours promise beyond it."""

# ruff: noqa: S301, NPY002 - pickles of our own; the global random state is what Surprise has

import pickle

import numpy as np
import pytest
from surprise import AlgoBase, accuracy, dump
from surprise.model_selection import GridSearchCV, KFold, RandomizedSearchCV, cross_validate

from tacit.errors import ConfigurationError, DataError, NotFittedError
from tacit_surprise import PMF, RBM, ConditionalPMF, ConditionalRBM

SMALL = {"n_factors": 5, "n_epochs": 8, "random_state": 0}
MAKERS = {
    "PMF": lambda **more: PMF(**{**SMALL, **more}),
    "unbiased PMF": lambda **more: PMF(**{**SMALL, "biased": False, **more}),
    "ConditionalPMF": lambda **more: ConditionalPMF(**{**SMALL, **more}),
    "Bayesian": lambda **more: ConditionalPMF(
        **{**SMALL, "inference": "gibbs", "burn_in": 10, "n_epochs": 12, **more}
    ),
    "ALS": lambda **more: PMF(**{**SMALL, "solver": "als", "reg_all": 0.2, **more}),
    "RBM": lambda **more: RBM(n_hidden=6, **{"n_epochs": 15, "random_state": 0, **more}),
    "ConditionalRBM": lambda **more: ConditionalRBM(
        n_hidden=6, **{"n_epochs": 25, "random_state": 0, **more}
    ),
    "stopped early": lambda **more: ConditionalPMF(**{**SMALL, "early_stopping": True, **more}),
}


@pytest.fixture(params=MAKERS.values(), ids=MAKERS, scope="module")
def make(request):
    return request.param


@pytest.fixture(scope="module")
def algo(make, trainset):
    return make().fit(trainset)


# -- what Surprise's own tests check ---------------------------------------------------------------


def test_fit_returns_the_algorithm_and_sets_its_trainset(make, trainset):
    algo = make()
    assert algo.fit(trainset) is algo
    assert algo.trainset is trainset


def test_predictions_are_in_range_and_better_than_the_mean(algo, parts):
    predictions = algo.test(parts[1])
    assert all(1 <= p.est <= 5 for p in predictions)
    mean = [p._replace(est=algo.trainset.global_mean) for p in predictions]
    assert accuracy.rmse(predictions, verbose=False) < accuracy.rmse(mean, verbose=False)


def test_unknown_users_and_items(algo, testset):
    known = testset[0]
    for uid, iid in ((known[0], "nothing"), ("nobody", known[1]), ("nobody", "nothing")):
        prediction = algo.predict(uid, iid)
        assert 1 <= prediction.est <= 5
        assert prediction.details["was_impossible"] is not algo.predicts_unknown
        if not algo.predicts_unknown:
            assert "unknown" in prediction.details["reason"]
            assert prediction.est == pytest.approx(algo.trainset.global_mean)


def test_clipping_can_be_left_out(algo, trainset):
    estimates = [
        algo.predict(trainset.to_raw_uid(u), trainset.to_raw_iid(i), clip=False).est
        for u in range(20)
        for i in range(20)
    ]
    clipped = algo.predict_many(
        [trainset.to_raw_uid(u) for u in range(20) for _ in range(20)],
        [trainset.to_raw_iid(i) for _ in range(20) for i in range(20)],
    )
    np.testing.assert_allclose(np.clip(estimates, 1, 5), clipped)


def test_cross_validation_grid_search_and_random_search_in_processes(data):
    result = cross_validate(PMF(**SMALL), data, cv=3, n_jobs=2)
    assert (result["test_rmse"] < 1.2).all()
    grid = {"n_factors": [2, 4], "n_epochs": [3], "random_state": [0]}
    search = GridSearchCV(ConditionalPMF, grid, cv=2, n_jobs=2, refit=True)
    search.fit(data)
    assert search.best_params["rmse"]["n_factors"] in (2, 4)
    assert 1 <= search.predict("user 1", "item 1").est <= 5
    random = RandomizedSearchCV(PMF, grid, n_iter=2, cv=2, n_jobs=2, random_state=0)
    random.fit(data)
    assert len(random.cv_results["params"]) == 2


def test_pickles_before_and_after_fitting(make, trainset, testset):
    before = pickle.loads(pickle.dumps(make()))
    after = pickle.loads(pickle.dumps(before.fit(trainset)))
    assert after.test(testset) == before.test(testset)


def test_dump(algo, testset, tmp_path):
    predictions = algo.test(testset)
    dump.dump(str(tmp_path / "file"), predictions, algo)
    found, loaded = dump.load(str(tmp_path / "file"))
    assert found == predictions
    assert loaded.test(testset) == predictions


def test_one_seed_gives_one_result(make, trainset, testset):
    one, same, other = (make(random_state=s).fit(trainset).test(testset) for s in (1, 1, 2))
    assert one == same
    assert one != other


def test_random_state_none_takes_numpys_global_state(trainset, testset):
    found = []
    for _ in range(2):
        np.random.seed(5)
        found.append(PMF(**{**SMALL, "random_state": None}).fit(trainset).test(testset))
    assert found[0] == found[1]
    state = np.random.RandomState(5)
    assert PMF(**{**SMALL, "random_state": state}).fit(trainset).test(testset) == found[0]


def test_biases_and_factors_are_float64_arrays(algo, trainset):
    if isinstance(algo, RBM):
        assert algo.bu is None
        assert algo.bi is None
        return
    assert algo.bu.shape == (trainset.n_users,)
    assert algo.bi.shape == (trainset.n_items,)
    assert algo.pu.shape == (trainset.n_users, algo.qi.shape[1])
    assert algo.qi.shape == (trainset.n_items, 5 if algo.inference == "map" else 5 * 12)
    assert {a.dtype for a in (algo.bu, algo.bi, algo.pu, algo.qi)} == {np.dtype(float)}
    by_hand = trainset.global_mean + algo.bu[3] + algo.bi[4] + algo.pu[3] @ algo.qi[4]
    assert algo.estimate(3, 4) == pytest.approx(by_hand, abs=1e-4)


def test_fitting_again_forgets_the_first_trainset(make, data, trainset, testset):
    other = next(KFold(3, random_state=1).split(data))[0]
    assert make().fit(other).fit(trainset).test(testset) == make().fit(trainset).test(testset)


def test_verbose_prints_a_line_for_every_epoch(make, trainset, capsys):
    make(verbose=True).fit(trainset)
    lines = [line for line in capsys.readouterr().out.splitlines() if "Processing epoch" in line]
    assert len(lines) >= 8


# -- beyond Surprise -------------------------------------------------------------------------------


def test_test_gives_what_predicting_one_by_one_gives(algo, testset, capsys):
    assert algo.test(testset) == AlgoBase.test(algo, testset)
    assert algo.test([]) == []
    unlabelled = [(uid, iid, None) for uid, iid, _ in testset]
    assert algo.test(unlabelled) == AlgoBase.test(algo, unlabelled)
    algo.test(testset[:2], verbose=True)
    assert capsys.readouterr().out.count("user: ") == 2


def test_top_n_is_the_best_of_what_is_not_rated(algo, trainset):
    best = algo.top_n(7)
    assert set(best) == {trainset.to_raw_uid(u) for u in trainset.all_users()}
    for uid in list(best)[::13]:
        u = trainset.to_inner_uid(uid)
        seen = {i for i, _ in trainset.ur[u]}
        left = [(algo.estimate(u, i), i) for i in trainset.all_items() if i not in seen]
        expected = [
            trainset.to_raw_iid(i) for _, i in sorted(left, key=lambda p: (-p[0], p[1]))[:7]
        ]
        assert [iid for iid, _ in best[uid]] == expected
        for iid, estimate in best[uid]:
            assert estimate == pytest.approx(algo.predict(uid, iid).est, abs=1e-4)


def test_top_n_of_some_users_with_what_they_have_seen(algo, trainset):
    uid = trainset.to_raw_uid(0)
    found = algo.top_n(1000, [uid], exclude_seen=False)
    assert list(found) == [uid]
    assert len(found[uid]) == trainset.n_items
    with pytest.raises(DataError, match="'nobody' is not in the trainset"):
        algo.top_n(3, ["nobody"])
    with pytest.raises(ConfigurationError, match="at least one item"):
        algo.top_n(0)


def test_probabilities_and_deviations(algo, testset):
    uids, iids = [t[0] for t in testset], [t[1] for t in testset]
    p, std = algo.predict_proba(uids, iids), algo.predict_std(uids, iids)
    assert p.shape == (len(testset), 5)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(algo.levels, [1, 2, 3, 4, 5])
    assert (std > 0.3).all()
    assert (std < 2).all()
    with pytest.raises(ConfigurationError, match="2 users and 1 items"):
        algo.predict_many(["a", "b"], ["c"])


def test_a_new_user_is_folded_in_under_an_id(make, trainset):
    algo = make().fit(trainset)
    like = trainset.to_raw_uid(0)
    ratings = {trainset.to_raw_iid(i): r for i, r in trainset.ur[0]}
    folded = algo.fold_in(ratings, rated=["item 3", "no such item"], uid="newcomer")
    estimates = [folded.predict(trainset.to_raw_iid(i)) for i in trainset.all_items()]
    fitted = [algo.predict(like, trainset.to_raw_iid(i)).est for i in trainset.all_items()]
    assert np.corrcoef(estimates, fitted)[0, 1] > 0.5
    iid = trainset.to_raw_iid(5)
    assert algo.predict("newcomer", iid).est == pytest.approx(folded.predict(iid))
    assert algo.test([("newcomer", iid, None)])[0].est == pytest.approx(folded.predict(iid))
    assert algo.top_n(4, ["newcomer", like])["newcomer"] == folded.top_n(4)
    assert not {iid for iid, _ in folded.top_n(40)} & set(ratings)
    with pytest.raises(ConfigurationError, match="is in the trainset already"):
        algo.fold_in(ratings, uid=like)
    with pytest.raises(DataError, match="off the scale 1 to 5"):
        algo.fold_in({"item 3": 9.0})
    with pytest.raises(DataError, match="off the scale"):
        algo.fold_in({"item 3": float("nan")})


def test_nothing_works_before_fitting():
    for call in (
        lambda a: a.top_n(),
        lambda a: a.fold_in({}),
        lambda a: a.predict_many([], []),
        lambda a: a.estimate(0, 0),
    ):
        with pytest.raises(NotFittedError, match="call fit"):
            call(PMF())


def test_learning_rates_and_penalties_by_their_surprise_names():
    settings = PMF(lr_all=0.01, reg_all=0.3, lr_bi=0.5, reg_pu=0.7)._settings()
    assert settings["lr_factors"] == 0.01
    assert settings["lr_biases"] == 0.5
    assert settings["reg_factors"] == 0.7
    assert settings["reg_biases"] == 0.3
    with pytest.raises(ConfigurationError, match="n_factors must be a whole number"):
        PMF(n_factors=2.5)._new_model(0)
    with pytest.raises(ConfigurationError, match="does not condition"):
        PMF(rated=[("a", "b")])
