"""Seeded splits of ratings; both parts keep the users, items and scale of the whole."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import ConfigurationError
from tacenda.ratings.table import Ratings


def split(ratings: Ratings, fraction: float = 0.1, *, seed: int = 0) -> tuple[Ratings, Ratings]:
    """Return (train, test), where test is a random ``fraction`` of the ratings: rounded, and at least one."""
    if not 0.0 < fraction < 1.0:
        raise ConfigurationError(f"fraction is {fraction}; give a number between 0 and 1")
    if len(ratings) < 2:
        raise ConfigurationError("fewer than two ratings cannot be split; give more ratings")
    n_test = min(max(round(fraction * len(ratings)), 1), len(ratings) - 1)
    test = np.zeros(len(ratings), bool)
    test[np.random.default_rng(seed).permutation(len(ratings))[:n_test]] = True
    return ratings.select(~test), ratings.select(test)


def folds(
    ratings: Ratings, n_folds: int = 5, *, seed: int = 0
) -> Iterator[tuple[Ratings, Ratings]]:
    """Yield (train, test) with each of ``n_folds`` random parts, as equal in size as can be, as test."""
    if not 2 <= n_folds <= len(ratings):
        raise ConfigurationError(
            f"{n_folds} folds of {len(ratings)} ratings; give 2 to {len(ratings)}"
        )
    fold = np.random.default_rng(seed).permutation(len(ratings)) % n_folds
    for number in range(n_folds):
        yield ratings.select(fold != number), ratings.select(fold == number)


def split_per_user(
    ratings: Ratings, n_test: int = 1, *, seed: int = 0, least: int = 1
) -> tuple[Ratings, Ratings]:
    """Return (train, test), where test has ``n_test`` random ratings of every user who keeps at least ``least``."""
    if n_test < 1 or least < 0:
        raise ConfigurationError(
            f"n_test is {n_test} and least {least}; they must be at least 1 and 0"
        )
    order = np.lexsort((np.random.default_rng(seed).random(len(ratings)), ratings.user_ids))
    sizes = np.diff(ratings.user_offsets)
    rank = np.arange(len(ratings)) - np.repeat(ratings.user_offsets[:-1], sizes)
    chosen = (rank < n_test) & (np.repeat(sizes, sizes) >= n_test + least)
    test = np.zeros(len(ratings), bool)
    test[order[chosen]] = True
    return ratings.select(~test), ratings.select(test)


def split_last(
    ratings: Ratings, times: NDArray[Any], fraction: float = 0.2
) -> tuple[Ratings, Ratings]:
    """Return (train, test), where test is the last ``fraction`` of the ratings of every user, rounded down.

    ``times`` (n_ratings,) are those of the ratings, in their order; of two at one time the one later in that order
    counts as later.
    """
    if not 0.0 < fraction < 1.0:
        raise ConfigurationError(f"fraction is {fraction}; give a number between 0 and 1")
    if np.shape(times) != (len(ratings),):
        raise ConfigurationError(
            f"there are {len(ratings)} ratings and times of shape {np.shape(times)}; give one time for each"
        )
    order = np.lexsort((times, ratings.user_ids))
    sizes = np.diff(ratings.user_offsets)
    rank = np.arange(len(ratings)) - np.repeat(ratings.user_offsets[:-1], sizes)
    test = np.zeros(len(ratings), bool)
    test[order[rank >= np.repeat(sizes - np.floor(fraction * sizes).astype(int), sizes)]] = True
    return ratings.select(~test), ratings.select(test)
