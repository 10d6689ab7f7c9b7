"""Samples of the parameters of a factorization: their average, and what they say of a new user.

The average of the scores over samples is one product of narrow tables,

    (1/S) sum_s X_s Q_s^T  =  [X_1 .. X_S] [Q_1 .. Q_S]^T / S,

which has width S D as it stands, and most of that is noise of the samples that cancels. Its best approximation of
a given rank, found by a randomised range finder with two power iterations (Halko, Martinsson and Tropp 2011,
algorithm 4.4), predicts the same to a hundredth of a star and is scored some ten times as fast.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacenda.kernels.ratings import solves as rating_solves
from tacenda_surprise.models.base import Floats, Numbers

_OVERSAMPLING = 16
_POWER_ITERATIONS = 2


class Samples(NamedTuple):
    """What `Gibbs` takes, samples first, float32; the last column of ``width`` is the bias."""

    users: Floats  # (samples, users, width)
    items: Floats  # (samples, items, width)
    links: Floats  # (samples, items, width); no items without conditioning
    mean: Floats  # (samples, width), of the users' factors beside what comes from identities
    precision: Floats  # (samples, width, width), of the same
    alpha: Floats  # (samples,), precision of the ratings

    def thinned(self, n: int) -> Samples:
        """``n`` of them, evenly spaced, the last one among them."""
        total = len(self.alpha)
        chosen = total - 1 - (np.arange(min(n, total))[::-1] * total) // min(n, total)
        return Samples(*(part[chosen] for part in self))

    @property
    def noise(self) -> float:
        """Standard deviation of a rating about its score."""
        return float(np.sqrt(np.mean(1.0 / self.alpha.astype(np.float64))))


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


class FoldedSamples(NamedTuple):
    """Bias and factors of one user for every sample; see `tacenda_surprise.models.FoldedUser`."""

    user: Floats  # (samples, width)
    items: Floats  # (samples, items, width)
    base: float
    noise: float

    def _draws(self, items: Numbers) -> Floats:
        known = (np.asarray(items) >= 0).astype(np.float32)
        chosen = self.items[:, items] * known[None, :, None]
        scores = np.einsum("sd,sid->si", self.user[:, :-1], chosen[:, :, :-1])
        return np.asarray(scores + chosen[:, :, -1] + self.user[:, -1:] + self.base, np.float32)

    def score(self, items: Numbers | None = None) -> Floats:
        """Expected ratings (items,), not clipped; of all items if None; -1 is an unknown item."""
        wanted = np.arange(self.items.shape[1]) if items is None else np.asarray(items)
        return np.asarray(self._draws(wanted).mean(axis=0))

    def deviations(self, items: Numbers) -> Floats:
        """Spread over the samples and noise together, (items,)."""
        return np.asarray(np.sqrt(self._draws(items).var(axis=0) + self.noise**2), np.float32)


def fold(
    samples: Samples, mean: float, items: Numbers, values: Floats, known: Numbers
) -> FoldedSamples:
    """Solve, in every sample, for the factors of a user with the ratings ``values`` (n,) of ``items`` (n,).

    ``known`` are all items known to be rated, ascending; of no consequence without conditioning.
    """
    expected = samples.mean.copy()
    if samples.links.shape[1]:
        expected += samples.links[:, known].sum(axis=1) / np.sqrt(max(len(known), 1))
    user = np.empty_like(expected)
    offsets, ids = np.array([0, len(items)]), np.arange(len(items))
    for s in range(len(user)):
        table = samples.items[s, items]
        targets = values - np.float32(mean) - table[:, -1]
        table[:, -1] = 1.0
        user[s] = rating_solves.solve(
            offsets, ids, targets, table, expected[s], samples.precision[s],
            float(samples.alpha[s]),
        )[0]  # fmt: skip
    return FoldedSamples(user, samples.items, mean, samples.noise)
