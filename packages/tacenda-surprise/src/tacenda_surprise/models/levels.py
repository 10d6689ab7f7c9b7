"""Probabilities of the levels of a rating whose mean and deviation are predicted.

Of all distributions with that mean and that variance it is the one nearest to the histogram pi of all ratings, by
relative entropy (an exponential family, in which theta and phi are found for every pair):

    P(r = s_k) ~ pi_k exp(theta s_k + phi s_k^2)

A normal distribution cut into levels has another mean near the ends of the scale, and does not know which levels
people use. On a continuous scale a rating has the density of a normal distribution.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

_STEPS = 40  # of Newton's method; few are needed but near the ends of the scale
_MARGIN = 0.02  # of the variances possible with a mean, which are kept away from
_FARTHEST = 50.0  # step of theta or phi
_ROWS = 1 << 14  # pairs at a time


def nearest(means: Floats, deviations: Floats, levels: Floats, counts: Floats) -> Floats:
    """Probabilities (pairs, levels) with these ``means`` and ``deviations``, as far as the levels allow them.

    Parameters
    ----------
    means, deviations
        (pairs,), in units of the ratings.
    levels
        (levels,), ascending.
    counts
        (levels,), how many ratings are there of each; each counts as one more.
    """
    if len(levels) == 1:
        return np.ones((len(means), 1), np.float32)
    width = float(levels[-1] - levels[0])
    s = ((levels - levels[0]) / width).astype(np.float64)
    usual = np.log((counts + 1.0) / (counts.sum(dtype=np.float64) + len(counts)))
    found = np.empty((len(means), len(s)), np.float32)
    for start in range(0, len(means), _ROWS):
        part = slice(start, start + _ROWS)
        mean = ((means[part] - levels[0]) / width).astype(np.float64)
        variance = (deviations[part] / width).astype(np.float64) ** 2
        found[part] = _tilted(usual, s, mean, variance)
    return found


def density(ratings: npt.ArrayLike, means: Doubles, deviations: Doubles) -> Doubles:
    """The density (pairs,) of ``ratings`` that are normal with these ``means`` and ``deviations``, all (pairs,)."""
    return np.asarray(norm.pdf(ratings, means, deviations), np.float64)


def _tilted(usual: Doubles, s: Doubles, means: Doubles, variances: Doubles) -> Doubles:
    """The distributions (rows, levels) of levels from 0 to 1, by Newton's method on the dual, which is concave."""
    means = means.clip(_MARGIN * s[1], 1 - _MARGIN * (1 - s[-2]))
    below = (np.searchsorted(s, means, side="right") - 1).clip(0, len(s) - 2)
    least = (means - s[below]) * (s[below + 1] - means)
    most = means * (1 - means)
    slack = _MARGIN * (most - least)
    squares = variances.clip(least + slack, most - slack) + means**2
    if len(s) == 2:  # the mean says all
        return np.stack([1 - means, means], axis=1)
    powers = np.stack([s, s**2])
    wanted = np.stack([means, squares])
    theta, lengths = np.zeros_like(wanted), np.ones(len(means))

    def at(theta: Doubles) -> tuple[Doubles, Doubles]:
        """The distributions (rows, levels) of theta (2, rows), and the values of the dual (rows,)."""
        logits = usual + theta.T @ powers
        highest = logits.max(axis=1)
        chances = np.exp(logits - highest[:, None])
        totals = chances.sum(axis=1)
        value = (theta * wanted).sum(axis=0) - np.log(totals) - highest
        return chances / totals[:, None], value

    chances, value = at(theta)
    for _ in range(_STEPS):
        m1, m2, m3, m4 = (chances @ s**power for power in (1, 2, 3, 4))
        a, b, c = m2 - m1**2 + 1e-9, m3 - m1 * m2, m4 - m2**2 + 1e-9
        missing, determinant = wanted - np.stack([m1, m2]), a * c - b**2
        step = np.stack([c * missing[0] - b * missing[1], a * missing[1] - b * missing[0]])
        step /= determinant
        step *= lengths * np.minimum(1.0, _FARTHEST / np.maximum(np.abs(step).max(axis=0), 1e-9))
        tried, reached = at(theta + step)
        better = reached >= value - 1e-12
        theta = np.where(better, theta + step, theta)
        chances, value = np.where(better[:, None], tried, chances), np.where(better, reached, value)
        lengths = np.where(better, np.minimum(1.0, 2 * lengths), lengths / 4)
        if np.abs(missing).max(initial=0.0) < 1e-9:
            break
    return np.asarray(chances)
