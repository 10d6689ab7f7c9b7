"""Epochs of SGD: their equations, order and errors; scores of pairs."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from tacenda import kernels
from tacenda.errors import KernelError
from tacenda.kernels import ratings
from tacenda.kernels.ratings import Penalties, Rates, Tables, rating_scores
from tacenda.kernels.ratings import shuffle as order


def rating_sgd(
    offsets, item_ids, values, users, tables, mean, rates, penalties, seed, side_offsets=None, side_ids=None,
    weights=None,
):  # fmt: skip
    own = ratings.ByUser(offsets, item_ids, values, weights)
    sides = None if side_ids is None else ratings.Identities(side_offsets, side_ids)
    return ratings.rating_sgd(own, users, tables, mean, rates, penalties, seed, sides)


BACKENDS = ("reference", "cpu")


def problem(n_users=7, n_items=9, density=0.5, factors=5, side=True, seed=0):
    rng = np.random.default_rng(seed)
    rated = rng.random((n_users, n_items)) < density
    offsets = np.concatenate([[0], np.cumsum(rated.sum(axis=1))])
    ids = np.nonzero(rated)[1].astype(np.int32)
    tables = Tables(
        rng.normal(0, 0.3, (n_users, factors)).astype(np.float32),
        rng.normal(0, 0.3, (n_items, factors)).astype(np.float32),
        rng.normal(0, 0.3, n_users).astype(np.float32),
        rng.normal(0, 0.3, n_items).astype(np.float32),
        rng.normal(0, 0.3, (n_items if side else 0, factors)).astype(np.float32),
    )
    values = rng.integers(1, 6, len(ids)).astype(np.float32)
    return offsets, ids, values, tables


def alike(kind, factors, biases, side=0.0):
    """The same numbers for users and items."""
    return kind(factors, factors, biases, biases, side)


def run(offsets, ids, values, tables, rates, penalties=(0, 0, 0), users=None, side=True, seed=1):
    users = np.arange(len(offsets) - 1) if users is None else users
    identities = (offsets, ids) if side else (None, None)
    return rating_sgd(
        offsets, ids, values, users, tables, 3.0, alike(Rates, *rates), alike(Penalties, *penalties),
        seed, *identities,
    )  # fmt: skip


def copied(tables):
    return Tables(*(table.copy() for table in tables))


def objective(offsets, ids, values, tables, penalties):
    """Half the squared error and half the penalties, each user's w once for each time it is used."""
    p, q, b, c, w = (table.astype(np.float64) for table in tables)
    total = 0.0
    for u in range(len(p)):
        span = slice(offsets[u], offsets[u + 1])
        items = ids[span]
        if not len(items):
            continue
        x = p[u] + w[items].mean(axis=0)
        e = values[span] - 3.0 - b[u] - c[items] - q[items] @ x
        total += 0.5 * e @ e
        total += 0.5 * penalties[0] * ((q[items] ** 2).sum() + len(items) * p[u] @ p[u])
        total += 0.5 * penalties[1] * ((c[items] ** 2).sum() + len(items) * b[u] ** 2)
        total += 0.5 * penalties[2] * (w[items] ** 2).sum() / len(items)
    return total


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("table", range(5))
def test_small_steps_follow_the_gradient(backend, table):
    """The change over a small rate is minus the numeric gradient of the objective."""
    offsets, ids, values, tables = problem()
    penalties, rate = (0.3, 0.2, 0.4), 1e-3
    before = copied(tables)
    rates = [(rate, 0, 0), (rate, 0, 0), (0, rate, 0), (0, rate, 0), (0, 0, rate)][table]
    with kernels.use(backend):
        run(offsets, ids, values, tables, rates, penalties)
    found = (tables[table].astype(np.float64) - before[table]) / rate
    numeric = np.zeros_like(found)
    for index in np.ndindex(found.shape):
        ends = []
        for step in (1e-3, -1e-3):
            moved = Tables(*(t.astype(np.float64) for t in before))
            moved[table][index] += step
            ends.append(objective(offsets, ids, values, moved, penalties))
        numeric[index] = (ends[1] - ends[0]) / 2e-3
    if table == 4:
        # no user has conditioned the others' gradient: g is 1/n of the derivative of the mean
        assert np.corrcoef(found.ravel(), numeric.ravel())[0, 1] > 0.999
    np.testing.assert_allclose(found, numeric, atol=0.02 * np.abs(numeric).max())


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_error_is_that_before_each_update(backend):
    offsets, ids, values, tables = problem()
    with kernels.use(backend):
        errors, found = run(offsets, ids, values, tables, (0, 0, 0))
    users = np.repeat(np.arange(7), np.diff(offsets))
    s = np.stack([tables.side_factors[ids[a:b]].sum(0) / max(b - a, 1) for a, b in
                  pairwise(offsets)])  # fmt: skip
    e = values - 3 - tables.user_biases[users] - tables.item_biases[ids]
    e -= np.einsum("nd,nd->n", (tables.user_factors + s)[users], tables.item_factors[ids])
    np.testing.assert_allclose(errors, np.bincount(users, e**2, 7), rtol=1e-5)
    assert found is tables


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_weight_multiplies_the_steps(backend):
    """Where ratings and penalties weigh 3 the steps are those of three times the rates."""
    offsets, ids, values, tables = problem(n_users=1, side=False)
    found = []
    for weight, rate in ((3.0, 1e-4), (1.0, 3e-4)):
        changed = copied(tables)
        with kernels.use(backend):
            rating_sgd(
                offsets, ids, values, [0], changed, 3.0, alike(Rates, rate, rate),
                alike(Penalties, 0.3 * weight, 0.3 * weight), 1, weights=np.full(1, weight, np.float32),
            )  # fmt: skip
        found.append(changed)
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@settings(max_examples=40)
@given(st.integers(0, 60), st.integers(0, 2**40), st.integers(0, 10**6))
def test_an_order_is_a_permutation_and_depends_on_seed_and_user(n, seed, user):
    found = order(n, seed, user)
    assert sorted(found) == list(range(n))
    if n > 20:
        assert found != order(n, seed + 1, user)
        assert found != order(n, seed, user + 1)


@pytest.mark.parametrize("side", [False, True])
def test_a_user_that_is_not_visited_stays(side):
    offsets, ids, values, tables = problem(side=side)
    before = copied(tables)
    run(offsets, ids, values, tables, (0.1, 0.1, 0.5), users=np.array([2]), side=side)
    others = np.arange(7) != 2
    np.testing.assert_array_equal(tables.user_factors[others], before.user_factors[others])
    assert np.abs(tables.user_factors[2] - before.user_factors[2]).max() > 0
    unrated = np.setdiff1d(np.arange(9), ids[offsets[2] : offsets[3]])
    np.testing.assert_array_equal(tables.item_factors[unrated], before.item_factors[unrated])


@settings(max_examples=60)
@given(
    st.sampled_from([0, 1, 2, 15, 16, 17, 31, 32, 33, 48, 63, 100]),
    st.integers(1, 12),
    st.floats(0, 1),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_every_width_gives_what_the_specification_gives(factors, n_users, density, side, seed):
    """Widths beside a multiple of a vector's, users without ratings, identities that are not rated."""
    offsets, ids, values, tables = problem(n_users, 9, density, factors, side, seed)
    other = problem(n_users, 9, 0.4, factors, side, seed + 1)[:2] if side else (None, None)
    found, rng = [], np.random.default_rng(seed)
    penalties = Penalties(*(rng.random(len(table), np.float32) for table in tables[:4]), side=0.3)
    weights = 0.5 + rng.random(n_users, np.float32)
    for backend in BACKENDS:
        changed = copied(tables)
        with kernels.use(backend):
            errors, _ = rating_sgd(
                offsets, ids, values, np.arange(n_users), changed, 3.0, Rates(0.03, 0.04, 0.02, 0.01, 0.5),
                penalties, seed, *other, weights,
            )  # fmt: skip
        found.append((errors, changed))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-4)
    for expected, actual in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.update(users=np.array([7])), "users run from 7"),
        (lambda a: a.update(ids=a["ids"] + 5), "item ids run from"),
        (lambda a: a.update(offsets=a["offsets"][:-1]), "offsets must ascend"),
        (lambda a: a.update(values=a["values"][1:]), "item_ids must be"),
        (
            lambda a: a.update(tables=a["tables"]._replace(user_biases=np.zeros(3, np.float32))),
            "user_biases must be float32",
        ),
        (
            lambda a: a.update(tables=a["tables"]._replace(item_factors=np.zeros((9, 5)))),
            "item_factors must be float32",
        ),
    ],
)
def test_what_does_not_fit_is_refused(backend, change, message):
    args = dict(zip(("offsets", "ids", "values", "tables"), problem(), strict=True))
    change(args)
    with kernels.use(backend), pytest.raises(KernelError, match=message):
        run(**args, rates=(0.1, 0.1, 0.1))


def test_penalties_and_rates_without_numbers_are_refused():
    offsets, ids, values, tables = problem()
    rows, users = ratings.ByUser(offsets, ids, values), np.array([0])
    rates, penalties = Rates(*[0.1] * 5), Penalties(*[0.1] * 5)
    for wrong, message in (
        ((rates, penalties._replace(user_factors=None)), "user_factors must be an array of num"),
        ((rates, penalties._replace(side=None)), r"penalties\.side must be a number, not None"),
        ((rates._replace(side="1"), penalties), r"rates\.side must be a number, not '1'"),
        ((None, penalties), "rates must be a Rates of user_factors"),
    ):
        with pytest.raises(KernelError, match=message):
            ratings.rating_sgd(rows, users, Tables(*tables), 3.0, *wrong, 7)


@pytest.mark.parametrize("backend", BACKENDS)
def test_identities_out_of_range_are_refused_though_they_share_the_ids_of_the_ratings(backend):
    offsets, ids, values, tables = problem()
    ids, values = np.r_[ids, np.full(99, 9, np.int32)], np.r_[values, np.ones(99, np.float32)]
    of_last = np.append(offsets[:-1], len(ids))
    of_first = np.array([0, *[len(ids)] * (len(offsets) - 1)])
    with kernels.use(backend), pytest.raises(KernelError, match="side ids run from"):
        ratings.rating_sgd(
            ratings.ByUser(of_last, ids, values), np.array([0]), Tables(*tables), 3.0, Rates(*[0.1] * 5),
            Penalties(), 1, ratings.Identities(of_first, ids),
        )  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
def test_scores_of_what_is_unknown_are_made_of_the_rest(backend):
    _, _, _, tables = problem()
    p, q, b, c, _ = tables
    with kernels.use(backend):
        found = rating_scores(np.array([2, 2, -1, -1]), np.array([3, -1, 3, -1]), p, q, b, c, 3.0)
        with pytest.raises(KernelError, match="users run from 7"):
            rating_scores(np.array([7]), np.array([0]), p, q, b, c, 3.0)
        with pytest.raises(KernelError, match="items run from -2"):
            rating_scores(np.array([0]), np.array([-2]), p, q, b, c, 3.0)
    expected = [3 + b[2] + c[3] + p[2] @ q[3], 3 + b[2], 3 + c[3], 3]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("seed", [-1, 1 << 64, np.int64(-1)])
def test_a_seed_counts_modulo_two_to_the_64(seed):
    offsets, ids, values, tables = problem()
    with kernels.use("cpu"):
        errors = [
            run(offsets, ids, values, copied(tables), (0.1, 0.1, 0.1), seed=each)[0]
            for each in (seed, int(seed) % (1 << 64))
        ]
    np.testing.assert_array_equal(*errors)


@pytest.mark.parametrize("over", ["users", "seeds"])
def test_every_order_of_a_users_ratings_is_as_likely(over):
    """Chi-square over the 24 orders of four ratings, which a right shuffle fails for one in a million seeds."""
    pairs = [(7, k) if over == "users" else (k, 7) for k in range(12_000)]
    _, counts = np.unique([order(4, *pair) for pair in pairs], axis=0, return_counts=True)
    assert len(counts) == 24
    assert chisquare(counts).pvalue > 1e-6


def test_several_at_once_give_the_same_bits_as_one():
    args = [problem(30, 40, factors=17, seed=3) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda a: run(*a, (0.05, 0.05, 0.5)), args))
    for errors, tables in results[1:]:
        np.testing.assert_array_equal(errors, results[0][0])
        for one, other in zip(tables, results[0][1], strict=True):
            np.testing.assert_array_equal(one, other)
