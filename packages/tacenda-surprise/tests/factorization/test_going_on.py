"""Fits that go on: after an interruption, or with ratings that came later."""

import numpy as np
import pytest

import tacenda
from support.ratings import changed, rmse
from tacenda.datasets import synthetic_ratings
from tacenda.errors import ConfigurationError, FittingError
from tacenda.fitting import Callback
from tacenda.ratings import IdIndex, Ratings, split
from tacenda_surprise import (
    PMF,
    BayesianPMF,
    ConditionalBayesianPMF,
    ConditionalPMF,
    ConditionalRBM,
)
from tacenda_surprise.gibbs import Gibbs

STEPS = {"n_factors": 5, "n_epochs": 12, "random_state": 0}
CHAIN = {"n_factors": 3, "burn_in": 4, "n_samples": 8, "random_state": 0}
MAKERS = {
    "sgd": lambda: PMF(**STEPS),
    "conditional": lambda: ConditionalPMF(**STEPS),
    "stopped early": lambda: ConditionalPMF(**STEPS, validation=0.1),
    "als": lambda: PMF(n_factors=3, n_epochs=8, solver="als", random_state=0),
    "gibbs": lambda: BayesianPMF(**CHAIN),
    "conditional gibbs": lambda: ConditionalBayesianPMF(**CHAIN),
    "machine": lambda: machine(),
    "machine stopped early": lambda: machine(validation=0.1),
    "machine of users": lambda: machine(
        validation=0.1, orientation="user", ordinal=False, lr_all=0.02, optimizer="sgd"
    ),
    "machine by plain steps": lambda: machine(lr_all=0.02, optimizer="sgd"),
}


def machine(**options):
    return ConditionalRBM(n_hidden=6, n_epochs=9, random_state=2, **options)


class Stop(Callback):
    """Pulls the plug after so many epochs."""

    def __init__(self, after):
        self.after = after

    def on_epoch_end(self, fit):
        if fit.epoch == self.after:
            raise ConnectionError("no more power")


@pytest.fixture(params=MAKERS.values(), ids=MAKERS)
def make(request):
    return request.param


@pytest.fixture(scope="module")
def ratings():
    return synthetic_ratings.generate(120, 60, 2300, rank=2, noise=0.6, seed=3).ratings


def assert_same(one, other):
    for name, array in one.arrays().items():
        np.testing.assert_array_equal(array, other.arrays()[name], name)


# -- interruptions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [1, 5])
def test_a_fit_that_goes_on_from_a_checkpoint_gives_the_same_bits(make, ratings, tmp_path, after):
    with pytest.raises(ConnectionError):
        make().fit(ratings, checkpoints=tmp_path / "c", callbacks=[Stop(after)])
    resumed = make().fit(ratings, checkpoints=tmp_path / "c")
    whole = make().fit(ratings)
    assert_same(resumed, whole)
    assert resumed.history == whole.history
    assert resumed.history.epochs == len(resumed.history.epoch_losses)


def test_a_checkpoint_of_other_ratings_is_refused(make, ratings, tmp_path):
    make().fit(ratings, checkpoints=tmp_path / "c")
    other = changed(ratings, values=6 - ratings.values)
    with pytest.raises(FittingError, match="other"):
        make().fit(other, checkpoints=tmp_path / "c")


def test_more_epochs_may_follow_where_they_do_not_change_the_rates(ratings, tmp_path):
    told = {"n_factors": 4, "lr_decay": 0.9, "random_state": 0}
    PMF(**told, n_epochs=5).fit(ratings, checkpoints=tmp_path / "c")
    longer = PMF(**told, n_epochs=9).fit(ratings, checkpoints=tmp_path / "c")
    assert_same(longer, PMF(**told, n_epochs=9).fit(ratings))


def test_rates_that_fall_by_the_number_of_epochs_do_not_go_on_with_more(ratings, tmp_path):
    PMF(n_factors=4, n_epochs=5, random_state=0).fit(ratings, checkpoints=tmp_path / "c")
    with pytest.raises(
        FittingError, match=r"a different fit, in which configuration \(decay: .* differ"
    ):
        PMF(n_factors=4, n_epochs=9, random_state=0).fit(ratings, checkpoints=tmp_path / "c")


# -- ratings that came later -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def later():
    """All ratings, those of the first 300 users and 90 items, and a part to test on."""
    everything = synthetic_ratings.generate(400, 100, 13_000, rank=3, noise=0.5, seed=6).ratings
    train, test = split(everything, 0.15, seed=0)
    early = train.select((train.user_ids < 300) & (train.item_ids < 90))
    users, items = IdIndex(early.users.raw[:300], "user"), IdIndex(early.items.raw[:90], "item")
    return train, changed(early, users=users, items=items), test


GROWING = {
    "sgd": lambda: PMF(n_factors=8, n_epochs=40, random_state=0),
    "conditional": lambda: ConditionalPMF(n_factors=8, n_epochs=40, random_state=0),
    "als": lambda: PMF(n_factors=3, n_epochs=12, solver="als", random_state=0),
    "gibbs": lambda: BayesianPMF(n_factors=4, burn_in=20, n_samples=30, random_state=0),
    "conditional gibbs": lambda: ConditionalBayesianPMF(
        n_factors=4, burn_in=20, n_samples=30, random_state=0
    ),
}
LOADED = GROWING | {name: MAKERS[name] for name in ("machine", "machine by plain steps")}


@pytest.mark.parametrize("make", LOADED.values(), ids=LOADED)
def test_training_on_is_the_same_after_a_way_to_disk(later, make, tmp_path):
    train, early, _ = later
    model = make().fit(early)
    model.save(tmp_path / "model")
    again = tacenda.load(tmp_path / "model").partial_fit(train, n_epochs=2)
    assert_same(again, model.partial_fit(train, n_epochs=2))
    again.save(tmp_path / "again")
    assert_same(tacenda.load(tmp_path / "again"), again)


@pytest.mark.parametrize("name", GROWING)
def test_new_users_and_items_are_learned_without_a_new_fit(later, name):
    train, early, test = later
    model = GROWING[name]().fit(early)
    assert model.partial_fit(train) is model
    assert model.catalogue.users.raw.tolist() == train.users.raw.tolist()
    assert model.catalogue.items.raw.tolist() == train.items.raw.tolist()
    assert model.fitted_on["n_ratings"] == len(train)
    assert rmse(model, test) < 1.02 * rmse(GROWING[name]().fit(train), test)
    strangers = test.select((test.user_ids >= 300) | (test.item_ids >= 90))
    biases = PMF(n_factors=0, n_epochs=30, random_state=0).fit(train)
    assert rmse(model, strangers) < 0.97 * rmse(biases, strangers)


@pytest.mark.parametrize("old", ["users", "items"])
def test_what_is_new_begins_where_its_ratings_put_it_though_the_other_side_is_old(later, old):
    train, early, _ = later
    known = train.user_ids < 300 if old == "users" else train.item_ids < 90
    users = IdIndex(train.users.raw[:300], "user") if old == "users" else train.users
    items = IdIndex(train.items.raw[:90], "item") if old == "items" else train.items
    ratings = (each[known] for each in (train.user_ids, train.item_ids, train.values))
    more = Ratings(*ratings, users, items, scale=train.scale)
    model = PMF(n_factors=4, n_epochs=10, random_state=0).fit(early)
    tables = model.partial_fit(more, n_epochs=0).tables
    ids, biases, factors = (
        (train.item_ids[known], tables.item_biases, tables.item_factors)
        if old == "users"
        else (train.user_ids[known], tables.user_biases, tables.user_factors)
    )
    new = np.unique(ids[ids >= (90 if old == "users" else 300)])
    assert len(new) > 5
    assert (biases[new] != 0).all()
    assert (factors[new] != 0).any(axis=1).all()


@pytest.mark.parametrize("name", GROWING)
def test_users_are_known_by_their_raw_ids(later, name):
    """However the new ratings number them."""
    train, early, _ = later
    rng = np.random.default_rng(0)
    users, items = rng.permutation(train.n_users), rng.permutation(train.n_items)
    places, shelves = np.argsort(users), np.argsort(items)
    shuffled = Ratings(
        places[train.user_ids], shelves[train.item_ids], train.values,
        IdIndex(train.users.raw[users], "user"), IdIndex(train.items.raw[items], "item"),
        scale=train.scale,
    )  # fmt: skip
    model = GROWING[name]().fit(early).partial_fit(shuffled, n_epochs=2)
    assert model.catalogue.users.raw[:300].tolist() == early.users.raw.tolist()
    assert set(model.catalogue.users.raw) == set(train.users.raw)
    scores = model.score_pairs(
        np.array([model.catalogue.users.number(raw) for raw in train.users.raw])[train.user_ids],
        np.array([model.catalogue.items.number(raw) for raw in train.items.raw])[train.item_ids],
    )
    assert np.corrcoef(scores, train.values)[0, 1] > 0.6


def test_identities_count_in_what_follows_too(later):
    train, early, _ = later
    few = train.select(train.user_ids < train.n_users - 1)
    model = ConditionalPMF(n_factors=6, n_epochs=20, random_state=0).fit(early)
    model.rated = [(train.users.raw[-1], item) for item in early.items.raw[:6]]
    model.partial_fit(few, n_epochs=3)
    expected = model.tables.side_factors[:6].mean(axis=0)
    np.testing.assert_allclose(model.tables.user_factors[-1], expected, atol=1e-6)


def test_random_numbers_of_a_chain_are_never_drawn_again(ratings, tmp_path, monkeypatch):
    used, drawn = [], Gibbs.__init__

    def noted(self, *given, **named):
        used.append(named.get("chain", 0))
        drawn(self, *given, **named)

    monkeypatch.setattr(Gibbs, "__init__", noted)
    model = BayesianPMF(n_factors=2, burn_in=16, n_samples=2, random_state=0).fit(ratings)
    model.partial_fit(ratings, n_epochs=1).save(tmp_path / "model")
    tacenda.load(tmp_path / "model").partial_fit(ratings, n_epochs=1)
    assert used == [0, 1, 2, 3]
    model.fit(ratings).partial_fit(ratings, n_epochs=1)
    assert used[4:] == [0, 1, 2]


def test_going_on_by_no_samples_is_refused_and_changes_nothing(ratings):
    model = BayesianPMF(n_factors=2, burn_in=2, n_samples=2, random_state=0).fit(ratings)
    before = model.arrays()
    with pytest.raises(ConfigurationError, match="n_epochs is 0: give at least 1"):
        model.partial_fit(ratings, n_epochs=0)
    for name, array in model.arrays().items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("model_class", [PMF, BayesianPMF])
def test_with_too_many_levels_the_scale_becomes_continuous(ratings, model_class):
    options = {"n_epochs": 2} if model_class is PMF else {"burn_in": 2, "n_samples": 2}
    model = model_class(n_factors=2, random_state=0, **options).fit(ratings)
    values = (ratings.values + np.arange(len(ratings)) % 71 / 100).clip(1, 5)
    model.partial_fit(changed(ratings, values=values), n_epochs=1)
    assert model.catalogue.levels.shape == model.catalogue.counts.shape == (0,)
    assert np.isfinite(model.deviations(np.array([0, 1]), np.array([0, 1]))).all()
    with pytest.raises(ConfigurationError, match="at most 50 levels"):
        model.probabilities(np.array([0]), np.array([0]))
