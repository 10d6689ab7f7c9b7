"""Samples of the parameters of a factorization, and what they say of a user who was not there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacenda.kernels.ratings import solves as rating_solves
from tacenda_surprise.models.base import Floats, Numbers


class Samples(NamedTuple):
    """What `Gibbs` takes, each with the samples first, float32; the last column is the bias.

    Attributes
    ----------
    users
        (samples, users, width).
    items
        (samples, items, width).
    links
        (samples, items, width); no items without conditioning.
    mean
        Of the users' factors beside what comes from identities, (samples, width).
    precision
        Likewise (samples, width, width).
    alpha
        Precision of the ratings (samples,).
    """

    users: Floats
    items: Floats
    links: Floats
    mean: Floats
    precision: Floats
    alpha: Floats

    def thinned(self, n: int) -> Samples:
        """``n`` of them, evenly spaced, the last one among them."""
        total = len(self.alpha)
        chosen = total - 1 - (np.arange(min(n, total))[::-1] * total) // min(n, total)
        return Samples(*(part[chosen] for part in self))

    @property
    def noise(self) -> float:
        """Standard deviation of a rating about its score."""
        return float(np.sqrt(np.mean(1.0 / self.alpha.astype(np.float64))))


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
    samples: Samples,
    mean: float,
    items: Numbers,
    values: Floats,
    known: Numbers,
) -> FoldedSamples:
    """The expected factors of a user under every sample.

    Parameters
    ----------
    samples
        Of the fitted model.
    mean
        Taken off every rating.
    items
        (n,) rated.
    values
        (n,) ratings.
    known
        All items known to be rated, sorted; of no consequence without conditioning.
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
