"""What maximum a posteriori finds: the truth, no slope, the same in other units; and how it stops."""

from dataclasses import replace

import numpy as np
import pytest

from support.ratings import changed, rmse
from tacenda.datasets import synthetic_ratings
from tacenda.errors import ConfigurationError
from tacenda.fitting import Callback
from tacenda.kernels.ratings import Tables
from tacenda.ratings import Ratings, split
from tacenda_surprise import PMF, ConditionalPMF
from tacenda_surprise.factorization import (
    ALS,
    Task,
    initial_tables,
    weigh_users,
)
from tacenda_surprise.identities import Identities
from tacenda_surprise.pmf_options import PMFSettings, ResolvedOptions

SMALL = {"n_factors": 8, "n_epochs": 20, "random_state": 0}


@pytest.fixture(scope="module")
def found():
    return synthetic_ratings.generate(500, 150, 24_000, rank=3, noise=0.6, integer=False, seed=4)


@pytest.fixture(scope="module")
def parts(found):
    return split(found.ratings, 0.1, seed=0)


@pytest.mark.parametrize(
    ("make", "within"),
    [
        (lambda: PMF(**SMALL), 1.13),
        (lambda: ConditionalPMF(**SMALL), 1.14),
        (lambda: PMF(n_factors=3, n_epochs=12, solver="als", random_state=0), 1.15),
    ],
    ids=["sgd", "conditional", "als"],
)
def test_comes_near_to_whoever_knows_the_truth(found, parts, make, within):
    train, test = parts
    _, variance = found.truth.moments(test.user_ids, test.item_ids)
    best = float(np.sqrt(variance.mean()))
    biases = PMF(n_factors=0, n_epochs=30, random_state=0).fit(train)
    model = make().fit(train)
    assert rmse(model, test) < within * best < 0.97 * rmse(biases, test)
    z = (test.values - model.score_pairs(test.user_ids, test.item_ids)) / model.deviations(
        test.user_ids, test.item_ids
    )
    assert z.std() == pytest.approx(1.0, abs=0.12)


def test_sweeps_lower_the_penalized_loss_which_then_has_no_slope_in_the_items(parts):
    ratings = parts[0]
    config = PMFSettings(n_factors=3, solver="als", reg_all=0.1, reg_bu=0.05, reg_bi=0.05)
    task = Task(config, ResolvedOptions.of(config, ratings), 0, ratings, ratings.mean)
    tables = initial_tables(task, 1.0)
    als, losses = ALS(task, tables), []
    users, items, n_items = ratings.user_ids, ratings.item_ids, ratings.n_items
    n_u, n_i = np.diff(ratings.user_offsets), np.bincount(items, minlength=n_items)
    for _ in range(6):
        squares = float(als.step(0, 0.0).loss)
        p, q, b, c, _ = (t.astype(np.float64) for t in tables)
        of_factors = n_u @ (p**2).sum(1) + n_i @ (q**2).sum(1)
        losses.append(squares + 0.1 * of_factors + 0.05 * (n_u @ b**2 + n_i @ c**2))
    assert (np.diff(losses) < 1e-3).all()
    assert losses[-1] < 0.9 * losses[0]
    e = ratings.values - ratings.mean - b[users] - c[items]
    e -= np.einsum("nd,nd->n", p[users], q[items])
    assert squares == pytest.approx(e @ e, rel=1e-4)
    slope = 0.1 * n_i[:, None] * q
    np.add.at(slope, items, -e[:, None] * p[users])
    of_biases = 0.05 * n_i * c - np.bincount(items, e, n_items)
    np.testing.assert_allclose(slope / np.maximum(n_i, 1)[:, None], 0, atol=1e-4)
    np.testing.assert_allclose(of_biases / np.maximum(n_i, 1), 0, atol=1e-4)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_sweeps_without_a_penalty_have_a_solution_where_ratings_are_few(scale):
    few = synthetic_ratings.generate(500, 400, 2000, rank=2, noise=0.6, seed=3).ratings
    few = changed(few, values=few.values * scale, scale=(scale, 5 * scale))
    model = PMF(n_factors=20, solver="als", reg_all=0.0, random_state=0).fit(few)
    assert model.history.epoch_losses[-1] < 0.01 * few.std**2


def test_users_weigh_by_the_noise_of_their_ratings():
    counts = np.array([40, 40, 0, 1, 400])
    squares = np.array([40.0, 90.0, 0.0, 9.0, 100.0])
    weights = weigh_users(squares, counts, 0.75)
    assert weights @ counts == pytest.approx(counts.sum())
    assert weights[4] > weights[2] > weights[0] > weights[3] > weights[1]
    np.testing.assert_allclose(weigh_users(squares * 1e6, counts, 0.75), weights, rtol=1e-6)
    usual = squares.sum() / counts.sum()
    shares = ((counts + 20) * usual / (squares + 20 * usual)) ** 0.75
    np.testing.assert_allclose(weights / weights[0], shares / shares[0], rtol=1e-5)
    for without in (squares * 0, squares * np.nan):
        np.testing.assert_array_equal(weigh_users(without, counts, 0.75), 1)
    np.testing.assert_array_equal(weigh_users(squares, counts, 0.0), 1)


@pytest.mark.parametrize("model_class", [PMF, ConditionalPMF])
def test_noisy_users_disturb_the_others_less(found, model_class):
    """Every third user rates with three times the noise; those who do not are predicted better for its being known."""
    ratings = found.ratings
    noisy = ratings.user_ids % 3 == 0
    noise = np.random.default_rng(0).normal(0, 1.7, len(noisy))
    values = (ratings.values + np.where(noisy, noise, 0)).clip(*ratings.scale)
    mixed = changed(ratings, values=values)
    train, test = split(mixed, 0.1, seed=0)
    steady = test.select(test.user_ids % 3 != 0)
    alike = model_class(n_factors=8, noise_power=0.0, random_state=0).fit(train)
    weighted = model_class(n_factors=8, random_state=0).fit(train)
    assert rmse(weighted, steady) < 0.98 * rmse(alike, steady)


def test_penalties_fall_as_rows_and_columns_fill(parts):
    full, few = parts
    assert 0 < full.sparsity < few.sparsity <= 2
    one = Ratings.from_triples([("u", "i", 3.0)], scale=(1, 5))
    assert one.sparsity == 2.0
    found = [
        ResolvedOptions.of(PMFSettings(), ratings).user_factors.each for ratings in (full, few)
    ]
    assert found[0] < found[1]
    given = PMFSettings(reg_all=0.5, n_epochs=7)
    assert ResolvedOptions.of(given, full).item_factors == (0.5, 0.0)
    assert ResolvedOptions.of(given, full).epochs == 7
    assert ResolvedOptions.of_numbers(np.hstack(ResolvedOptions.of(given, one))).epochs == 7


def test_the_best_epoch_is_restored(parts):
    """A rate so high that it overfits: what is kept is the epoch with the lowest error held out."""
    settings = {
        "n_factors": 12, "n_epochs": 40, "lr_pu": 0.05, "lr_qi": 0.05, "reg_pu": 0.0,
        "reg_qi": 0.0, "lr_decay": 1.0, "random_state": 0, "validation": 0.2, "patience": 5, "refit": False,
    }  # fmt: skip
    train = parts[0]
    model = PMF(**settings).fit(train)
    errors = [e.value for e in model.history.evaluations]
    best = int(np.argmin(errors))
    assert model.history.stopped == "patience"
    assert len(errors) == best + 1 + 5
    held_out = split(train, 0.2, seed=0)[1]
    scores = np.clip(model.score_pairs(held_out.user_ids, held_out.item_ids), *train.scale)
    squares = (scores - held_out.values) ** 2
    assert np.sqrt(np.mean(squares)) == pytest.approx(min(errors), rel=1e-5)
    again = PMF(**{**settings, "refit": True}).fit(train)
    assert again.history.epochs == best + 1
    assert again.figures[0]["best"] == pytest.approx(min(errors))
    without = {n: v for n, v in settings.items() if n not in ("validation", "patience", "refit")}
    assert rmse(again, parts[1]) < rmse(PMF(**without).fit(train), parts[1])


def test_conditioning_pays_where_taste_decides_what_is_rated():
    errors = []
    for seed in (1, 2, 3, 4):
        data = synthetic_ratings.generate(
            800, 150, 9_000, rank=3, noise=0.5, informative=2.5, seed=seed
        ).ratings
        train, test = split(data, 0.2, seed=1)
        without, conditional, transductive = (
            PMF(**SMALL).fit(train),
            ConditionalPMF(**SMALL).fit(train),
            ConditionalPMF(**SMALL).fit(train, identities=Identities.of(test)),
        )
        errors.append([rmse(model, test) for model in (without, conditional, transductive)])
        assert errors[-1][1] < errors[-1][0] - 0.002
    _, conditional, transductive = np.mean(errors, axis=0)
    assert transductive < conditional


@pytest.mark.parametrize("model_class", [PMF, ConditionalPMF])
def test_a_folded_user_is_near_the_same_user_fitted(parts, model_class):
    train, test = parts
    users = np.argsort(np.diff(train.user_offsets))[-20:]
    fitted = model_class(**SMALL).fit(train)
    without = model_class(**SMALL).fit(train.select(~np.isin(train.user_ids, users)))
    folded, retrained, biased = [], [], []
    for user in users:
        items, values = train.of_user(int(user))
        tested, truth = test.of_user(int(user))
        folded.append(without.fold(items, values).score(tested) - truth)
        retrained.append(fitted.score_pairs(np.full(len(tested), user), tested) - truth)
        biased.append(values.mean() - truth)
    errors = [np.sqrt(np.mean(np.concatenate(e) ** 2)) for e in (folded, retrained, biased)]
    assert errors[0] < 1.06 * errors[1] < 0.9 * errors[2]


def test_the_settings_of_the_thesis_go_by_name():
    thesis = ConditionalPMF.thesis(n_factors=30).settings
    assert (thesis.lr_pu, thesis.lr_bi, thesis.reg_qi, thesis.reg_bu) == (0.01, 0.001, 0.01, 0.1)
    assert (thesis.lr_decay, thesis.lr_yj, thesis.reg_yj) == (1, 0.005, 0.003)
    found = (thesis.n_factors, thesis.n_epochs, thesis.validation, thesis.refit)
    assert found == (30, 250, 0.05, False)
    svd = ConditionalPMF.online_svd().settings
    assert (svd.reg_pu, svd.reg_yj, svd.biased) == (0.0, 0.0, False)
    assert PMF.thesis(validation=0.0).refit
    for cls in (PMF, ConditionalPMF):
        bare = cls.online_svd(biased=True)
        assert bare.reg_pu == bare.reg_qi == bare.reg_bu == bare.reg_bi == 0
        faster = cls.thesis(lr_all=0.5)
        assert (faster.lr_all, faster.lr_pu, faster.lr_bi, faster.reg_bu) == (0.5, None, None, 0.1)
        with pytest.raises(ConfigurationError, match="no option 'n_factor'"):
            cls.thesis(n_factor=7)


def test_online_svd_needs_its_early_stopping(parts):
    train, test = parts
    quick = {"n_factors": 10, "lr_all": 0.03, "n_epochs": 60, "random_state": 0}
    stopped = PMF.online_svd(biased=True, **quick)
    never = replace(stopped.settings, validation=0.0, patience=None, refit=True)
    errors = [rmse(model.fit(train), test) for model in (stopped, PMF.from_settings(never))]
    assert errors[0] < errors[1] - 0.01


class Spy(Callback):
    def __init__(self):
        self.tables: list[Tables] = []

    def on_epoch_end(self, fit):
        self.tables.append(Tables(*(t.copy() for t in fit.model.tables)))


def test_what_has_no_ratings_stays_where_it_began(parts):
    """Users and items alike, to the last bit."""
    train = parts[0]
    some = train.select((train.user_ids > 5) & (train.item_ids > 5))
    spy = Spy()
    PMF(n_factors=4, n_epochs=3, random_state=0).fit(some, callbacks=[spy])
    for table in (0, 1):
        np.testing.assert_array_equal(spy.tables[0][table][:6], spy.tables[-1][table][:6])
        assert np.abs(spy.tables[0][table][6:] - spy.tables[-1][table][6:]).max() > 0


@pytest.mark.parametrize("model_class", [PMF, ConditionalPMF])
@pytest.mark.parametrize("factor", [20.0, 0.01])
def test_the_unit_of_the_ratings_does_not_matter(parts, model_class, factor):
    train, test = parts
    ends = np.array(train.scale) * factor + [-1e-3, 1e-3]
    scaled = changed(train, values=train.values * factor, scale=tuple(ends.tolist()))
    model = model_class(n_factors=8, n_epochs=30, random_state=0).fit(train)
    other = model_class(n_factors=8, n_epochs=30, random_state=0).fit(scaled)
    expected = model.score_pairs(test.user_ids, test.item_ids) * factor
    np.testing.assert_allclose(
        other.score_pairs(test.user_ids, test.item_ids), expected, atol=0.02 * factor
    )
    assert other.deviations(np.array([0]), np.array([0]))[0] == pytest.approx(
        factor * model.deviations(np.array([0]), np.array([0]))[0], rel=0.02
    )


@pytest.mark.parametrize("n_factors", [0, 3])
def test_alternating_least_squares_without_biases_leaves_them_at_zero(parts, n_factors):
    model = PMF(n_factors=n_factors, n_epochs=3, solver="als", biased=False, random_state=0)
    model.fit(parts[0])
    assert not model.bu.any()
    assert not model.bi.any()
