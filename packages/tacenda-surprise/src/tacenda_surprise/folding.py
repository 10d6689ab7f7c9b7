"""One user or item under every sample: users folded in, and rows drawn again for new ratings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacenda.errors import ArtifactError
from tacenda_surprise.catalogue import Doubles, Floats, Numbers
from tacenda_surprise.samples import (
    DAMAGED,
    RatingNoise,
    RatingScale,
    Samples,
    second_moments,
    take_sample_rows,
    uncertainty,
)

_RIDGE = 1e-6  # in units of the average square of the factors


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

    def _take_items(self, items: Numbers) -> Floats:
        return take_sample_rows(self.items, items, self.unknown)

    def _score_items(self, chosen: Floats) -> Floats:
        scores = np.einsum("sd,sid->si", self.user[:, :-1], chosen[:, :, :-1])
        return np.asarray(scores + chosen[:, :, -1] + self.user[:, -1:], np.float32)

    def score(self, items: Numbers | None = None) -> Floats:
        """Compute expected ratings (items,), not clipped; of all items if None; -1 is an unknown item."""
        wanted = np.arange(self.items.shape[1]) if items is None else np.asarray(items)
        return self.noise.scale.ratings(self._score_items(self._take_items(wanted)).mean(axis=0))

    def deviations(self, items: Numbers) -> Floats:
        """Compute standard deviations (items,) by the law of total variance.

        The variance is that over samples, plus the mean variance of the user under a sample, |L^{-1} (q_i, 1)|^2, plus
        the noise.
        """
        chosen = self._take_items(items)
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
        raise ArtifactError(DAMAGED) from None
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
