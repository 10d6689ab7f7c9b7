"""Models of others as Surprise algorithms, found by their names."""

import numpy as np
import pytest
from surprise import accuracy
from surprise.model_selection import GridSearchCV

from tacenda import plugins
from tacenda.errors import ConfigurationError, PluginError
from tacenda_surprise import BiasOnly, ConditionalPMF, Recommender, testing
from tacenda_surprise.algorithm import RatingAlgorithm
from tacenda_surprise.testing import check_recommender


class Halfway(BiasOnly):
    """Somebody else's model: no seed, no settings of ours."""

    name = "halfway"
    distribution = "elsewhere"

    def __init__(self, part=0.5):
        super().__init__()
        self.part = part

    @property
    def tables(self):
        whole, part = super().tables, np.float32(self.part)
        return whole._replace(
            user_biases=part * whole.user_biases, item_biases=part * whole.item_biases
        )

    def config_dict(self):
        return {**super().config_dict(), "part": self.part}

    @classmethod
    def from_arrays(cls, config, arrays):
        inner = BiasOnly.from_arrays(config, arrays)
        found = cls(config["part"])
        found._catalogue, found.learned = inner._catalogue, inner.learned
        return found


@pytest.fixture(autouse=True)
def _elsewhere():
    plugins.register("recommenders", "halfway", Halfway, distribution="elsewhere")
    yield
    plugins.unregister("recommenders", "halfway", distribution="elsewhere")


def test_a_model_of_others_is_a_recommender():
    def make(**options):
        return Recommender(name="halfway", settings={"part": 0.7}, **options)

    check_recommender(make)


class NegativeDeviations(BiasOnly):
    def deviations(self, users, items):
        return -super().deviations(users, items)


class InfiniteDeviations(BiasOnly):
    def deviations(self, users, items):
        return np.full(len(users), np.inf, np.float32)


class ListsOfProbabilities(BiasOnly):
    def probabilities(self, users, items):
        return super().probabilities(users, items).tolist()


class ShortBlocks(BiasOnly):
    def score_users(self, users):
        return super().score_users(users)[:, 1:]


class AcceptsAll(BiasOnly):
    def fold(self, items, values, identities=None):
        if np.shape(items) != np.shape(values):
            items, values = [], []
        return super().fold(items, values, identities)


class FailsBelow(BiasOnly):
    def fold(self, items, values, identities=None):
        if np.isnan(values).any():
            raise ValueError("too deep")
        return super().fold(items, values, identities)


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        (NegativeDeviations, "deviations are not all positive"),
        (InfiniteDeviations, "deviations is not finite"),
        (ListsOfProbabilities, "probabilities is a list, not an array"),
        (ShortBlocks, r"score_users is float32 \(3, 59\), not float32 \(3, 60\)"),
        (AcceptsAll, "fold with fewer ratings than items raises no TacendaError"),
        (FailsBelow, r"fold with a rating of NaN raises ValueError: too deep, not TacendaError"),
    ],
)
def test_a_broken_promise_is_named(broken, fault, monkeypatch):
    monkeypatch.setattr(
        testing, "check_estimator", lambda make, data, *rest, **more: make().fit(data)
    )
    with pytest.raises(AssertionError, match=fault):
        check_recommender(broken)


def test_identities_go_to_models_that_condition(trainset):
    settings = {"n_epochs": 3, "n_factors": 2}
    algo = Recommender(name="conditional_pmf", settings=settings, rated=[("quiet", "item 1")])
    assert type(algo) is ConditionalPMF
    assert "quiet" in algo.fit(trainset).top_n(1)
    with pytest.raises(ConfigurationError, match="cannot be made with the options rated"):
        Recommender(name="halfway", rated=[("quiet", "item 1")])


def test_a_search_over_models(data):
    search = GridSearchCV(Recommender, {"name": ["halfway", "bias"], "random_state": [0]}, cv=2)
    search.fit(data)
    assert search.best_params["rmse"]["name"] == "bias"
    assert np.isfinite(accuracy.rmse(search.best_estimator["rmse"].fit(
        data.build_full_trainset()).test([("a", "b", 3.0)]), verbose=False))  # fmt: skip


def test_on_the_command_line(file, printed):
    assert "halfway" in printed("evaluate", file, "--model", "halfway", "--set", "part=0.9")


def test_what_there_is_not(trainset):
    with pytest.raises(PluginError, match="did you mean 'halfway'"):
        Recommender(name="halfwy")
    with pytest.raises(
        ConfigurationError, match="Halfway cannot be made with the options n_factors"
    ):
        Recommender(name="halfway", settings={"n_factors": 3}).fit(trainset)
    with pytest.raises(ConfigurationError, match="PMF has no option 'seed'"):
        Recommender(name="pmf", settings={"seed": 3})


def test_a_model_fitted_in_one_go_refuses_checkpoints(tmp_path, trainset):
    class InOneGo(Halfway):
        keeps_checkpoints = False

    plugins.register("recommenders", "halfway", InOneGo, distribution="elsewhere")
    with pytest.raises(ConfigurationError, match="InOneGo cannot save the progress of its fit"):
        Recommender(name="halfway").fit(trainset, checkpoints=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("method", "n", "said"),
    [
        *(
            (method, n, f"not implement {method}")
            for method, n in (("_fit", 3), ("deviations", 2), ("_fold", 3))
        ),
        ("score_pairs", 2, "neither tables nor scores of its own"),
    ],
)
def test_what_a_model_leaves_out_is_named(method, n, said):
    with pytest.raises(NotImplementedError, match=f"^Unfinished .*{said}"):
        getattr(type("Unfinished", (RatingAlgorithm,), {})(), method)(*[None] * n)


@pytest.mark.parametrize(
    ("method", "answer", "said"),
    [
        ("score_pairs", lambda found: found[:, None], r"float32 of the shape \(3, 1\)"),
        ("score_pairs", lambda found: found[:-1], r"float32 of the shape \(2,\)"),
        ("score_pairs", lambda found: found.astype(int), r"int64 of the shape \(3,\)"),
        ("score_pairs", lambda found: found.tolist(), "a list"),
        ("deviations", lambda found: found[:1], r"float32 of the shape \(1,\)"),
    ],
)
def test_a_model_that_breaks_its_promise_is_named(method, answer, said, trainset, monkeypatch):
    algo = Recommender(name="halfway", random_state=0).fit(trainset)
    right = getattr(Halfway, method)
    monkeypatch.setattr(Halfway, method, lambda *arguments: answer(right(*arguments)))
    whole = rf"{method} of the model 'halfway' \(Halfway\) gave {said} where float32 of the shape \(3,\) was"
    uids, iids = ["user 1"] * 3, ["item 1", "item 2", "item 3"]
    asked = algo.predict_std if method == "deviations" else algo.predict_many
    with pytest.raises(PluginError, match=whole):
        asked(uids, iids)
    if method == "score_pairs":
        with pytest.raises(PluginError, match=whole):
            algo.test([(uid, iid, None) for uid, iid in zip(uids, iids, strict=True)])


def test_blocks_of_users_are_checked_too(trainset, monkeypatch):
    algo = Recommender(name="halfway", random_state=0).fit(trainset)
    right = Halfway.score_users
    monkeypatch.setattr(Halfway, "score_users", lambda self, users: right(self, users).T)
    for asked in (algo.predict_users, lambda uids: algo.top_n(3, uids)):
        with pytest.raises(PluginError, match=r"score_users of the model 'halfway'"):
            asked(["user 1", "user 2"])


def test_lists_of_scores_that_are_not_numbers_are_refused(trainset, monkeypatch):
    algo = Recommender(name="halfway", random_state=0).fit(trainset)
    new = algo.fold_in({"item 1": 3.0})
    right = type(new.model_user).score
    monkeypatch.setattr(
        type(new.model_user),
        "score",
        lambda self, items=None: np.append(right(self, items)[1:], np.float32(np.nan)),
    )
    monkeypatch.setattr(
        Halfway, "score_users", lambda self, users: np.full((1, trainset.n_items), np.nan, "f4")
    )
    for listed in (new.top_n, lambda n: algo.top_n(n, ["user 1"])):
        with pytest.raises(PluginError, match="gave nan where finite numbers were asked"):
            listed(3)


def test_one_pair_is_checked_too(trainset, monkeypatch):
    algo = Recommender(name="halfway", random_state=0).fit(trainset)
    monkeypatch.setattr(Halfway, "score_pairs", lambda *_: np.float32(3))
    with pytest.raises(PluginError, match=r"gave a float32 where float32 of the shape \(1,\)"):
        algo.predict("user 1", "item 1")
