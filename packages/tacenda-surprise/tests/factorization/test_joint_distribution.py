"""The chains leave the joint distribution of parameters and ratings as it is (Geweke 2004, "Getting it right").

Parameters and ratings are drawn from the prior. Sweeps of the chain (parameters given ratings) then alternate with new
ratings (ratings given parameters). If every conditional distribution is right, what comes out has the distribution of
what went in, so the mean of every statistic stays the same. Runs are independent, so a change of a mean, in standard
errors, is a standard normal number, and one of the tests fails by chance in fewer than one of 100,000 seeds.

``TACENDA_SWEEPS`` multiplies the number of runs.
"""

import os
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import norm, wishart

from tacenda.ratings import IdIndex, Ratings
from tacenda_surprise.gibbs import _NU_GRID, Gibbs, Start, expected_variances
from tacenda_surprise.identities import Identities

N_USERS, N_ITEMS, WIDTH = 4, 3, 2  # one factor and the bias
RATED = np.nonzero([[1, 1, 0], [0, 1, 1], [1, 1, 1], [0, 0, 0]])
KNOWN = np.nonzero([[1, 1, 0], [0, 1, 1], [1, 1, 1], [1, 0, 0]])  # of one user no more than this
RUNS, ALTERNATIONS = 120 * int(os.environ.get("TACENDA_SWEEPS", "1")), 6
FALSE_ALARMS = 1e-5


class Joint(NamedTuple):
    users: np.ndarray
    items: np.ndarray
    links: np.ndarray
    mean: np.ndarray
    precision: np.ndarray
    tau: float
    alpha: float
    gamma: np.ndarray
    nu: float
    ratings: np.ndarray


def link_matrix():
    F = np.zeros((N_USERS, N_ITEMS))
    F[KNOWN] = 1.0
    return F / np.sqrt(F.sum(axis=1, keepdims=True))


def normal_wishart(rng):
    """Mean and precision of rows: nu_0 = width + 1 + 4, W_0 = V^{-1} / 4, beta_0 = 2."""
    scale = np.diag(1 / (4 * expected_variances(WIDTH)))
    precision = wishart.rvs(WIDTH + 5, scale, random_state=rng)
    return rng.multivariate_normal(np.zeros(WIDTH), np.linalg.inv(2 * precision)), precision


def rows(rng, n, precision):
    return rng.multivariate_normal(np.zeros(WIDTH), np.linalg.inv(precision), n)


def rated(rng, users, items, alpha, gamma):
    u, i = RATED
    expected = users[u, 0] * items[i, 0] + users[u, 1] + items[i, 1]
    return expected + rng.standard_normal(len(u)) / np.sqrt(alpha * gamma[u])


def from_the_prior(rng, conditional):
    mean, precision = normal_wishart(rng)
    item_mean, item_precision = normal_wishart(rng)
    tau, alpha = 10 * rng.exponential(), rng.gamma(2.0) / 1.4
    nu = rng.choice(_NU_GRID)
    gamma = rng.gamma(nu / 2, size=N_USERS) / (nu / 2)
    links = rows(rng, N_ITEMS if conditional else 0, tau * precision)
    users = mean + rows(rng, N_USERS, precision)
    if conditional:
        users += link_matrix() @ links
    items = item_mean + rows(rng, N_ITEMS, item_precision)
    ratings = rated(rng, users, items, alpha, gamma)
    return Joint(users, items, links, mean, precision, tau, alpha, gamma, nu, ratings)


def one_sweep(joint, conditional, number):
    index = IdIndex(range(N_USERS), "user"), IdIndex(range(N_ITEMS), "item")
    ratings = Ratings(*RATED, joint.ratings, *index)
    tables = (table.astype(np.float32) for table in (joint.users, joint.items, joint.links))
    chain = Gibbs(
        ratings,
        Identities.from_pairs(*KNOWN, N_USERS, N_ITEMS) if conditional else None,
        Start(*tables, joint.alpha, joint.gamma.astype(np.float32), joint.nu, joint.tau),
        (0, 1),
        seed=0,
        chain=number,
    )
    chain.step(None, 1.0)
    drawn = {name: array[0].astype(float) for name, array in chain.samples.items()}
    return joint._replace(**{name: drawn[name] for name in Joint._fields if name in drawn})


def log_form(rows, precision):
    """Logarithm of sum_n x_n^T Lambda x_n; the chain's precision is in float32, and may be all but singular."""
    return np.log(np.maximum(np.einsum("nk,kl,nl->", rows, precision, rows), 1e-6))


def statistics(joint):
    """Functions of everything that have a variance, although the factors have none."""
    users, items, links, mean, precision, tau, alpha, gamma, nu, ratings = joint
    deviations = users - mean
    if len(links):
        deviations = deviations - link_matrix() @ links
    found = {f"precision {k}": np.log(precision[k, k]) for k in range(WIDTH)}
    found["correlation"] = precision[0, 1] / np.sqrt(precision[0, 0] * precision[1, 1])
    found["alpha"] = np.log(alpha)
    found["mean"] = log_form(mean[None], precision)
    found["users"] = log_form(deviations, precision)
    u, i = RATED
    errors = ratings - users[u, 0] * items[i, 0] - users[u, 1] - items[i, 1]
    found["noise"] = np.log(alpha * (gamma[u] * errors) @ errors)
    found["evenness"] = np.log(nu)
    found["gamma"], found["gamma's spread"] = np.log(gamma).mean(), np.log(np.ptp(gamma))
    found["gamma of a user"] = np.log(gamma[0])
    for name, table in (("user", users), ("item", items)):
        for k in range(WIDTH):
            column = table[:, k]
            found[f"{name}s' size {k}"] = np.log(np.abs(column)).mean()
            found[f"{name}s' spread {k}"] = np.log(np.ptp(column))
            found[f"{name}s' sign {k}"] = np.sign(column).mean()
    found["product"] = np.sign(users[0, 0] * items[0, 0] * ratings[0])
    if len(links):
        found["tau"] = np.log(tau)
        found["links"] = np.log(tau) + log_form(links, precision)
        found["links' size"] = np.log(np.abs(links)).mean()
        found["links and users"] = np.tanh(users[3, 0] * links[0, 0])
    return found


@pytest.mark.parametrize("conditional", [False, True])
def test_parameters_and_ratings_keep_their_joint_distribution(conditional):
    rng = np.random.default_rng(0)
    changes = []
    for run in range(RUNS):
        before = joint = from_the_prior(rng, conditional)
        after = []
        for turn in range(ALTERNATIONS):
            joint = one_sweep(joint, conditional, run * ALTERNATIONS + turn)
            after.append(statistics(joint))
            joint = joint._replace(
                ratings=rated(rng, joint.users, joint.items, joint.alpha, joint.gamma)
            )
        first = statistics(before)
        changes.append([np.mean([each[name] for each in after]) - first[name] for name in first])
    changes = np.array(changes)
    z = changes.mean(axis=0) / (changes.std(axis=0) / np.sqrt(RUNS))
    limit = norm.isf(0.5 * FALSE_ALARMS / len(z))
    wrong = {
        name: f"{value:+.1f}"
        for name, value in zip(first, z, strict=True)
        if not abs(value) < limit
    }
    assert not wrong, f"means that changed, in standard errors: {wrong}"


def test_links_of_great_precision_are_drawn_near_zero():
    joint = from_the_prior(np.random.default_rng(1), conditional=True)
    loose, tight = (
        one_sweep(joint._replace(links=np.zeros_like(joint.links), tau=tau), True, 0).links
        for tau in (1.0, 1e8)
    )
    assert np.abs(loose).max() > 0.1
    assert np.abs(tight).max() < 0.01
