"""One rating more: what moves, where to, and that nothing else is visited."""

import numpy as np
import pytest

from support.recommenders import SMALL
from tacenda.kernels.ratings import Tables
from tacenda.ratings import IdIndex, Ratings, split
from tacenda_surprise import (
    PMF,
    RBM,
    BayesianPMF,
    BiasOnly,
    ConditionalBayesianPMF,
    ConditionalPMF,
    ConditionalRBM,
    ImplicitMF,
    choices,
    factorization,
)
from tacenda_surprise.pmf import solve_user, touch_tables
from tacenda_surprise.pmf_options import Weight
from tacenda_surprise.rows import Touched


def some(ratings, *triples):
    """Ratings of raw ids, on the scale of others."""
    return Ratings.from_triples(
        [(ratings.users.raw[u] if isinstance(u, int) else u,
          ratings.items.raw[i] if isinstance(i, int) else i, r) for u, i, r in triples],
        scale=ratings.scale,
    )  # fmt: skip


def unrated(ratings, user):
    return int(np.setdiff1d(np.arange(ratings.n_items), ratings.of_user(user)[0])[0])


@pytest.mark.parametrize("n_new", [1, 3])
@pytest.mark.parametrize("side", ["user", "item"])
def test_rows_at_their_best_are_moved_to_the_best_of_all_their_ratings(ratings, side, n_new):
    model, row = PMF(**SMALL).fit(ratings), 7
    given, own, tables = ratings, model.learned.resolved, model.tables
    if side == "item":  # users and items with their parts exchanged
        given, (x, q, b, c, w) = ratings.by_item, tables
        tables = tables._make((q, x, c, b, w))
        own = own._replace(user_factors=own.item_factors, user_biases=own.item_biases)
    ids, values = given.of_user(row)
    nothing, mean = np.zeros(4, np.float32), model.catalogue.mean
    before = solve_user(own, tables, mean, (ids[:-n_new], values[:-n_new]), nothing)
    expected = solve_user(own, tables, mean, (ids, values), nothing)
    p, q, b, c, w = (part.copy() for part in model.tables)
    (b if side == "user" else c)[row], (p if side == "user" else q)[row] = before
    new = np.full(n_new, row), ids[-n_new:].astype(np.int64)
    users, items = new if side == "user" else new[::-1]
    used = model.learned.resolved
    if side == "item":  # users stay
        used = used._replace(user_factors=Weight(0.0, 1e12), user_biases=Weight(0.0, 1e12))
    touched = Touched(users, items, values[-n_new:], np.full(n_new, np.nan, np.float32))
    touch_tables(used, Tables(p, q, b, c, w), np.zeros((0, 4)), mean, ratings, touched)
    found = (b if side == "user" else c)[row], (p if side == "user" else q)[row]
    np.testing.assert_allclose(found[1], expected[1], atol=1e-5)
    assert found[0] == pytest.approx(expected[0], abs=1e-5)


def test_a_rating_that_is_given_again_changes_nothing(make, ratings):
    model = make().fit(ratings)
    before = [part.copy() for part in model.tables]
    user = 5
    items, values = ratings.of_user(user)
    model.partial_fit(some(ratings, (user, int(items[2]), float(values[2]))))
    for part, expected in zip(model.tables, before, strict=True):
        np.testing.assert_allclose(part, expected, atol=1e-6)


def test_an_identity_more_moves_its_user_by_what_it_says(ratings):
    model, user = ConditionalPMF(**SMALL).fit(ratings), 5
    (items, values), more = ratings.of_user(user), unrated(ratings, user)
    w, expected = model.tables.side_factors.copy(), model.tables.user_factors.copy()
    model.rated = [(ratings.users.raw[user], ratings.items.raw[more])]
    model.partial_fit(some(ratings, (user, int(items[2]), float(values[2]))))
    expected[user] += w[[*items, more]].mean(axis=0) - w[items].mean(axis=0)
    np.testing.assert_allclose(model.tables.user_factors, expected, atol=1e-6)


def test_only_the_user_and_the_item_move_and_towards_the_rating(make, ratings):
    model, user = make().fit(ratings), 9
    item, before = unrated(ratings, user), [part.copy() for part in model.tables]
    deviations = model.learned.spread.of_users.copy()
    estimate = float(model.score_pairs(np.array([user]), np.array([item]))[0])
    wanted = 5.0 if estimate < 3 else 1.0
    model.partial_fit(some(ratings, (user, item, wanted)))
    after = float(model.score_pairs(np.array([user]), np.array([item]))[0])
    assert min(estimate, wanted) < after < max(estimate, wanted)
    for part, old, row in zip(model.tables, before, (user, item, user, item), strict=False):
        rest = np.arange(len(part)) != row
        np.testing.assert_array_equal(part[rest], old[rest])
    moved = np.flatnonzero(model.learned.spread.of_users != deviations)
    assert moved.tolist() == [user]


def test_new_users_and_items_come_with_a_single_rating(make, ratings):
    model = make().fit(ratings)
    model.partial_fit(some(ratings, ("newcomer", 3, 5.0), ("newcomer", "new item", 1.0)))
    assert model.catalogue.users.raw[-1] == "newcomer"
    assert np.isfinite(model.score_users(np.arange(-1, ratings.n_users + 1))).all()
    assert model.learned.spread.of_users.shape == (ratings.n_users + 2,)
    assert model.learned.spread.of_items.shape == (ratings.n_items + 2,)
    assert len(model.top_n(3, ["newcomer"])["newcomer"]) == 3


def test_no_epoch_is_made_and_no_list_model_fitted_anew(ratings, monkeypatch):
    model = PMF(**SMALL).fit(ratings)
    lists, user = model.top_n(3), 4
    item = unrated(ratings, user)
    for name in ("rating_sgd", "rating_solves"):
        monkeypatch.setattr(factorization, name, None)  # not to be called
    monkeypatch.setattr("tacenda_surprise.choices.Choosing.step", None)
    model.partial_fit(some(ratings, (user, item, 5.0)))
    after = model.top_n(3)
    assert ratings.items.raw[item] not in dict(after[ratings.users.raw[user]])
    assert sum(after[one] == lists[one] for one in lists) > len(lists) / 3
    monkeypatch.undo()
    assert model.partial_fit(some(ratings, (user, item, 4.0)), 1).history.epochs == 1


ONE_BY_ONE = {
    "pmf": lambda: PMF(**SMALL),
    "biases": BiasOnly,
    "bayesian": lambda: BayesianPMF(n_factors=3, burn_in=16, n_samples=30, random_state=0),
    "rbm": lambda: RBM(n_hidden=8, n_epochs=20, random_state=0),
    "rbm of users": lambda: RBM(n_hidden=8, n_epochs=20, orientation="user", random_state=0),
    "conditional rbm": lambda: ConditionalRBM(n_hidden=8, n_epochs=20, random_state=0),
}


@pytest.mark.parametrize("new", ONE_BY_ONE.values(), ids=ONE_BY_ONE)
def test_ratings_that_come_one_by_one_are_learned_from_as_from_a_new_fit(ratings, new):
    part, test = split(ratings, 0.2, seed=0)
    chosen = np.isin(part.user_ids, (3, 11, 20)) & (np.arange(len(part)) % 2 == 0)
    late, train = np.flatnonzero(chosen), part.select(~chosen)
    asked = np.isin(test.user_ids, (3, 11, 20))
    users, items, truth = (side[asked] for side in (test.user_ids, test.item_ids, test.values))

    def rmse(model):
        return np.sqrt(np.mean((model.score_pairs(users, items) - truth) ** 2))

    model = new().fit(train)
    before = rmse(model)
    for place in late.tolist():
        model.partial_fit(part.select([place]))
    assert rmse(model) < before
    assert rmse(model) < rmse(new().fit(part)) + 0.05


@pytest.mark.parametrize("cases", ["user", "item"])
def test_one_rating_more_of_an_rbm_moves_its_visible_unit_and_its_case(ratings, cases):
    model = RBM(n_hidden=6, n_epochs=15, reg_all=0.001, orientation=cases, random_state=0).fit(
        ratings
    )
    user, before = 9, model.learned
    item, scores = unrated(ratings, user), model.score_users(np.arange(ratings.n_users))
    wanted = 5.0 if scores[user, item] < 3 else 1.0
    model.partial_fit(some(ratings, (user, item, wanted), ("newcomer", "new item", 4.0)))
    after, found = model.score_users(np.arange(ratings.n_users)), model.learned
    assert abs(after[user, item] - wanted) < abs(scores[user, item] - wanted)
    assert found.weights.shape[0] + found.inputs.shape[0] == ratings.n_users + ratings.n_items + 2
    unit = user if cases == "item" else item
    others = np.arange(len(before.weights)) != unit
    np.testing.assert_array_equal(found.weights[:-1][others], before.weights[others])
    whole = model._fit_data().ratings
    by_case = whole.by_item if cases == "item" else whole
    scale = model._machine[1]
    for case in range(by_case.n_users):  # d + sum of scores times weights
        units, values = by_case.of_user(case)
        expected = found.hidden_biases + scale.scores[scale.level_of(values)] @ found.weights[units]
        np.testing.assert_allclose(found.inputs[case], expected, atol=1e-4)


def test_a_choice_more_moves_its_user_and_item_to_where_all_their_choices_put_them(ratings):
    model = ImplicitMF(n_factors=4, random_state=0).fit(ratings)
    before, user = model.learned, 8
    item = unrated(ratings, user)
    model.partial_fit([(ratings.users.raw[user], ratings.items.raw[item])])
    found = model.learned
    rest = np.arange(ratings.n_users) != user
    np.testing.assert_array_equal(found.x[rest], before.x[rest])
    a, penalty = found.liking[2:].astype(float)
    chosen = np.zeros(ratings.n_items)
    chosen[[*ratings.of_user(user)[0], item]] = 1
    Y, C = before.y.astype(float), np.diag(1 + a * chosen)
    expected = np.linalg.solve(Y.T @ C @ Y + penalty * np.eye(4), Y.T @ C @ chosen)
    np.testing.assert_allclose(found.x[user], expected, atol=1e-4)
    assert found.popularity[item] > before.popularity[item]


def test_new_choices_share_the_products_of_all_factors(ratings, monkeypatch):
    model, computed = ImplicitMF(n_factors=4, random_state=0).fit(ratings), []
    compute = choices.compute_precision
    monkeypatch.setattr(
        choices, "compute_precision", lambda *given: computed.append(1) or compute(*given)
    )
    new = [(ratings.users.raw[u], ratings.items.raw[unrated(ratings, u)]) for u in (3, 8, 9)]
    model.partial_fit(new)
    assert len(computed) == 2  # of the items, and of the users


def test_more_levels_and_ids_of_later_ratings_are_known(ratings):
    index = [IdIndex(side.raw.tolist(), side.what) for side in (ratings.users, ratings.items)]
    whole = Ratings(
        ratings.user_ids, ratings.item_ids, np.rint(ratings.values), *index, scale=(1, 5)
    )
    model = PMF(**SMALL).fit(whole)
    model.partial_fit(some(whole, (0, unrated(whole, 0), 2.5)))
    assert 2.5 in model.levels


def test_biases_of_the_user_and_the_item_become_damped_means(ratings):
    model, user = BiasOnly().fit(ratings), 9
    item, before = unrated(ratings, user), model.learned
    model.partial_fit(some(ratings, (user, item, 5.0)))
    found, mean, whole = model.learned, model.catalogue.mean, model._fit_data().ratings
    b, c = (side.astype(float) for side in (before.user_biases, before.item_biases))
    items, values = whole.of_user(user)
    b[user] = np.sum(values - mean - c[items]) / (len(items) + before.penalties[0])
    users, values = whole.of_item(item)
    c[item] = np.sum(values - mean - b[users]) / (len(users) + before.penalties[1])
    np.testing.assert_allclose(found.user_biases, b, atol=1e-6)
    np.testing.assert_allclose(found.item_biases, c, atol=1e-6)
    moved = np.flatnonzero(found.spread.of_items != before.spread.of_items)
    assert moved.tolist() == [item]


CHAIN = {"n_factors": 3, "burn_in": 16, "n_samples": 60, "random_state": 0}


@pytest.fixture(params=[BayesianPMF, ConditionalBayesianPMF])
def chain(request, ratings):
    return request.param(**CHAIN).fit(ratings)


def test_the_user_and_the_item_of_a_chain_are_drawn_again_and_nothing_else(chain, ratings):
    user, before = 9, chain.learned
    item = unrated(ratings, user)
    scores = chain.score_users(np.arange(ratings.n_users))
    wanted = 5.0 if scores[user, item] < 3 else 1.0
    chain.partial_fit(some(ratings, (user, item, wanted)))
    after, found = chain.score_users(np.arange(ratings.n_users)), chain.learned
    assert min(scores[user, item], wanted) < after[user, item] < max(scores[user, item], wanted)
    others, rest = np.arange(ratings.n_users) != user, np.arange(ratings.n_items) != item
    np.testing.assert_array_equal(after[others][:, rest], scores[others][:, rest])
    np.testing.assert_array_equal(found.samples.x[:, others], before.samples.x[:, others])
    np.testing.assert_array_equal(found.samples.q[:, rest], before.samples.q[:, rest])
    assert (found.samples.x[:, user] != before.samples.x[:, user]).any()
    assert chain._fit_data().ratings.of_user(user)[0].tolist().count(item) == 1


def test_a_new_user_of_a_chain_is_a_ridge_regression_under_every_sample(chain, ratings):
    samples, unit, items = chain.learned.samples, float(chain.learned.unit), [3, 8]
    values = (np.array([5.0, 2.0]) - chain.catalogue.mean) / unit
    chain.partial_fit(some(ratings, ("newcomer", 3, 5.0), ("newcomer", 8, 2.0)))
    expected = np.zeros(ratings.n_items)
    for s, alpha in enumerate(samples.alpha.astype(float)):
        q, L, mean = (
            part[s].astype(float) for part in (samples.q, samples.precision, samples.mean)
        )
        if chain.conditional:
            mean = mean + samples.links[s, items].sum(axis=0) / np.sqrt(2)
        Z = np.append(q[items, :-1], np.ones((2, 1)), axis=1)
        wanted = L @ mean + alpha * Z.T @ (values - q[items, -1])
        x = np.linalg.solve(L + alpha * Z.T @ Z, wanted)
        expected += (q[:, :-1] @ x[:-1] + q[:, -1] + x[-1]) / len(samples.alpha)
    found = chain.score_users(np.array([ratings.n_users]))[0]
    rest = ~np.isin(np.arange(ratings.n_items), items)  # these have moved since
    # the row of the average is the nearest there is
    np.testing.assert_allclose(found[rest], chain.catalogue.mean + unit * expected[rest], atol=0.03)


def test_new_users_and_items_of_a_chain_are_saved_and_loaded(chain, ratings, tmp_path):
    chain.partial_fit(some(ratings, ("newcomer", 3, 5.0), ("newcomer", "new item", 1.0)))
    chain.save(tmp_path / "chain")
    again = type(chain).load(tmp_path / "chain")
    pairs = ["newcomer"] * 2, ["new item", ratings.items.raw[5]]
    np.testing.assert_array_equal(again.predict_many(*pairs), chain.predict_many(*pairs))
    assert (chain.predict_std(*pairs) > 0).all()
    assert chain.partial_fit(some(ratings, ("newcomer", 4, 3.0)), 2).history.epochs > 0
