"""Data that is wrong or hardly there: a clear error, or what the documentation says."""

from copy import deepcopy
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array
from surprise.model_selection import GridSearchCV, KFold, cross_validate

from support.ratings import Frame
from support.recommenders import MODELS, SMALL, trainset_of
from tacenda.errors import ConfigurationError, DataError, NotFittedError, TacendaWarning
from tacenda.fitting import Callback
from tacenda.ratings import Ratings
from tacenda_surprise import (
    PMF,
    RBM,
    BiasOnly,
    Blend,
    ConditionalBayesianPMF,
    ConditionalPMF,
    ConditionalRBM,
    ImplicitMF,
    Recommender,
    SideInfo,
)
from tacenda_surprise.testing import make_dataset
from tacenda_surprise.trainsets import ratings_of


@pytest.fixture
def fitted():
    def fit(make, triples, scale=(1, 5)):
        return make().fit(trainset_of(triples, scale))

    return fit


class Interrupts(Callback):
    """Ctrl-C at a step."""

    def __init__(self, step=1):
        self.left = step

    def on_step(self, run):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def test_of_a_pair_rated_twice_the_last_rating_counts(make, fitted):
    triples = [("a", "x", 1.0), ("b", "x", 3.0), ("a", "y", 2.0), ("a", "x", 5.0)]
    with pytest.warns(UserWarning, match="1 ratings repeat a user and an item; the last"):
        twice = fitted(make, triples)
    assert ratings_of(twice.trainset).of_user(0)[1].tolist() == [5.0, 2.0]


@pytest.mark.parametrize(("algo", "message"), [
    (BiasOnly(), " ratings repeat a user and an item"),
    (ConditionalPMF(rated=[("a", "nothing")], **SMALL), "1 identities are of items that nobody has rated"),
    (PMF(lr_all=1e8, **SMALL), "PMF diverged"),
])  # fmt: skip
def test_warnings_of_fits_are_at_the_line_that_called_surprise(algo, message, triples):
    data = make_dataset([*triples, *triples[:9]])
    with pytest.warns(TacendaWarning) as found:
        cross_validate(algo, data, cv=KFold(2, random_state=0))
    assert any(one.filename == __file__ and message in str(one.message) for one in found)


@pytest.mark.parametrize("make", [lambda: PMF(**SMALL), lambda: Blend([BiasOnly()])])
@pytest.mark.filterwarnings("ignore:1 ratings repeat")
def test_of_a_pair_rated_twice_one_rating_counts_among_the_ratings_of_its_item(make, fitted):
    triples = [("a", "x", 1.0), ("a", "x", 5.0), ("a", "y", 2.0), ("b", "y", 3.0)]
    best = fitted(make, triples).top_n(5, ["b"], exclude_seen=False, min_ratings=2)
    assert [item for item, _ in best["b"]] == ["y"]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_ratings_must_be_finite(make, value, fitted):
    with pytest.raises(DataError, match=r"rating of user 'b' for item 'x' is .*must be finite"):
        fitted(make, [("a", "x", 1.0), ("b", "x", value)])


def test_ratings_off_the_scale(make, fitted):
    with pytest.raises(DataError, match="user 'b' for item 'x' is 7, off the scale 1 to 5"):
        fitted(make, [("a", "x", 1.0), ("b", "x", 7.0)])


@pytest.mark.parametrize("triples", [
    [("a", "x", 4.0)],
    [("a", "x", 4.0), ("a", "y", 2.0)],
    [("a", "x", 4.0), ("b", "x", 2.0)],
])  # fmt: skip
def test_one_user_one_item_or_one_rating(make, triples, fitted):
    algo = fitted(make, triples)
    assert 1 <= algo.predict("a", "x").est <= 5
    seen = {item for user, item, _ in triples if user == "a"}
    assert not seen & {item for item, _ in algo.top_n(3, ["a"])["a"]}


def test_the_integer_7_and_the_string_are_two_users(make, fitted):
    algo = fitted(make, [(7, "x", 1.0), ("7", "x", 5.0), (7, "y", 1.0), ("7", "y", 5.0)])
    assert algo.predict(7, "x").est < algo.predict("7", "x").est
    assert algo.test([(7, "x", 1.0)])[0].est == algo.predict(7, "x").est


def test_a_trainset_is_converted_once(trainset):
    assert ratings_of(trainset) is ratings_of(trainset)


def test_a_trainset_that_has_grown_is_converted_again():
    trainset = trainset_of([("a", "x", 4.0)])
    assert ratings_of(trainset).values.tolist() == [4.0]
    trainset._raw2inner_id_users["b"] = 1
    trainset.ur[1].append((0, 2.0))
    trainset.ir[0].append((1, 2.0))
    trainset.n_users, trainset.n_ratings = 2, 2
    assert ratings_of(trainset).values.tolist() == [4.0, 2.0]


def test_converting_a_trainset_adds_no_users_to_its_lists():
    trainset = trainset_of([("a", "x", 4.0)])
    trainset._raw2inner_id_users["b"] = 1
    trainset.n_users = 2
    assert ratings_of(trainset).n_users == 2
    assert list(trainset.ur) == [0]


def test_an_interrupted_fit_leaves_the_algorithm_as_it_was(make, trainset, testset):
    algo = make().fit(trainset)
    algo.fold_in({"item 3": 5.0}, uid="newcomer")
    before = algo.test(testset)
    other = trainset_of([("a", "x", 4.0), ("b", "y", 2.0)])
    with pytest.raises(KeyboardInterrupt):
        algo.fit(other, callbacks=[Interrupts()])
    assert algo.trainset is trainset
    assert algo.test(testset) == before
    with pytest.raises((KeyboardInterrupt, ConfigurationError)):
        algo.partial_fit(other, callbacks=[Interrupts()])
    assert algo.trainset is trainset
    assert algo.test(testset) == before
    assert len(algo.top_n(3, ["newcomer"])["newcomer"]) == 3


def test_both_fits_of_early_stopping_are_resumed(trainset, testset, tmp_path):
    def make():
        return ConditionalPMF(**SMALL, validation=0.1)

    for steps in (3, 4):  # in the first fit, then in the second
        with pytest.raises(KeyboardInterrupt):
            make().fit(trainset, checkpoints=tmp_path, callbacks=[Interrupts(steps)])
    resumed = make().fit(trainset, checkpoints=tmp_path, resume=True)
    assert resumed.test(testset) == make().fit(trainset).test(testset)


@pytest.mark.parametrize("make", [PMF, ConditionalBayesianPMF, RBM, ImplicitMF])
def test_checkpoints_without_a_seed_are_refused_at_the_first_fit(make, trainset, tmp_path):
    with pytest.raises(ConfigurationError, match=rf"a seed, .* {make.__name__}\(random_state=0\)$"):
        make().fit(trainset, checkpoints=tmp_path)
    assert not list(tmp_path.iterdir())


def test_half_stars_are_levels(fitted):
    algo = fitted(MODELS["PMF"], [("a", "x", 0.5), ("b", "x", 4.0), ("b", "y", 3.5)], (0.5, 5))
    assert algo.levels.tolist() == [0.5 * k for k in range(1, 11)]


def test_zero_and_negative_ratings(make, fitted):
    triples = [(u, i, float((u * i) % 21 - 10)) for u in range(12) for i in range(9)]
    algo = fitted(make, triples, (-10, 10))
    assert -10 <= algo.predict(1, 1).est <= 10
    assert len(algo.levels) == 21


@pytest.mark.parametrize("machine", ["RBM", "RBM of the thesis", "ConditionalRBM"])
def test_machines_take_continuous_ratings_and_give_densities(machine, fitted):
    rng = np.random.default_rng(0)
    triples = [(u, i, float(rng.uniform(1, 5))) for u in range(20) for i in range(20)]
    algo = fitted(MODELS[machine], triples)
    assert 1 <= algo.predict(1, 1).est <= 5
    with pytest.raises(ConfigurationError, match="these are continuous"):
        algo.predict_proba([1], [1])
    ratings = np.linspace(-10, 20, 3001)
    density = algo.predict_density([1] * 3001, [1] * 3001, ratings)
    assert np.trapezoid(density, ratings) == pytest.approx(1, abs=1e-3)
    mean = np.trapezoid(density * ratings, ratings)
    assert mean == pytest.approx(algo.predict(1, 1).est, abs=0.01)


def test_settings_that_diverge_score_badly_and_do_not_end_a_search(data, tmp_path):
    grid = {"lr_all": [1e8, 0.02], "n_factors": [3], "n_epochs": [8], "random_state": [0]}
    search = GridSearchCV(PMF, grid, cv=2)
    with pytest.warns(UserWarning, match="PMF diverged: .*; give a lower lr_all"):
        search.fit(data)
    assert search.best_params["rmse"]["lr_all"] == 0.02
    with pytest.warns(UserWarning, match="PMF diverged"):
        diverged = PMF(lr_all=1e8, **SMALL).fit(data.build_full_trainset())
    for use in (
        lambda: diverged.save(tmp_path / "m"),
        lambda: diverged.explain("user 1", "item 1"),
    ):
        with pytest.raises(
            ConfigurationError, match=r"the fit of this PMF diverged, .* fit it again"
        ):
            use()


def test_fits_to_a_sparse_matrix_or_a_frame(trainset):
    u, i, r = (np.array(column) for column in zip(*trainset.all_ratings(), strict=True))
    table = csr_array((r, (u.astype(int), i.astype(int))))
    of_table = PMF(**SMALL).fit(table)
    of_frame = PMF(**SMALL).fit(Frame(u.astype(int), i.astype(int), r))
    assert of_table.trainset.n_ratings == of_frame.trainset.n_ratings == trainset.n_ratings
    assert of_table.trainset.rating_scale == (1.0, 5.0)
    assert of_table.predict(3, 4).est == pytest.approx(of_frame.predict(3, 4).est, abs=0.2)
    with pytest.raises(DataError, match=r"from a list: give a Trainset.* \(ImplicitMF needs no"):
        PMF(**SMALL).fit([("a", "b", 3.0)])


def test_ids_that_are_tuples_come_back_as_they_are(make, fitted):
    triples = [((u, "x"), ("item", i), float(1 + (u * i) % 5)) for u in range(8) for i in range(7)]
    best = fitted(make, triples).top_n(2, exclude_seen=False)
    assert set(best) == {(u, "x") for u in range(8)}
    assert all(isinstance(iid, tuple) and iid[0] == "item" for (iid, _) in best[3, "x"])


def test_users_of_whom_only_the_type_of_the_id_differs(make, trainset):
    algo = make().fit(trainset)
    algo.fold_in({"item 3": 5.0}, uid=7)
    text = algo.fold_in({"item 3": 1.0, "item 5": 1.0}, uid="7")
    again = algo.fold_in({"item 3": 1.0}, uid=7)
    for uid, user in ((7, again), ("7", text)):
        assert algo.predict(uid, "item 4").est == user.predict("item 4")
        assert algo.top_n(3, [uid])[uid] == user.top_n(3)
    if algo.conditional:
        algo.rated = [(7, "item 1"), ("7", "item 2")]
        one, other = (algo.fit(trainset).predict(uid, "item 4") for uid in (7, "7"))
        assert [one.est, other.est] == algo.predict_many([7, "7"], ["item 4"] * 2).tolist()


def test_what_is_new_must_have_the_same_scale(trainset):
    algo = PMF(**SMALL).fit(trainset)
    other = trainset_of([("a", "x", 4.0)], (0, 10))
    with pytest.raises(ConfigurationError, match="the scale"):
        algo.partial_fit(other)


def test_of_a_pair_rated_before_the_new_rating_counts(trainset):
    algo = PMF(**SMALL).fit(trainset)
    user, item, old = next(iter(trainset.all_ratings()))
    raw = trainset.to_raw_uid(user), trainset.to_raw_iid(item)
    new = 1.0 if old > 3 else 5.0
    before = algo.predict(*raw).est
    algo.partial_fit(trainset_of([(*raw, new)]), n_epochs=20)
    assert dict(algo.trainset.ur[user])[item] == new
    assert abs(algo.predict(*raw).est - new) < abs(before - new)
    assert algo.trainset.n_ratings == trainset.n_ratings


def test_identities_may_come_from_an_iterator(trainset, testset):
    pairs = [("quiet", "item 1"), ("quiet", "item 2")]
    algo = ConditionalPMF(rated=iter(pairs), **SMALL)
    assert "quiet" in algo.fit(trainset).top_n(1)
    assert "quiet" in algo.fit(trainset).top_n(1)


def test_a_blend_of_what_hardly_is(make):
    few = trainset_of([("a", "x", 4.0), ("b", "y", 2.0), ("a", "y", 3.0)])
    blend = Blend([make(), BiasOnly()], random_state=0).fit(few)
    assert 1 <= blend.predict("a", "x").est <= 5
    assert 1 <= blend.predict("nobody", "nothing").est <= 5


@pytest.mark.parametrize("fitted", [PMF(n_factors=2, n_epochs=2), Blend([BiasOnly()])])
def test_a_frame_of_new_ratings_is_on_the_scale_of_the_old(trainset, fitted):
    algo = deepcopy(fitted).fit(trainset)
    items = [trainset.to_raw_iid(0), trainset.to_raw_iid(1)]
    algo.partial_fit(Frame(["newcomer"] * 2, items, [3.0, 4.0]))
    assert algo.trainset.rating_scale == trainset.rating_scale
    assert algo.trainset.n_ratings == trainset.n_ratings + 2
    with pytest.raises(DataError, match="off the scale"):
        algo.partial_fit(Frame(["newcomer"], items[:1], [99.0]))
    with pytest.raises(DataError, match=r"third column, .* does not contain numbers"):
        algo.partial_fit(Frame(["newcomer"], items[:1], ["good"]))


class NA:
    """What pandas has for a value that is missing."""

    def __repr__(self):
        return "<NA>"

    def __eq__(self, other):
        return self

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = object.__hash__


@pytest.mark.parametrize("missing", [None, np.nan, np.datetime64("NaT"), NA()], ids=str)
@pytest.mark.parametrize("make", [lambda: PMF(**SMALL), lambda: Blend([BiasOnly()])])
def test_a_rating_of_nobody_or_nothing_is_refused(make, missing):
    ids, ratings = np.array(["a", "b", "c", missing, missing], object), [1.0, 2.0, 3.0, 4.0, 5.0]
    with pytest.raises(DataError, match=r"the user of a rating is missing, its id is .*: give"):
        make().fit(Frame(ids, list("xyxyx"), ratings))
    with pytest.raises(DataError, match=r"the item of a rating is missing, its id is .*: give"):
        make().fit(Frame(list("abcab"), ids, ratings))


@pytest.mark.parametrize("missing", [None, np.nan, np.datetime64("NaT"), NA()], ids=str)
def test_missing_ids_of_new_users_and_of_side_information_are_refused(fitted, missing):
    algo = fitted(MODELS["ConditionalPMF"], [("a", "x", 1.0), ("b", "y", 2.0)])
    for given in ({"ratings": {missing: 1.0}}, {"rated": ["x", missing]}):
        with pytest.raises(DataError, match="the item of a rating is missing"):
            algo.fold_in(**given)
    with pytest.raises(DataError, match="the user of a rating is missing"):
        SideInfo([("a", "x"), (missing, "x")])
    with pytest.raises(DataError, match="the item of a rating is missing"):
        SideInfo([("a", "x"), ("b", missing)])


def test_ids_that_say_none_are_texts_like_others(fitted):
    algo = fitted(MODELS["PMF"], [("None", "nan", 1.0), ("<NA>", "NaT", 2.0)])
    assert set(algo.top_n(1)) == {"None", "<NA>"}


def test_numbers_of_a_new_user_are_checked_as_raw_ids_are(make, fitted):
    algo = fitted(make, [("a", "x", 1.0), ("b", "y", 3.0), ("a", "y", 2.0)])
    for items, values, message in (
        ([0.5], [2.0], "item numbers are of type float64; give integers"),
        (["x"], [2.0], "item numbers are of type <U1; give integers, or raw ids to fold_in"),
        ([0, 7], [3.0, 3.0], "an item number is not in 0 to 1: it is 7; leave the item out, or"),
        ([0, -1], [3.0, 3.0], "an item number is not in 0 to 1: it is -1; leave the item out, or"),
        ([1, 1], [2.0, 3.0], "an item number is repeated, 1; give one rating for every item"),
        ([0, 1], [3.0], "a user has 2 items and 1 ratings; give one rating for every item"),
        ([[0]], [[3.0]], r"a user's item numbers are \[\[0\]\]; give a list of numbers"),
        ([[0], []], [3.0], r"a user's item numbers are \[\[0\], \[\]\]; give a list of numbers"),
        (None, [3.0], "a user's item numbers are None; give a list of numbers"),
        ([0], 3.0, r"a user's ratings are 3\.0; give a list of numbers"),
        ([True], [3.0], "item numbers are of type bool; give integers"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            algo.fold(items, values)
    for items, values, message in (
        ([1, 0], [3.0, np.nan], "a rating is not finite: item number 0 has nan; correct it or"),
        ([1, 0], [3.0, 1e300], r"a rating is not finite: item number 0 has 1e\+300; correct it or"),
        ([1, 0], [3.0, 9], "off the scale 1 to 5: item number 0 has 9.0; correct it or leave it"),
        ([0], [10**400], "a rating is not finite: item number 0 has inf; correct it or"),
        ([0], [-(10**5000)], "a rating is not finite: item number 0 has -inf; correct it or"),
        ([0], [Fraction(10**400)], "a rating is not finite: item number 0 has inf; correct it or"),
        ([0], [Decimal("sNaN")], "a rating is not finite: item number 0 has nan; correct it or"),
        ([0], ["3"], r"no numbers, one rating for every item, but \['3'\]: give numbers"),
        ([0], [None], r"no numbers, one rating for every item, but \[None\]: give numbers"),
        ([0], [3j], r"no numbers, one rating for every item, but \[3j\]: give numbers"),
        ([0], np.array(["2020"], "M8[Y]"), "no numbers, one rating for every item"),
    ):
        with pytest.raises(DataError, match=message):
            algo.fold(items, values)
    assert np.isfinite(algo.fold([0], [Decimal(3)]).score()).all()
    for identities in ([2], [-1], [0.5], [[0]], 1, "x", [None]):
        with pytest.raises(ConfigurationError, match="item number"):
            algo.fold([0], [3.0], identities)


@pytest.mark.parametrize("callbacks", [[print], [Callback], [Callback(), None], Callback()])
def test_callbacks_are_objects_of_their_class(fitted, callbacks):
    algo = fitted(MODELS["PMF"], [("a", "x", 1.0), ("b", "y", 3.0)])
    with pytest.raises(ConfigurationError, match="give a list of objects of classes derived"):
        algo.fit(Ratings.from_triples([("a", "x", 1.0)]), callbacks=callbacks)


@pytest.mark.parametrize("unfitted", [PMF(), ConditionalRBM(), Blend([BiasOnly()])])
@pytest.mark.parametrize(
    "use",
    [
        lambda algo: algo.predict("a", "x"),
        lambda algo: algo.predict_many(["a"], ["x"]),
        lambda algo: algo.test([("a", "x", 3.0)]),
        lambda algo: algo.top_n(3),
        lambda algo: algo.fold_in({"x": 3.0}),
        lambda algo: algo.partial_fit(Frame(["a"], ["x"], [3.0])),
        lambda algo: algo.implicit_factors,
        lambda algo: algo.levels,
    ],
)
def test_what_is_not_fitted_says_how_to_fit_it(unfitted, use):
    with pytest.raises(NotFittedError, match=r"is not fitted: call fit\(trainset\)"):
        use(unfitted)


@pytest.mark.parametrize("make", [lambda: PMF(**SMALL), lambda: Blend([BiasOnly()])])
def test_arguments_of_the_wrong_kind_are_named(make, fitted):
    algo = fitted(make, [("a", "x", 1.0), ("b", "y", 3.0), ("a", "y", 2.0)])
    for ratings in ([3, 4], 3, "xy", [("x", 1, 2)]):
        with pytest.raises(
            ConfigurationError, match=r"give the items with their ratings, as \{item"
        ):
            algo.fold_in(ratings)
    for value in ("4", None, [4]):
        with pytest.raises(DataError, match=r"rating of item 'x' is .*; give a number"):
            algo.fold_in({"x": value})
    for value in (6, 10**400, -(10**5000), Decimal("sNaN")):
        with pytest.raises(DataError, match="off the scale 1 to 5"):
            algo.fold_in({"x": value})
    assert 1 <= algo.fold_in({"x": np.float32(4)}).predict("y") <= 5
    new = algo.fold_in({"x": 4})
    for listed in (lambda n: algo.top_n(n, ["b"]), new.top_n):
        for n in (2.5, "2", 0, None, True):
            with pytest.raises(ConfigurationError, match=r"n is .*; it must be a whole number"):
                listed(n)
        assert listed(np.int64(1))
        for least in (2.5, "2", -1):
            with pytest.raises(ConfigurationError, match=r"min_ratings is .*; it must be a whole"):
                algo.top_n(1, min_ratings=least)
    for rows in ([("b", "x")], [("b", "x", 3), ("b", "x")], 3):
        with pytest.raises(DataError, match="test takes rows of user, item and rating"):
            algo.test(rows)
    density = algo.predict_density(iter(["b"]), iter(["x"]), [2.0])
    np.testing.assert_array_equal(density, algo.predict_density(["b"], ["x"], [2.0]))


def test_arguments_are_attributes_that_can_be_read():
    algo = PMF(n_factors=7, n_epochs=3)
    assert (algo.n_factors, algo.n_epochs, algo.reg_all, algo.verbose) == (7, 3, None, False)
    assert RBM(n_hidden=4).n_hidden == 4
    assert Recommender(name="pmf", settings={"n_epochs": 3}).n_epochs == 3
    assert "n_factors" in dir(PMF)
    assert "n_factors" not in vars(algo)  # no second copy
    with pytest.raises(AttributeError, match=r"n_factors cannot be set .* PMF\(n_factors=9\)"):
        algo.n_factors = 9
    with pytest.raises(AttributeError, match="n_hidden"):
        _ = algo.n_hidden
    assert deepcopy(algo).n_factors == 7
