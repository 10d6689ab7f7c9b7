"""Gibbs sampling of a factorization, a sweep at a time, as the fitting loop sees it.

Bias and factors of a user are drawn together, from the posterior of a regression on (q_i, 1); then, where
identities are given, their link; then bias and factors of every item; then the precision of the ratings.
(Salakhutdinov and Mnih 2008, section 3.3; the last column of every table here is the bias.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.fitting import StepResult
from tacenda.kernels.ratings import scores as rating_scores
from tacenda.kernels.ratings import solves as rating_solves
from tacenda.ratings import Ratings
from tacenda_surprise.models.factorization import hyperpriors
from tacenda_surprise.models.factorization.config import BayesianConfig
from tacenda_surprise.models.factorization.defaults import deviation
from tacenda_surprise.models.factorization.link import Link, draw_tau
from tacenda_surprise.models.identities import Identities

Floats = npt.NDArray[np.float32]
Arrays = Mapping[str, npt.NDArray[Any]]

#: What a sample consists of.
KEPT = ("users", "items", "links", "mean", "precision", "alpha")


class Start(NamedTuple):
    """Where a chain goes on: tables with bias in their last column, and the precision of the ratings."""

    users: Floats
    items: Floats
    links: Floats
    alpha: float


class Gibbs:
    """A Markov chain over the parameters, and the samples taken of it.

    Parameters
    ----------
    config
        Numbers of sweeps, seed.
    width
        D.
    ratings
        To learn from.
    mean
        Taken off every rating.
    identities
        N(u); None: no conditioning.
    start
        Where to begin; None: at small random factors.
    chain
        How many chains came before this one; each has random numbers of its own.
    """

    def __init__(
        self,
        config: BayesianConfig,
        width: int,
        ratings: Ratings,
        mean: float,
        identities: Identities | None,
        start: Start | None = None,
        chain: int = 0,
    ) -> None:
        self._config, self._mean, self._chain = config, np.float32(mean), chain
        self.identities = identities
        self._by_user, self._by_item = ratings, ratings.by_item
        self._link = None if identities is None else Link(identities, ratings.n_items)
        if start is None:
            start = _random_start(config.seed, width + 1, ratings, self._link is not None)
        self._users, self._items, self._links = start.users, start.items, start.links
        self._alpha, self._tau, self._sweeps = start.alpha, 2.0, 0
        shapes = {
            "users": self._users.shape,
            "items": self._items.shape,
            "links": self._links.shape,
            "mean": (width + 1,),
            "precision": (width + 1, width + 1),
            "alpha": (),
        }
        n = config.n_samples
        self.samples = {name: np.zeros((n, *shape), np.float32) for name, shape in shapes.items()}

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """One sweep; its loss is the squared error of this draw."""
        self._sweeps += 1
        rng = np.random.default_rng([self._config.seed, self._sweeps, self._chain])
        hyper = self._draw_users(rng)
        self._draw_items(rng)
        error = self._squared_error()
        n = len(self._by_user)
        self._alpha = float(rng.gamma(1.0 + 0.5 * n) / (1.0 + 0.5 * error))
        kept = self._sweeps - self._config.burn_in - 1
        if 0 <= kept < self._config.n_samples:
            found = (self._users, self._items, self._links, hyper.mean, hyper.precision)
            for name, value in zip(KEPT, (*found, self._alpha), strict=True):
                self.samples[name][kept] = value
        return StepResult(error, float(n))

    def _draw_users(self, rng: np.random.Generator) -> hyperpriors.Hyper:
        own = self._users
        expected: Floats | None = None
        if self._link is not None:
            expected = self._link.expected(self._links)
            own = own - expected
        hyper = hyperpriors.draw(rng, own)
        means = hyper.mean.astype(np.float32)
        self._users = self._draw_side(
            rng,
            self._by_user,
            self._items,
            means if expected is None else expected + means,
            hyper.precision,
        )
        if self._link is not None:
            self._links = self._link.draw(rng, self._users, hyper, self._tau, self._links)
            self._tau = draw_tau(rng, self._links, hyper)
        return hyper

    def _draw_items(self, rng: np.random.Generator) -> None:
        hyper = hyperpriors.draw(rng, self._items)
        means = hyper.mean.astype(np.float32)
        self._items = self._draw_side(rng, self._by_item, self._users, means, hyper.precision)

    def _draw_side(
        self,
        rng: np.random.Generator,
        ratings: Ratings,
        others: Floats,
        means: Floats,
        precision: npt.NDArray[np.float64],
    ) -> Floats:
        table = others.copy()
        table[:, -1] = 1.0
        return rating_solves.solve(
            ratings.user_offsets,
            ratings.item_ids,
            ratings.values - self._mean - others[ratings.item_ids, -1],
            table,
            means,
            precision,
            self._alpha,
            rng.standard_normal((ratings.n_users, others.shape[1]), np.float32),
        )

    def _squared_error(self) -> float:
        ratings = self._by_user
        x, q = (np.ascontiguousarray(t[:, :-1]) for t in (self._users, self._items))
        b, c = (np.ascontiguousarray(t[:, -1]) for t in (self._users, self._items))
        found = rating_scores.scores(
            ratings.user_ids, ratings.item_ids, x, q, b, c, float(self._mean)
        )
        e = ratings.values - found
        return float(np.einsum("n,n->", e, e, dtype=np.float64))

    def evaluate(self) -> float | None:
        """Nothing is held out: sampling does not overfit."""
        return None

    def state(self) -> Arrays:
        """The chain's position and the samples; a sweep's random numbers depend on its number alone."""
        chain = {"chain.users": self._users, "chain.items": self._items, "chain.links": self._links}
        numbers = np.array([self._alpha, self._tau, self._sweeps])
        samples = {f"samples.{name}": array for name, array in self.samples.items()}
        return {**chain, **samples, "chain.numbers": numbers}

    def load_state(self, state: Arrays) -> None:
        """Puts back what ``state()`` gave."""
        if state["chain.users"].shape != self._users.shape:
            raise ValueError("the chain is of other ratings")
        self._users, self._items = state["chain.users"].copy(), state["chain.items"].copy()
        self._links = state["chain.links"].copy()
        self._alpha, self._tau = (float(n) for n in state["chain.numbers"][:2])
        self._sweeps = int(state["chain.numbers"][2])
        self.samples = {name: state[f"samples.{name}"].copy() for name in KEPT}


def _random_start(seed: int, width: int, ratings: Ratings, linked: bool) -> Start:
    rng = np.random.default_rng([seed, 0])
    users = rng.standard_normal((ratings.n_users, width), np.float32) * np.float32(0.1)
    items = rng.standard_normal((ratings.n_items, width), np.float32) * np.float32(0.1)
    users[:, -1] = items[:, -1] = 0.0
    links = np.zeros((ratings.n_items if linked else 0, width), np.float32)
    return Start(users, items, links, 1.5 / deviation(ratings) ** 2)
