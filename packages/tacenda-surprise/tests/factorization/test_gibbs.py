"""The draws a chain is made of, against the posteriors they are from; and what is made of its samples."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array

from support.ratings import rmse
from tacenda.datasets import synthetic_ratings
from tacenda.errors import ArtifactError
from tacenda.ratings import split
from tacenda_surprise import PMF, BayesianPMF, BiasOnly, ConditionalBayesianPMF, ConditionalPMF
from tacenda_surprise.gibbs import (
    Gibbs,
    Hyper,
    Link,
    draw_hyper,
    draw_scale,
    draw_tau,
    draw_wishart,
    expected_variances,
    random_start,
)
from tacenda_surprise.identities import Identities
from tacenda_surprise.samples import (
    LeftOut,
    RatingNoise,
    RatingScale,
    Samples,
    average_tables,
    fold,
)
from tacenda_surprise.variance import Curve


def test_wishart_draws_have_its_moments():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((3, 3))
    scale, degrees = root @ root.T / 3, 7.0
    draws = np.stack([draw_wishart(rng, degrees, scale) for _ in range(8000)])
    np.testing.assert_allclose(draws.mean(axis=0), degrees * scale, atol=0.08 * degrees)
    variance = degrees * (scale**2 + np.outer(np.diag(scale), np.diag(scale)))
    np.testing.assert_allclose(draws.var(axis=0), variance, rtol=0.12)


def test_hyperparameters_are_drawn_from_their_posterior():
    """Mean of Lambda: (nu_0 + n) W; of mu: n x / (beta_0 + n); and the spread of mu. Here m is 4 and nu_0 is 7."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((20, 2)) * [0.5, 2.0] + [1.0, -1.0]
    mean, n = rows.mean(axis=0), 20
    inverse = 4 * np.diag(expected_variances(2))
    inverse += (rows - mean).T @ (rows - mean) + 2 * n / (2 + n) * np.outer(mean, mean)
    W = np.linalg.inv(inverse)
    draws = [draw_hyper(rng, rows) for _ in range(6000)]
    np.testing.assert_allclose(
        np.mean([d.precision for d in draws], axis=0), (7 + n) * W, rtol=0.05, atol=0.02
    )
    found = np.stack([d.mean for d in draws])
    np.testing.assert_allclose(found.mean(axis=0), n * mean / (2 + n), atol=0.03)
    # mu is Student t with nu - width + 1 degrees of freedom
    free = 7 + n - 2 + 1
    covariance = inverse / ((2 + n) * free) * free / (free - 2)
    np.testing.assert_allclose(np.cov(found.T), covariance, rtol=0.15, atol=0.005)


@pytest.fixture
def linked():
    rng = np.random.default_rng(2)
    rated = rng.random((12, 6)) < 0.4
    users, items = np.nonzero(rated)
    identities = Identities.from_pairs(users, items, 12, 6)
    sizes = np.maximum(identities.sizes, 1)
    F = csr_array((1 / np.sqrt(sizes[users]), (users, items)), shape=(12, 6)).toarray()
    root = rng.standard_normal((2, 2))
    hyper = Hyper(np.array([0.3, -0.2]), root @ root.T + np.eye(2))
    X = rng.standard_normal((12, 2)).astype(np.float32)
    return identities, F, hyper, X


def test_the_expected_factors_are_those_of_the_link(linked):
    identities, F, _, _ = linked
    W = np.random.default_rng(0).standard_normal((6, 2)).astype(np.float32)
    np.testing.assert_allclose(Link(identities, 6).expected(W), F @ W, atol=1e-5)


def test_links_are_drawn_from_their_posterior(linked):
    identities, F, hyper, X = linked
    link, tau, rng = Link(identities, 6), 1.3, np.random.default_rng(3)
    W, draws = np.zeros((6, 2), np.float32), []
    for _ in range(4000):  # each given the draw before
        draws.append(W := link.draw(rng, X, hyper, tau, W))
    draws = np.stack(draws).astype(np.float64)
    A = np.linalg.inv(F.T @ F + tau * np.eye(6))
    np.testing.assert_allclose(draws.mean(axis=0), A @ F.T @ (X - hyper.mean), atol=0.08)
    covariance = np.kron(A, np.linalg.inv(hyper.precision))
    np.testing.assert_allclose(np.cov(draws.reshape(-1, 12).T), covariance, atol=0.1)


def test_tau_is_drawn_from_its_posterior(linked):
    hyper, W = linked[2], np.random.default_rng(4).standard_normal((6, 2)).astype(np.float32)
    rng = np.random.default_rng(5)
    draws = [draw_tau(rng, W, hyper) for _ in range(20_000)]
    rate = 0.1 + 0.5 * np.einsum("jk,kl,jl->", W, hyper.precision, W)
    assert np.mean(draws) == pytest.approx((1 + 0.5 * 12) / rate, rel=0.02)
    assert np.var(draws) == pytest.approx((1 + 0.5 * 12) / rate**2, rel=0.06)


def test_a_factor_on_the_links_is_drawn_from_its_posterior():
    """In units of its deviation the mean of a correct chain is off by 0.05 less than once in a million."""
    rng, hyper = np.random.default_rng(0), Hyper(np.zeros(2), np.diag([1.0, 0.5]))
    S, X, tau, f = rng.standard_normal((3, 2)), rng.standard_normal((3, 2)), 40.0, 1.0
    drawn = np.empty(50_000)
    for n in range(len(drawn)):  # of W, and of tau so that tau W^2 stays
        drawn[n] = f = f * draw_scale(rng, X, f * S, hyper, tau / f**2)
    grid = np.linspace(0.01, 12, 20_000)
    errors = X - grid[:, None, None] * S
    # N(X; f S, Lambda^-1), and the density exp(-0.1 tau) of tau, which is tau / f^2
    log_p = -0.5 * np.einsum("nuk,k,nuk->n", errors, [1.0, 0.5], errors) - 0.1 * tau / grid**2
    p = np.exp(log_p) / grid**3
    mean = grid @ p / p.sum()
    sd = np.sqrt((grid - mean) ** 2 @ p / p.sum())
    assert drawn.mean() == pytest.approx(mean, abs=0.05 * sd)
    assert drawn.std() == pytest.approx(sd, rel=0.05)


def test_a_chain_forgets_where_it_began():
    """Two chains of other seeds: their averages differ by less than either's draws do."""
    ratings = synthetic_ratings.generate(60, 40, 760, rank=2, noise=0.5, seed=1).ratings
    chains = []
    for seed in (0, 1):
        standard = ratings.standardize(ratings.mean, 1.0)
        start = random_start(seed, 3, standard, linked=False)
        chain = Gibbs(standard, None, start, (60, 200), seed=seed)
        for sweep in range(260):
            chain.step(sweep, 1.0)
        users, items = chain.samples.x, chain.samples.q
        scores = np.einsum("sud,sid->sui", users[:, :, :-1], items[:, :, :-1])
        chains.append(scores + users[:, :, None, -1] + items[:, None, :, -1])
    apart = np.sqrt(np.mean((chains[0].mean(axis=0) - chains[1].mean(axis=0)) ** 2))
    spread = np.sqrt(chains[0].var(axis=0).mean())
    assert apart < 0.25 * spread
    assert np.corrcoef(chains[0].var(axis=0).ravel(), chains[1].var(axis=0).ravel())[0, 1] > 0.8


@pytest.fixture(scope="module")
def parts():
    data = synthetic_ratings.generate(400, 120, 12_000, rank=3, noise=0.6, integer=False, seed=4)
    return split(data.ratings, 0.15)


@pytest.fixture(scope="module")
def folding(parts):
    """Users with twenty ratings and more, and models that were fitted without them."""
    train, _ = parts
    users = np.arange(0, train.n_users, 6)
    rest = train.select(~np.isin(train.user_ids, users))
    settings = {"n_factors": 4, "burn_in": 20, "n_samples": 40, "random_state": 0}
    models = {kind: kind(**settings).fit(rest) for kind in (BayesianPMF, ConditionalBayesianPMF)}
    return users[np.diff(train.user_offsets)[users] >= 20], models


@pytest.mark.parametrize("model_class", [BayesianPMF, ConditionalBayesianPMF])
def test_averaging_beats_the_most_probable_and_knows_how_sure_it_is(parts, model_class):
    train, test = parts
    model = model_class(n_factors=4, burn_in=20, n_samples=60, random_state=0).fit(train)
    assert rmse(model, test) < rmse(PMF(n_factors=8, random_state=0).fit(train), test)
    assert rmse(model, test) < 1.12 * 0.6
    deviations = model.deviations(test.user_ids, test.item_ids)
    z = (test.values - model.score_pairs(test.user_ids, test.item_ids)) / deviations
    assert z.std() == pytest.approx(1.0, abs=0.06)
    noise = model._noise.scale.std * np.sqrt(np.mean(1 / model.learned.samples.alpha))
    assert noise == pytest.approx(0.6, rel=0.05)
    sizes = np.diff(train.user_offsets)[test.user_ids]
    few, many = np.quantile(sizes, [0.2, 0.8])
    assert deviations[sizes < few].mean() > deviations[sizes > many].mean() + 0.02


@pytest.mark.parametrize("model_class", [BayesianPMF, ConditionalBayesianPMF])
@pytest.mark.parametrize("n", [0, 2, 10])
def test_a_folded_user_is_as_uncertain_as_few_ratings_leave_them(parts, folding, model_class, n):
    """What is left of the ratings, in deviations from what is expected of them, has unit size."""
    ratings, (users, models) = parts[0], folding
    z = []
    for user in users:
        items, values = ratings.of_user(int(user))
        given = np.zeros(len(items), bool)
        given[np.random.default_rng(int(user)).permutation(len(items))[:n]] = True
        folded = models[model_class].fold(items[given], values[given])
        errors = values[~given] - folded.score(items[~given])
        z.extend(errors / folded.deviations(items[~given]))
    assert np.std(z) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("n", [1, 4, 9])
def test_what_is_known_of_a_new_user_counts_by_the_root_of_how_much_it_is(folding, n):
    """As in a fit: 1 / sqrt(|N(u)|) sum W_i, which is sqrt(n) W where all W_i are equal."""
    samples = folding[1][ConditionalBayesianPMF].learned.samples
    link = np.linspace(-1, 1, samples.links[0, 0].size, dtype=np.float32)
    samples = replace(samples, links=np.broadcast_to(link, samples.links.shape).copy())
    prior, nothing = samples.prior_means(np.arange(n)), np.zeros(0, np.int64)
    noise = folding[1][ConditionalBayesianPMF]._noise
    found = fold(samples, noise, nothing, nothing, prior, samples.item_mean[:, None])
    np.testing.assert_allclose(found.user, samples.mean + np.sqrt(n) * link, atol=1e-3)


@pytest.mark.parametrize(
    ("n", "true", "expected"),
    [(20_000, 2.5, 2.5), (20_000, 0.5, 0.5), (20_000, 0.0, 0.25), (10, 2.5, 1.0)],
)
def test_held_out_errors_tell_the_noise_that_adds_to_the_spread(n, true, expected):
    """The factor on the noise is the one the draws were made with, unless they are few or it is beyond its limits."""
    rng = np.random.default_rng(0)
    spread, noises = np.full(n, 0.3), np.full(n, 0.7)
    errors = rng.standard_normal(n) * np.sqrt(spread + true * noises)
    left_out = LeftOut(errors, np.zeros(n), spread, noises / 1.4)
    found = left_out.find_noise_factor(Curve(), 1.4)
    assert found == pytest.approx(expected, rel=0.1)


def test_deviations_are_of_ratings_and_join_spread_and_noise():
    scale = RatingScale(3.5, 1.1, (1.0, 5.0))
    curve = Curve(3.5, 1.1, -0.5, 0.1)
    noise = RatingNoise(scale, np.array([0.2, 0.4], np.float32), curve)
    scores = np.array([0.5, 3.0], np.float32)  # the second one is clipped
    t = np.array([0.5, 1.5 / 1.1])
    variances = 0.1 + np.array([0.4, 0.2]) * np.exp(-0.5 * t + 0.1 * t**2)
    found = noise.deviations(np.full(2, 0.1), np.array([1, 0]), scale.ratings(scores))
    np.testing.assert_allclose(found, 1.1 * np.sqrt(variances), rtol=1e-6)


def test_samples_that_hold_no_precision_are_refused(folding):
    model = folding[1][BayesianPMF]
    arrays = model.arrays()
    arrays["samples.precision"] = -arrays["samples.precision"]
    damaged = BayesianPMF.from_arrays(model.config_dict(), arrays)
    with pytest.raises(ArtifactError, match="not positive definite: it is damaged"):
        damaged.fold(np.array([], np.int64), np.array([], np.float32))


@pytest.mark.parametrize(
    ("make", "margin"),
    [
        (partial(ConditionalBayesianPMF, n_factors=5, burn_in=20, n_samples=40), 0.01),
        (partial(ConditionalPMF, n_factors=8, n_epochs=40), 0.005),
    ],
)
def test_identities_alone_tell_something_of_a_user(make, margin):
    data = synthetic_ratings.generate(600, 120, 14_000, rank=3, noise=0.5, informative=2.0, seed=1)
    quiet = data.ratings.user_ids >= 500
    train, test = data.ratings.select(~quiet), data.ratings.select(quiet)
    found = []
    for identities in (Identities.of(test), None):
        model = make(random_state=0).fit(train, identities=identities)
        found.append(rmse(model, test))
    assert found[0] < found[1] - margin


@pytest.fixture(scope="module")
def chained(parts):
    """Ratings for a chain, others, and samples of a short chain of the first."""
    standard, held_out = (part.standardize(parts[0].mean, 1.0) for part in parts)
    start = random_start(0, 4, standard, linked=False)
    chain = Gibbs(standard, None, start, (10, 8), seed=0)
    for sweep in range(18):
        chain.step(sweep, 1.0)
    return standard, held_out, chain.samples


@pytest.mark.parametrize(("mixed", "least", "most"), [(False, 0.95, 1.0), (True, 0.0, 0.4)])
def test_samples_weigh_what_their_factors_predict_beyond_biases(chained, mixed, least, most):
    standard, held_out, samples = chained
    if mixed:  # each user has the taste of somebody else
        x, others = samples.x.copy(), np.random.default_rng(0).permutation(standard.n_users)
        x[:, :, :-1] = x[:, others, :-1]
        samples = replace(samples, x=x)
    assert least <= samples.choose_weight(standard, held_out) <= most


def test_shrunk_samples_score_between_their_own_scores_and_the_biases(chained):
    standard, held_out, samples = chained
    users, items = held_out.user_ids, held_out.item_ids

    def scores(of):
        x, q = of.x[:, users], of.q[:, items]
        return np.einsum("snd,snd->sn", x[..., :-1], q[..., :-1]) + x[..., -1] + q[..., -1]

    assert samples.shrink(1.0, standard) is samples
    biases = BiasOnly().fit(standard).score_pairs(users, items)
    expected, shrunk = 0.4 * scores(samples) + 0.6 * biases, samples.shrink(0.4, standard)
    np.testing.assert_allclose(scores(shrunk), expected, atol=1e-4)
    # users not seen yet vary as much less as those seen: the covariance is that of x times the scale
    scale = np.append(np.full(samples.mean.shape[1] - 1, 0.4), 1.0)
    covariances = np.linalg.inv(samples.precision.astype(float)) * np.outer(scale, scale)
    np.testing.assert_allclose(np.linalg.inv(shrunk.precision), covariances, rtol=1e-3, atol=1e-6)


# -- averages --------------------------------------------------------------------------------------


@pytest.fixture
def some_samples():
    """Of one truth, with noise on every sample."""
    rng = np.random.default_rng(0)
    truth = [rng.standard_normal((n, 4)) for n in (80, 50)]
    return [(t + 0.3 * rng.standard_normal((30, *t.shape))).astype(np.float32) for t in truth]


def test_an_average_that_is_narrow_enough_is_exact(some_samples):
    users, items = some_samples
    expected = np.einsum("sud,sid->ui", users, items) / 30
    for rank in (120, 500):
        x, q = average_tables(users, items, rank, 0)
        assert x.shape[1] == q.shape[1] == 120
        np.testing.assert_allclose(x @ q.T, expected, atol=1e-4)
    x, q = average_tables(users, items, 50, 0)
    np.testing.assert_allclose(x @ q.T, expected, atol=1e-3)


@pytest.mark.parametrize("rank", [1, 4, 12])
def test_an_average_of_a_given_rank_is_nearly_the_best_one(some_samples, rank):
    users, items = some_samples
    expected = (np.einsum("sud,sid->ui", users, items) / 30).astype(np.float64)
    x, q = average_tables(users, items, rank, 0)
    assert x.shape == (80, rank)
    assert q.shape == (50, rank)
    assert x.dtype == q.dtype == np.float32
    best = np.sqrt((np.linalg.svd(expected, compute_uv=False)[rank:] ** 2).sum())
    assert np.linalg.norm(expected - x @ q.T) < 1.05 * best


@pytest.mark.parametrize(
    ("total", "n", "chosen"),
    [(6, 2, [2, 5]), (6, 3, [1, 3, 5]), (5, 9, [0, 1, 2, 3, 4]), (7, 1, [6])],
)
def test_kept_samples_are_evenly_spaced(total, n, chosen):
    numbers = np.arange(total, dtype=np.float32)
    found = Samples(*(numbers,) * 11).thin(n)
    assert found.alpha.tolist() == chosen


def test_the_width_follows_from_the_ratings(parts):
    train, _ = parts
    few = train.select(np.arange(len(train)) < 60)
    widths = []
    for ratings in (few, train):
        model = BayesianPMF(burn_in=1, n_samples=2, random_state=0).fit(ratings)
        widths.append(model.learned.samples.x.shape[2] - 1)
    assert widths[0] == 8
    assert 8 <= widths[1] <= 32
