"""What is learned from, what is tested, and what is told without a rating."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda import datasets
from tacenda.ratings import Ratings, read_ratings

TEST, SEED = 0.1, 0
SPLIT = "MovieLens-1M, train_test_split(test_size=0.1, random_state=0)"
BINS = 10

Numbers = npt.NDArray[np.integer[Any]]
Flags = npt.NDArray[np.bool_]


class Parts(NamedTuple):
    """The ratings learned from and those tested, users and items numbered alike."""

    train: Ratings
    test: Ratings


def movielens() -> Parts:
    """MovieLens-1M, split as `benchmarks.ratings.accuracy` splits it."""
    return parted(read_ratings(datasets.locate("ml-1m")["ratings"]))


def parted(whole: Ratings) -> Parts:
    """The split that Surprise's train_test_split makes of ratings in the order of user and item."""
    test = np.zeros(len(whole), bool)
    order = np.random.RandomState(SEED).permutation(len(whole))
    test[order[len(whole) - math.ceil(TEST * len(whole)) :]] = True
    return Parts(whole.select(~test), whole.select(test))


def nested(n: int, shares: list[float], seed: int = SEED) -> list[Flags]:
    """Random subsets of ``n`` things, one for every share, each a subset of every larger one."""
    rank = np.random.default_rng(seed).permutation(n)
    return [rank < round(share * n) for share in shares]


def equal_bins(counts: Numbers, n_bins: int = BINS) -> Numbers:
    """The bin of every user, by rising count; bins have the same number of users (section 5.4.5).

    Users of the same count may come into different bins, those of lower number into the lower one.
    """
    bins = np.empty(len(counts), np.int64)
    bins[np.argsort(counts, kind="stable")] = np.arange(len(counts)) * n_bins // len(counts)
    return bins


def ranges(counts: Numbers, bins: Numbers) -> list[str]:
    """Lowest and highest count of every bin, as a reader sees them."""
    parts = [counts[bins == number] for number in range(int(bins.max()) + 1)]
    return [f"{part.min()} to {part.max()}" for part in parts]


def user_groups(n_users: int, n_groups: int, seed: int = SEED) -> Numbers:
    """The group of every user: random, and as many in each as can be."""
    return np.random.default_rng(seed).permutation(n_users) % n_groups


def without(ratings: Ratings, users: Flags) -> Ratings:
    """``ratings`` but for those of the users that are marked."""
    return ratings.select(~users[ratings.user_ids])


def only(ratings: Ratings, users: Flags) -> Ratings:
    """The ratings of the users that are marked."""
    return ratings.select(users[ratings.user_ids])
