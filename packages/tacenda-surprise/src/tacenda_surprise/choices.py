"""Which items users choose: a factorization of who has rated what, whatever the ratings (Hu, Koren and Volinsky 2008).

    minimize sum_ui c_ui (p_ui - x_u . y_i)^2 + lambda (sum_u |x_u|^2 + sum_i |y_i|^2),
    p_ui = 1 and c_ui = 1 + a if user u has rated item i, else 0 and 1,

over all pairs, by alternating least squares, a few steps of conjugate gradients at a time. Given all y, the factors of
a user are a ridge regression whose precision is lambda I + Y^T Y, the same for all users, plus a term of the rated
items N(u):

    x_u = (lambda I + Y^T Y + a sum_{i in N(u)} y_i y_i^T)^{-1} (1 + a) sum_{i in N(u)} y_i.

The score of an item adds a part of its popularity, 0.001 n_i / n, where n_i of the n users have rated it. Lambda is the
best of a few for pairs held out. The other numbers were chosen on synthetic data (`benchmarks/ratings/generated.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy.special import ndtr

from tacenda.arrays import Array, Arrays, Constraint, Float32, named
from tacenda.fitting import StepResult, Trainer
from tacenda.forks import cached_property
from tacenda.kernels.ratings import Targets, choice_steps, rating_scores, rating_solves
from tacenda.ratings import Ratings
from tacenda_surprise.catalogue import Doubles, Floats, Numbers
from tacenda_surprise.identities import Identities, places_of_users, users_at
from tacenda_surprise.rows import Touched, lengthen

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
        self.by_item = seen.by_item(n_items)
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
            rows = np.arange(len(u))
            held_out_scores = scores[rows, i][:, None]
            seen = self.seen.item_ids[places_of_users(self.seen.offsets, u)]
            scores[np.repeat(rows, self.seen.sizes[u]), seen] = -np.inf
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
    """Factors x of users and y of items, the numbers a and lambda of the fit, and the mean and deviation of ratings."""

    x: Float32[Array, "users width", named("users")]
    y: Float32[Array, "items width", named("items")]
    popularity: Float32[Array, "items"]  # share of the users who have rated the item
    #: the mean m and the standard deviation s of the ratings, and except in older models a and lambda
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

    def solve(self, ids: Numbers, others: Floats, precision: Doubles) -> Floats:
        """Solve for the factors (width,) of a row that has chosen the rows ``ids`` of the other side.

        ``precision`` is that of all ``others``, see `compute_precision`.
        """
        confidence = self.confidence
        targets = np.full(len(ids), (1 + confidence) / confidence, np.float32)
        row = Targets(np.array([0, len(ids)]), np.asarray(ids, np.int32), targets)
        prior_mean = np.zeros(others.shape[1], np.float32)
        factors: Floats = rating_solves(row, others, prior_mean, precision, confidence).means[0]
        return factors

    def solve_touched(self, seen: Identities, n_items: int, touched: Touched) -> Self:
        """Solve for the users, then the items of new ratings; the rest stays. ``seen`` is who has rated what by now."""
        x, y = lengthen(self.x, seen.n_users), lengthen(self.y, n_items)
        precision = compute_precision(y, self.penalty)
        for user in np.unique(touched.users).tolist():
            x[user] = self.solve(seen.of_user(user), y, precision)
        precision = compute_precision(x, self.penalty)
        for item in np.unique(touched.items).tolist():
            places = np.flatnonzero(seen.item_ids == item)
            y[item] = self.solve(users_at(seen.offsets, places), x, precision)
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
