"""Our algorithms against the kit that third parties use, and what is particular to ours."""

# ruff: noqa: NPY002 - the global random state is what Surprise has

from dataclasses import replace

import numpy as np
import pytest
from surprise.model_selection import GridSearchCV, RandomizedSearchCV, cross_validate

from tacenda.errors import ConfigurationError
from tacenda_surprise import PMF, RBM, BiasOnly, ConditionalPMF, ConditionalRBM, Recommender
from tacenda_surprise.models import BoltzmannConfig, FactorizationConfig
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
        return ConditionalPMF(**{**SMALL, "early_stopping": True, **settings})


class TestBayesian(AlgorithmTests):
    epochs = 22

    def make_algorithm(self, **settings):
        own = {**SMALL, "inference": "gibbs", "burn_in": 10, "n_epochs": 12}
        return ConditionalPMF(**{**own, **settings})


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
        return BiasOnly(**{"random_state": 0, **settings})


class TestRecommender(AlgorithmTests):
    epochs = 8

    def make_algorithm(self, **settings):
        own = {"n_factors": 5, "n_epochs": 8, "random_state": 0}
        return Recommender("conditional_pmf", **{**own, **settings})


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
        {"lr_bi": 0.05},
        {"lr_pu": 0.05},
        {"reg_bi": 0.4},
        {"reg_pu": 0.4},
        {"lr_decay": 0.5},
        {"init_std_dev": 0.5},
        {"lr_side": 0.1},
        {"reg_side": 5.0},
    ],
    ids=str,
)
def test_every_setting_is_of_consequence(changed, trainset, testset):
    usual = ConditionalPMF(**SMALL).fit(trainset).test(testset)
    assert ConditionalPMF(**{**SMALL, **changed}).fit(trainset).test(testset) != usual


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


def test_the_machine_of_the_thesis_by_name():
    machine = RBM.thesis(n_hidden=7)._new_model(0).config
    assert (machine.orientation, machine.ordinal, machine.offset) == ("user", False, False)
    assert machine.n_hidden == 7
    conditional = ConditionalRBM.thesis()._new_model(0).config
    assert conditional == BoltzmannConfig.thesis()


@pytest.mark.parametrize("cls", [PMF, ConditionalPMF])
def test_factorizations_of_the_thesis_by_name(cls):
    made = cls.thesis(n_factors=7)._new_model(0).config
    faithful = FactorizationConfig.thesis(n_factors=7)
    assert cls.online_svd(biased=True)._new_model(0).config.reg_factors == 0
    assert cls.online_svd()._new_model(0).config.biased is False
    if cls is PMF:
        faithful = replace(faithful, lr_side=made.lr_side, reg_side=made.reg_side)
    assert made == faithful


@pytest.mark.parametrize(
    ("cls", "config"),
    [(ConditionalRBM, BoltzmannConfig()), (ConditionalPMF, FactorizationConfig())],
    ids=["machine", "factorization"],
)
def test_every_setting_of_a_model_is_that_of_an_argument(cls, config):
    """The defaults are those of the models, and no setting was forgotten."""
    settings = cls()._settings()
    assert {**settings, "seed": 0} == config.to_dict()
