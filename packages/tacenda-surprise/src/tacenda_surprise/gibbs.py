"""Gibbs sampling of a factorization, a sweep at a time, as the fitting loop sees it.

Bias and factors of a user are drawn together, from the posterior of a regression on (q_i, 1); then, where identities
are given, their link; then bias and factors of every item; then the precision of the ratings
(Salakhutdinov and Mnih 2008, section 3.3). Every table here has the width D + 1: its last
column is the bias. Ratings are standardized: less their mean, over their standard deviation.

A rating of user u has the precision alpha gamma_u, as users differ in how steadily they rate:

    alpha ~ Gamma(a_0, b_0),   gamma_u ~ Gamma(nu / 2, nu / 2),   nu uniform over a grid

(shape and rate), whose conditional distributions are Gamma and discrete.

The rows of a table have a Normal-Wishart prior with mu_0 = 0, beta_0 = 2, nu_0 = width + 1 + m and W_0 = V^{-1} / m, by
which their covariance is expected to be V (Salakhutdinov and Mnih 2008, eq 14). The prior counts as m rows. V is
diagonal; a bias has a variance of 0.15, and so has the product of factors of a user and an item. (Their section 4 has
nu_0 = width and W_0 = I, of which a row has no expected variance: a single rating then makes it infinite.)

What the identities of rated items say about a user is a linear link with a prior, a Bayesian form of Mnih 2010,
eq 5.22:

    x_u ~ N(mu + s_u, Lambda^{-1}),   s_u = sum_{j in N(u)} w_j / |N(u)|^{1/2},
    w_j ~ N(0, (tau Lambda)^{-1}),    tau ~ Gamma(1, 1/10)

The thesis divides by |N(u)|. With its square root (as SVD++ has it) what is known of a user grows with the number
of items, and predictions are better.

Lambda is the precision of the r rows of W too, up to the factor tau, so it is drawn given both tables. The factors
that contain it are

    W(Lambda | W_0, nu_0) |Lambda|^{n/2} exp(-1/2 sum_u (x_u - mu - s_u)^T Lambda (x_u - mu - s_u))
                          |Lambda|^{r/2} exp(-1/2 sum_j tau w_j^T Lambda w_j)

and therefore, with z_u = x_u - s_u and z their mean, mu integrated out,

    Lambda ~ W((m V + sum_u (z_u - z)(z_u - z)^T + beta_0 n / (beta_0 + n) z z^T + tau W^T W)^{-1}, nu_0 + n + r).

Given all x, Lambda and the other rows of W a row of W follows

    w_j ~ N(f_j^T (X - mu - F W + f_j w_j) / (tau + |f_j|^2), ((tau + |f_j|^2) Lambda)^{-1}),

f_j being its column of the sparse matrix F of the s_u. The rows are drawn in turn. To draw all of them at once
(Simm et al. 2017, Macau, eq 8) takes a system as large as W.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import gammaln

from tacenda import tall
from tacenda.array_ops import DeviceCSR, copy, to_device, to_numpy
from tacenda.arrays import Array
from tacenda.fitting import StepResult, Trainer
from tacenda.kernels.ratings import Solved, Targets, link_draws, rating_scores, rating_solves
from tacenda.kernels.shared import sparse_product
from tacenda.ratings import Ratings
from tacenda_surprise.catalogue import Doubles, Floats
from tacenda_surprise.identities import Identities
from tacenda_surprise.samples import Samples

# a_0 and b_0: a variance of 0.7 of the ratings, as four of them would tell it
_NOISE_PRIOR = 2.0, 1.4
_NU_GRID = np.array([4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0])  # nu
_BETA = 2.0
_PRIOR_ROWS = 4.0  # m: how many rows the prior of their covariance counts as
_PRIOR_VARIANCE = 0.15  # of a bias, and of the product of factors
_TAU_RATE = 0.1  # of the prior of tau: links are expected to say less than ratings do


class Start(NamedTuple):
    """State from which a chain starts; the last column of the tables is the bias."""

    users: Floats
    items: Floats
    links: Floats
    alpha: float
    gamma: Floats  # (users,)
    nu: float = 16.0
    tau: float = 10.0

    @classmethod
    def of_last(cls, samples: Samples, n_users: int, n_items: int) -> Start:
        """Start from the last of the ``samples``; further users begin at the mean, and further items at zero."""
        last = samples.map(lambda part: part[-1:]).grow(n_users, n_items)
        users = last.x[0]
        users[samples.x.shape[1] :] = last.mean[0]
        alpha, nu, tau = (float(part[0]) for part in (last.alpha, last.nu, last.tau))
        return cls(users, last.q[0], last.links[0], alpha, last.gamma[0], nu, tau)


class Gibbs(Trainer):
    """A Markov chain over the parameters, and the samples taken of it.

    ``ratings`` are standardized, and ``identities`` are N(u), None without conditioning. The chain begins at ``start``.
    ``chain`` says how many came before it, as each has random numbers of its own. ``lasting`` are the numbers of
    sweeps of its burn-in and of its samples.

    Tables and ratings are on ``device``. Random numbers are drawn on the host wherever they go, so that a chain on a
    device is that on the CPU, up to rounding. Samples are taken to the host.
    """

    def __init__(
        self,
        ratings: Ratings,
        identities: Identities | None,
        start: Start,
        lasting: tuple[int, int],
        *,
        seed: int,
        chain: int = 0,
        device: str = "cpu",
    ) -> None:
        self._seed, self.number, self._device = seed, chain, device
        self.ratings, self.identities = ratings, identities
        self._by_user = DeviceCSR.of(ratings.to_csr(), device)
        self._by_item = DeviceCSR.of(ratings.by_item.to_csr(), device)
        self._users_of_ratings = to_device(ratings.user_ids, device)
        self._link = None if identities is None else Link(identities, ratings.n_items, device)
        self._users, self._items, self._links = (to_device(table, device) for table in start[:3])
        alpha, self._gamma, nu, tau = start[3:]
        self._numbers = np.array([alpha, nu, tau])
        self._burn_in, n = lasting
        self.n_sweeps = sum(lasting)
        (width,) = start.users.shape[1:]
        nothing = Hyper(np.zeros(width), np.zeros((width, width)))
        self._taken = {
            name: np.zeros((n, *part.shape), np.float32)
            for name, part in self._make_sample(nothing, nothing).items()
        }
        self._expected = np.zeros((n, *self._items.shape), np.float32)

    @property
    def learned(self) -> Mapping[str, Any]:  # type: ignore[override] # every sweep makes new tables
        """The samples, and the expected items of each."""
        return {**self._taken, "expected": self._expected}

    @property
    def rest(self) -> Mapping[str, Any]:  # type: ignore[override]
        """The state of the chain; the random numbers of a sweep depend on its number alone."""
        tables = {"users": self._users, "items": self._items, "links": self._links}
        return {"chain": {**tables, "gamma": self._gamma, "numbers": self._numbers}}

    @property
    def samples(self) -> Samples:
        """The samples, complete when the chain has ended."""
        return Samples(**self._taken)

    @property
    def expected(self) -> Samples:
        """The samples with expected items given the users instead of drawn ones, whose products have the same mean.

        They lack half of the noise of the draws (Rao-Blackwell), so that half as many samples are as good.
        """
        return replace(self.samples, q=self._expected)

    @property
    def position(self) -> Start:
        """The state from which another chain of the same users and items may start."""
        users, items, links = (to_numpy(t) for t in (self._users, self._items, self._links))
        alpha, nu, tau = self._numbers.tolist()
        return Start(users, items, links, alpha, self._gamma, nu, tau)

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        self.steps += 1
        rng = np.random.default_rng([self._seed, self.steps, self.number])
        of_users = self._draw_users(rng)
        of_items, expected = self._draw_items(rng)
        squares = self._sum_squared_errors()
        self._draw_noise(rng, squares)
        kept = self.steps - self._burn_in - 1
        if 0 <= kept < len(self._taken["alpha"]):
            for name, value in self._make_sample(of_users, of_items).items():
                self._taken[name][kept] = to_numpy(value)
            self._expected[kept] = to_numpy(expected)
        return StepResult(float(squares.sum()), float(len(self._by_user.values)))

    def _make_sample(self, of_users: Hyper, of_items: Hyper) -> dict[str, Any]:
        """Return the arrays of one of the `Samples`: the state of the chain, and what it was drawn from."""
        alpha, nu, tau = self._numbers
        return {
            "x": self._users, "q": self._items, "links": self._links,
            "mean": of_users.mean, "precision": of_users.precision,
            "item_mean": of_items.mean, "item_precision": of_items.precision,
            "gamma": self._gamma, "alpha": alpha, "nu": nu, "tau": tau,
        }  # fmt: skip

    def _draw_users(self, rng: np.random.Generator) -> Hyper:
        """Draw the users' hyperparameters, the users, and where there is a link, W and tau."""
        link, (alpha, _, tau) = self._link, self._numbers.tolist()
        expected = None if link is None else link.expected(self._links)
        if expected is None:
            hyper = draw_hyper(rng, self._users)
        else:
            hyper = draw_hyper(rng, self._users - expected, np.sqrt(tau) * to_numpy(self._links))
        means = to_device(hyper.mean.astype(np.float32), self._device)
        self._users = self._draw_side(
            rng,
            self._by_user,
            self._items,
            means if expected is None else expected + means,
            hyper.precision,
            alpha * self._gamma.astype(np.float64),
        ).draws
        if link is not None:
            # W and tau given the users, then a common factor on W that mixes faster than either alone.
            links = link.draw(rng, self._users, hyper, tau, self._links)
            tau = draw_tau(rng, to_numpy(links), hyper)
            found = to_numpy(link.expected(links))
            scale = draw_scale(rng, to_numpy(self._users - means), found, hyper, tau)
            self._links, self._numbers[2] = links * scale, tau / scale**2
        return hyper

    def _draw_items(self, rng: np.random.Generator) -> tuple[Hyper, Array]:
        """Draw the items' hyperparameters and the items; return what was expected of these, too."""
        hyper = draw_hyper(rng, self._items)
        means = hyper.mean.astype(np.float32)
        solved = self._draw_side(
            rng, self._by_item, self._users, means, hyper.precision, float(self._numbers[0]),
            to_device(np.sqrt(self._gamma), self._device),
        )  # fmt: skip
        self._items = solved.draws
        return hyper, solved.means

    def _draw_side(
        self,
        rng: np.random.Generator,
        ratings: DeviceCSR,
        others: Array,
        means: Array,
        precision: Doubles,
        alpha: float | Doubles,
        roots: Array | None = None,
    ) -> Solved:
        """Draw every row of one side from its posterior, given the other side.

        ``alpha`` is the precision of the ratings of a row; ``roots`` (others,) are those of what the other side
        multiplies it by.
        """
        # A row is the regression of t = r - b_other on (q, 1), so that its bias is the weight of a constant. With
        # precisions alpha gamma_u of single ratings both sides of the regression are multiplied by gamma_u^{1/2}.
        table = copy(others)
        table[:, -1] = 1.0
        targets = ratings.values - others[ratings.ids, -1]
        if roots is not None:
            table *= roots[:, None]
            targets *= roots[ratings.ids]
        noise = rng.standard_normal((len(ratings.offsets) - 1, others.shape[1]), np.float32)
        rows, noise = Targets(ratings.offsets, ratings.ids, targets), to_device(noise, self._device)
        return rating_solves(rows, table, means, precision, alpha, noise)

    def _sum_squared_errors(self) -> Doubles:
        """The sum over each user's ratings (users,)."""
        ratings = self._by_user
        x, q = (table[:, :-1] for table in (self._users, self._items))
        b, c = (table[:, -1] for table in (self._users, self._items))
        pairs = self._users_of_ratings, ratings.ids
        e = ratings.values - rating_scores(*pairs, x, q, b, c, 0.0)
        errors = to_numpy(e).astype(np.float64) ** 2
        return np.asarray(np.bincount(self.ratings.user_ids, errors, len(self._users)))

    def _draw_noise(self, rng: np.random.Generator, squares: Doubles) -> None:
        """Draw alpha, gamma and nu given the squared errors of every user (users,)."""
        # alpha ~ Gamma(a_0 + N/2, b_0 + sum_u gamma_u e_u / 2), gamma_u ~ Gamma((nu + n_u) / 2, (nu + alpha e_u) / 2)
        counts = np.diff(self._by_user.offsets)
        shape, rate = _NOISE_PRIOR
        rate += 0.5 * float(self._gamma @ squares)
        alpha = float(rng.gamma(shape + 0.5 * counts.sum()) / rate)
        nu = float(self._numbers[1])
        rates = 0.5 * (nu + alpha * squares)
        gamma = rng.gamma(0.5 * (nu + counts)) / rates
        self._gamma = np.maximum(gamma, 1e-6).astype(np.float32)
        # log p(nu | gamma) up to a constant: the density of Gamma(nu / 2, nu / 2), for every user.
        half, values = 0.5 * _NU_GRID, self._gamma.astype(np.float64)
        of_all = half * np.log(half) - gammaln(half)
        logits = len(values) * of_all + half * (np.log(values) - values).sum()
        chances = np.exp(logits - logits.max())
        self._numbers[:2] = alpha, rng.choice(_NU_GRID, p=chances / chances.sum())


def random_start(seed: int, width: int, ratings: Ratings, *, linked: bool) -> Start:
    """Draw factors as large as the prior expects, because small ones would need hundreds of sweeps to grow."""
    rng = np.random.default_rng([seed, 0])
    scale = np.sqrt(expected_variances(width)).astype(np.float32)
    scale[-1] = 0.0
    users = rng.standard_normal((ratings.n_users, width), np.float32) * scale
    items = rng.standard_normal((ratings.n_items, width), np.float32) * scale
    links = np.zeros((ratings.n_items if linked else 0, width), np.float32)
    return Start(users, items, links, 1.5, np.ones(ratings.n_users, np.float32))


# -- mean and precision of rows ---------------------------------------------------------------------


class Hyper(NamedTuple):
    """Mean (width,) and precision (width, width) of the rows of a table."""

    mean: Doubles
    precision: Doubles


def draw_hyper(rng: np.random.Generator, rows: Array, centered: Array | None = None) -> Hyper:
    """Draw mean and precision from their posterior, given ``rows`` (n, width).

    The rows ``centered`` (r, width) have the same precision, and their mean is known to be zero.
    """
    n, width = rows.shape
    # nu_0 + n degrees of freedom; the inverse of the scale is m V, from the prior, with the scatter of the rows about
    # their mean, and what their mean is away from mu_0 = 0 (Salakhutdinov and Mnih 2008, eq 14).
    degrees = width + 1 + _PRIOR_ROWS + n
    mean, scatter = tall.moments(rows)
    scale = _PRIOR_ROWS * np.diag(expected_variances(width)) + scatter
    scale += _BETA * n / (_BETA + n) * np.outer(mean, mean)
    if centered is not None:
        scale += tall.moments(centered, centered=True)[1]
        degrees += len(centered)
    precision = draw_wishart(rng, degrees, np.asarray(np.linalg.inv(scale), np.float64))
    root = np.linalg.cholesky((_BETA + n) * precision)
    noise = np.linalg.solve(root.T, rng.standard_normal(width))
    return Hyper(n * mean / (_BETA + n) + noise, precision)


def expected_variances(width: int) -> Doubles:
    """Return the diagonal of V (width,)."""
    factors = max(width - 1, 1)
    return np.append(np.full(width - 1, (_PRIOR_VARIANCE / factors) ** 0.5), _PRIOR_VARIANCE)


def draw_wishart(rng: np.random.Generator, degrees: float, scale: Doubles) -> Doubles:
    """Draw from the Wishart distribution with mean ``degrees * scale`` (Bartlett's decomposition)."""
    width = len(scale)
    A = np.tril(rng.standard_normal((width, width)), -1)
    A[np.diag_indices(width)] = np.sqrt(rng.chisquare(degrees - np.arange(width)))
    root = np.linalg.cholesky(scale) @ A
    return root @ root.T


# -- the link from identities -----------------------------------------------------------------------


class Link:
    """The map from the identities N(u) of all users to their expected factors."""

    def __init__(self, identities: Identities, n_items: int, device: str = "cpu") -> None:
        sizes = identities.sizes
        values = np.repeat(1.0 / np.sqrt(np.maximum(sizes, 1)), sizes).astype(np.float32)
        shape = (identities.n_users, n_items)
        F = csr_array((values, identities.item_ids, identities.offsets), shape=shape)
        F_T = F.T.tocsr()
        F_T.sort_indices()
        self._device = device
        self._F, self._F_T = DeviceCSR.of(F, device), Targets(*DeviceCSR.of(F_T, "cpu"))

    def expected(self, W: Array) -> Array:
        """Compute S (users, width) for W (items, width)."""
        return sparse_product(*self._F, W)

    def draw(self, rng: np.random.Generator, X: Array, hyper: Hyper, tau: float, W: Array) -> Array:
        """Draw the rows of W (items, width) in turn given the last draw and the factors X (users, width)."""
        left = to_numpy(X - self.expected(W)) - hyper.mean.astype(np.float32)
        root = np.linalg.cholesky(hyper.precision)
        noise = np.linalg.solve(root.T, rng.standard_normal(W.shape[::-1])).T.astype(np.float32)
        return to_device(link_draws(self._F_T, left, to_numpy(W), tau, noise), self._device)


def draw_tau(rng: np.random.Generator, W: Floats, hyper: Hyper) -> float:
    """Draw tau given W."""
    spread = float(np.einsum("jk,kl,jl->", W, hyper.precision, W))
    return float(rng.gamma(1.0 + 0.5 * W.size) / (_TAU_RATE + 0.5 * spread))


def draw_scale(rng: np.random.Generator, X: Floats, S: Floats, hyper: Hyper, tau: float) -> float:
    """Draw a factor f on W, given V = tau^{1/2} W and everything but tau, which becomes tau / f^2.

    ``X`` (users, width) are the factors less mu, and ``S`` what comes from identities. Given W alone tau hardly
    moves; given V it is free (Yu and Meng 2011, on interweaving). The likelihood is normal in f, from which a
    proposal is drawn that is accepted by the prior of tau in terms of f, f^{-3} exp(-rate tau / f^2).
    """
    weighted = S.astype(np.float64) @ hyper.precision
    square, product = (float(np.einsum("uk,uk->", weighted, other)) for other in (S, X))
    proposed = product / max(square, 1e-30) + rng.standard_normal() / max(square, 1e-30) ** 0.5
    chance = rng.random()
    if not proposed > 0:
        return 1.0
    rate = _TAU_RATE * tau
    ratio = -3 * np.log(proposed) - rate / proposed**2 + rate
    return float(proposed) if np.log(chance) < ratio else 1.0
