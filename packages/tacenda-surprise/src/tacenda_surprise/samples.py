"""Samples of the parameters of a factorization: their average, their variance, and both in units of the ratings.

The average of the scores over samples is one product of narrow tables,

    (1/S) sum_s X_s Q_s^T  =  [X_1 .. X_S] [Q_1 .. Q_S]^T / S,

of width S D, most of which is noise of the samples that cancels. Its best approximation of a given rank, found by a
randomized range finder with two power iterations (Halko, Martinsson and Tropp 2011, algorithm 4.4), predicts the same
to a hundredth of a star and is scored some ten times as fast.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tacenda.arrays import Array, Arrays, Float32, named, not_empty, positive
from tacenda.errors import ArtifactError
from tacenda.ratings import Ratings
from tacenda_surprise.bias import alternate
from tacenda_surprise.catalogue import Doubles, Floats, Numbers
from tacenda_surprise.rows import lengthen, mean_row
from tacenda_surprise.variance import Curve, coverage_factor

_DAMAGED = "the samples of the model hold a precision that is not positive definite: it is damaged"

_WEIGHT_PRIOR_PRECISION = 16.0  # of the weight, whose prior mean is one
_FULL_WEIGHT = 0.97  # a larger weight is as good as one
_MIN_SCALE = 1e-3  # of shrunk factors, whose precision must remain finite
_PAIRS_PER_BLOCK = 4096  # whose samples are in memory at a time
_OVERSAMPLING = 16
_POWER_ITERATIONS = 2
_RIDGE = 1e-6  # in units of the average square of the factors
_PRIOR_COUNT = 200  # held-out errors that the factor of the residuals counts as


class Samples(Arrays):
    """Draws of users x and items q by `Gibbs`; the last column of ``width`` is the bias."""

    x: Float32[Array, "samples users width", named("users")]
    q: Float32[Array, "samples items width", named("items")]
    links: Float32[Array, "samples links width"]  # of items; none without conditioning
    mean: Float32[Array, "samples width"]  # of the users' factors without the link from identities
    precision: Float32[Array, "samples width width"]  # of the same
    item_mean: Float32[Array, "samples width"]  # of the items' factors
    item_precision: Float32[Array, "samples width width"]
    gamma: Float32[Array, "samples users", positive]  # what a user's alpha is multiplied by
    alpha: Float32[Array, "samples", positive, not_empty]  # precision of the ratings
    nu: Float32[Array, "samples", positive]  # how alike the gamma are
    tau: Float32[Array, "samples", positive]  # of the links

    def grow(self, n_users: int, n_items: int) -> Samples:
        """Append rows of zeros for further users and items to a copy; the new users have the usual noise."""
        tables = (self.x, n_users), (self.q, n_items), (self.gamma, n_users)
        x, q, gamma = (np.stack([lengthen(part, n) for part in parts]) for parts, n in tables)
        n_links = n_items if self.links.shape[1] else 0
        links = np.stack([lengthen(part, n_links) for part in self.links])
        gamma[:, self.gamma.shape[1] :] = 1.0
        return replace(self, x=x, q=q, links=links, gamma=gamma)

    def thin(self, n: int) -> Samples:
        """Take ``n`` samples, evenly spaced, the last one among them."""
        total = len(self.alpha)
        n = min(n, total)
        # Sample number total - 1 - floor(k total / n) for k = n - 1, ..., 0.
        chosen = total - 1 - (np.arange(n)[::-1] * total) // n
        return self.map(lambda part: part[chosen])

    def center(self, usual: Floats, has_ratings: Numbers) -> Samples:
        """Shift the biases of items so that the mean user has the scores ``usual`` (items,), those of all samples.

        Few samples are kept, and their noise in the scores of an item is about the same for every user. The mean is
        over the users for whom ``has_ratings`` (users,) is 1, and not 0.
        """
        x, q = mean_row(self.x.transpose(1, 0, 2), has_ratings), self.q.copy()
        scores = np.einsum("sd,sid->i", x[:, :-1], q[:, :, :-1]) / np.float32(len(q))
        scores += (q[:, :, -1] + x[:, -1:]).mean(axis=0)
        q[:, :, -1] += usual - scores
        return replace(self, q=q)

    def prior_means(self, known: Numbers) -> Doubles:
        """Compute the means (samples, width) that a user's factors have given the items ``known`` to be rated (n,)."""
        means: Doubles = self.mean.astype(np.float64)
        if self.links.shape[1] and len(known):
            means += self.links[:, known].sum(axis=1) / np.sqrt(len(known))
        return means

    def expected(self, users: Numbers, items: Numbers) -> Doubles:
        """Average the scores of pairs of known users and items over the samples (pairs,)."""
        mean = np.zeros(len(users))
        for x, q in zip(self.x, self.q, strict=True):
            scores = np.einsum("nd,nd->n", x[users, :-1], q[items, :-1])
            mean += (scores + x[users, -1] + q[items, -1]) / len(self.alpha)
        return mean

    def choose_weight(self, ratings: Ratings, held_out: Ratings) -> float:
        """Choose the weight w, 0 to 1, with which w samples + (1 - w) `BiasOnly` predict ``held_out`` best.

        Both are fitted to ``ratings``. It is the least-squares weight with a prior mean of one.
        """
        users, items = held_out.user_ids, held_out.item_ids
        alternation = alternate(ratings, ratings.mean)
        biases = ratings.mean + alternation.b[users] + alternation.c[items]
        difference, residual = self.expected(users, items) - biases, held_out.values - biases
        prior = _WEIGHT_PRIOR_PRECISION * float(np.var(residual - difference))
        weight = (difference @ residual + prior) / (difference @ difference + prior)
        return float(np.clip(weight, 0.0, 1.0))

    def shrink(self, weight: float, ratings: Ratings) -> Samples:
        """Shrink the scores towards those of a `BiasOnly` of ``ratings``, which have the weight ``1 - weight``.

        The users' factors become smaller, and with them the mean, precision and links that they are drawn from. Items
        keep their factors, and so ``item_mean`` and ``item_precision``: only their biases move.
        """
        if weight > _FULL_WEIGHT:
            return self
        alternation = alternate(ratings, 0.0)
        scale = np.append(np.full(self.mean.shape[1] - 1, max(weight, _MIN_SCALE)), 1.0)
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
        """Exchange users and items, without identities; every item has the noise of all users together."""
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
        """Variance of ratings about their scores (users + 1,); the last one is that of an unknown user."""
        known = (1.0 / (self.alpha[:, None] * self.gamma)).mean(axis=0)
        return np.append(known, known.mean() if len(known) else np.mean(1.0 / self.alpha))

    def mean_rows(self, have_ratings: tuple[Numbers, Numbers]) -> tuple[Floats, Floats]:
        """Average the rows of the users and items that ``have_ratings`` (1 or 0): (samples, 1, width) each."""
        users, items = have_ratings
        of_users = mean_row(self.x.transpose(1, 0, 2), users)[:, None]
        return of_users, mean_row(self.q.transpose(1, 0, 2), items)[:, None]

    def variances(
        self, users: Numbers, items: Numbers, average: tuple[Floats, Floats] | None = None
    ) -> Floats:
        """Compute the variance of the scores of pairs over the samples (pairs,).

        An unknown user or item has the score of the ``average`` (see `mean_rows`), and factors distributed as in each
        sample.
        """
        found = np.empty(len(users), np.float32)
        average = average or (self.mean[:, None], self.item_mean[:, None])
        moments = (
            second_moments(self.mean - average[0][:, 0], self.precision),
            second_moments(self.item_mean - average[1][:, 0], self.item_precision),
        )
        for start in range(0, len(users), _PAIRS_PER_BLOCK):
            u, i = (ids[start : start + _PAIRS_PER_BLOCK] for ids in (users, items))
            x, q = take_sample_rows(self.x, u, average[0]), take_sample_rows(self.q, i, average[1])
            scores = np.einsum("snd,snd->sn", x[:, :, :-1], q[:, :, :-1])
            part = (scores + x[:, :, -1] + q[:, :, -1]).var(axis=0)
            # An unknown side adds E[(z . (y, 1))^2] = (y, 1)^T E[z z^T] (y, 1), z being drawn from the sample's prior.
            for ids, others, moment in ((u, q, moments[0]), (i, x, moments[1])):
                unknown = np.flatnonzero(ids < 0)
                part[unknown] += uncertainty(others[:, unknown], moment)
            both = np.einsum("skl,skl->s", moments[0][:, :-1, :-1], moments[1][:, :-1, :-1])
            part[(u < 0) & (i < 0)] += both.mean()
            found[start : start + _PAIRS_PER_BLOCK] = part
        return found


def take_sample_rows(samples: Floats, ids: Numbers, unknown: Floats) -> Floats:
    """Take rows ``ids`` (n,) of every sample (samples, n, width), and ``unknown`` (samples, 1, width) for -1."""
    taken = samples[:, ids]
    taken[:, np.asarray(ids) < 0] = unknown
    return taken


def second_moments(means: Floats, precisions: Floats) -> Floats:
    """Compute E[z z^T] (samples, width, width) of rows z drawn from N(mean, precision^{-1}).

    Raises ArtifactError for a precision that has no inverse.
    """
    try:
        covariances = np.linalg.inv(precisions.astype(np.float64))
    except np.linalg.LinAlgError:
        raise ArtifactError(_DAMAGED) from None
    return np.asarray(covariances + means[:, :, None] * means[:, None, :], np.float32)


def uncertainty(others: Floats, moments: Floats) -> Floats:
    """Compute the mean square of z . (y, 1) for each row y of ``others`` (samples, rows, width), without its bias."""
    with_one = others.copy()
    with_one[:, :, -1] = 1.0
    return np.asarray(np.einsum("snk,skl,snl->sn", with_one, moments, with_one).mean(axis=0))


def average_tables(users: Floats, items: Floats, rank: int, seed: int) -> tuple[Floats, Floats]:
    """Find tables (users, width) and (items, width) whose product is nearly the average over the samples.

    The samples are X (samples, users, factors) and Q (samples, items, factors). The width is at most ``rank``;
    if all samples together are no wider, the product is exact. ``seed`` is that of the range finder.
    """
    X, Q = join_samples(users), join_samples(items) / np.float32(len(items))
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


def join_samples(samples: Floats) -> Floats:
    """Rearrange (samples, rows, factors) as (rows, samples * factors)."""
    n, rows, width = samples.shape
    return np.ascontiguousarray(samples.transpose(1, 0, 2)).reshape(rows, n * width)


# -- on the scale of ratings ------------------------------------------------------------------------


class RatingScale(NamedTuple):
    """The ratings that scores, standardized by their mean and standard deviation, stand for."""

    mean: float
    std: float
    ends: tuple[float, float]  # lowest and highest rating

    def ratings(self, scores: Floats) -> Floats:
        """Turn standardized scores into ratings."""
        return np.asarray(np.float32(self.mean) + np.float32(self.std) * scores, np.float32)


class RatingNoise(NamedTuple):
    """The noise of ratings on a scale."""

    scale: RatingScale
    noises: Floats  # (users + 1,) standardized variances, the last one of an unknown user
    curve: Curve

    def deviations(self, variances: Floats, users: Numbers, predictions: Floats) -> Floats:
        """Compute standard deviations in units of the ratings, from ``variances`` of standardized scores.

        ``predictions``, in units of the ratings too, are clipped for the curve alone.
        """
        noise = self.noises[users] * self.curve.factors(np.clip(predictions, *self.scale.ends))
        return np.asarray(self.scale.std * np.sqrt(variances + noise), np.float32)


class LeftOut(NamedTuple):
    """Standardized errors of held-out ratings, the variances of their scores and their noises (ratings,)."""

    errors: Doubles
    predictions: Floats  # in units of the ratings
    variances: Floats
    noises: Floats

    @classmethod
    def of(cls, samples: Samples, ratings: Ratings, scale: RatingScale) -> LeftOut:
        """Predict ``ratings``, which are standardized as by ``scale``."""
        users, items = ratings.user_ids, ratings.item_ids
        scores = scale.mean + scale.std * samples.expected(users, items)
        predictions = scores.astype(np.float32).clip(*scale.ends)
        errors = ratings.values - (predictions.astype(np.float64) - scale.mean) / scale.std
        return cls(errors, predictions, samples.variances(users, items), samples.noises[users])

    def find_noise_factor(self, curve: Curve, factor: float) -> float:
        """Find the last factor on the noise, which is ``factor`` times the curve so far; near one for few errors."""
        noises = self.noises * factor * curve.factors(self.predictions)
        total = coverage_factor(self.errors / np.sqrt(self.variances + noises))
        total **= len(self.errors) / (len(self.errors) + _PRIOR_COUNT)
        # The spread of the scores stays, so the factor f of the noise solves spread + f noise = total (spread + noise).
        # If the spread alone is too wide, f would be negative: it has the limits that `coverage_factor` has.
        spread, noise = float(self.variances.mean()), float(noises.mean())
        return float(np.clip((total * (spread + noise) - spread) / noise, 0.25, 4.0))


# -- one user or item under every sample: users folded in, and rows drawn again for new ratings --------


class FoldedSamples(NamedTuple):
    """Bias and factors of one user for every sample; see `tacenda_surprise.users.FoldedUser`.

    Under a sample they are normal about ``user``, with covariance A^{-1}, A = L L^T.
    """

    user: Floats  # (samples, width)
    inverse_roots: Floats  # L^{-1} (samples, width, width)
    items: Floats  # (samples, items, width)
    unknown: Floats  # (samples, 1, width), of an unknown item
    item_moments: Floats  # (samples, width, width), second moments of its factors about `unknown`
    noise: RatingNoise

    def _score_items(self, chosen: Floats) -> Floats:
        scores = np.einsum("sd,sid->si", self.user[:, :-1], chosen[:, :, :-1])
        return np.asarray(scores + chosen[:, :, -1] + self.user[:, -1:], np.float32)

    def score(self, items: Numbers | None = None) -> Floats:
        """Compute expected ratings (items,), not clipped; of all items if None; -1 is an unknown item."""
        wanted = np.arange(self.items.shape[1]) if items is None else np.asarray(items)
        return self.noise.scale.ratings(
            self._score_items(take_sample_rows(self.items, wanted, self.unknown)).mean(axis=0)
        )

    def deviations(self, items: Numbers) -> Floats:
        """Compute standard deviations (items,) by the law of total variance.

        The variance is that over samples, plus the mean variance of the user under a sample, |L^{-1} (q_i, 1)|^2, plus
        the noise.
        """
        chosen = take_sample_rows(self.items, items, self.unknown)
        scores = self._score_items(chosen)
        variance = scores.var(axis=0)
        unknown_items = np.flatnonzero(np.asarray(items) < 0)
        users = np.repeat(self.user[:, None, :], len(unknown_items), axis=1)
        variance[unknown_items] += uncertainty(users, self.item_moments)
        chosen[:, :, -1] = 1.0
        within = (np.einsum("skl,sil->sik", self.inverse_roots, chosen) ** 2).sum(axis=2)
        predictions = self.noise.scale.ratings(scores.mean(axis=0))
        unknown_user = np.full(len(predictions), -1)
        return self.noise.deviations(variance + within.mean(axis=0), unknown_user, predictions)


def fold(
    samples: Samples,
    noise: RatingNoise,
    items: Numbers,
    values: Floats,
    prior: Doubles,
    unknown: Floats,
) -> FoldedSamples:
    """Fold in a user with the ratings ``values`` (n,) of ``items`` (n,).

    ``prior`` are the means of the user's factors without these ratings (samples, width), and ``unknown`` are the
    factors of an unknown item (samples, 1, width). Raises ArtifactError for damaged samples.
    """
    user, inverse_roots = _solve_row(samples, noise.scale, items, values, prior)
    moments = second_moments(samples.item_mean - unknown[:, 0], samples.item_precision)
    return FoldedSamples(user, inverse_roots, samples.q, unknown, moments, noise)


def draw_row(
    samples: Samples,
    scale: RatingScale,
    items: Numbers,
    values: Floats,
    known: Numbers,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Compute the expected factors of a user under every sample, and draws of them: (samples, width) each.

    The user has the ratings ``values`` (n,) of ``items`` (n,), and ``known`` are all items known to be rated. To draw
    an item, exchange the samples.
    """
    row, inverse_roots = _solve_row(samples, scale, items, values, samples.prior_means(known))
    noise = rng.standard_normal(row.shape).astype(np.float32)
    return row, row + np.einsum("skl,sk->sl", inverse_roots, noise)


def _solve_row(
    samples: Samples, scale: RatingScale, items: Numbers, values: Floats, prior: Doubles
) -> tuple[Floats, Floats]:
    """Solve, in every sample, for the factors x of a user with the ``prior`` mean p and the standardized ratings t:

        A = Lambda + alpha Z^T Z,    A x = Lambda p + alpha Z^T t,    rows of Z: (q_i, 1)

    Returns x (samples, width) and L^{-1} (samples, width, width), A = L L^T.
    """
    Z = samples.q[:, items].astype(np.float64)
    targets = (values.astype(np.float64) - scale.mean) / scale.std - Z[:, :, -1]
    Z[:, :, -1] = 1.0
    Z_T = Z.transpose(0, 2, 1)
    alpha = samples.alpha.astype(np.float64)[:, None, None]
    precision = samples.precision.astype(np.float64)
    A = precision + alpha * (Z_T @ Z)
    b = precision @ prior[:, :, None] + alpha * (Z_T @ targets[:, :, None])
    try:
        inverse_roots = np.linalg.inv(np.linalg.cholesky(A))
    except np.linalg.LinAlgError:
        raise ArtifactError(_DAMAGED) from None
    row = (inverse_roots.transpose(0, 2, 1) @ (inverse_roots @ b))[:, :, 0]
    return row.astype(np.float32), inverse_roots.astype(np.float32)


def average_scores(row: Floats, others: Floats) -> Floats:
    """Average the scores (others,) of a ``row`` (samples, width) and its ``others`` over the samples."""
    mean = np.zeros(others.shape[1], np.float32)
    for x, table in zip(row, others, strict=True):
        mean += (table[:, :-1] @ x[:-1] + table[:, -1] + x[-1]) / np.float32(len(others))
    return mean


def find_nearest_row(others: Floats, scores: Floats) -> tuple[Floats, float]:
    """Find factors (width,) and bias of the row whose scores with ``others`` (n, width) are nearest to ``scores``."""
    design = np.append(others, np.ones((len(others), 1), np.float32), axis=1)
    A = (design.T @ design).astype(np.float64)
    # The ridge makes it regular if a factor is zero in all rows.
    A += _RIDGE * np.trace(A) / len(A) * np.eye(len(A))
    solved = np.linalg.solve(A, design.T @ scores)
    return solved[:-1].astype(np.float32), float(solved[-1])
