"""Gibbs sampling of a factorization, a sweep at a time, as the fitting loop sees it.

Bias and factors of a user are drawn together, from the posterior of a regression on (q_i, 1); then, where
identities are given, their link; then bias and factors of every item; then the precision of the ratings.
(Salakhutdinov and Mnih 2008, section 3.3; the last column of every table here is the bias.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.fitting import StepResult
from tacit.kernels import rating_solves
from tacit.ratings import Ratings
from tacit_surprise.models.factorization import hyperpriors
from tacit_surprise.models.factorization.config import BayesianConfig
from tacit_surprise.models.factorization.link import Link, draw_tau
from tacit_surprise.models.identities import Identities

Floats = npt.NDArray[np.float32]
Arrays = Mapping[str, npt.NDArray[Any]]

#: What is kept of every sample.
KEPT = ("users", "items", "links", "mean", "precision", "alpha")


class Gibbs:
    """A Markov chain over the parameters, and the samples kept of it.

    Args:
        config: width, numbers of sweeps, seed.
        ratings: to learn from.
        mean: taken off every rating.
        identities: N(u); None: no conditioning.
    """

    def __init__(
        self, config: BayesianConfig, ratings: Ratings, mean: float, identities: Identities | None
    ) -> None:
        self._config, self._mean = config, np.float32(mean)
        self._by_user, self._by_item = ratings, ratings.by_item
        n_users, n_items, width = ratings.n_users, ratings.n_items, config.n_factors + 1
        self._link = None if identities is None else Link(identities, n_items)
        rng = np.random.default_rng([config.seed, 0])
        small = np.float32(0.1)
        self._users = rng.standard_normal((n_users, width), np.float32) * small
        self._items = rng.standard_normal((n_items, width), np.float32) * small
        self._users[:, -1] = self._items[:, -1] = 0.0
        self._links = np.zeros((n_items if self._link else 0, width), np.float32)
        self._alpha, self._tau, self._sweeps = 1.5, 2.0, 0
        shapes = {
            "users": self._users.shape,
            "items": self._items.shape,
            "links": self._links.shape,
            "mean": (width,),
            "precision": (width, width),
            "alpha": (),
        }
        n = config.n_samples
        self.samples = {name: np.zeros((n, *shape), np.float32) for name, shape in shapes.items()}

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """One sweep; its loss is the squared error of this draw."""
        self._sweeps += 1
        rng = np.random.default_rng([self._config.seed, self._sweeps])
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
        users, items = self._users, self._items
        e = ratings.values - self._mean - users[ratings.user_ids, -1] - items[ratings.item_ids, -1]
        x, q = users[ratings.user_ids, :-1], items[ratings.item_ids, :-1]
        e -= np.einsum("nd,nd->n", x, q)
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
