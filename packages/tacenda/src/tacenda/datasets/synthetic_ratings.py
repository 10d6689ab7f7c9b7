"""Seeded synthetic ratings with known true parameters and a known best possible RMSE.

    score = mean + user bias + item bias + user factors . item factors + noise,

with normal distributions throughout, is rounded to the levels 1..5 and clipped (or left as it is). Some items are
far more popular than others, and some users far more active. With ``informative > 0`` users prefer to rate items that
they like, so that ratings are not missing at random: the mere identities of the rated items then say something about
the user, which conditional models exploit. The noise does not depend on which items are rated, so the best prediction
of a rating is known in both cases.
"""

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from tacenda.errors import ConfigurationError, check_whole
from tacenda.forks import cached_property
from tacenda.ratings.ids import IdIndex
from tacenda.ratings.table import Ratings

Floats = NDArray[np.float32]
_LEVELS = np.arange(1.0, 6.0)
_BLOCK_USERS = 8192  # bounds the memory
_MAX_ROUNDS = 60  # of proposals for the items of a block's users


@dataclass(frozen=True)
class Truth:
    """The parameters from which the ratings were drawn."""

    mean: float
    user_bias: Floats  # (users)
    item_bias: Floats  # (items)
    user_factors: Floats  # (users, rank)
    item_factors: Floats  # (items, rank)
    noise: float  # its standard deviation
    integer: bool  # whether scores are rounded to 1..5 and clipped

    def scores(self, users: NDArray[np.integer[Any]], items: NDArray[np.integer[Any]]) -> Floats:
        """Return the score of each pair without noise, (pairs,)."""
        taste = np.einsum("nr,nr->n", self.user_factors[users], self.item_factors[items])
        biases = self.user_bias[users] + self.item_bias[items]
        return np.asarray(np.float32(self.mean) + biases + taste, np.float32)

    def moments(
        self, users: NDArray[np.integer[Any]], items: NDArray[np.integer[Any]]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and variance of the rating of each pair: the best prediction and its expected squared error."""
        scores = self.scores(users, items).astype(np.float64)
        if not self.integer:
            return scores, np.full(len(scores), self.noise**2)
        below = ndtr((_LEVELS[:-1] + 0.5 - scores[:, None]) / self.noise)
        probabilities = np.diff(below, axis=1, prepend=0.0, append=1.0)
        mean = probabilities @ _LEVELS
        return mean, probabilities @ _LEVELS**2 - mean**2


@dataclass(frozen=True)
class SyntheticRatings:
    """Ratings, and the parameters from which they were drawn."""

    ratings: Ratings
    truth: Truth

    @cached_property
    def bayes_rmse(self) -> float:
        """The expected RMSE on these pairs of a model that knows all parameters, but not the noise."""
        _, variance = self.truth.moments(self.ratings.user_ids, self.ratings.item_ids)
        return float(np.sqrt(variance.mean()))


def generate(
    n_users: int = 1000,
    n_items: int = 500,
    n_ratings: int = 50_000,
    *,
    rank: int = 8,
    noise: float = 0.8,
    integer: bool = True,
    informative: float = 0.0,
    seed: int = 0,
) -> SyntheticRatings:
    """Draw about ``n_ratings`` ratings (within one percent), without duplicates.

    Raises ConfigurationError for fewer ratings than users, as each user rates an item, for more than a third of all
    pairs, and if ``informative`` is so large that users do not like enough items.
    """
    for name, size in (("n_users", n_users), ("n_items", n_items), ("n_ratings", n_ratings)):
        check_whole(name, size)
    check_whole("rank", rank, 0)
    check_whole("seed", seed, 0)
    if not (isinstance(noise, Real) and 0 < noise < np.inf):
        raise ConfigurationError(f"noise is {noise!r:.40}; give a positive number")
    if not (isinstance(informative, Real) and informative >= 0):
        raise ConfigurationError(f"informative is {informative!r:.40}; give a number >= 0")
    if n_ratings < n_users:
        raise ConfigurationError(
            f"{n_ratings} ratings are fewer than one for each of {n_users} users; ask for more"
        )
    if 3 * n_ratings > n_users * n_items:
        raise ConfigurationError(
            f"{n_ratings} ratings are more than a third of {n_users} x {n_items} pairs; ask for less"
        )
    rng = np.random.default_rng(seed)
    truth = _draw_truth(rng, n_users, n_items, rank, noise, integer)
    activity = _draw_activity(rng, n_users, n_items, n_ratings)
    ranks = rng.permutation(n_items).astype(np.float64)
    popularity = (ranks + 0.02 * n_items + 1.0) ** -0.8
    cumulative = np.cumsum(popularity / popularity.sum())
    items = np.empty(int(activity.sum()), np.int32)  # enough: nobody rates more than they should
    values = np.empty(len(items), np.float32)
    offsets = np.zeros(n_users + 1, np.int64)
    starts = range(0, n_users, _BLOCK_USERS)
    blocks = [np.arange(start, min(start + _BLOCK_USERS, n_users)) for start in starts]
    for users in blocks:
        keys = _draw_block(rng, truth, users, activity, cumulative, informative)
        counts = np.bincount(keys // n_items - users[0], minlength=len(users))
        offsets[users + 1] = offsets[users[0]] + np.cumsum(counts)
        items[offsets[users[0]] : offsets[users[-1] + 1]] = keys % n_items
    n = offsets[-1]
    if n < 0.99 * n_ratings:
        raise ConfigurationError(
            f"users like too few items for {n_ratings} ratings with informative={informative:g}: ask for less of either"
        )
    for users in blocks:
        span = slice(offsets[users[0]], offsets[users[-1] + 1])
        raters = np.repeat(users, np.diff(offsets[users[0] : users[-1] + 2]))
        scores = truth.scores(raters, items[span])
        scores += rng.standard_normal(len(scores), np.float32) * np.float32(noise)
        values[span] = np.floor(scores + np.float32(0.5)).clip(1.0, 5.0) if integer else scores
    user_index = IdIndex([f"u{n + 1}" for n in range(n_users)], "user")
    item_index = IdIndex([f"i{n + 1}" for n in range(n_items)], "item")
    scale = (1.0, 5.0) if integer else None
    ratings = Ratings.from_csr(offsets, items[:n], values[:n], user_index, item_index, scale=scale)
    return SyntheticRatings(ratings, truth)


def _draw_truth(
    rng: np.random.Generator, n_users: int, n_items: int, rank: int, noise: float, integer: bool
) -> Truth:
    def normal(*shape: int, sd: float) -> Floats:
        return rng.standard_normal(shape, np.float32) * np.float32(sd)

    sd = (0.6 / max(rank, 1) ** 0.5) ** 0.5  # their products then have standard deviation 0.6
    return Truth(
        mean=3.6,
        user_bias=normal(n_users, sd=0.4),
        item_bias=normal(n_items, sd=0.45),
        user_factors=normal(n_users, rank, sd=sd),
        item_factors=normal(n_items, rank, sd=sd),
        noise=noise,
        integer=integer,
    )


def _draw_activity(
    rng: np.random.Generator, n_users: int, n_items: int, n_ratings: int
) -> NDArray[np.int64]:
    """Draw how many items each user rates, about n_ratings in all: log-normal, at least 1 and at most half of them."""
    weights, most = np.exp(rng.standard_normal(n_users)), max(n_items // 2, 1)
    low, high = 0.0, float(n_ratings) * 100.0 / weights.sum() + most / weights.min()
    for _ in range(80):  # the factor that makes the rounded, clipped numbers sum to n_ratings
        factor = 0.5 * (low + high)
        total = np.rint(factor * weights).clip(1, most).sum()
        low, high = (factor, high) if total < n_ratings else (low, factor)
    return np.asarray(np.rint(high * weights).clip(1, most), np.int64)


def _draw_block(
    rng: np.random.Generator,
    truth: Truth,
    users: NDArray[np.int64],
    activity: NDArray[np.int64],
    cumulative: NDArray[np.float64],
    informative: float,
) -> NDArray[np.int64]:
    """Draw sorted keys user * n_items + item: for each user the first distinct items that they accept."""
    n_items, first = len(cumulative), users[0]
    finished = []
    kept = np.zeros(0, np.int64)  # keys of users that still miss some
    for _ in range(_MAX_ROUNDS):
        have = np.bincount(kept // n_items - first, minlength=len(activity) - first)
        missing = activity[users] - have[users - first]
        complete = np.isin(kept // n_items, users[missing == 0])
        finished.append(kept[complete])
        kept, users, missing = kept[~complete], users[missing > 0], missing[missing > 0]
        if not len(users):
            break
        proposals = np.repeat(users, missing * (4 if informative else 2) + 4)
        items = np.searchsorted(cumulative, rng.random(len(proposals))).clip(max=n_items - 1)
        if informative:  # the better users like what they come upon, the more likely they rate it
            taste = np.einsum("nr,nr->n", truth.user_factors[proposals], truth.item_factors[items])
            liking = taste / 0.6 + truth.item_bias[items] / 0.45
            likely = expit(informative * (liking - 0.5))
            accepted = rng.random(len(items)) < likely
            proposals, items = proposals[accepted], items[accepted]
        keys = np.concatenate((kept, proposals * n_items + items))
        # each pair once, in the order in which its user came upon the items
        keys, arrival = np.unique(keys, return_index=True)
        keys = keys[np.lexsort((arrival, keys // n_items))]
        _, begin, sizes = np.unique(keys // n_items, return_index=True, return_counts=True)
        n_before = np.arange(len(keys)) - np.repeat(begin, sizes)  # of the same user
        kept = keys[n_before < activity[keys // n_items]]
    return np.sort(np.concatenate((*finished, kept)))
