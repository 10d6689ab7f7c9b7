"""Gibbs sampling of a factorization, a sweep at a time, as the fitting loop sees it.

Bias and factors of a user are drawn together, from the posterior of a regression on (q_i, 1); then, where identities
are given, their link (`identity_links`); then bias and factors of every item; then the precision of the ratings
(Salakhutdinov and Mnih 2008, section 3.3). The last column of every table here is the bias, and ratings are
standardized: less their mean, over their standard deviation.

A rating of user u has the precision alpha gamma_u, as users differ in how steadily they rate:

    alpha ~ Gamma(a_0, b_0),   gamma_u ~ Gamma(nu / 2, nu / 2),   nu uniform over a grid

(shape and rate), whose conditional distributions are Gamma and discrete.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from tacenda import devices
from tacenda.arrays import Array, copy, to_device, to_numpy
from tacenda.fitting import StepResult, Trainer
from tacenda.kernels.ratings import scores as rating_scores
from tacenda.kernels.ratings import solves as rating_solves
from tacenda.ratings import Ratings
from tacenda_surprise.models.base import Floats
from tacenda_surprise.models.factorization.defaults import sweeps
from tacenda_surprise.models.factorization.identity_links import Link, draw_scale, draw_tau
from tacenda_surprise.models.factorization.row_priors import (
    Hyper,
    Matrix,
    draw_hyper,
    expected_variances,
)
from tacenda_surprise.models.factorization.samples import Samples
from tacenda_surprise.models.factorization.settings import BayesianSettings
from tacenda_surprise.models.identities import Identities

OPERATIONS = "rating_scores", "rating_solves", "sparse_product", "tall_columns", "tall_moments"

LESS = "fewer factors (n_factors)"

Arrays = Mapping[str, npt.NDArray[Any]]

_NOISE = 2.0, 1.4  # a_0 and b_0: a variance of 0.7 of the ratings, as two of them would tell it
_EVENNESS = np.array([4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0])  # nu


class Start(NamedTuple):
    """Where a chain goes on: tables with the bias in their last column, and what the others depend on."""

    users: Floats
    items: Floats
    links: Floats
    alpha: float
    gamma: Floats  # (users,)
    nu: float = 16.0
    tau: float = 10.0


class Gibbs(Trainer):
    """A Markov chain over the parameters, and the samples taken of it.

    ``width`` is D, ``ratings`` are standardized, and ``identities`` are N(u), None without conditioning. The
    chain begins at ``start``, or else at factors as large as the prior expects: it takes hundreds of sweeps to make
    small ones so large. ``chain`` says how many came before it, as each has random numbers of its own. It has
    ``lasting`` sweeps of burn-in, and samples; None: those of the settings.

    Tables and ratings lie on ``device``. Random numbers are drawn on the host wherever they go, so that a chain on a
    device is that on the CPU, up to rounding. Samples are taken to the host.
    """

    def __init__(
        self,
        settings: BayesianSettings,
        width: int,
        ratings: Ratings,
        identities: Identities | None,
        start: Start | None = None,
        chain: int = 0,
        lasting: tuple[int, int] | None = None,
        device: str = "cpu",
    ) -> None:
        self._settings, self._chain, self._device = settings, chain, device
        self.identities = identities
        self._by_user = _Side.of(ratings, device)
        self._by_item = _Side.of(ratings.by_item, device)
        self._user_ids = ratings.user_ids
        self._users_of_ratings = to_device(ratings.user_ids, device)
        self._link = None if identities is None else Link(identities, ratings.n_items, device)
        if start is None:
            start = _random_start(settings.seed, width + 1, ratings, linked=self._link is not None)
        self._users, self._items, self._links = (to_device(table, device) for table in start[:3])
        self._alpha, self._gamma, self._nu, self._tau = start[3:]
        self._sweeps, square = 0, (width + 1, width + 1)
        shapes = {
            "users": self._users.shape,
            "items": self._items.shape,
            "links": self._links.shape,
            "mean": square[:1],
            "precision": square,
            "item_mean": square[:1],
            "item_precision": square,
            "gamma": self._gamma.shape,
            **dict.fromkeys(("alpha", "nu", "tau"), ()),
        }
        self.burn_in, n = lasting or sweeps(settings, ratings, width)
        self.samples = {name: np.zeros((n, *shape), np.float32) for name, shape in shapes.items()}

    @property
    def position(self) -> Start:
        """Where another chain of the same users and items may go on."""
        users, items, links = (to_numpy(t) for t in (self._users, self._items, self._links))
        return Start(users, items, links, self._alpha, self._gamma, self._nu, self._tau)

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """Make one sweep; the loss is the squared error of this draw."""
        self._sweeps += 1
        rng = np.random.default_rng([self._settings.seed, self._sweeps, self._chain])
        of_users = self._draw_users(rng)
        of_items = self._draw_items(rng)
        squares = self._squared_errors()
        self._draw_noise(rng, squares)
        kept = self._sweeps - self.burn_in - 1
        if 0 <= kept < len(self.samples["alpha"]):
            found = Samples._make(
                [
                    *(self._users, self._items, self._links, *of_users, *of_items),
                    *(self._gamma, self._alpha, self._nu, self._tau),
                ]
            )
            for name, value in found._asdict().items():
                self.samples[name][kept] = to_numpy(value)
        return StepResult(float(squares.sum()), float(len(self._by_user.values)))

    def _draw_users(self, rng: np.random.Generator) -> Hyper:
        """Draw the users' hyperparameters, the users, and where there is a link, W and tau."""
        link = self._link
        expected = None if link is None else link.expected(self._links)
        if expected is None:
            hyper = draw_hyper(rng, self._users)
        else:
            hyper = draw_hyper(
                rng, self._users - expected, np.sqrt(self._tau) * to_numpy(self._links)
            )
        means = to_device(hyper.mean.astype(np.float32), self._device)
        self._users = self._draw_side(
            rng,
            self._by_user,
            self._items,
            means if expected is None else expected + means,
            hyper.precision,
            self._alpha * self._gamma.astype(np.float64),
        )
        if link is not None:
            self._links = link.draw(rng, self._users, hyper, self._tau, self._links)
            self._tau = draw_tau(rng, to_numpy(self._links), hyper)
            found = to_numpy(link.expected(self._links))
            scale = draw_scale(rng, to_numpy(self._users - means), found, hyper, self._tau)
            self._links, self._tau = self._links * scale, self._tau / scale**2
        return hyper

    def _draw_items(self, rng: np.random.Generator) -> Hyper:
        """Draw the items' hyperparameters and the items."""
        hyper = draw_hyper(rng, self._items)
        means = hyper.mean.astype(np.float32)
        self._items = self._draw_side(
            rng, self._by_item, self._users, means, hyper.precision, self._alpha,
            to_device(np.sqrt(self._gamma), self._device),
        )  # fmt: skip
        return hyper

    def _draw_side(
        self,
        rng: np.random.Generator,
        ratings: _Side,
        others: Array,
        means: Array,
        precision: Matrix,
        alpha: float | npt.NDArray[np.float64],
        roots: Array | None = None,
    ) -> Array:
        """Draw every row of one side from its posterior, given the other side.

        ``alpha`` is the precision of the ratings of a row; ``roots`` (others,) are those of what the other side
        multiplies it by.
        """
        table = copy(others)
        table[:, -1] = 1.0  # the bias of a row is the weight of a constant
        targets = ratings.values - others[ratings.ids, -1]
        if roots is not None:
            table *= roots[:, None]
            targets *= roots[ratings.ids]
        noise = rng.standard_normal((len(ratings.offsets) - 1, others.shape[1]), np.float32)
        return rating_solves.solve(
            ratings.offsets, ratings.ids, targets, table, means, precision, alpha, to_device(noise, self._device)
        )  # fmt: skip

    def _squared_errors(self) -> npt.NDArray[np.float64]:
        """The sum over each user's ratings (users,)."""
        ratings = self._by_user
        x, q = (table[:, :-1] for table in (self._users, self._items))
        b, c = (table[:, -1] for table in (self._users, self._items))
        pairs = self._users_of_ratings, ratings.ids
        e = ratings.values - rating_scores.scores(*pairs, x, q, b, c, 0.0)
        totals = np.bincount(self._user_ids, to_numpy(e).astype(np.float64) ** 2, len(self._users))
        return np.asarray(totals, np.float64)

    def _draw_noise(self, rng: np.random.Generator, squares: npt.NDArray[np.float64]) -> None:
        """Draw alpha, gamma and nu given the squared errors of every user (users,)."""
        counts = np.diff(self._by_user.offsets)
        shape, rate = _NOISE
        rate += 0.5 * float(self._gamma @ squares)
        self._alpha = float(rng.gamma(shape + 0.5 * counts.sum()) / rate)
        rates = 0.5 * (self._nu + self._alpha * squares)
        gamma = rng.gamma(0.5 * (self._nu + counts)) / rates
        self._gamma = np.maximum(gamma, 1e-6).astype(np.float32)
        self._nu = draw_evenness(rng, self._gamma)

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        """The chain's position and the samples; a sweep's random numbers depend on its number alone."""
        tables = {"users": self._users, "items": self._items, "links": self._links}
        chain = {f"chain.{name}": to_numpy(table) for name, table in tables.items()}
        chain["chain.gamma"] = self._gamma
        numbers = np.array([self._alpha, self._nu, self._tau, self._sweeps])
        samples = {f"samples.{name}": array for name, array in self.samples.items()}
        return {**chain, **samples, "chain.numbers": numbers}

    def load_state(self, state: Arrays) -> None:
        """Put back what `state` gave."""
        if state["chain.users"].shape != tuple(self._users.shape):
            raise ValueError("the chain is of other ratings")
        self._users, self._items, self._links = (
            to_device(state[f"chain.{name}"].copy(), self._device)
            for name in ("users", "items", "links")
        )
        self._gamma = state["chain.gamma"].copy()
        self._alpha, self._nu, self._tau = (float(n) for n in state["chain.numbers"][:3])
        self._sweeps = int(state["chain.numbers"][3])
        self.samples = {name: state[f"samples.{name}"].copy() for name in Samples._fields}

    parameters, load_parameters = state, load_state


def device_for(
    settings: BayesianSettings, width: int, ratings: Ratings, known: Identities | None
) -> str:
    """The device of a chain, which is there and has the memory. Raises ConfigurationError."""
    device = devices.resolve(settings, OPERATIONS)
    rows = ratings.n_users + ratings.n_items
    needed = 12 * rows * (width + 1) + 28 * len(ratings)
    needed += rating_solves.bytes_needed(rows, len(ratings), width + 1)
    if known is not None:
        needed += 16 * len(known.item_ids) + 20 * ratings.n_items * (width + 1)
    if device != "cpu":
        devices.check_memory(needed, device, settings, LESS)
    return device


class _Side(NamedTuple):
    """Ratings by user, or by item; ids and values on the device."""

    offsets: npt.NDArray[np.int64]
    ids: Array
    values: Array

    @classmethod
    def of(cls, ratings: Ratings, device: str) -> _Side:
        """Those of the users of ``ratings``."""
        return cls(
            ratings.user_offsets,
            to_device(ratings.item_ids, device),
            to_device(ratings.values, device),
        )


def _random_start(seed: int, width: int, ratings: Ratings, *, linked: bool) -> Start:
    rng = np.random.default_rng([seed, 0])
    scale = np.sqrt(expected_variances(width)).astype(np.float32)
    scale[-1] = 0.0
    users = rng.standard_normal((ratings.n_users, width), np.float32) * scale
    items = rng.standard_normal((ratings.n_items, width), np.float32) * scale
    links = np.zeros((ratings.n_items if linked else 0, width), np.float32)
    return Start(users, items, links, 1.5, np.ones(ratings.n_users, np.float32))


def draw_evenness(rng: np.random.Generator, gamma: Floats) -> float:
    """Draw nu given all gamma."""
    half, values = 0.5 * _EVENNESS, gamma.astype(np.float64)
    of_all = half * np.log(half) - gammaln(half)
    logits = len(values) * of_all + half * (np.log(values) - values).sum()
    chances = np.exp(logits - logits.max())
    return float(rng.choice(_EVENNESS, p=chances / chances.sum()))
