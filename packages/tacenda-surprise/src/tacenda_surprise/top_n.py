"""Top lists: a model of which items users choose, the order of lists, and the quality of lists.

The model of choices factorizes who has rated what, whatever the ratings (Hu, Koren and Volinsky 2008):

    minimize sum_ui c_ui (p_ui - x_u . y_i)^2 + lambda (sum_u |x_u|^2 + sum_i |y_i|^2),
    p_ui = 1 and c_ui = 1 + a if user u has rated item i, else 0 and 1,

over all pairs, by alternating least squares, a few steps of conjugate gradients at a time. Given all y, the factors of
a user are a ridge regression whose precision is lambda I + Y^T Y, the same for all users, plus a term of the rated
items N(u):

    x_u = (lambda I + Y^T Y + a sum_{i in N(u)} y_i y_i^T)^{-1} (1 + a) sum_{i in N(u)} y_i.

A list is ranked by how likely the user is to choose an item and to like it then,

    (max(x_u . y_i, 0) + 0.001 n_i / n) Phi((r_ui - m) / s)^{1/4},

with the predicted rating r_ui, the mean m of all ratings and their standard deviation s; n_i of the n users have rated
the item. Lambda is the best of a few for pairs held out. The other numbers were chosen on synthetic data
(`benchmarks/ratings/generated.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from tacenda.arrays import Array, Arrays, Constraint, Float32, named
from tacenda.errors import ConfigurationError
from tacenda.fitting import StepResult, Trainer
from tacenda.forks import cached_property
from tacenda.kernels.ratings import Targets, choice_steps, rating_scores, rating_solves
from tacenda.ratings import Ratings
from tacenda_surprise.catalogue import Doubles, Floats, Numbers, lengthen
from tacenda_surprise.identities import Identities

By = Literal["both", "rating", "choice"]

WIDTH, SWEEPS = 64, 10  # factors and sweeps of a fit
CONFIDENCE = 1.0  # a
_CONJUGATE_GRADIENT_STEPS = 3  # of a sweep
#: Candidates for lambda, and lambda for few pairs, in units of (1 + a) times `_noise`.
_PENALTIES, _PENALTY_OF_FEW_PAIRS = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0), 0.5
_HELD_OUT_SHARE, _MIN_HELD_OUT = 0.1, 50  # of the pairs by which lambda is chosen
# Sweeps before the first candidate is judged, and before each later one, which starts where the one before has ended.
_FIRST_SWEEPS, _LATER_SWEEPS = 5, 2
_MAX_JUDGED_SCORES, _MIN_JUDGED_PAIRS = 8_000_000, 2_000
_SCORES_PER_BLOCK, _ROWS_PER_BLOCK = 4_000_000, 8_192  # in memory at a time
# What the most popular item has in advance, so that users of whom nothing is known get it.
_POPULARITY_WEIGHT = 1e-3
_LIKING_POWER = 0.25  # of the probability that users like an item
_SEED = 0
# a and lambda of saved models that do not contain theirs
_FORMER_CONFIDENCE, _FORMER_PENALTY = 3.0, 40.0


is_liking = Constraint(
    lambda array, sizes: (
        None
        if len(array) in (2, 4) and (array[1:] > 0).all()
        else "must hold a mean and a positive deviation, and may hold positive a and lambda"
    )
)


class Choosing(Trainer):
    """Training of the factors x (users, width) and y (items, width); a step is a sweep through both.

    ``weights`` are a and lambda.
    """

    def __init__(
        self, seen: Identities, n_items: int, width: int, weights: tuple[float, float], seed: int
    ) -> None:
        width, self.weights = min(width, n_items, max(seen.n_users, 1)), weights
        rng = np.random.default_rng(seed)
        self.y = rng.standard_normal((n_items, width), np.float32) * np.float32(0.1)
        self.x = np.zeros((seen.n_users, width), np.float32)
        self.learned = {"x": self.x, "y": self.y}
        self.seen, self._users = seen, seen.user_ids
        self.by_item = Identities.from_pairs(seen.item_ids, self._users, n_items, seen.n_users)
        self.popularity = (self.by_item.sizes / max(seen.n_users, 1)).astype(np.float32)
        self.improve_users()

    @classmethod
    def of(
        cls,
        seen: Identities,
        n_items: int,
        width: int,
        confidence: float,
        penalty: float | None,
        seed: int,
    ) -> Self:
        """Start with this penalty; None: the one of `_PENALTIES` with the best lists for held-out pairs."""
        if penalty is None:
            penalty = _PENALTY_OF_FEW_PAIRS
            if len(seen.item_ids) * _HELD_OUT_SHARE >= _MIN_HELD_OUT:
                penalty = cls._choose_penalty(seen, n_items, width, confidence, seed)
            penalty *= _noise(seen, n_items) * (1 + confidence)
        return cls(seen, n_items, width, (confidence, penalty), seed)

    @classmethod
    def _choose_penalty(
        cls, seen: Identities, n_items: int, width: int, confidence: float, seed: int
    ) -> float:
        """Choose the best of `_PENALTIES`, judged from the weakest to the strongest."""
        rng, user_ids = np.random.default_rng([seed, 1]), seen.user_ids
        out = rng.random(len(user_ids)) < _HELD_OUT_SHARE
        part = Identities.from_pairs(user_ids[~out], seen.item_ids[~out], seen.n_users, n_items)
        n_judged = max(_MAX_JUDGED_SCORES // n_items, _MIN_JUDGED_PAIRS)
        held_out = rng.permutation(np.flatnonzero(out))[:n_judged]
        pairs = user_ids[held_out], seen.item_ids[held_out]
        unit, gains = _noise(part, n_items) * (1 + confidence), []
        trained = cls(part, n_items, width, (confidence, _PENALTIES[0] * unit), seed)
        for k, penalty in enumerate(_PENALTIES):
            trained.weights = confidence, penalty * unit
            for _ in range(_LATER_SWEEPS if k else _FIRST_SWEEPS):
                trained.sweep()
            gains.append(trained._discounted_gain(*pairs))
        return _PENALTIES[int(np.argmax(gains))]

    def _discounted_gain(self, users: Numbers, items: Numbers) -> float:
        """Average 1 / log2(place + 1) over the places of held-out pairs, in lists of all items not in the fit."""
        total, block = 0.0, max(_SCORES_PER_BLOCK // len(self.y), 1)
        for start in range(0, len(users), block):
            u, i = users[start : start + block], items[start : start + block]
            scores = self.x[u] @ self.y.T + np.float32(_POPULARITY_WEIGHT) * self.popularity
            rows, sizes = np.arange(len(u)), self.seen.sizes[u]
            ends = np.cumsum(sizes)
            places = np.repeat(self.seen.offsets[u] - ends + sizes, sizes) + np.arange(ends[-1])
            held_out_scores = scores[rows, i][:, None]
            scores[np.repeat(rows, sizes), self.seen.item_ids[places]] = -np.inf
            total += float((1 / np.log2((scores > held_out_scores).sum(axis=1) + 2)).sum())
        return total / max(len(users), 1)

    def improve_users(self) -> None:
        """Take a few steps towards the best factors of every user, given the items."""
        self._improve(self.x, self.seen, self.y)

    def sweep(self) -> None:
        """Take a few steps towards the best factors of every item, then of every user."""
        self._improve(self.y, self.by_item, self.x)
        self.improve_users()

    def _improve(self, own: Floats, chosen: Identities, others: Floats) -> None:
        """Take a few steps towards the best rows of ``own``, in place, given ``others`` and who has ``chosen`` what."""
        confidence = self.weights[0]
        precision = compute_precision(others, self.weights[1]).astype(np.float32)
        for start in range(0, len(own), _ROWS_PER_BLOCK):  # blocks need no second table
            part = own[start : start + _ROWS_PER_BLOCK]
            ends = chosen.offsets[start : start + len(part) + 1]
            ids = chosen.item_ids[ends[0] : ends[-1]]
            part[:] = choice_steps(
                ends - ends[0], ids, others, part, precision, confidence, _CONJUGATE_GRADIENT_STEPS
            )

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        self.sweep()
        return StepResult(self._loss(), float(len(self._users)))

    def _loss(self) -> float:
        (a, penalty), x, y = self.weights, self.x, self.y
        b, c = np.zeros(len(x), np.float32), np.zeros(len(y), np.float32)
        scores = rating_scores(self._users, self.seen.item_ids, x, y, b, c, 0.0).astype(float)
        # The squares of all scores are products of X^T X and Y^T Y; the chosen pairs differ from the rest.
        x_products, y_products = (side.T.astype(np.float64) @ side for side in (x, y))
        of_all = float((x_products * y_products).sum())
        of_chosen = float(((1 + a) * (1 - scores) ** 2 - scores**2).sum())
        return of_all + of_chosen + penalty * float(x_products.trace() + y_products.trace())


def _noise(seen: Identities, n_items: int) -> float:
    """Return n_u^{1/2} + n_i^{1/2}, on average over the pairs: the singular value of a block of random pairs."""
    counts = seen.sizes, np.bincount(seen.item_ids, minlength=n_items)
    return sum(float((n**1.5).sum()) for n in counts) / max(len(seen.item_ids), 1)


class ImplicitFactors(Arrays):
    """Factors x of users and y of items, and the mean and deviation that ratings are compared with."""

    x: Float32[Array, "users width", named("users")]
    y: Float32[Array, "items width", named("items")]
    popularity: Float32[Array, "items"]  # share of the users who have rated the item
    #: m, s, and except in older models a and lambda
    liking: Float32[Array, "numbers", is_liking]

    @classmethod
    def of(cls, ratings: Ratings, seen: Identities) -> Self:
        """Fit to ``seen`` (who has rated what), which includes ``ratings``."""
        trained = Choosing.of(seen, ratings.n_items, WIDTH, CONFIDENCE, None, _SEED)
        for _ in range(SWEEPS):
            trained.sweep()
        return cls.from_trained(trained, ratings)

    @classmethod
    def from_trained(cls, trained: Choosing, ratings: Ratings) -> Self:
        """Make the model from trained factors and the ``ratings`` of the same users and items."""
        liking = ratings.mean if len(ratings) else 0.0, ratings.std
        return cls(
            trained.x, trained.y, trained.popularity,
            np.array([*liking, *trained.weights], np.float32),
        )  # fmt: skip

    @property
    def biases(self) -> Floats:
        """The part of the scores of items (items,) that popularity adds."""
        return np.asarray(_POPULARITY_WEIGHT * self.popularity, np.float32)

    def of_new_user(self, items: Numbers) -> Floats:
        """Solve for the factors (1, width) of a user who has rated ``items``."""
        return self.solve(items, self.y, self._precision)[None]

    @cached_property
    def _precision(self) -> Doubles:
        """The term lambda I + Y^T Y of the precision, which all users share."""
        return compute_precision(self.y, self.penalty)

    @property
    def confidence(self) -> float:
        """How much more a chosen pair counts than another: a."""
        return float(self.liking[2]) if len(self.liking) > 2 else _FORMER_CONFIDENCE

    @property
    def penalty(self) -> float:
        """Weight of the squared factors in the loss: lambda."""
        return float(self.liking[3]) if len(self.liking) > 2 else _FORMER_PENALTY

    def solve(self, ids: Numbers, others: Floats, precision: Doubles | None = None) -> Floats:
        """Solve for the factors (width,) of a row that has chosen the rows ``ids`` of the other side."""
        confidence = self.confidence
        targets = np.full(len(ids), (1 + confidence) / confidence, np.float32)
        row = Targets(np.array([0, len(ids)]), np.asarray(ids, np.int32), targets)
        prior_mean = np.zeros(others.shape[1], np.float32)
        if precision is None:
            precision = compute_precision(others, self.penalty)
        factors: Floats = rating_solves(row, others, prior_mean, precision, confidence).means[0]
        return factors

    def solve_touched(self, seen: Identities, n_items: int, users: Numbers, items: Numbers) -> Self:
        """Solve for some ``users``, then some ``items``; all others stay. ``seen`` is who has rated what by now."""
        x, y = lengthen(self.x, seen.n_users), lengthen(self.y, n_items)
        for user in np.unique(users).tolist():
            x[user] = self.solve(seen.of_user(user), y)
        for item in np.unique(items).tolist():
            places = np.flatnonzero(seen.item_ids == item)
            y[item] = self.solve(np.searchsorted(seen.offsets, places, side="right") - 1, x)
        popularity = np.bincount(seen.item_ids, minlength=n_items) / max(seen.n_users, 1)
        return replace(self, x=x, y=y, popularity=popularity.astype(np.float32))

    def scores(self, x: Floats) -> Floats:
        """Score how likely users with factors ``x`` are to choose each item (users, items), at least 0."""
        scores = np.maximum(x @ self.y.T, 0.0)
        scores += self.biases
        return np.asarray(scores)

    def combine(self, x: Floats, ratings: Floats) -> Floats:
        """Score items for lists by both (users, items), given the predicted ``ratings`` (users, items)."""
        mean, std = self.liking[:2].tolist()
        return np.asarray(
            self.scores(x) * ndtr((ratings - mean) / std) ** _LIKING_POWER, np.float32
        )


def compute_precision(others: Floats, penalty: float) -> Doubles:
    """Compute lambda I + Y^T Y (width, width), which all rows of one side share."""
    precision = penalty * np.eye(others.shape[1])
    for start in range(0, len(others), _ROWS_PER_BLOCK):  # in float64; blocks need no second table
        part = others[start : start + _ROWS_PER_BLOCK].astype(np.float64)
        precision += part.T @ part
    return np.asarray(precision)


class Ranked(NamedTuple):
    """The best items of one user, best first: numbers (n,) and expected ratings (n,) float32, not clipped."""

    user: int
    items: npt.NDArray[np.int64]
    scores: Floats


class Lists(NamedTuple):
    """The order of lists, and the items that they leave out.

    ``by="rating"`` ranks by the expected rating alone, which suits a choice among a few candidates;
    ``"choice"`` by how likely the item is to be chosen; ``"both"`` by their product.
    """

    factors: ImplicitFactors | None = None  # None: by the expected rating
    by: By = "rating"
    #: Items that may be listed (shown,), ascending; None: all.
    shown: npt.NDArray[np.int64] | None = None

    @classmethod
    def of(
        cls, factors: ImplicitFactors | None, by: By, hidden: npt.NDArray[np.bool_] | None = None
    ) -> Lists:
        """Make the order of lists, which leave out the ``hidden`` items (items,).

        Raises ConfigurationError if ``by`` is something else, or there are no ``factors`` to rank by.
        """
        if by not in ("both", "rating", "choice"):
            raise ConfigurationError(f"by is {by!r}; give 'both', 'rating' or 'choice'")
        if factors is None and by != "rating":
            raise ConfigurationError(
                f"by is {by!r}, and there is no model of the users' choices: give ImplicitFactors, or by='rating'"
            )
        shown = None if hidden is None or not hidden.any() else np.flatnonzero(~hidden)
        return cls(None if by == "rating" else factors, by, shown)

    def longest(self, n: int, n_items: int) -> int:
        """Return how long a list of ``n`` of the ``n_items`` can become."""
        return min(n, n_items if self.shown is None else len(self.shown))

    def best(
        self, ratings: Floats, x: Floats | None, n: int, seen: Numbers | None
    ) -> tuple[npt.NDArray[np.int64], Floats]:
        """Choose the ``n`` best items of a user whose expected ratings are ``ratings`` (items,).

        Returns their numbers and expected ratings, best first; ``x`` (width,) are the user's factors.
        """
        values = self.values(ratings[None, :], None if x is None else x[None, :])[0]
        items = self.choose(values, n, seen)
        return items, ratings[items]

    def values(self, ratings: Floats, x: Floats | None) -> Floats:
        """Compute the values that rank the items of a block of users (users, items)."""
        if self.factors is None or x is None:
            return ratings
        return self.factors.scores(x) if self.by == "choice" else self.factors.combine(x, ratings)

    def choose(self, values: Floats, n: int, seen: Numbers | None) -> npt.NDArray[np.int64]:
        """Return the numbers of the ``n`` items with the highest ``values`` (items,), without those ``seen``."""
        if self.shown is None:
            return top(values, n, seen)[0]
        places = None if seen is None else np.flatnonzero(np.isin(self.shown, seen))
        return self.shown[top(values[self.shown], n, places)[0]]


def check_length(n: int) -> None:
    """Raise ConfigurationError for a length of lists that is not a whole number of at least 1."""
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 1:
        raise ConfigurationError(
            f"n is {n!r}; give the number of items of a list, a whole number of at least 1"
        )


def top(scores: Floats, n: int, hidden: Numbers | None) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return numbers and scores of the ``n`` best items, best first, without the ``hidden`` ones."""
    check_length(n)
    values = scores.copy()
    if hidden is not None:
        values[hidden] = -np.inf
    n_hidden = 0 if hidden is None else len(np.unique(hidden))
    n = min(n, len(values) - n_hidden)
    # Sort only the n best: all above the n-th best value, and those that tie with it while there is room.
    candidates = np.arange(n)
    if 0 < n < len(values):
        border = -np.partition(-values, n - 1)[n - 1]
        certain = np.flatnonzero(values > border)
        ties = np.flatnonzero(values == border)[: n - len(certain)]  # lower numbers first
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


class TopLists(Mapping[Any, list[tuple[Any, float]]]):
    """Lists of users by raw id: (raw item id, estimate), best first.

    A list is made when it is looked up. Item numbers and estimates take 8 bytes for each place; lists of Python objects
    would take more memory than the model.
    """

    def __init__(self, uids: Iterable[Any], raw: Sequence[Any], longest: int) -> None:
        self._rows = {uid: row for row, uid in enumerate(dict.fromkeys(uids))}
        self._raw = raw
        self._items = np.full((len(self._rows), longest), -1, np.int32)
        self._estimates = np.zeros((len(self._rows), longest), np.float32)

    def fill(self, uid: Any, items: Numbers, estimates: Floats) -> None:
        """Set the list of a user to these items (numbers) with their estimates."""
        row, n = self._rows[uid], len(items)
        self._items[row, :n], self._estimates[row, :n] = items, estimates

    def __getitem__(self, uid: Any) -> list[tuple[Any, float]]:
        row = self._rows[uid]
        n = int((self._items[row] >= 0).sum())
        items, estimates = self._items[row, :n].tolist(), self._estimates[row, :n].tolist()
        return [(self._raw[item], one) for item, one in zip(items, estimates, strict=True)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __or__(self, other: Mapping[Any, Any]) -> dict[Any, Any]:
        return dict(self) | dict(other)

    def __repr__(self) -> str:
        return repr(dict(self))


def most_popular(train: Ratings, users: Numbers, n: int, held_out: Ratings) -> Quality:
    """Judge lists of the items with the most ratings, without what users have rated."""
    counts = train.item_counts.astype(np.float32)
    ranked = (Ranked(u, *top(counts, n, train.of_user(u)[0])) for u in users.tolist())
    return quality(ranked, held_out, n)


class Quality(NamedTuple):
    """Quality of lists: means over the users who have items held out.

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
