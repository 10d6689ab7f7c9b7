"""Ids of another type, tables with a row per user, and lists of a few items: nothing goes wrong without a word."""

import warnings
from copy import copy
from decimal import Decimal
from uuid import UUID

import numpy as np
import pytest
from scipy.sparse import csr_array

from support.ratings import Frame
from support.recommenders import SMALL, trainset_of
from tacenda.errors import DataError, TacendaWarning
from tacenda_surprise import PMF, BiasOnly, Blend, ConditionalPMF, ImplicitMF, SideInfo
from tacenda_surprise.algorithm import RatingAlgorithm
from tacenda_surprise.testing import make_dataset
from tacenda_surprise.top_n import best_items, top


@pytest.fixture(scope="module")
def triples():
    rng = np.random.default_rng(0)
    pairs = rng.choice(40 * 25, 600, replace=False).tolist()
    return [(p // 25 + 1, p % 25 + 100, float(rng.integers(1, 6))) for p in pairs]


@pytest.fixture(scope="module")
def pd():
    return pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def long(triples, pd):
    frame = pd.DataFrame(triples, columns=["user", "item", "rating"])
    return frame.assign(time=np.arange(len(frame)) * 1000)


@pytest.fixture(params=["algorithm", "blend"])
def algo(request, triples):
    parts = ConditionalPMF(**SMALL), BiasOnly()
    unfitted = Blend(list(parts), random_state=0) if request.param == "blend" else parts[0]
    return unfitted.fit(trainset_of(triples))


@pytest.mark.parametrize("missing", [None, 0.0, 0])
def test_a_table_with_a_row_a_user_is_no_list_of_ratings(long, pd, tmp_path, missing):
    wide = long.pivot(index="user", columns="item", values="rating")
    if missing is not None:
        wide = wide.fillna(missing).astype(type(missing))
    path = tmp_path / "wide.csv"
    wide.to_csv(path)
    tables = wide, wide.reset_index(), pd.read_csv(path), pd.read_csv(path, index_col=0)
    for table in tables:
        with pytest.raises(DataError, match="seems to have a row per user and a column per item"):
            BiasOnly().fit(table)


def test_tables_with_a_row_a_rating_are_taken_without_a_word(long, pd, tmp_path):
    path = tmp_path / "long.csv"
    long.to_csv(path, index=False, header=False)
    wide = long.pivot(index="user", columns="item", values="rating")
    with warnings.catch_warnings(action="error"):
        expected = BiasOnly().fit(long).predict(1, 100).est
        for table in (
            pd.read_csv(path, header=None),
            wide.reset_index().melt("user").dropna(),
            long.iloc[:, :3].set_axis([1, 2, 3], axis=1),
            long.iloc[:, [1, 0, 2]].set_axis(range(3), axis=1)[[1, 0, 2]],
            long.head(5),
            long.assign(when=0)[["when", "rating", "item", "user"]],
            long[["rating", "item", "user"]].rename(columns={"user": "userId", "item": "Item_ID"}),
        ):
            fitted = BiasOnly().fit(table)
            if len(table) > 5:
                assert fitted.predict(1, 100).est == pytest.approx(expected)


@pytest.mark.parametrize(
    ("columns", "name"),
    [
        ("user item rating when", "field"),
        ("userId movieId rating stamp", "field"),
        ("a b c d", None),
    ],
)
def test_a_row_a_user_and_names_of_the_columns_make_no_table_wide(pd, columns, name):
    frame = pd.DataFrame([(k, 1 + k % 5, 1.0 + k % 5, k) for k in range(20)])
    frame.columns = pd.Index(columns.split(), name=name)
    assert BiasOnly().fit(frame).trainset.n_items == 5


@pytest.mark.parametrize("missing", ["NA", "NaT", None])
def test_missing_ratings_of_a_frame_are_counted(long, pd, missing):
    value = missing and getattr(pd, missing)
    ratings = [value, value, *long["rating"].tolist()[2:]]
    table = long.assign(rating=pd.array(ratings, dtype=object))
    with pytest.raises(DataError, match="2 ratings are missing in the column 'rating': leave"):
        BiasOnly().fit(table[["rating", "item", "user", "time"]])
    with pytest.raises(DataError, match="2 ratings are missing in the third column: leave"):
        BiasOnly().fit(table.set_axis(["viewer", "film", "stars", "time"], axis=1))


def test_a_column_of_ratings_is_named_as_it_was_found():
    bad = [3.0, float("nan"), 4.0]
    found = Frame(rating=bad, item=list("xyz"), user=list("abc"))
    with pytest.raises(DataError, match="1 ratings are missing in the column 'rating': leave"):
        BiasOnly().fit(found)
    found = Frame(Rating=["good", 3, 4], item=list("xyz"), user=list("abc"))
    with pytest.raises(DataError, match=r"^the column 'Rating', .* not contain numbers \(could"):
        BiasOnly().fit(found)
    with pytest.raises(DataError, match="1 ratings are missing in the third column: leave"):
        BiasOnly().fit(Frame(viewer=list("abc"), film=list("xyz"), stars=bad))
    with pytest.raises(DataError, match="1 ratings are missing in the matrix: leave"):
        BiasOnly().fit(csr_array((bad, ([0, 1, 2], [0, 1, 1]))))


def test_columns_of_which_only_some_have_the_expected_names_must_be_in_order():
    users, items, ratings = list("abc"), list("xyz"), [1.0, 2.0, 3.0]
    BiasOnly().fit(Frame(userId=users, movieId=items, rating=ratings, timestamp=ratings))
    for columns in (
        {"userId": users, "movieId": items, "timestamp": ratings, "rating": ratings},
        {"rating": ratings, "userId": users, "movieId": items},
    ):
        with pytest.raises(
            DataError, match=r"has no column 'item', and its column '.*' is not the .*: name"
        ):
            BiasOnly().fit(Frame(**columns))
    for name, columns in (
        ("item", {"item": items, "customer": users}),
        ("rating", {"rating": ratings, "customer": users, "film": items}),
    ):
        with pytest.raises(DataError, match=f"no column 'user', and its column '{name}' is not"):
            ImplicitMF().fit(Frame(**columns))


@pytest.mark.parametrize("make", [BiasOnly, ImplicitMF])
def test_a_data_set_says_which_trainset_to_give(make):
    with pytest.raises(
        DataError, match=r"not a Dataset: give data.build_full_trainset\(\), or call"
    ):
        make().fit(make_dataset([("a", "x", 3.0), ("b", "y", 4.0)]))


def test_items_that_are_not_known_are_counted_or_refused(algo):
    with pytest.warns(TacendaWarning, match=r"1 of 2 items of fold_in are not in the trainset"):
        some = algo.fold_in({100: 5.0, 7: 1.0})
    assert some.predict(101) == algo.fold_in({100: 5.0}).predict(101)
    with pytest.raises(DataError, match=r"none of the items of fold_in is in the trainset, such"):
        algo.fold_in({7: 1.0})
    text = r"its ids are int \(such as \d+\) and yours are str \(such as '100'\)"
    with pytest.raises(
        DataError, match=f"none of the items of fold_in is in the trainset: {text}$"
    ):
        algo.fold_in({"100": 5.0}, rated=["101"])
    with pytest.raises(DataError, match=f"none of the candidates is in the trainset: {text}$"):
        algo.top_n(3, candidates=["100"])
    with pytest.raises(DataError, match=f"exclude has items .*: {text}"):
        algo.top_n(3, exclude=["100"])
    with pytest.warns(TacendaWarning, match="1 of 3 candidates are not in the trainset"):
        listed = algo.top_n(3, candidates=[100, 101, 7], exclude_seen=False)
    assert all({item for item, _ in best} == {100, 101} for best in listed.values())
    assert algo.top_n(1, exclude=[7]).keys() == algo._users.keys()


def test_lists_of_a_user_of_another_type_name_the_type(algo):
    with pytest.raises(
        DataError, match=r"user '1' is not in the trainset: its ids are int .*'1'\)$"
    ):
        algo.top_n(2, uids=["1"])
    with pytest.raises(DataError, match=r"user 99 is not in the trainset; fold_in\(uid=99"):
        algo.top_n(2, uids=[99])


@pytest.mark.parametrize("what", ["user", "item"])
def test_new_ratings_with_ids_of_another_type_are_refused(algo, what):
    row = ("7", 100, 3.0) if what == "user" else (7, "100", 3.0)
    before = algo.trainset.n_users, algo.trainset.n_items
    with pytest.raises(DataError, match=rf"1 new {what}s match known {what}s"):
        algo.partial_fit(trainset_of([row]), 1)
    assert (algo.trainset.n_users, algo.trainset.n_items) == before
    algo.partial_fit(trainset_of([("newcomer", 100, 3.0)]), 1)
    assert algo.trainset.n_users == before[0] + 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda algo: algo.test([("1", 100, 3.0), ("2", 101, 3.0)]),
        lambda algo: algo.predict_many([1, 2], ["100", "101"]),
        lambda algo: algo.predict_std(["1"], ["100"]),
        lambda algo: algo.predict("1", 100),
        lambda algo: algo.predict(1, "100"),
    ],
)
def test_who_asks_with_ids_of_another_type_is_told_once(algo, ask):
    with pytest.warns(TacendaWarning, match="not found: the id in|its ids are int"):
        ask(algo)
    with warnings.catch_warnings(action="error"):
        ask(algo)
        algo.test([(1, 100, 3.0), ("somebody", "something", None)])


def test_decimals_are_ratings(algo):
    assert algo.fold_in({100: Decimal("4")}).predict(101) == algo.fold_in({100: 4.0}).predict(101)
    with pytest.raises(DataError, match="off the scale"):
        algo.fold_in({100: Decimal("nan")})


def test_uuids_are_ids_that_can_be_saved(triples, tmp_path):
    rows = [(UUID(int=user), UUID(int=item), rating) for user, item, rating in triples]
    algo = BiasOnly().fit(trainset_of(rows))
    algo.save(tmp_path / "model")
    again = RatingAlgorithm.load(tmp_path / "model")
    assert again.predict(*rows[0][:2]).est == algo.predict(*rows[0][:2]).est
    assert again.top_n(2) == algo.top_n(2)


@pytest.mark.parametrize("by", ["both", "rating", "choice"])
@pytest.mark.parametrize("exclude_seen", [True, False])
def test_lists_of_candidates_are_those_of_all_items_without_the_others(algo, by, exclude_seen):
    everything = algo.top_n(100, by=by, exclude_seen=exclude_seen)
    chosen = set(list(algo._items)[::3])
    listed = algo.top_n(4, by=by, exclude_seen=exclude_seen, candidates=chosen)
    for user, best in listed.items():
        assert best == [pair for pair in everything[user] if pair[0] in chosen][:4]


def test_the_list_of_an_unknown_user_has_the_taste_of_nobody(algo):
    lists = algo.lists("choice")
    (ranked,) = best_items(algo, np.array([-1]), 4, None, lists)
    nobody = np.zeros((1, lists.factors.x.shape[1]), np.float32)
    np.testing.assert_array_equal(ranked.items, top(lists.factors.scores(nobody)[0], 4, None)[0])


def test_an_unknown_item_of_a_new_user_is_told(algo):
    new = algo.fold_in({100: 5.0}, uid="guest")
    average = algo.score_pairs(np.array([0]), np.array([-1]))
    assert np.isfinite(average).all()
    for ask in (new.predict, new.predict_std, new.predict_proba):
        with pytest.warns(TacendaWarning, match="^item 7 is predicted as an average item"):
            ask(7)
    with pytest.warns(TacendaWarning, match="item '100' is predicted .* are int .* '100'"):
        new.predict("100")
    with warnings.catch_warnings(action="error"):
        new.predict(101)
    with pytest.warns(
        TacendaWarning, match="item 101 was not found: .* the int 101, and '101' is not"
    ):
        algo.predict("guest", "101")


def test_what_cannot_be_predicted_for_a_new_user_is_the_same_as_for_a_fitted_one(triples):
    algo = PMF(biased=False, **SMALL).fit(trainset_of(triples))
    algo.fold_in({100: 5.0, 101: 1.0}, uid="guest")
    pairs = [("guest", 7), ("guest", 100), (triples[0][0], 7), ("nobody", 7)]
    single = [algo.predict(*pair) for pair in pairs]
    assert [one.details.get("reason") for one in single] == [
        "Item is unknown.", None, "Item is unknown.", "User and item are unknown."
    ]  # fmt: skip
    for one, many in zip(single, algo.test([(*pair, None) for pair in pairs]), strict=True):
        assert many.details == one.details
        assert many.est == pytest.approx(one.est, abs=1e-6)
    many = algo.predict_many(*zip(*pairs, strict=True))
    np.testing.assert_allclose(many, [one.est for one in single], atol=1e-6)


@pytest.mark.parametrize(
    ("known", "asked", "said"),
    [
        (["1", "3"], 3, "a string, as Surprise reads it from files, and 3 is not: ask for '3'"),
        (["a", 7, "b"], "7", "the int 7, and '7' is not: ask with that type"),
    ],
    ids=["of a file", "among strings"],
)
def test_an_id_asked_for_by_another_type_is_told_in_one_sentence(known, asked, said):
    algo = BiasOnly().fit(trainset_of([(uid, "x", 1.0 + k) for k, uid in enumerate(known)]))
    whole = f"^user {asked} was not found: the id in the trainset is {said}$"
    with pytest.warns(TacendaWarning, match=whole):
        algo.predict(asked, "x")


def test_pairs_of_which_nothing_is_known_are_told(triples):
    rows = [(f"user {u}", f"item {i}", r) for u, i, r in triples]
    algo = BiasOnly().fit(trainset_of(rows))
    user, item = rows[0][:2]
    with pytest.warns(TacendaWarning, match="^none of the users and items asked for is in the"):
        algo.predict_many([item, item], [user, user])
    with warnings.catch_warnings(action="error"):
        algo.predict_many(["newcomer", "newcomer"], [item, "new item"])


@pytest.mark.parametrize(
    "ask",
    [
        lambda algo: SideInfo([("a", [1])]),
        lambda algo: ImplicitMF().fit([([1], "x")]),
        lambda algo: BiasOnly().fit(Frame(user=[[1], [2]], item=[1, 2], rating=[1.0, 2.0])),
        lambda algo: algo.test([([1], 100, None)]),
        lambda algo: algo.predict([1], 100),
        lambda algo: algo.predict(1, [100]),
        lambda algo: algo.predict_many([1], [[100]]),
        lambda algo: algo.top_n(1, [[1]]),
        lambda algo: algo.top_n(1, candidates=[[100]]),
        lambda algo: algo.top_n(1, exclude=[[100]]),
        lambda algo: algo.fold_in({100: 5.0}, rated=[[101]]),
        lambda algo: algo.fold_in({100: 5.0}, uid=[1]),
        lambda algo: ImplicitMF(random_state=0).fit([(1, 100)]).fold_in([[100]]),
        lambda algo: algo.fold_in({100: 5.0}).predict([101]),
    ],
)
def test_a_list_is_no_id(algo, ask):
    with pytest.raises(DataError, match=r"ids include an unhashable type: 'list'; give ids that"):
        ask(algo)


def test_pairs_of_another_type_than_the_trainset_are_not_left_out_as_unrated(long, pd):
    with pytest.raises(DataError, match=r"2 new users match .* its ids are int .* are str .*'2'\)"):
        ConditionalPMF(rated=[("2", 100), ("3", 100)], **SMALL).fit(long)
    with pytest.raises(DataError, match="1 new items match known items except for the type"):
        ConditionalPMF(rated=[(2, "100")], **SMALL).fit(long)


def test_users_folded_into_a_copy_are_unknown_to_the_original(algo):
    other = copy(algo)
    other.fold_in({100: 5.0}, uid="new")
    assert other.top_n(1, ["new"])
    with pytest.raises(DataError, match="'new' is not in the trainset"):
        algo.top_n(1, ["new"])


def test_a_new_user_s_missing_id_is_refused(algo):
    with pytest.raises(DataError, match="the user of a rating is missing, its id is nan"):
        algo.fold_in({100: 5.0}, uid=float("nan"))


def test_numbers_may_be_unsigned_integers():
    algo = PMF(**SMALL).fit(trainset_of([("a", "x", 4.0), ("b", "y", 2.0), ("b", "x", 1.0)]))
    items = np.array([1, -1])
    expected = algo.score_pairs(np.array([0, 1]), items)
    np.testing.assert_array_equal(algo.score_pairs(np.array([0, 1], np.uint64), items), expected)
