"""Going on with more ratings: numbers, ids, identities, and what a model makes of it."""

from dataclasses import replace

import numpy as np
import pytest
from surprise import accuracy
from surprise.model_selection import train_test_split

from support.ratings import Frame, changed
from support.recommenders import MACHINE, MODELS, SMALL, trainset_of
from tacenda.errors import DataError
from tacenda.fitting import Callback
from tacenda.ratings import IdIndex, Ratings
from tacenda_surprise import PMF, RBM, BiasOnly, ConditionalPMF
from tacenda_surprise.testing import small_dataset


def test_biases_go_on_with_the_penalties_of_the_fit(trainset):
    algo = BiasOnly().fit(trainset).partial_fit(trainset, 20)
    before, penalties = algo.bu, algo.arrays()["penalties"]
    assert algo.partial_fit(trainset, 0).arrays()["penalties"] == pytest.approx(penalties)
    algo.partial_fit(trainset, 1)
    np.testing.assert_allclose(algo.bu, before, atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"n_epochs": 2}, {"callbacks": [Callback()]}])
@pytest.mark.parametrize("n_new", [1, 60])
def test_biases_get_a_new_level_however_they_go_on(options, n_new):
    algo = BiasOnly().fit(trainset_of([(f"u{n}", f"i{n % 7}", 1.0 + n % 5) for n in range(1200)]))
    more = trainset_of([(f"u{n}", f"i{n % 7}", 3.3) for n in range(n_new)])
    algo.partial_fit(more, **options)
    np.testing.assert_allclose(algo.levels, [1, 2, 3, 3.3, 4, 5])
    assert algo.predict_proba(["u0"], ["i0"]).shape == (1, 6)


@pytest.mark.parametrize("n_new", [1, 60])
def test_levels_are_counted_in_all_ratings(make, n_new):
    algo = make().fit(trainset_of([(f"u{n}", f"i{n % 7}", 1.0 + n % 5) for n in range(1200)]))
    more = [(f"u{n}", f"i{n % 7}", 5.0) for n in range(n_new)]  # rated before
    algo.partial_fit(trainset_of([*more, ("newcomer", "i1", 2.0)]))
    values = algo._fit_data().ratings.values
    expected = [np.count_nonzero(values == level) for level in algo.levels]
    assert algo.catalogue.counts.tolist() == expected


def test_many_ratings_off_the_levels_are_refused():
    algo = RBM(**MACHINE).fit(trainset_of([(f"u{n}", f"i{n % 7}", 1.0 + n % 5) for n in range(60)]))
    off_levels = trainset_of([(f"u{n}", f"i{n % 7 + 1}", 1.01 + n / 16) for n in range(60)])
    with pytest.raises(DataError, match="1 to 5 in 5 levels; fit again"):
        algo.partial_fit(off_levels, 1)


@pytest.mark.parametrize("make", [MODELS[name] for name in ("BiasOnly", "PMF", "RBM")])
def test_the_same_ratings_add_no_level_nor_does_a_scale_rounded_to_float32(make):
    values = np.arange(1, 50) / 5
    rows = [(k % 9, k % 7, value) for k, value in enumerate(values)]
    ratings = Ratings.from_triples(rows, scale=(0.2, 9.8))
    rounded = changed(ratings, scale=np.float32(ratings.scale).tolist())
    algo = make().fit(ratings).partial_fit(rounded, 1)
    assert algo.catalogue.levels.tolist() == np.float32(values).tolist()


def test_a_continuous_scale_takes_any_rating_on_it():
    algo = BiasOnly().fit(trainset_of([(f"u{n}", f"i{n % 7}", 1 + n / 16) for n in range(60)]))
    assert not len(algo.catalogue.levels)
    stars = [(f"u{n}", f"i{n % 7}", 1.0 + n % 5) for n in range(60)]
    algo.partial_fit(trainset_of(stars), 1)
    assert not len(algo.catalogue.levels)
    five_levels = Ratings.from_triples(stars)
    empty = replace(algo.catalogue, users=five_levels.users, items=five_levels.items)
    assert not len(empty.extend(five_levels).levels)


def test_biases_go_on_without_a_second_fit(trainset, tmp_path, monkeypatch):
    algo = BiasOnly().fit(trainset)
    algo.save(tmp_path / "biases")
    fitted = []
    monkeypatch.setattr(BiasOnly, "_fit_variances", lambda *given: fitted.append(given))
    more = trainset_of([("newcomer", "item 1", 5.0)])
    again = BiasOnly.load(tmp_path / "biases")
    for one in (algo, again):
        one.partial_fit(more)
        assert (one.predict_std(["newcomer"], ["item 1"]) > 0).all()
    assert not fitted


def test_twice_is_the_same_twice(make, trainset, testset):
    more = trainset_of([("newcomer", "item 1", 5.0), ("user 1", "new item", 1.0)])
    one, other = (make().fit(trainset).partial_fit(more).test(testset) for _ in range(2))
    assert one == other


@pytest.mark.parametrize("nothing", ["trainset", "frame", "ratings"])
def test_no_ratings_change_nothing(make, nothing, trainset, testset, tmp_path):
    algo = make().fit(trainset)
    nobody = IdIndex([], "user"), IdIndex([], "item")
    empty = {
        "trainset": trainset_of([]),
        "frame": Frame([], [], []),
        "ratings": Ratings([], [], [], *nobody, scale=(1, 5)),
    }[nothing]
    before = algo.test(testset), algo.predict_std(["user 1"], ["item 1"])
    assert algo.partial_fit(empty).test(testset) == before[0]
    assert algo.predict_std(["user 1"], ["item 1"]) == before[1]
    with pytest.raises(DataError, match="there are no ratings; give at least one"):
        make().fit(empty)


@pytest.mark.parametrize("make", [MODELS[name] for name in ("BiasOnly", "PMF", "ConditionalPMF")])
def test_new_users_and_items_without_ratings_are_predicted_as_unknown_ones(make, trainset):
    algo = make().fit(trainset)
    old = algo._fit_data().ratings
    users = IdIndex([*old.users.raw, "new user", "idle user"], "user")
    items = IdIndex([*old.items.raw, "new item", "idle item"], "item")
    algo.partial_fit(Ratings([old.n_users], [old.n_items], [5.0], users, items, scale=(1, 5)))
    idle = algo.score_pairs(np.array([old.n_users + 1, 0]), np.array([0, old.n_items + 1]))
    unknown = algo.score_pairs(np.array([-1, 0]), np.array([0, -1]))
    np.testing.assert_allclose(idle, unknown, atol=1e-5)
    assert algo.predict("idle user", users.raw[0]).details == {"was_impossible": False}


def test_users_without_ratings_are_not_in_the_trainset(trainset):
    algo = ConditionalPMF(rated=[("quiet", "item 1"), ("silent", "item 2")], **SMALL).fit(trainset)
    algo.partial_fit(trainset_of([("user 1", "item 2", 5.0)]))
    assert algo.trainset.n_users == trainset.n_users == len(algo.pu)
    assert algo.predict("quiet", "item 3").est != algo.predict("nobody", "item 3").est
    algo.partial_fit(trainset_of([("quiet", "item 2", 5.0)]))
    assert algo.trainset.n_users == trainset.n_users + 1
    assert "silent" in algo.top_n(1)


def test_what_else_is_known_to_be_rated_counts_when_few_ratings_are_new(trainset):
    """As when the model is fitted: an update of the rows of these ratings alone would miss it."""
    algo = ConditionalPMF(**SMALL).fit(trainset)
    more = trainset_of([("user 1", "item 2", 3.0)])
    algo.rated = [("quiet", f"item {k}") for k in range(8)]
    algo.partial_fit(more)
    s = algo.learned.side_factors[algo.seen.of_user(algo._users["quiet"])].mean(axis=0)
    np.testing.assert_allclose(algo.learned.user_factors[algo._users["quiet"]], s, atol=1e-6)
    assert np.abs(s).max() > 0


def test_inner_ids_stay_and_new_ones_follow(trainset):
    algo = PMF(**SMALL).fit(trainset)
    users, items = dict(trainset._raw2inner_id_users), dict(trainset._raw2inner_id_items)
    algo.partial_fit(trainset_of([("b", "y", 5.0), ("user 1", "x", 1.0), ("b", "item 2", 2.0)]))
    found = algo.trainset
    assert {raw: found.to_inner_uid(raw) for raw in users} == users
    assert {raw: found.to_inner_iid(raw) for raw in items} == items
    assert [found.to_inner_uid("b"), found.n_users] == [len(users), len(users) + 1]
    assert [found.to_inner_iid("y"), found.to_inner_iid("x")] == [len(items), len(items) + 1]
    assert algo.pu.shape[0] == found.n_users
    assert algo.qi.shape[0] == found.n_items
    assert trainset.n_users == len(users), "the first trainset was changed"


# the machine of the thesis hardly moves in so few steps
@pytest.mark.parametrize("make", [make for name, make in MODELS.items() if "thesis" not in name])
def test_ids_that_differ_by_their_type_only(make):
    old = [(7, "x", 1.0), (8, "x", 2.0), (7, 1, 1.0), (8, 1, 3.0)]
    algo = make().fit(trainset_of(old))
    algo.partial_fit(trainset_of([("7", "x", 5.0), ("7", 1, 5.0), (8, "1", 4.0)]), n_epochs=30)
    assert [algo.trainset.to_inner_uid(raw) for raw in (7, 8, "7")] == [0, 1, 2]
    assert [algo.trainset.to_inner_iid(raw) for raw in ("x", 1, "1")] == [0, 1, 2]
    assert algo.predict("7", "x").est > algo.predict(7, "x").est


def test_a_user_without_ratings_gets_some(trainset):
    algo = ConditionalPMF(rated=[("quiet", "item 1"), ("silent", "item 2")], **SMALL).fit(trainset)
    number = algo._users["quiet"]
    algo.partial_fit(trainset_of([("quiet", "item 7", 5.0), ("newcomer", "item 1", 2.0)]))
    assert algo.trainset.to_inner_uid("quiet") == algo._users["quiet"] == number
    assert algo.trainset.ur[number] == [(algo.trainset.to_inner_iid("item 7"), 5.0)]
    best = algo.top_n(60, ["quiet", "silent", "newcomer"])
    assert not {"item 1", "item 7"} & {iid for iid, _ in best["quiet"]}
    assert "item 2" not in {iid for iid, _ in best["silent"]}
    assert np.isfinite(algo.predict("silent", "item 7").est)


def test_more_identities_than_before(trainset):
    algo = ConditionalPMF(rated=[("quiet", "item 1")], **SMALL).fit(trainset)
    algo.rated = [("quiet", "item 1"), ("quiet", "item 3"), ("later", "item 4")]
    algo.partial_fit(trainset_of([("newcomer", "item 1", 2.0)]))
    assert set(algo.top_n(1, ["quiet", "later", "newcomer"])) == {"quiet", "later", "newcomer"}
    assert "item 3" not in {iid for iid, _ in algo.top_n(60, ["quiet"])["quiet"]}


def test_who_was_folded_in_stays_until_there_are_ratings(trainset):
    algo = PMF(**SMALL).fit(trainset)
    algo.fold_in({"item 3": 5.0, "item 4": 4.0}, uid="here")
    algo.fold_in({"item 3": 1.0}, uid="gone")
    algo.partial_fit(trainset_of([("gone", "item 3", 5.0)]))
    assert [one.given.uid for one in algo._new_users.values()] == ["here"]
    assert len(algo.top_n(2, ["here", "gone"])) == 2


def test_it_goes_on_after_loading(make, trainset, testset, tmp_path):
    algo = make().fit(trainset)
    algo.save(tmp_path / "algo")
    again = type(algo).load(tmp_path / "algo")
    more = trainset_of([("newcomer", "item 1", 5.0), ("newcomer", "item 2", 1.0)])
    assert again.partial_fit(more).test(testset) == algo.partial_fit(more).test(testset)
    again.save(tmp_path / "algo")
    assert type(algo).load(tmp_path / "algo").test(testset) == again.test(testset)


def test_it_predicts_better_than_before_and_nearly_as_well_as_fitted_anew(make):
    trainset, testset = train_test_split(small_dataset(), test_size=0.2, random_state=0)
    rows = [
        (trainset.to_raw_uid(u), trainset.to_raw_iid(i), r) for u, i, r in trainset.all_ratings()
    ]
    late = [row for k, row in enumerate(rows) if k % 3 == 0 or row[0] in ("user 5", "user 6")]
    early = [row for row in rows if row not in late]

    def rmse(algo):
        return accuracy.rmse(algo.test(testset), verbose=False)

    algo = make().fit(trainset_of(early))
    before = rmse(algo)
    algo.partial_fit(trainset_of(late))
    assert algo.trainset.n_ratings == trainset.n_ratings
    assert rmse(algo) < before
    assert rmse(algo) < rmse(make().fit(trainset)) + 0.1
