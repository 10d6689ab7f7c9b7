"""Our algorithms against the kit that third parties use, and what all of them promise beyond that."""

# ruff: noqa: NPY002 - the global random state is what Surprise has

import inspect

import numpy as np
import pytest
from surprise.model_selection import GridSearchCV, RandomizedSearchCV, cross_validate

from support.recommenders import SMALL, AlgorithmTests
from tacenda.errors import ConfigurationError
from tacenda.fitting import loop
from tacenda_surprise import (
    PMF,
    RBM,
    BayesianPMF,
    BiasOnly,
    ConditionalBayesianPMF,
    ConditionalPMF,
    ConditionalRBM,
    Recommender,
)
from tacenda_surprise.pmf_options import ResolvedOptions
from tacenda_surprise.trainsets import ratings_of

MACHINE = {"n_hidden": 6, "n_epochs": 15, "random_state": 0}


def made(cls, **usual):
    """Return ``make_model`` of `AlgorithmTests`, with other defaults than the class has."""
    return staticmethod(lambda **options: cls(**{**usual, **options}))


class TestPMF(AlgorithmTests):
    epochs, make_model = 8, made(PMF, **SMALL)


class TestUnbiasedPMF(AlgorithmTests):
    epochs, make_model = 8, made(PMF, **SMALL, biased=False)


class TestALS(AlgorithmTests):
    epochs, make_model = 8, made(PMF, **SMALL, solver="als", reg_all=0.2)


class TestFactorsOfNoWidth(AlgorithmTests):
    like_fitted = 0.4
    epochs, make_model = 25, made(PMF, n_factors=0, n_epochs=25, random_state=0)


class TestConditionalPMF(AlgorithmTests):
    epochs, make_model = 8, made(ConditionalPMF, **SMALL)


class TestStoppedEarly(AlgorithmTests):
    epochs, make_model = 8, made(ConditionalPMF, **SMALL, validation=0.05)


class TestBayesian(AlgorithmTests):
    epochs = 22
    make_model = made(BayesianPMF, n_factors=3, burn_in=10, n_samples=20, random_state=0)


class TestConditionalBayesian(AlgorithmTests):
    epochs = 22
    make_model = made(ConditionalBayesianPMF, n_factors=5, burn_in=10, n_samples=12, random_state=0)


class TestRBM(AlgorithmTests):
    epochs, make_model = 15, made(RBM, **MACHINE)


class TestRBMWithoutTies(AlgorithmTests):
    epochs, make_model = 15, made(RBM, **MACHINE, ordinal=False)


class TestRBMOfTheThesis(AlgorithmTests):
    epochs, make_model = 15, made(RBM.thesis, **MACHINE, lr_all=0.02)


class TestConditionalRBM(AlgorithmTests):
    epochs, make_model = 25, made(ConditionalRBM, n_hidden=6, n_epochs=25, random_state=0)


class TestConditionalRBMOfUsers(AlgorithmTests):
    epochs, validated = 20, {"n_epochs": 25, "orientation": "user", "validation": 0.1}
    make_model = made(ConditionalRBM, **{**MACHINE, **validated})


class TestBiasOnly(AlgorithmTests):
    random = False
    epochs, make_model = 10, made(BiasOnly)


class TestBiasesOfItems(AlgorithmTests):
    random, like_fitted = False, 0.5
    epochs, make_model = 10, made(BiasOnly, biases="items")


def test_searches_in_processes(data):
    grid = {"n_factors": [2, 4], "n_epochs": [3], "random_state": [0]}
    search = GridSearchCV(ConditionalPMF, grid, cv=2, n_jobs=2, refit=True)
    search.fit(data)
    assert search.best_params["rmse"]["n_factors"] in (2, 4)
    assert 1 <= search.predict("user 1", "item 1").est <= 5
    best = search.best_estimator["rmse"]
    again = cross_validate(best, data, ["rmse"], cv=search.cv)
    assert np.mean(again["test_rmse"]) < 1.5
    random = RandomizedSearchCV(PMF, grid, n_iter=2, cv=2, n_jobs=2, random_state=0)
    random.fit(data)
    assert len(random.cv_results["params"]) == 2


def test_equal_settings_have_equal_scores_in_a_search(data):
    grid = {"n_factors": [3, 3], "n_epochs": [3], "random_state": [0]}
    search = GridSearchCV(PMF, grid, measures=["rmse", "mae"], cv=3, return_train_measures=True)
    search.fit(data)
    assert len(set(search.cv_results["mean_test_rmse"])) == 1
    assert len(set(search.cv_results["mean_train_mae"])) == 1


def test_random_state_none_takes_numpys_global_state(trainset, testset):
    found = []
    for _ in range(2):
        np.random.seed(5)
        found.append(PMF(**{**SMALL, "random_state": None}).fit(trainset).test(testset))
    assert found[0] == found[1]
    state = np.random.RandomState(5)
    assert PMF(**{**SMALL, "random_state": state}).fit(trainset).test(testset) == found[0]


@pytest.mark.parametrize(
    "changed",
    [
        *({"n_factors": 2}, {"n_epochs": 1}, {"lr_decay": 0.5}, {"lr_yj": 0.1}, {"reg_yj": 5.0}),
        *({name: 0.05} for name in ("lr_all", "lr_bu", "lr_bi", "lr_pu", "lr_qi")),
        *({name: 0.4} for name in ("reg_all", "reg_bu", "reg_bi", "reg_pu", "reg_qi")),
    ],
    ids=str,
)
def test_every_setting_is_of_consequence(changed, trainset, testset):
    usual = ConditionalPMF(**SMALL).fit(trainset).test(testset)
    assert ConditionalPMF(**{**SMALL, **changed}).fit(trainset).test(testset) != usual


def test_learning_rates_and_penalties_by_their_surprise_names(trainset):
    ratings = ratings_of(trainset)
    given = PMF(lr_all=0.01, reg_all=0.3, lr_bi=0.5, reg_pu=0.7).settings
    used = ResolvedOptions.of(given, ratings)
    assert used.rates[:4] == (0.01, 0.01, 0.01, 0.5)
    assert (used.user_factors.each, used.item_factors.each) == (0.7, 0.3)
    assert used.user_biases.each == used.item_biases.each == 0.3
    only = ResolvedOptions.of(PMF(lr_qi=0.2).settings, ratings)
    usual = ResolvedOptions.of(PMF().settings, ratings)
    assert only.rates == usual.rates._replace(item_factors=0.2)
    with pytest.raises(ConfigurationError, match="PMF: n_factors must be a whole number"):
        PMF(n_factors=2.5)
    with pytest.raises(ConfigurationError, match="PMF has no option 'rated'"):
        PMF(rated=[("a", "b")])
    with pytest.raises(ConfigurationError, match="rated must be a SideInfo or an Iterable or None"):
        ConditionalPMF(rated=3)


@pytest.mark.parametrize(
    ("cls", "arguments", "named"),
    [
        (PMF, {"solver": "als", "lr_all": 0.1}, "lr_all has no effect with solver='als'"),
        (PMF, {"solver": "als", "lr_bi": 0.1}, "lr_bi has no effect with solver='als'"),
        (PMF, {"solver": "als", "lr_decay": 0.9}, "lr_decay has no effect with solver='als'"),
        (PMF, {"biased": False, "lr_bi": 0.1}, "lr_bi has no effect with biased=False"),
        (PMF, {"biased": False, "reg_bi": 0.1}, "reg_bi has no effect with biased=False"),
        (PMF, {"patience": 9}, "patience has no effect without validation"),
        (ConditionalPMF, {"refit": False}, "refit has no effect without validation"),
        (
            PMF,
            {"lr_all": 0.1, "lr_bu": 0.2, "lr_bi": 0.3, "lr_pu": 0.2, "lr_qi": 0.3},
            "lr_all has no effect next to lr_bu, lr_bi, lr_pu and lr_qi",
        ),
        (
            PMF,
            {"biased": False, "reg_all": 9, "reg_pu": 0.1, "reg_qi": 0.1},
            "reg_all has no effect next to reg_pu and reg_qi",
        ),
        (ConditionalPMF, {"solver": "als"}, "ConditionalPMF has no option 'solver'"),
        (BayesianPMF, {"lr_all": 0.1}, "BayesianPMF has no option 'lr_all'"),
        (BayesianPMF, {"rated": []}, "BayesianPMF has no option 'rated'"),
        (RBM, {"patience": 9}, "patience has no effect without validation"),
        (RBM, {"reg_side": 0.1}, "RBM has no option 'reg_side'"),
        (ConditionalRBM, {"persistent": True}, "no longer has the option persistent"),
        (BiasOnly, {"reg_u": 1.0}, "BiasOnly no longer has the option reg_u"),
        (BiasOnly, {"random_state": 0}, "BiasOnly has no option 'random_state'"),
        (Recommender, {"n_factor": 3}, "ConditionalPMF has no option 'n_factor'"),
    ],
)
def test_no_argument_is_ignored(cls, arguments, named):
    with pytest.raises(ConfigurationError, match=named):
        cls(**arguments)


def test_an_argument_that_acts_on_one_of_two_options_is_taken():
    assert (PMF(biased=False, lr_all=0.1, reg_all=0.2).lr_all) == 0.1


@pytest.mark.parametrize("cls", [
    PMF, ConditionalPMF, BayesianPMF, ConditionalBayesianPMF, RBM, ConditionalRBM, BiasOnly,
])  # fmt: skip
def test_arguments_are_declared_once_and_shown(cls, trainset):
    parameters = inspect.signature(cls).parameters
    assert {p.kind for p in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    made = cls()
    for one in cls.settings_class.options():
        assert one.name in parameters
        assert f"\n{one.name}\n" in cls.__doc__
        assert one.doc
        assert getattr(made.settings, one.name) == one.default
    assert repr(made).startswith(f"<{cls.__name__}(")
    assert repr(made).endswith("not fitted>")
    assert repr(BiasOnly().fit(trainset)).endswith(", fitted>")


def test_what_all_algorithms_have_is_shown_last():
    shown = list(inspect.signature(ConditionalPMF).parameters)
    assert shown[0] == "n_factors"
    assert shown[-6:] == ["rated", "device", "validation", "refit", "verbose", "random_state"]


def test_factors_and_biases_are_none_where_there_are_none(trainset):
    machine = RBM(n_hidden=2, n_epochs=1)
    for one in (machine, machine.fit(trainset), PMF()):
        assert [one.bu, one.bi, one.pu, one.qi] == [None] * 4


def test_what_is_chosen_is_of_the_last_fit_whatever_the_next_is_given(trainset):
    user, item = trainset.to_raw_uid(0), trainset.to_raw_iid(0)
    algo, other = (ConditionalPMF(n_factors=2, n_epochs=1, random_state=0) for _ in range(2))
    algo.fit(trainset).rated = [("somebody else", item)]
    assert algo.top_n(3, [user]) == other.fit(trainset).top_n(3, [user])
    algo.rated = [(f"user {k}", trainset.to_raw_iid(i)) for k in range(9) for i in range(50)]
    algo._implicit = None
    assert algo.top_n(3, [user]) == other.top_n(3, [user])


def test_lists_are_a_mapping_of_raw_ids(trainset):
    algo = PMF(n_factors=3, n_epochs=3, random_state=0).fit(trainset)
    user = trainset.to_raw_uid(0)
    stranger = algo.fold_in({trainset.to_raw_iid(0): 5.0}, uid="stranger")
    found = algo.top_n(3, [user, "stranger", user])
    assert list(found) == [user, "stranger"]
    assert len(found) == 2
    assert found["stranger"] == stranger.top_n(3)
    assert found[user] == algo.top_n(3)[user]
    assert repr(found) == repr(dict(found))
    more = {user: [], "else": []}
    assert found | more == {**found, **more}
    assert more | found == {**more, **found}
    assert "nobody" not in found
    with pytest.raises(KeyError):
        found["nobody"]
    low, high = trainset.rating_scale
    assert all(low <= estimate <= high for _, estimate in found[user])
    one = algo.top_n(5, [user], candidates=[trainset.to_raw_iid(k) for k in range(2)])
    assert len(one[user]) <= 2
    algo = PMF(n_factors=3, n_epochs=3, random_state=0).fit(trainset)
    with pytest.raises(ConfigurationError, match="by is 'choices'; give"):
        algo.top_n(3, by="choices")
    assert algo._implicit is None, "the model of choices was fitted for nothing"


@pytest.mark.parametrize(
    "algo",
    [
        PMF(n_epochs=1, random_state=0),
        RBM(n_epochs=1, validation=0.1, random_state=0),
        BayesianPMF(n_factors=2, burn_in=16, n_samples=1, random_state=0),
    ],
)
def test_progress_tells_the_fit_that_holds_ratings_out_from_the_fit_to_all(
    algo, trainset, monkeypatch
):
    labels = []
    monkeypatch.setattr(loop, "track", lambda each, label, **_: labels.append(label) or each)
    algo.fit(trainset)
    name = type(algo).__name__
    stages = [label.partition(":")[0] for label in labels if " 1 of " in label]
    assert stages == [f"{name} (validation)", name]


@pytest.mark.parametrize("make", [PMF, RBM])
def test_figures_say_what_was_held_out_or_that_nothing_was(make, trainset):
    """The error is that of the fit that held ratings out, also where a second fit to all ratings follows."""
    assert make(n_epochs=2, random_state=0).fit(trainset).figures[0]["criterion"] == "none held out"
    algo = make(n_epochs=2, random_state=0, validation=0.1).fit(trainset)
    assert algo.figures[0]["criterion"] == "RMSE of the ratings held out"
    assert 0.3 < algo.figures[0]["best"] < 1.5
    (again,) = algo.partial_fit(trainset, 1).figures
    assert (again["criterion"], again["best"]) == ("none held out", None)
