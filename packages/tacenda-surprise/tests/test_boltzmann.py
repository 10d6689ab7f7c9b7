"""Boltzmann machines: training and predictions, resuming, going on with more ratings, users folded in."""

import numpy as np
import pytest
import scipy.optimize
from scipy.special import softmax

from support.ratings import changed, rmse
from tacenda.datasets import synthetic_ratings
from tacenda.errors import ConfigurationError, DataError, FittingError
from tacenda.fitting.history import DivergenceError
from tacenda.fitting.trainer import pack
from tacenda.ratings import IdIndex, Ratings, split
from tacenda_surprise import PMF, RBM, BiasOnly, ConditionalRBM, boltzmann
from tacenda_surprise.boltzmann import CaseData, ContrastiveDivergence, Task
from tacenda_surprise.catalogue import Catalogue
from tacenda_surprise.identities import Identities
from tacenda_surprise.levels import Scale, find_sharpness, raise_means, tilt
from tacenda_surprise.machine import RBMSettings, Usual
from tacenda_surprise.rbm import estimate_case_slope

STEPS = {"lr_all": 0.02, "optimizer": "sgd"}
VARIANTS = [(o, t) for o in ("item", "user") for t in (True, False)]


@pytest.fixture(scope="module")
def ratings():
    return synthetic_ratings.generate(120, 60, 2300, rank=2, noise=0.6, seed=3).ratings


@pytest.fixture(scope="module")
def structured():
    return synthetic_ratings.generate(400, 150, 18_000, rank=3, noise=0.3, seed=1).ratings


def make_trainer(ratings, seed=0, **options):
    scale = Scale.of(Catalogue.of(ratings), ratings)
    settings = RBMSettings(orientation="user", **options)
    cases = CaseData.of(settings, scale, ratings, None)
    return ContrastiveDivergence(Task(settings, seed, scale, ratings, None), cases), cases


def everybody(ratings):
    grid = np.indices((ratings.n_users, ratings.n_items)).reshape(2, -1)
    return grid[0], grid[1]


# -- predictions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_every_step_draws_its_hidden_states_anew(ratings, seed):
    """Steps that change no parameter have other errors, and the same ones again with the same seed."""

    def errors(seed):
        trainer, _ = make_trainer(ratings, seed, n_hidden=4)
        start = {n: np.full_like(p, 0.5) for n, p in pack(trainer.learned).items()}
        trainer.load_parameters(start)
        return [trainer.step((np.arange(20),), 0.0).loss for _ in range(4)]

    found = errors(seed)
    assert len(set(found)) == 4
    assert found == errors(seed)
    assert found != errors(seed + 1)


def test_visible_biases_are_pulled_to_where_they_began(ratings, monkeypatch):
    trainer, cases = make_trainer(ratings, n_hidden=4)
    divergence = boltzmann.boltzmann_divergence

    def without_gradients(*arguments):
        found = divergence(*arguments)
        for name in pack(trainer.learned):
            getattr(found, name)[...] = 0
        return found

    monkeypatch.setattr(boltzmann, "boltzmann_divergence", without_gradients)
    away = np.random.default_rng(0).choice([-0.5, 0.5], cases.visible_biases.shape)
    start = {**pack(trainer.learned), "visible_biases": (cases.visible_biases + away).astype("f4")}
    trainer.load_parameters(start)
    trainer.step((np.arange(20),), 0.01)
    left = pack(trainer.learned)["visible_biases"] - cases.visible_biases
    np.testing.assert_allclose(left, away - 0.01 * np.sign(away), atol=1e-4)  # Adam's first step


def test_slopes_are_those_that_the_ratings_were_drawn_with():
    """P(r = k) ~ exp(b_mk + s_k o_c): of the cases of a fit, and of one that joins later."""
    rng = np.random.default_rng(0)
    n_cases, n_visible, s = 40, 1500, np.arange(-2.0, 3.0)
    biases, slopes = rng.normal(0, 0.3, (n_visible, 5)), rng.normal(0, 0.12, n_cases)
    chances = np.exp(biases + s * slopes[:, None, None])
    edges = np.cumsum(chances / chances.sum(axis=2, keepdims=True), axis=2)
    levels = (rng.random((n_cases, n_visible, 1)) > edges).sum(axis=2).clip(max=4)
    users, items = np.indices(levels.shape).reshape(2, -1)
    ratings = Ratings.from_arrays(users, items, levels.ravel() + 1.0)
    trainer, cases = make_trainer(ratings)
    assert np.polyfit(slopes, cases.slopes, 1)[0] == pytest.approx(1.0, abs=0.08)
    assert np.corrcoef(slopes, cases.slopes)[0, 1] > 0.95

    machine, every = trainer.machine(), np.arange(n_visible)
    scale = Scale.of(Catalogue.of(ratings), ratings)
    found = [
        estimate_case_slope(machine, scale, every, row.astype(np.int32), 5.0) for row in levels
    ]
    assert np.polyfit(slopes, found, 1)[0] == pytest.approx(1.0, abs=0.08)


@pytest.mark.parametrize("model_class", [RBM, ConditionalRBM])
@pytest.mark.parametrize("orientation", ["item", "user"])
def test_structure_is_found_that_biases_cannot_express(structured, model_class, orientation):
    train, held_out = split(structured, 0.1, seed=0)
    biases = PMF(n_factors=0, n_epochs=25, random_state=0).fit(train)
    model = model_class(n_hidden=30, orientation=orientation, random_state=0).fit(train)
    assert rmse(model, held_out) < rmse(biases, held_out) - 0.02


def test_half_stars_are_ten_levels(ratings):
    rng = np.random.default_rng(0)
    halves = np.clip(ratings.values - rng.integers(0, 2, len(ratings)) / 2, 0.5, 5)
    data = changed(ratings, values=halves, scale=(0.5, 5))
    model = RBM(n_hidden=8, n_epochs=20, random_state=0).fit(data)
    assert len(model.catalogue.levels) == 10
    p = model.probabilities(np.array([0, -1]), np.array([0, -1]))
    assert p.shape == (2, 10)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)


def test_continuous_ratings_are_brought_to_bins():
    """The error is near to that of a factorization, which needs no bins, and a model comes back from disk."""
    data = synthetic_ratings.generate(300, 80, 8_000, rank=2, noise=0.5, integer=False, seed=3)
    train, test = split(data.ratings, 0.1, seed=0)
    model = RBM(n_hidden=20, random_state=0).fit(train)
    assert model.learned.rating_values.shape == (20,)
    again = RBM.from_arrays(model.config_dict(), model.arrays())
    found = again.score_pairs(test.user_ids, test.item_ids)
    np.testing.assert_array_equal(found, model.score_pairs(test.user_ids, test.item_ids))
    assert rmse(again, test) < 0.95 * rmse(BiasOnly().fit(train), test)
    with pytest.raises(ConfigurationError, match="at most 50 levels"):
        model.probabilities(test.user_ids, test.item_ids)


def test_a_slope_raises_the_mean_of_a_case_by_its_bias():
    rng = np.random.default_rng(0)
    logits, s = rng.normal(0, 1, (7, 5)), np.linspace(-2.0, 2.0, 5)
    offsets, ids = np.array([0, 3, 3, 9]), np.array([0, 2, 5, 1, 2, 3, 4, 5, 6])
    by = np.array([0.4, 0.3, -0.2])
    slopes = raise_means(logits, s, offsets, ids, by)
    assert slopes[1] == 0.0  # nothing is known of a case without ratings
    for case in (0, 2):
        own = logits[ids[offsets[case] : offsets[case + 1]]]
        apart = (softmax(own + slopes[case] * s, axis=1) - softmax(own, axis=1)) @ s
        assert apart.mean() == pytest.approx(by[case], abs=1e-3)


def test_distributions_are_as_sharp_as_the_errors_are():
    rng = np.random.default_rng(0)
    s, means = np.linspace(-2.0, 2.0, 9), rng.uniform(-1, 1, 300)
    logits = rng.normal(0, 0.2, (300, 9))
    k = find_sharpness(logits, s, means, 0.5)
    chances = softmax(tilt(logits - k * s**2, s, means), axis=1)
    np.testing.assert_allclose(chances @ s, means, atol=1e-3)
    assert (chances @ s**2 - (chances @ s) ** 2).mean() == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize("n_levels", [1, 2, 5, 50])
def test_a_tilt_reaches_every_mean_within_the_margins(n_levels):
    """Also where the logits of a row differ by 100."""
    rng = np.random.default_rng(n_levels)
    s = np.sort(rng.uniform(-2.0, 2.0, n_levels))
    span = s[-1] - s[0]
    logits = rng.normal(0, rng.choice([0.1, 1.0, 20.0], 500)[:, None], (500, n_levels))
    means = rng.uniform(s[0] - 0.1, s[-1] + 0.1, 500)
    chances = softmax(tilt(logits, s, means), axis=1)
    np.testing.assert_allclose(
        chances @ s, np.clip(means, s[0] + 0.02 * span, s[-1] - 0.02 * span), atol=1e-8
    )


def test_plain_steps_start_at_plain_frequencies(ratings):
    """Of each level, one rating of the usual shape being added."""
    model = RBM.thesis(n_hidden=3, n_epochs=0, validation=0.0, random_state=0)
    machine, levels = model.fit(ratings).arrays(), model.catalogue.levels
    usual = np.array([(ratings.values == level).mean() for level in levels])
    for item in (0, 7, 33):
        _, values = ratings.by_item.of_user(item)
        counts = np.array([(values == level).sum() for level in levels])
        expected = (counts + usual) / (len(values) + 1)
        np.testing.assert_allclose(np.exp(machine["visible_biases"][item]), expected, atol=2e-4)
    assert not machine["slopes"].any()


def test_held_out_ratings_choose_the_epoch_also_where_weights_fade():
    few = synthetic_ratings.generate(300, 300, 700, rank=2, noise=1.0, seed=3).ratings
    model = RBM(validation=0.1, refit=False, random_state=10).fit(few)
    _, held_out = split(few, 0.1, seed=10)
    assert model.history.stopped != "callback"
    assert rmse(model, held_out) == pytest.approx(model.history.best.value, rel=1e-6)


def test_the_pass_that_predicts_held_out_ratings_best_is_kept():
    data = synthetic_ratings.generate(80, 40, 900, rank=2, noise=0.8, seed=1).ratings
    model = RBM.thesis(
        n_hidden=20, n_epochs=60, lr_all=0.05, reg_all=0.0, validation=0.2, random_state=0
    ).fit(data)
    errors = [each.value for each in model.history.evaluations]
    assert len(errors) == 60
    assert 1 <= np.argmin(errors) < 59  # it overfits
    _, held_out = split(data, 0.2, seed=0)
    assert rmse(model, held_out) == pytest.approx(min(errors), rel=1e-6)


@pytest.mark.parametrize("conditional", [False, True])
def test_plain_steps_find_what_movie_biases_cannot_express(structured, conditional):
    """With larger rates than the thesis has for far more users."""
    train, held_out = split(structured, 0.1, seed=0)
    model_class = ConditionalRBM if conditional else RBM
    options = {"n_hidden": 20, "lr_all": 0.02, "n_epochs": 60, "random_state": 0}
    if conditional:
        options["reg_side"] = 0.1
    model = model_class.thesis(**options).fit(train)
    assert rmse(model, held_out) < 0.9 * rmse(BiasOnly(biases="items").fit(train), held_out)


def test_a_machine_without_epochs_predicts_nearly_as_biases_do(ratings):
    train, test = split(ratings, 0.2)

    machine = RBM(n_hidden=1, n_epochs=0, random_state=0).fit(train)
    assert rmse(machine, test) < 1.01 * rmse(BiasOnly().fit(train), test)


@pytest.mark.parametrize("steps", [{}, STEPS], ids=["adam", "sgd"])
@pytest.mark.parametrize("model_class", [RBM, ConditionalRBM])
def test_a_fit_in_which_nothing_stands_out_ends_early_with_biases_and_slopes(model_class, steps):
    few = synthetic_ratings.generate(300, 300, 1500, rank=2, noise=0.6, seed=3).ratings
    model = model_class(random_state=0, **steps).fit(few)
    assert model.history.epochs < model.settings.n_epochs
    assert not model.arrays()["weights"].any()
    whole = model_class(reg_all=0.02, n_epochs=20, random_state=0, **steps).fit(few)
    assert whole.history.epochs == 20
    assert whole.arrays()["weights"].any()


def test_identities_alone_tell_users_apart(ratings):
    """Users without ratings: told what they rated, a user-side machine predicts each for himself."""
    train = ratings.select(ratings.user_ids >= 10)
    model = ConditionalRBM(
        n_hidden=10, orientation="user", n_epochs=25, reg_all=0.1, reg_side=0.15, random_state=0
    )
    nothing = model.fit(train).score_users(np.array([0, 1]))
    np.testing.assert_allclose(nothing[0], nothing[1], atol=1e-6)
    known = model.fit(train, identities=Identities.of(ratings)).score_users(np.array([0, 1]))
    assert np.abs(known[0] - known[1]).max() > 1e-3


# -- settings --------------------------------------------------------------------------------------


def test_the_machine_of_the_thesis_has_its_numbers():
    """Section 5.4.2; options replace single ones."""
    settings = ConditionalRBM.thesis(n_hidden=50).settings
    assert (settings.orientation, settings.ordinal, settings.offset) == ("user", False, False)
    assert (settings.n_hidden, settings.n_epochs, settings.patience) == (50, 250, 250)
    assert (settings.validation, settings.refit) == (0.05, False)
    assert (settings.lr_all, settings.lr_decay) == (1e-3, 1.0)
    assert (settings.reg_all, settings.reg_side) == (0.01, 0.01)
    assert settings.optimizer == "sgd"
    assert (boltzmann._PLAIN_BIAS_RATE, boltzmann._PLAIN_BIAS_PENALTY) == (1e-4, 1e-3)
    assert ConditionalRBM.from_settings(settings).settings == settings
    other = RBM.thesis(validation=0.0, n_epochs=2)
    assert (other.validation, other.n_epochs) == (0.0, 2)
    assert other.optimizer == "sgd"
    with pytest.raises(ConfigurationError, match="n_epochs must be a whole number"):
        RBM.thesis(n_epochs=None)


def test_plain_steps_are_refused_on_a_gpu():
    with pytest.raises(ConfigurationError, match="device must be 'cpu' with optimizer='sgd'"):
        RBMSettings(device="cuda", optimizer="sgd")


def test_plain_steps_with_which_penalties_overshoot_diverge(ratings):
    """As other settings do that a search tries, so that it goes on."""
    model = RBM(n_hidden=4, n_epochs=5, reg_all=60.0, **STEPS, random_state=0)
    with pytest.raises(DivergenceError, match="loss is inf at step 1"):
        model.fit(ratings)


def test_the_weights_of_identities_have_a_penalty_of_their_own(ratings):
    options = {"n_hidden": 6, "n_epochs": 15, "random_state": 0}
    weak, strong = (ConditionalRBM(reg_side=reg, **options).fit(ratings) for reg in (0.0, 1.0))
    sizes = [np.abs(model.learned.side_weights).mean() for model in (weak, strong)]
    assert sizes[1] < sizes[0] / 5


# -- interruption ----------------------------------------------------------------------------------


def test_a_checkpoint_of_other_identities_is_refused(ratings, tmp_path):
    model = ConditionalRBM(n_hidden=4, n_epochs=9, random_state=0)
    model.fit(ratings, checkpoints=tmp_path)
    unrated = np.setdiff1d(np.arange(ratings.n_items), ratings.of_user(0)[0])[:1]
    more = Identities.from_pairs(np.array([0]), unrated, ratings.n_users, ratings.n_items)
    with pytest.raises(FittingError, match="belongs to a different fit"):
        model.fit(ratings, identities=more, checkpoints=tmp_path)


# -- more ratings ----------------------------------------------------------------------------------


@pytest.mark.parametrize("orientation", ["item", "user"])
def test_no_epochs_on_the_same_ratings_change_nothing(ratings, orientation):
    model = ConditionalRBM(n_hidden=6, n_epochs=12, orientation=orientation, random_state=0).fit(
        ratings
    )
    before = model.score_pairs(*everybody(ratings))
    assert model.partial_fit(ratings, n_epochs=0) is model
    np.testing.assert_array_equal(model.score_pairs(*everybody(ratings)), before)


@pytest.mark.parametrize("steps", [{}, STEPS], ids=["adam", "sgd"])
@pytest.mark.parametrize("orientation", ["item", "user"])
def test_users_who_join_later_are_predicted_nearly_as_if_fitted_from_the_start(
    structured, orientation, steps
):
    now, held_out = split(structured, 0.15, seed=0)
    early = now.select(now.user_ids < 350)
    first = changed(early, users=IdIndex(now.users.raw[:350], "user"))
    settings = {"n_hidden": 20, "orientation": orientation, **steps}
    later = RBM(**settings, random_state=0).fit(first).partial_fit(now)
    again = RBM(**settings, random_state=0).fit(now)
    biases = PMF(n_factors=0, n_epochs=25, random_state=0).fit(now)
    new = held_out.select(held_out.user_ids >= 350)
    assert rmse(later, new) < rmse(again, new) + 0.02
    assert rmse(later, new) < rmse(biases, new)


def test_what_does_not_go_on_from_the_fit_is_refused(ratings):
    model = RBM(n_hidden=4, n_epochs=4, random_state=0)
    before = model.fit(ratings).arrays()
    with pytest.raises(ConfigurationError, match="have the scale"):
        model.partial_fit(changed(ratings, scale=(0, 5)))
    halves = changed(ratings, values=ratings.values.clip(1.5))
    with pytest.raises(DataError, match="none of the levels"):
        model.partial_fit(halves)
    for n_epochs in (-1, 1.5, "2"):
        with pytest.raises(
            ConfigurationError, match=r"n_epochs is .*; it must be a whole number of at least 0"
        ):
            model.partial_fit(ratings, n_epochs=n_epochs)
    for name, array in before.items():
        np.testing.assert_array_equal(model.arrays()[name], array)


def test_a_new_unit_has_the_damped_mean_of_what_its_ratings_exceed_the_bias_of_their_cases():
    numbers = map(np.float64, (3.0, 2.0, 4.0, 0.3, 0.1))
    usual, s = Usual(np.array([0.5, 0.0, -0.5], np.float32), *numbers), np.linspace(-1, 1, 5)
    found = np.exp(usual.of_unit(np.zeros(5), s, np.array([0, 1, 0]), np.array([4, 3, 3])))
    assert found.sum() == pytest.approx(1)
    assert found @ s == pytest.approx(((1 - 0.5) + 0.5 + (0.5 - 0.5)) / (3 + 2), abs=1e-3)


# -- users folded in -------------------------------------------------------------------------------


@pytest.mark.parametrize(("orientation", "ordinal"), VARIANTS)
def test_users_folded_in_are_predicted_as_well_as_users_fitted(structured, orientation, ordinal):
    """By the error on ratings that neither machine has seen."""
    train, held_out = split(structured, 0.3, seed=0)
    new = np.arange(0, 400, 8)
    held_out = held_out.select(np.isin(held_out.user_ids, new))
    settings = {"n_hidden": 15, "orientation": orientation, "ordinal": ordinal}
    settings["reg_all"] = 0.02 if ordinal else 0.005
    fitted = RBM(**settings, random_state=0).fit(train)
    without = RBM(**settings, random_state=0).fit(train.select(~np.isin(train.user_ids, new)))
    squares = []
    for user in new:
        items, values = held_out.of_user(user)
        squares.extend((without.fold(*train.of_user(user)).score(items) - values) ** 2)
    strangers = without.score_pairs(np.full(len(held_out), -1), held_out.item_ids)
    folded = np.sqrt(np.mean(squares))
    assert folded < rmse(fitted, held_out) + 0.03
    assert folded < np.sqrt(np.mean((strangers - held_out.values) ** 2)) - 0.04


def test_users_folded_in_after_going_on_have_the_penalty_of_all_ratings():
    now = synthetic_ratings.generate(300, 60, 6000, seed=8).ratings
    few = now.select(np.arange(len(now)) % 12 == 0)
    model = RBM(n_hidden=3, n_epochs=2, random_state=0).fit(few)
    assert model.learned.penalty > model.settings.penalty_for(now)
    model.partial_fit(now, n_epochs=1)
    assert model.learned.penalty == model.settings.penalty_for(now)


def test_the_search_for_a_new_visible_unit_converges(trainset, monkeypatch):
    ended = []

    def minimize(*arguments, **options):
        ended.append(scipy.optimize.minimize(*arguments, **options))
        return ended[-1]

    monkeypatch.setattr("tacenda_surprise.machine.minimize", minimize)
    algo = RBM(n_hidden=20, n_epochs=5, orientation="item", random_state=0).fit(trainset)
    rng = np.random.default_rng(0)
    for n in rng.integers(1, trainset.n_items + 1, 60).tolist():
        items = rng.choice(trainset.n_items, n, replace=False).tolist()
        algo.fold_in([(trainset.to_raw_iid(i), float(rng.integers(1, 6))) for i in items])
    assert [one.message for one in ended if not one.success] == []
