"""Our algorithms against the kit that third parties use, and what is particular to ours."""

# ruff: noqa: NPY002 - the global random state is what Surprise has

import inspect

import numpy as np
import pytest
from surprise.model_selection import GridSearchCV, RandomizedSearchCV, cross_validate

from tacenda.errors import ConfigurationError
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
from tacenda_surprise.models import (
    ConditionalBoltzmannSettings,
    ConditionalFactorizationSettings,
    FactorizationSettings,
)
from tacenda_surprise.testing import AlgorithmTests

SMALL = {"n_factors": 5, "n_epochs": 8, "random_state": 0}
MACHINE = {"n_hidden": 6, "n_epochs": 15, "random_state": 0}


class TestPMF(AlgorithmTests):
    epochs = 8

    def make_algorithm(self, **settings):
        return PMF(**{**SMALL, **settings})


class TestUnbiasedPMF(AlgorithmTests):
    epochs = 8

    def make_algorithm(self, **settings):
        return PMF(**{**SMALL, "biased": False, **settings})


class TestALS(AlgorithmTests):
    epochs = 8

    def make_algorithm(self, **settings):
        return PMF(**{**SMALL, "solver": "als", "reg_all": 0.2, **settings})


class TestConditionalPMF(AlgorithmTests):
    epochs = 8

    def make_algorithm(self, **settings):
        return ConditionalPMF(**{**SMALL, **settings})


class TestStoppedEarly(AlgorithmTests):
    epochs = 8

    def make_algorithm(self, **settings):
        return ConditionalPMF(**{**SMALL, "validation": 0.05, **settings})


class TestBayesian(AlgorithmTests):
    epochs = 22

    def make_algorithm(self, **settings):
        own = {"n_factors": 5, "burn_in": 10, "n_samples": 12, "random_state": 0}
        return ConditionalBayesianPMF(**{**own, **settings})


class TestRBM(AlgorithmTests):
    epochs = 15

    def make_algorithm(self, **settings):
        return RBM(**{**MACHINE, **settings})


class TestRBMOfTheThesis(AlgorithmTests):
    epochs = 15

    def make_algorithm(self, **settings):
        return RBM.thesis(**{**MACHINE, **settings})


class TestConditionalRBM(AlgorithmTests):
    epochs = 25

    def make_algorithm(self, **settings):
        return ConditionalRBM(**{**MACHINE, "n_epochs": 25, **settings})


class TestBiasOnly(AlgorithmTests):
    random = False
    epochs = 10

    def make_algorithm(self, **settings):
        settings.pop("random_state", None)  # nothing is random
        return BiasOnly(**settings)


class TestRecommender(AlgorithmTests):
    epochs = 8

    def make_algorithm(self, **settings):
        own = {"settings": {"n_factors": 5, "epochs": 8}, "random_state": 0}
        return Recommender(name="conditional_pmf", **{**own, **settings})


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
        {"n_factors": 2},
        {"n_epochs": 1},
        {"lr_all": 0.05},
        {"reg_all": 0.4},
        {"lr_bu": 0.05},
        {"lr_bi": 0.05},
        {"lr_pu": 0.05},
        {"lr_qi": 0.05},
        {"reg_bu": 0.4},
        {"reg_bi": 0.4},
        {"reg_pu": 0.4},
        {"reg_qi": 0.4},
        {"init_mean": 0.1},
        {"lr_decay": 0.5},
        {"init_std_dev": 0.5},
        {"lr_yj": 0.1},
        {"reg_yj": 5.0},
    ],
    ids=str,
)
def test_every_setting_is_of_consequence(changed, trainset, testset):
    usual = ConditionalPMF(**SMALL).fit(trainset).test(testset)
    assert ConditionalPMF(**{**SMALL, **changed}).fit(trainset).test(testset) != usual


def test_learning_rates_and_penalties_by_their_surprise_names():
    settings = PMF(lr_all=0.01, reg_all=0.3, lr_bi=0.5, reg_pu=0.7)._new_model().settings
    advanced = settings.advanced
    assert advanced.user_learning_rate == advanced.item_learning_rate == 0.01
    assert (advanced.user_bias_learning_rate, advanced.item_bias_learning_rate) == (0.01, 0.5)
    assert (advanced.user_penalty, advanced.item_penalty) == (0.7, 0.3)
    assert advanced.user_bias_penalty == advanced.item_bias_penalty == 0.3
    only = PMF(lr_qi=0.2)._new_model().settings.advanced
    assert (only.user_learning_rate, only.item_learning_rate) == (None, 0.2)
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
            "lr_all has no effect beside lr_bu, lr_bi, lr_pu and lr_qi",
        ),
        (ConditionalPMF, {"solver": "als"}, "ConditionalPMF has no option 'solver'"),
        (BayesianPMF, {"lr_all": 0.1}, "BayesianPMF has no option 'lr_all'"),
        (BayesianPMF, {"rated": []}, "BayesianPMF has no option 'rated'"),
        (RBM, {"patience": 9}, "patience has no effect without validation"),
        (RBM, {"reg_side": 0.1}, "RBM has no option 'reg_side'"),
        (ConditionalRBM, {"persistent": True, "validation": 0.1}, "persistent chains predict"),
        (BiasOnly, {"biases": "items", "reg_u": 1.0}, "reg_u has no effect with biases='items'"),
        (BiasOnly, {"random_state": 0}, "BiasOnly has no option 'random_state'"),
        (Recommender, {"n_factors": 3}, "Recommender has no option 'n_factors'"),
    ],
)
def test_no_argument_is_ignored(cls, arguments, named):
    with pytest.raises(ConfigurationError, match=named):
        cls(**arguments)


def test_an_argument_that_acts_on_one_of_two_options_is_taken():
    settings = PMF(biased=False, lr_all=0.1, reg_all=0.2)._new_model().settings
    assert (settings.learning_rate, settings.penalty) == (0.1, 0.2)


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


def test_the_machine_of_the_thesis_by_name():
    machine = RBM.thesis(n_hidden=7)._new_model().settings
    assert (machine.orientation, machine.ordinal, machine.offset) == ("user", False, False)
    assert machine.n_hidden == 7
    conditional = ConditionalRBM.thesis(random_state=0)._new_model().settings
    assert conditional == ConditionalBoltzmannSettings.thesis(seed=conditional.seed)


@pytest.mark.parametrize(
    ("cls", "settings_class"),
    [(PMF, FactorizationSettings), (ConditionalPMF, ConditionalFactorizationSettings)],
)
def test_factorizations_of_the_thesis_by_name(cls, settings_class):
    made = cls.thesis(n_factors=7, random_state=0)._new_model().settings
    assert made == settings_class.thesis(n_factors=7, seed=made.seed)
    bare = cls.online_svd(biased=True)._new_model().settings.advanced
    assert bare.user_penalty == bare.item_penalty == 0
    assert bare.user_bias_penalty == bare.item_bias_penalty == 0
    assert cls.online_svd()._new_model().settings.biased is False
    faster = cls.thesis(lr_all=0.5)._new_model().settings
    rates = faster.advanced.user_learning_rate, faster.advanced.item_bias_learning_rate
    assert rates == (0.5, 0.5)
    with pytest.raises(ConfigurationError, match="no option 'n_factor'"):
        cls.thesis(n_factor=7)


@pytest.mark.parametrize("cls", [
    PMF, ConditionalPMF, BayesianPMF, ConditionalBayesianPMF, RBM, ConditionalRBM, BiasOnly,
])  # fmt: skip
def test_every_option_of_a_model_is_that_of_an_argument(cls):
    """The defaults are those of the models, and no option was forgotten."""
    model = cls()._new_model()
    assert {**model.settings.to_dict(), "seed": 0} == {
        **type(model.settings)().to_dict(), "seed": 0,
    }  # fmt: skip
    paths = {path for one in cls.settings_class.options() for path in one.paths}
    expected = set(_paths(type(model.settings))) - {"seed"}
    assert paths == expected - ({"solver"} if cls is ConditionalPMF else set())


def _paths(settings):
    for one in settings.options():
        inner = getattr(one.kind, "options", None)
        yield from (f"{one.name}.{two.name}" for two in inner()) if inner else [one.name]


def test_what_all_algorithms_have_is_shown_last():
    shown = list(inspect.signature(ConditionalPMF).parameters)
    assert shown[0] == "n_factors"
    assert shown[-3:] == ["rated", "verbose", "random_state"]


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
    algo._choices = None
    assert algo.top_n(3, [user]) == other.top_n(3, [user])
