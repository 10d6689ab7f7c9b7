"""Samples of the parameters of a factorization: their average, and what they say of a new user.

The average of the scores over samples is one product of narrow tables,

    (1/S) sum_s X_s Q_s^T  =  [X_1 .. X_S] [Q_1 .. Q_S]^T / S,

which has width S D as it stands, and most of that is noise of the samples that cancels. Its best approximation of
a given rank, found by a randomized range finder with two power iterations (Halko, Martinsson and Tropp 2011,
algorithm 4.4), predicts the same to a hundredth of a star and is scored some ten times as fast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tacenda.arrays import Array, Arrays, Float32, named, positive
from tacenda.errors import ArtifactError
from tacenda.ratings import Ratings
from tacenda_surprise.bias import alternate
from tacenda_surprise.catalogue import Catalogue, Doubles, Floats, Numbers, mean_row, not_empty
from tacenda_surprise.variance import Curve, coverage_factor

DAMAGED = "the samples of the model hold a precision that is not positive definite: it is damaged"

_PRIOR_OF_WEIGHT = 16.0  # one over the variance of the weight, as it is known beforehand
_FEW = 200  # errors of ratings left out, which count half beside the residuals
_WHOLE = 0.97  # a weight above is as good as one
_LEAST = 1e-3  # no factors become smaller than by this
_BLOCK = 4096  # pairs whose samples are looked at together
_OVERSAMPLING = 16
_NEARLY = 1e-6  # of the average square of factors
_POWER_ITERATIONS = 2


class Samples(Arrays):
    """Draws of users x and items q by `Gibbs`, samples first; the last column of ``width`` is the bias."""

    x: Float32[Array, "samples users width", named("users")]
    q: Float32[Array, "samples items width", named("items")]
    links: Float32[Array, "samples links width"]  # of items; none without conditioning
    mean: Float32[Array, "samples width"]  # of the users' factors beside what comes from identities
    precision: Float32[Array, "samples width width"]  # of the same
    item_mean: Float32[Array, "samples width"]  # of the items' factors
    item_precision: Float32[Array, "samples width width"]
    gamma: Float32[Array, "samples users", positive]  # what a user's alpha is multiplied by
    alpha: Float32[Array, "samples", positive, not_empty]  # precision of the ratings
    nu: Float32[Array, "samples", positive]  # how alike the gamma are
    tau: Float32[Array, "samples", positive]  # of the links

    def thin(self, n: int) -> Samples:
        """``n`` of them, evenly spaced, the last one among them."""
        total = len(self.alpha)
        chosen = total - 1 - (np.arange(min(n, total))[::-1] * total) // min(n, total)
        return self.map(lambda part: part[chosen])

    def center(self, usual: Floats, rated: Numbers) -> Samples:
        """Give the items biases by which the mean user has the scores ``usual`` (items,), which all samples give.

        Few samples are kept, and their noise in the scores of an item is about the same for every user. ``rated``
        (users,) says which users have ratings, 1 or 0; the mean is over these.
        """
        x, q = mean_row(self.x.transpose(1, 0, 2), rated), self.q.copy()
        found = np.einsum("sd,sid->i", x[:, :-1], q[:, :, :-1]) / np.float32(len(q))
        found += (q[:, :, -1] + x[:, -1:]).mean(axis=0)
        q[:, :, -1] += usual - found
        return replace(self, q=q)

    def expected(self, users: Numbers, items: Numbers) -> Doubles:
        """Mean scores of pairs of known users and items (pairs,)."""
        found = np.zeros(len(users))
        for x, q in zip(self.x, self.q, strict=True):
            scores = np.einsum("nd,nd->n", x[users, :-1], q[items, :-1])
            found += (scores + x[users, -1] + q[items, -1]) / len(self.alpha)
        return found

    def weight(self, ratings: Ratings, held_out: Ratings) -> float:
        """The weight of the samples against `BiasOnly`, both of ``ratings``, that predicts ``held_out`` best.

        Between 0 and 1. It is the least-squares weight, as if it were known to be about one beforehand.
        """
        users, items = held_out.user_ids, held_out.item_ids
        alternation = alternate(ratings, ratings.mean)
        biases = ratings.mean + alternation.b[users] + alternation.c[items]
        apart, left = self.expected(users, items) - biases, held_out.values - biases
        known = _PRIOR_OF_WEIGHT * float(np.var(left - apart))
        return float(np.clip((apart @ left + known) / (apart @ apart + known), 0.0, 1.0))

    def shrink(self, weight: float, ratings: Ratings) -> Samples:
        """Draw the scores towards the scores of a `BiasOnly` of ``ratings``, which have the weight ``1 - weight``.

        The users' factors become that much smaller, with the mean, the precision and the links they are from.
        """
        if weight > _WHOLE:
            return self
        alternation = alternate(ratings, 0.0)
        scale = np.append(np.full(self.mean.shape[1] - 1, max(weight, _LEAST)), 1.0)
        scale = scale.astype(np.float32)
        x, q = self.x * scale, self.q.copy()
        for own, biases in ((x, alternation.b), (q, alternation.c)):
            own[:, :, -1] = weight * own[:, :, -1] + (1 - weight) * biases
        return replace(
            self,
            x=x,
            q=q,
            links=self.links * scale,
            mean=self.mean * scale,
            precision=np.asarray(self.precision / np.outer(scale, scale), np.float32),
        )

    def exchange(self) -> Samples:
        """Samples whose users are the items of these, without identities; the noise is that of all users."""
        return replace(
            self,
            x=self.q,
            q=self.x,
            links=self.links[:, :0],
            mean=self.item_mean,
            precision=self.item_precision,
            item_mean=self.mean,
            item_precision=self.precision,
            gamma=np.ones(self.q.shape[:2], np.float32),
        )

    @property
    def noises(self) -> Floats:
        """Variance of the ratings of each user about their scores, and of an unknown one (users + 1,)."""
        known = (1.0 / (self.alpha[:, None] * self.gamma)).mean(axis=0)
        return np.append(known, known.mean() if len(known) else np.mean(1.0 / self.alpha))

    def average(self, rated: tuple[Numbers, Numbers]) -> tuple[Floats, Floats]:
        """The mean rows (samples, 1, width) of the users and of the items that are ``rated``, 1 or 0: see `rows`."""
        sides = zip((self.x, self.q), rated, strict=True)
        return tuple(  # type: ignore[return-value]
            mean_row(side.transpose(1, 0, 2), n)[:, None] for side, n in sides
        )

    def variances(
        self, users: Numbers, items: Numbers, average: tuple[Floats, Floats] | None = None
    ) -> Floats:
        """The variance of the scores of pairs over samples (pairs,).

        An unknown user or item has the score of the `average`, to be given for these, and factors that are as the
        sample has them distributed.
        """
        found = np.empty(len(users), np.float32)
        average = average or (self.mean[:, None], self.item_mean[:, None])
        moments = (
            second_moments(self.mean - average[0][:, 0], self.precision),
            second_moments(self.item_mean - average[1][:, 0], self.item_precision),
        )
        for start in range(0, len(users), _BLOCK):
            u, i = (ids[start : start + _BLOCK] for ids in (users, items))
            x, q = rows(self.x, u, average[0]), rows(self.q, i, average[1])
            scores = np.einsum("snd,snd->sn", x[:, :, :-1], q[:, :, :-1])
            part = (scores + x[:, :, -1] + q[:, :, -1]).var(axis=0)
            # An unknown side adds E[(z . (y, 1))^2] = (y, 1)^T E[z z^T] (y, 1), z being drawn from the sample's prior.
            for ids, others, moment in ((u, q, moments[0]), (i, x, moments[1])):
                strange = np.flatnonzero(ids < 0)
                part[strange] += uncertainty(others[:, strange], moment)
            both = np.einsum("skl,skl->s", moments[0][:, :-1, :-1], moments[1][:, :-1, :-1])
            part[(u < 0) & (i < 0)] += both.mean()
            found[start : start + _BLOCK] = part
        return found


def rows(samples: Floats, ids: Numbers, unknown: Floats) -> Floats:
    """Return rows ``ids`` (n,) of every sample (samples, n, width); -1 finds ``unknown`` (samples, 1, width)."""
    found = samples[:, ids]
    found[:, np.asarray(ids) < 0] = unknown
    return found


def second_moments(means: Floats, precisions: Floats) -> Floats:
    """E[z z^T] (samples, width, width) of rows from N(mean, precision^{-1}).

    Raises ArtifactError for a precision that has no inverse.
    """
    try:
        covariances = np.linalg.inv(precisions.astype(np.float64))
    except np.linalg.LinAlgError:
        raise ArtifactError(DAMAGED) from None
    return np.asarray(covariances + means[:, :, None] * means[:, None, :], np.float32)


def uncertainty(others: Floats, moments: Floats) -> Floats:
    """Mean square of z . (y, 1) for each row y of ``others`` (samples, rows, width), whose own bias is left out."""
    known = others.copy()
    known[:, :, -1] = 1.0
    return np.asarray(np.einsum("snk,skl,snl->sn", known, moments, known).mean(axis=0))


def average(users: Floats, items: Floats, rank: int, seed: int) -> tuple[Floats, Floats]:
    """Find tables (users, width) and (items, width) whose product is nearly the average over the samples.

    The samples are X (samples, users, factors) and Q (samples, items, factors). The width is at most ``rank``;
    where the samples side by side are no wider the product is exact. ``seed`` is that of the range finder.
    """
    X, Q = side_by_side(users), side_by_side(items) / np.float32(len(items))
    if X.shape[1] <= rank:
        return X, Q
    wanted = min(rank + _OVERSAMPLING, len(X), len(Q))
    found = np.random.default_rng(seed).standard_normal((len(Q), wanted), np.float32)
    # X Q^T is never formed: every product goes through the S D columns of the samples.
    for _ in range(_POWER_ITERATIONS + 1):
        left = np.linalg.qr(X @ (Q.T @ found))[0]
        found = Q @ (X.T @ left)  # left left^T X Q^T is the approximation
        right = np.linalg.qr(found)[0]
        found, last = right, found
    if wanted <= rank:
        return left, np.ascontiguousarray(last)
    U, sizes, V = np.linalg.svd(last.T, full_matrices=False)
    roots = np.sqrt(sizes[:rank])
    return (left @ U[:, :rank]) * roots, np.ascontiguousarray((V[:rank] * roots[:, None]).T)


def side_by_side(samples: Floats) -> Floats:
    """Turn (samples, rows, factors) into (rows, samples * factors)."""
    n, rows, width = samples.shape
    return np.ascontiguousarray(samples.transpose(1, 0, 2)).reshape(rows, n * width)


class Unit(NamedTuple):
    """The scale of standardized ratings, and how far ratings are from their scores."""

    mean: float
    unit: float
    noises: Floats  # (users + 1,) standardized variances, the last one of an unknown user
    curve: Curve
    scale: tuple[float, float]  # lowest and highest rating

    @classmethod
    def of(cls, catalogue: Catalogue, unit: float) -> Unit:
        """Begin with the scale; the noise is not known yet."""
        return cls(catalogue.mean, unit, np.empty(0, np.float32), Curve(), catalogue.scale)

    def ratings(self, scores: Floats) -> Floats:
        """Turn standardized scores into ratings."""
        return np.asarray(np.float32(self.mean) + np.float32(self.unit) * scores, np.float32)

    def deviations(self, variances: Floats, users: Numbers, scores: Floats) -> Floats:
        """Standard deviations of ratings whose ``scores``, clipped for the curve alone, have ``variances``."""
        noise = self.noises[users] * self.curve.factors(np.clip(scores, *self.scale))
        return np.asarray(self.unit * np.sqrt(variances + noise), np.float32)


class LeftOut(NamedTuple):
    """Ratings that samples were not given: errors, the variances of their scores and their noises (ratings,)."""

    errors: Doubles
    predictions: Floats  # in units of the ratings
    variances: Floats
    noises: Floats

    @classmethod
    def of(cls, samples: Samples, ratings: Ratings, catalogue: Catalogue, unit: float) -> LeftOut:
        """Of standardized ``ratings``."""
        users, items = ratings.user_ids, ratings.item_ids
        scores = catalogue.mean + unit * samples.expected(users, items)
        predictions = catalogue.clip(scores.astype(np.float32))
        errors = ratings.values - (predictions.astype(np.float64) - catalogue.mean) / unit
        return cls(errors, predictions, samples.variances(users, items), samples.noises[users])

    def factor(self, curve: Curve, factor: float) -> float:
        """The factor on the noise, which is ``factor`` times the curve: one where errors are few."""
        noises = self.noises * factor * curve.factors(self.predictions)
        wider = coverage_factor(self.errors / np.sqrt(self.variances + noises))
        wider **= len(self.errors) / (len(self.errors) + _FEW)
        spread, noise = float(self.variances.mean()), float(noises.mean())
        return float(np.clip((wider * (spread + noise) - spread) / noise, 0.25, 4.0))


def draw_row(
    samples: Samples,
    unit: Unit,
    rated: tuple[Numbers, Floats],
    known: Numbers,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Bias and factors of a user under every sample: what is expected of them, and a draw, both (samples, width).

    Arguments are those of `fold`; the user is one the samples were fitted to, so that all that is known counts.
    """
    nothing = np.zeros_like(samples.mean)[:, None]
    own = fold(samples, unit, *rated, known, (nothing, nothing), lambda told, usual, n: told)
    noise = rng.standard_normal(own.user.shape).astype(np.float32)
    return own.user, own.user + np.einsum("skl,sk->sl", own.inverse_roots, noise)


def mean_scores(row: Floats, others: Floats) -> Floats:
    """The mean over the samples of the scores (others,) of a ``row`` (samples, width) and its ``others``."""
    found = np.zeros(others.shape[1], np.float32)
    for own, table in zip(row, others, strict=True):
        found += (table[:, :-1] @ own[:-1] + table[:, -1] + own[-1]) / np.float32(len(others))
    return found


def nearest_row(others: Floats, scores: Floats) -> tuple[Floats, float]:
    """Factors (width,) and bias of the row whose products with ``others`` (others, width) are nearest to ``scores``."""
    design = np.append(others, np.ones((len(others), 1), np.float32), axis=1)
    A = (design.T @ design).astype(np.float64)
    A += _NEARLY * np.trace(A) / len(A) * np.eye(len(A))  # where some factors are all zero
    solved = np.linalg.solve(A, design.T @ scores)
    return solved[:-1].astype(np.float32), float(solved[-1])


class FoldedSamples(NamedTuple):
    """Bias and factors of one user for every sample; see `tacenda_surprise.users.FoldedUser`.

    Under a sample they are normal about ``user``, with covariance A^{-1}, A = L L^T.
    """

    user: Floats  # (samples, width)
    inverse_roots: Floats  # L^{-1} (samples, width, width)
    items: Floats  # (samples, items, width)
    unknown: Floats  # (samples, 1, width), of an unknown item
    item_moments: Floats  # (samples, width, width), second moments of its factors about `unknown`
    unit: Unit

    def _take_items(self, items: Numbers) -> Floats:
        return rows(self.items, items, self.unknown)

    def _score_items(self, chosen: Floats) -> Floats:
        scores = np.einsum("sd,sid->si", self.user[:, :-1], chosen[:, :, :-1])
        return np.asarray(scores + chosen[:, :, -1] + self.user[:, -1:], np.float32)

    def score(self, items: Numbers | None = None) -> Floats:
        """Expected ratings (items,), not clipped; of all items if None; -1 is an unknown item."""
        wanted = np.arange(self.items.shape[1]) if items is None else np.asarray(items)
        return self.unit.ratings(self._score_items(self._take_items(wanted)).mean(axis=0))

    def deviations(self, items: Numbers) -> Floats:
        """Standard deviations (items,), by the law of total variance.

        The variance is that over samples, the mean of what is not known of the user under a sample,
        |L^{-1} (q_i, 1)|^2, and the noise.
        """
        chosen = self._take_items(items)
        scores = self._score_items(chosen)
        variance = scores.var(axis=0)
        strange = np.flatnonzero(np.asarray(items) < 0)
        everybody = np.repeat(self.user[:, None, :], len(strange), axis=1)
        variance[strange] += uncertainty(everybody, self.item_moments)
        chosen[:, :, -1] = 1.0
        within = (np.einsum("skl,sil->sik", self.inverse_roots, chosen) ** 2).sum(axis=2)
        predictions = self.unit.ratings(scores.mean(axis=0))
        unknown = np.full(len(predictions), -1)
        return self.unit.deviations(variance + within.mean(axis=0), unknown, predictions)


def fold(
    samples: Samples,
    unit: Unit,
    items: Numbers,
    values: Floats,
    known: Numbers,
    average: tuple[Floats, Floats],
    expect: Callable[[Floats, Floats, int], Floats],
) -> FoldedSamples:
    """Solve, in every sample, for the factors of a user with the ratings ``values`` (n,) of ``items`` (n,).

        A = Lambda + alpha Z^T Z,    A x = Lambda (mu + s) + alpha Z^T t,    rows of Z: (q_i, 1)

    ``known`` are all items known to be rated, ascending; of no consequence without conditioning. A user of whom nothing
    is known is the ``average`` one, and ``expect`` says how much of it remains where little is known. Raises
    ArtifactError where A is not positive definite.
    """
    expected = (samples.mean if len(known) else average[0][:, 0]).astype(np.float64)
    if samples.links.shape[1] and len(known):
        expected += samples.links[:, known].sum(axis=1) / np.sqrt(len(known))
        expected = expect(expected, average[0][:, 0], len(known))
    Z = samples.q[:, items].astype(np.float64)
    targets = (values.astype(np.float64) - unit.mean) / unit.unit - Z[:, :, -1]
    Z[:, :, -1] = 1.0
    Z_T = Z.transpose(0, 2, 1)
    alpha = samples.alpha.astype(np.float64)[:, None, None]
    precision = samples.precision.astype(np.float64)
    A = precision + alpha * (Z_T @ Z)
    b = precision @ expected[:, :, None] + alpha * (Z_T @ targets[:, :, None])
    try:
        inverse_roots = np.linalg.inv(np.linalg.cholesky(A))
    except np.linalg.LinAlgError:
        raise ArtifactError(DAMAGED) from None
    user = (inverse_roots.transpose(0, 2, 1) @ (inverse_roots @ b))[:, :, 0].astype(np.float32)
    moments = second_moments(samples.item_mean - average[1][:, 0], samples.item_precision)
    roots = inverse_roots.astype(np.float32)
    return FoldedSamples(user, roots, samples.q, average[1], moments, unit)
