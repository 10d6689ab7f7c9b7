"""Eight generated sets of ratings, unlike each other, on which our settings are chosen and which no table shows.

    score = user bias + item bias + user factors . item factors + noise

All have rank 20, the factors' variances falling as 1/k, and a noise that differs between users. Who rates what
depends on the activity of the user, the popularity of the item, and on liking. A set then brings the scores to a
scale of its own: stars, half stars, points up to 10 or 100, or a continuous scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacenda.ratings import IdIndex, Ratings

Doubles = NDArray[np.float64]
RANK = 20
_BLOCK = 250  # users whose choices are drawn at a time


@dataclass(frozen=True)
class Shape:
    """What a set is like; standard deviations are in units of the score."""

    n_users: int
    n_items: int
    n_ratings: int
    low: float
    high: float
    step: float | None  # between levels; None: continuous
    center: float = 0.6  # where the mean score lies between low and high
    unit: float = 0.22  # of a score, as a part of high - low
    biases: tuple[float, float] = (0.45, 0.5)  # of users, of items
    taste: float = 0.55  # of the product of the factors
    noise: float = 0.75
    uneven: float = 0.25  # of the logarithm of the noise, over users
    tail: float = 0.8  # popularity falls as rank to this power
    activity: float = 1.0  # of the logarithm of the number of ratings of a user
    liking: float = 0.5  # how much a better score makes a choice more likely


SHAPES = {
    "tiny": Shape(150, 90, 1_500, 1, 5, 1),
    "sparse": Shape(5000, 9000, 45_000, 1, 10, 1, center=0.7, tail=0.9, taste=0.4, noise=0.9),
    "dense": Shape(700, 250, 45_000, 0.5, 5, 0.5, tail=0.4, activity=0.5),
    "skewed": Shape(1500, 1800, 40_000, 1, 5, 1, center=0.95, unit=0.3, noise=0.9),
    "continuous": Shape(1200, 100, 40_000, -10, 10, None, center=0.5, tail=0.2, activity=0.4),
    "wide": Shape(400, 600, 5_000, 1, 100, 1, biases=(0.5, 0.4), taste=0.4, noise=0.8),
    "scattered": Shape(3000, 3000, 26_000, 0.5, 5, 0.5, biases=(0.4, 0.3), taste=0.3, noise=0.9),
    "films": Shape(900, 1600, 70_000, 1, 5, 1, tail=1.0),
}


def generate(name: str, seed: int = 0) -> Ratings:
    """Draw the set of this name; users and items that nobody rated are left out."""
    shape = SHAPES[name]
    rng = np.random.default_rng([seed, list(SHAPES).index(name)])
    spectrum = np.arange(1, RANK + 1) ** -0.5
    spectrum *= (shape.taste / np.sqrt((spectrum**4).sum())) ** 0.5
    x, q = (rng.normal(0, spectrum, (n, RANK)) for n in (shape.n_users, shape.n_items))
    b, c = (
        rng.normal(0, sd, n)
        for sd, n in zip(shape.biases, (shape.n_users, shape.n_items), strict=True)
    )
    sizes = _activity(rng, shape)
    attraction = -shape.tail * np.log(rng.permutation(shape.n_items) + 0.01 * shape.n_items + 1)
    users, items = _choices(rng, shape, sizes, attraction, x, q, c)
    scores = b[users] + c[items] + np.einsum("nr,nr->n", x[users], q[items])
    noises = shape.noise * np.exp(rng.normal(0, shape.uneven, shape.n_users))
    scores += noises[users] * rng.standard_normal(len(users))
    span = shape.high - shape.low
    values = shape.low + span * (shape.center + shape.unit * scores)
    if shape.step is not None:
        values = shape.low + shape.step * np.rint((values - shape.low) / shape.step)
    values = values.clip(shape.low, shape.high)
    raw_users, u = np.unique(users, return_inverse=True)
    raw_items, i = np.unique(items, return_inverse=True)
    indices = IdIndex(raw_users.tolist(), "user"), IdIndex(raw_items.tolist(), "item")
    return Ratings(u, i, values, *indices, scale=(shape.low, shape.high))


def _activity(rng: np.random.Generator, shape: Shape) -> NDArray[np.int64]:
    """How many items each user rates: log-normal, at least one and at most three fifths of all."""
    weights = np.exp(rng.normal(0, shape.activity, shape.n_users))
    most = int(0.6 * shape.n_items)
    low, high = 0.0, float(shape.n_ratings) * 10
    for _ in range(60):  # the factor with which the rounded, clipped numbers sum to n_ratings
        factor = (low + high) / 2
        total = np.rint(factor * weights).clip(1, most).sum()
        low, high = (factor, high) if total < shape.n_ratings else (low, factor)
    return np.rint(high * weights).clip(1, most).astype(np.int64)


def _choices(
    rng: np.random.Generator,
    shape: Shape,
    sizes: NDArray[np.int64],
    attraction: Doubles,
    x: Doubles,
    q: Doubles,
    c: Doubles,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw ``sizes`` items of every user without replacement, by the Gumbel trick: (users, items) of all ratings."""
    found = []
    for start in range(0, shape.n_users, _BLOCK):
        part = slice(start, start + _BLOCK)
        appeal = attraction + shape.liking * (x[part] @ q.T + c) / shape.taste
        appeal += -np.log(rng.standard_exponential(appeal.shape))
        for row, size in zip(appeal, sizes[part], strict=True):
            found.append(np.argpartition(-row, size - 1)[:size])
    return np.repeat(np.arange(shape.n_users), sizes), np.concatenate(found)
