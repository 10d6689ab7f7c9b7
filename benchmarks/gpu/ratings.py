"""Rating models: an epoch or a sweep on ratings as many as those of two known sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from benchmarks.gpu.case import FLOAT, ID, Case, Work
from tacenda.kernels.ratings import Rates, bytes_of_solves
from tacenda.ratings import IdIndex, Ratings
from tacenda_surprise import boltzmann as of_machines
from tacenda_surprise import factorization as of_factors
from tacenda_surprise import gibbs
from tacenda_surprise.boltzmann import CaseData, RBMSettings
from tacenda_surprise.catalogue import Catalogue
from tacenda_surprise.identities import Identities
from tacenda_surprise.levels import Scale
from tacenda_surprise.pmf_options import PMFSettings, ResolvedOptions

FACTORS, OF_CHAIN, HIDDEN, LEVELS, BATCHES = 100, 32, 100, 5, 40


class Shape(NamedTuple):
    """How large a set is."""

    name: str
    users: int
    items: int
    ratings: int

    @property
    def rows(self) -> int:
        return self.users + self.items


SMALL = Shape("as MovieLens-1M", 6_040, 3_706, 1_000_209)
LARGE = Shape("as MovieLens-20M", 138_493, 26_744, 20_000_263)


@cache
def generated(shape: Shape) -> Ratings:
    """Ratings at random, of users and items as unevenly active and popular as those of such sets."""
    rng = np.random.default_rng(0)
    activity = np.cumsum(np.exp(1.2 * rng.standard_normal(shape.users)))
    popularity = np.cumsum((np.arange(shape.items) + 0.02 * shape.items) ** -0.9)
    keys = np.empty(0, np.int64)
    while len(keys) < shape.ratings:
        u, i = (
            np.searchsorted(total, rng.random(shape.ratings) * total[-1])
            for total in (activity, popularity)
        )
        keys = np.union1d(keys, u * shape.items + i)
    keys = np.sort(rng.permutation(keys)[: shape.ratings])
    users, items = (
        IdIndex(np.arange(n), what) for n, what in zip(shape[1:3], ("user", "item"), strict=True)
    )
    values = rng.integers(1, LEVELS + 1, shape.ratings).astype(np.float32)
    return Ratings(keys // shape.items, keys % shape.items, values, users, items, scale=(1, LEVELS))


def epoch_of_sgd(shape: Shape, *, conditional: bool) -> Case:
    """Steps of both sides of every rating; with identities the mean before them and the step of w after them."""

    def make(device: str) -> Callable[[], Any]:
        ratings = generated(shape)
        known = Identities.of(ratings) if conditional else None
        settings = PMFSettings(n_factors=FACTORS)
        used = ResolvedOptions.of(settings, ratings)._replace(
            rates=Rates(0.01, 0.01, 0.01, 0.01, 0.1)
        )
        task = of_factors.Task(settings, used, 0, ratings, 3.0, known)
        trained = of_factors.Rounds(task, of_factors.initial_tables(task, 1.0), device)
        return lambda: trained.step(None, 1.0)

    n, width = shape.ratings, FACTORS
    tables = (shape.rows * (width + 1) + conditional * shape.items * width) * FLOAT
    return Case(
        f"{'Conditional' if conditional else ''}PMF, epoch", shape.name,
        Work(n * width * (14.0 if conditional else 8.0), n * (ID + FLOAT) + 2 * tables),
        tables, make, n, "rating",
    )  # fmt: skip


def sweep(shape: Shape) -> Case:
    """A sweep of Gibbs sampling: the products of factors of either side, symmetric, and as many systems as rows."""

    def make(device: str) -> Callable[[], Any]:
        ratings = generated(shape)
        start = gibbs.random_start(0, OF_CHAIN + 1, ratings, linked=False)
        chain = gibbs.Gibbs(ratings, None, start, (1, 0), seed=0, device=device)
        return lambda: chain.step(None, 1.0)

    n, width = shape.ratings, OF_CHAIN + 1
    flops = 2.0 * n * width * (width + 3) + shape.rows * (width**3 / 3 + 2 * width**2)
    tables = shape.rows * width * FLOAT
    return Case(
        "Gibbs sweep", f"{shape.name}, {OF_CHAIN} factors", Work(flops, 2 * n * (ID + FLOAT) + 3 * tables),
        bytes_of_solves(shape.rows, n, width) + tables, make, n, "rating",
    )  # fmt: skip


def divergence(shape: Shape) -> Case:
    """An epoch of contrastive divergence of one step, items being cases, and as many steps of Adam as minibatches."""

    def make(device: str) -> Callable[[], Any]:
        ratings, settings = generated(shape), RBMSettings(n_hidden=HIDDEN)
        scale = Scale.of(Catalogue.of(ratings), ratings)
        cases = CaseData.of(settings, scale, ratings, None)
        task = of_machines.Task(settings, 0, scale, ratings, None)
        trained = of_machines.ContrastiveDivergence(task, cases, device=device)
        batches = np.array_split(np.random.default_rng(0).permutation(shape.items), BATCHES)
        return lambda: [trained.step((batch,), 0.001) for batch in batches]

    n, parameters = shape.ratings, shape.users * (HIDDEN + LEVELS)
    return Case(
        "RBM, epoch", f"{shape.name}, {HIDDEN} hidden",
        Work(10.0 * n * HIDDEN + 12.0 * BATCHES * parameters, n * (ID + FLOAT) + 7 * BATCHES * parameters * FLOAT),
        n / BATCHES * (100 + 8 * LEVELS) + 2 * parameters * FLOAT,
        make, n, "rating",
    )  # fmt: skip


def cases(shape: Shape) -> Iterator[Case]:
    """Of a set of this shape; the larger one takes a while to generate."""
    yield epoch_of_sgd(shape, conditional=False)
    yield epoch_of_sgd(shape, conditional=True)
    yield sweep(shape)
    yield divergence(shape)
