"""The best items of users: what gets chosen, how lists are ranked, and how good such lists are.

What gets chosen: a factorization of who has rated what, whatever the ratings (Hu, Koren and Volinsky 2008).

    minimize sum_ui c_ui (p_ui - x_u . y_i)^2 + lambda (sum_u |x_u|^2 + sum_i |y_i|^2),
    p_ui = 1 and c_ui = 1 + a if user u has rated item i, else 0 and 1,

over all pairs, by alternating least squares. Given all y a user's factors are a ridge regression whose precision is
lambda I + Y^T Y, the same for everybody, beside what the rated items N(u) add:

    x_u = (lambda I + Y^T Y + a sum_{i in N(u)} y_i y_i^T)^{-1} (1 + a) sum_{i in N(u)} y_i.

A list is ranked by how likely the user is to choose an item and to like it then,

    (max(x_u . y_i, 0) + 0.001 n_i / n) Phi((r_ui - m) / s)^{1/4},

with the predicted rating r_ui, the mean m of all ratings and their standard deviation s; n_i of the n users have rated
the item. The numbers here were chosen on generated sets (`benchmarks/ratings/generated.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from tacenda.arrays import Array, Arrays, Constraint, Float32, named
from tacenda.errors import ConfigurationError
from tacenda.kernels.ratings import Targets, rating_solves
from tacenda.ratings import Ratings
from tacenda_surprise.catalogue import Floats, Identities, Numbers, deviation

By = Literal["both", "rating", "choice"]

_WIDTH, _SWEEPS = 32, 10
_CONFIDENCE = 3.0  # a
_PENALTY = 40.0  # lambda
# What the most popular item has in advance, so that users of whom nothing is known get it.
_POPULAR = 1e-3
_LIKED = 0.25  # the power of how likely they are to like it
_SEED = 0


has_deviation = Constraint(lambda array, sizes: None if array[1] > 0 else "holds no deviation")


class ImplicitFactors(Arrays):
    """Factors x of users and y of items, and what ratings are compared with."""

    x: Float32[Array, "users width", named("users")]
    y: Float32[Array, "items width", named("items")]
    popularity: Float32[Array, "items"]  # of all users the part that has rated the item
    liking: Float32[Array, "2", has_deviation]  # m and s

    @classmethod
    def of(cls, ratings: Ratings, seen: Identities) -> Self:
        """Fit to ``seen`` (who has rated what), which includes ``ratings``."""
        n_users, n_items = seen.n_users, ratings.n_items
        rng = np.random.default_rng(_SEED)
        width = min(_WIDTH, n_items, max(n_users, 1))
        y = rng.standard_normal((n_items, width), np.float32) * np.float32(0.1)
        by_item = Identities.from_pairs(seen.item_ids, seen.user_ids, n_items, n_users)
        x = solve(seen.offsets, seen.item_ids, y)
        for _ in range(_SWEEPS):
            y = solve(by_item.offsets, by_item.item_ids, x)
            x = solve(seen.offsets, seen.item_ids, y)
        popularity = by_item.sizes / max(n_users, 1)
        liking = ratings.mean if len(ratings) else 0.0, deviation(ratings)
        return cls(x, y, popularity.astype(np.float32), np.array(liking, np.float32))

    def of_new_user(self, items: Numbers) -> Floats:
        """Factors (1, width) of a user who has rated ``items``."""
        offsets = np.array([0, len(items)])
        return solve(offsets, np.asarray(items, np.int32), self.y)

    def scores(self, x: Floats) -> Floats:
        """Score how likely users with factors ``x`` are to choose each item (users, items), at least 0."""
        found = np.maximum(x @ self.y.T, 0.0)
        found += _POPULAR * self.popularity
        return np.asarray(found)

    def combined(self, x: Floats, ratings: Floats) -> Floats:
        """Score items for lists by both (users, items), given the predicted ``ratings`` (users, items)."""
        mean, size = self.liking.tolist()
        return np.asarray(self.scores(x) * ndtr((ratings - mean) / size) ** _LIKED, np.float32)


def solve(offsets: npt.NDArray[np.int64], ids: Numbers, others: Floats) -> Floats:
    """Factors of all rows of one side, given those of the other."""
    width = others.shape[1]
    precision = _PENALTY * np.eye(width) + others.astype(np.float64).T @ others
    targets = np.full(len(ids), (1 + _CONFIDENCE) / _CONFIDENCE, np.float32)
    nothing = np.zeros(width, np.float32)
    rows = Targets(offsets, ids, targets)
    return rating_solves(rows, others, nothing, precision, _CONFIDENCE)


class Ranked(NamedTuple):
    """The best items of one user, best first: numbers (n,) and expected ratings (n,) float32, not clipped."""

    user: int
    items: npt.NDArray[np.int64]
    scores: Floats


class Lists(NamedTuple):
    """The order of lists, and the items that they leave out.

    ``by="rating"`` ranks by the expected rating alone, which suits a choice among a few items of which all come into
    question; ``"choice"`` by how likely the item is to be chosen; ``"both"`` by their product.
    """

    factors: ImplicitFactors | None = None  # None: by the expected rating
    by: By = "rating"
    #: Items that may be listed (shown,), ascending; None: all.
    shown: npt.NDArray[np.int64] | None = None

    @classmethod
    def of(
        cls, factors: ImplicitFactors | None, by: By, hidden: npt.NDArray[np.bool_] | None = None
    ) -> Lists:
        """Lists without the ``hidden`` items (items,).

        Raises ConfigurationError if ``by`` is something else, or there are no ``factors`` to rank by.
        """
        if by not in ("both", "rating", "choice"):
            raise ConfigurationError(f"by is {by!r}; give 'both', 'rating' or 'choice'")
        if factors is None and by != "rating":
            raise ConfigurationError(
                f"by is {by!r}, and there is no model of what gets chosen: give ImplicitFactors, or by='rating'"
            )
        shown = None if hidden is None or not hidden.any() else np.flatnonzero(~hidden)
        return cls(None if by == "rating" else factors, by, shown)

    def best(
        self, ratings: Floats, x: Floats | None, n: int, seen: Numbers | None
    ) -> tuple[npt.NDArray[np.int64], Floats]:
        """Numbers and expected ratings of the ``n`` best items of a user whose ratings are ``ratings`` (items,)."""
        values = self.values(ratings[None, :], None if x is None else x[None, :])[0]
        found = self.choose(values, n, seen)
        return found, ratings[found]

    def values(self, ratings: Floats, x: Floats | None) -> Floats:
        """The values that rank the items of a block of users (users, items)."""
        if self.factors is None or x is None:
            return ratings
        return self.factors.scores(x) if self.by == "choice" else self.factors.combined(x, ratings)

    def choose(self, values: Floats, n: int, seen: Numbers | None) -> npt.NDArray[np.int64]:
        """Numbers of the ``n`` items with the highest ``values`` (items,) for somebody who has ``seen`` some."""
        if self.shown is None:
            return top(values, n, seen)[0]
        places = None if seen is None else np.flatnonzero(np.isin(self.shown, seen))
        return self.shown[top(values[self.shown], n, places)[0]]


def check_length(n: int) -> None:
    """Raise ConfigurationError for a length of lists that is no whole number of at least 1."""
    if not isinstance(n, int | np.integer) or n < 1:
        raise ConfigurationError(
            f"n is {n!r}; ask for at least one item, and a whole number of them"
        )


def top(scores: Floats, n: int, hidden: Numbers | None) -> tuple[npt.NDArray[np.int64], Floats]:
    """Numbers and scores of the ``n`` best items but the ``hidden`` ones, best first."""
    check_length(n)
    values = scores.copy()
    if hidden is not None:
        values[hidden] = -np.inf
    left = len(values) - (0 if hidden is None else len(np.unique(hidden)))
    n = min(n, left)
    # Only the n best are sorted: all above the n-th best value, and as many of those that tie with it as have room.
    candidates = np.arange(n)
    if 0 < n < len(values):
        border = -np.partition(-values, n - 1)[n - 1]
        certain = np.flatnonzero(values > border)
        ties = np.flatnonzero(values == border)[: n - len(certain)]  # by number, not by chance
        candidates = np.concatenate([certain, ties])
    order = candidates[np.lexsort((candidates, -values[candidates]))]
    return order, values[order]


def name_items(
    items: npt.NDArray[np.int64],
    scores: npt.NDArray[np.floating[Any]],
    raw: Sequence[Any],
    scale: tuple[float, float],
) -> list[tuple[Any, float]]:
    """List items (n,) by their ``raw`` ids, each with its expected rating (n,), clipped to the scale."""
    estimates = np.clip(scores, *scale).tolist()
    return [(raw[item], score) for item, score in zip(items, estimates, strict=True)]


def most_popular(train: Ratings, users: Numbers, n: int, held_out: Ratings) -> Quality:
    """The quality of lists of the items with the most ratings, what users have rated left out."""
    counts = train.item_counts.astype(np.float32)

    def ranked() -> Iterator[Ranked]:
        for user in users.tolist():
            yield Ranked(user, *top(counts, n, train.of_user(user)[0]))

    return quality(ranked(), held_out, n)


class Quality(NamedTuple):
    """Means over the users who have items held out.

    With h_k = 1 if the item in place k of the list was held out, m items held out and n places: ``hit_rate`` is how
    often any h_k is 1, ``recall`` sum_k h_k / m, ``ndcg`` sum_k h_k / log2(k + 1) over what it is at best, and
    ``mrr`` 1 / k of the first h_k that is 1, or 0.
    """

    hit_rate: float
    ndcg: float
    mrr: float
    recall: float


def quality(ranked: Iterable[Ranked], held_out: Ratings, n: int) -> Quality:
    """Compare lists of at most ``n`` items with what their users have rated in ``held_out``; others are passed over."""
    gains = 1 / np.log2(np.arange(n) + 2)
    rows = []
    for one in ranked:
        wanted, _ = held_out.of_user(one.user)
        if not len(wanted):
            continue
        places = np.flatnonzero(np.isin(one.items[:n], wanted))
        best = gains[: min(len(wanted), n)].sum()
        first = 1 / (places[0] + 1) if len(places) else 0.0
        rows.append((len(places) > 0, gains[places].sum() / best, first, len(places) / len(wanted)))
    return Quality(*np.mean(rows, axis=0).tolist()) if rows else Quality(*[float("nan")] * 4)
