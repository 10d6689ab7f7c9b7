"""The levels of ratings: their scores, and distributions over them with the means and variances asked for.

Of all distributions with a mean and a deviation, `fit_level_probabilities` finds the one nearest to the histogram pi
of all ratings, by relative entropy (an exponential family, in which theta and phi are found for every pair),

    P(r = s_k) ~ pi_k exp(theta s_k + phi s_k^2).

A normal distribution cut into levels has another mean near the ends of the scale, and does not know which levels
people use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

from tacenda.ratings import Ratings
from tacenda_surprise.catalogue import Catalogue, Doubles, Floats, Numbers, find_nearest

MIN_VARIANCE = 0.05  # of scores
_BINS = 20  # levels to which continuous ratings, or more than 50 levels, are reduced
_SCORE_SPAN = 4.0  # of the scores, whatever the scale: that of five stars
_END_MARGIN = 0.02  # share of the possible means, or variances, that is too close to the ends
_MEAN_TOLERANCE, _MAX_TILT_STEPS = 1e-10, 100  # of the span; usually ten steps are enough
_SLOPE_STEPS = 4  # the first of them is nearly right
_MAX_SHARPNESS, _BISECTIONS = 2.0, 10
_NEWTON_STEPS = 200  # few are needed except where the histogram has other moments altogether
_MAX_NEWTON_STEP = 500.0  # of theta or phi
_PAIRS_PER_BLOCK = 1 << 14
_NUMBERS_PER_BLOCK = 1 << 22  # in memory at a time; a rating has one for each level


@dataclass(frozen=True)
class Scale:
    """The scores s of the levels, and their way back to ratings."""

    levels: Floats  # (levels,) ratings, ascending
    scores: Floats  # (levels,), about zero at the mean rating
    mean: float  # the rating whose score is zero
    unit: float  # rating units in one unit of score

    @classmethod
    def of(cls, catalogue: Catalogue, ratings: Ratings) -> Scale:
        """Make the scale of a catalogue; a continuous one is cut into `_BINS` levels with equally many ratings."""
        levels = catalogue.levels
        if not len(levels):
            parts = np.array_split(np.sort(ratings.values.astype(np.float64)), _BINS)
            means = [part.mean() for part in parts if len(part)]
            levels = np.unique(np.array(means, np.float32))
        return cls.about(levels, catalogue)

    @classmethod
    def about(cls, levels: Floats, catalogue: Catalogue) -> Scale:
        """Make the scale with these levels (levels,)."""
        unit = float(levels[-1] - levels[0]) / _SCORE_SPAN or 1.0
        scores = ((levels - np.float32(catalogue.mean)) / np.float32(unit)).astype(np.float32)
        return cls(levels, scores, catalogue.mean, unit)

    def level_of(self, values: Floats) -> npt.NDArray[np.int32]:
        """Find the number of the level nearest to each rating (ratings,)."""
        return find_nearest(self.levels, values).astype(np.int32)

    def ratings(self, scores: Floats) -> Floats:
        """Turn scores into ratings."""
        return np.asarray(np.float32(self.mean) + np.float32(self.unit) * scores, np.float32)


def tilt(logits: Doubles, s: Doubles, means: Doubles) -> Doubles:
    """Add a slope times the scores ``s`` to each row of ``logits`` (rows, levels), to give it the mean asked for.

    ``means`` (rows,) are first kept away from the ends of the scores, by 2% of their span. Every row then has its mean
    but for 1e-10 of the span. Uses Newton's method, with bisection where a step would leave the bracket of a slope.
    """
    span = s[-1] - s[0]
    wanted = np.clip(means, s[0] + _END_MARGIN * span, s[-1] - _END_MARGIN * span)
    # At this slope the levels farther than half a margin from the end move the mean by less than the other half.
    half_margin = _END_MARGIN / 2 * (span or 1.0)
    high = (np.ptp(logits, axis=1) + np.log(2 * len(s) / _END_MARGIN)) / half_margin
    low, slopes, found = -high, np.zeros(len(logits)), logits
    for _ in range(_MAX_TILT_STEPS):
        mean, variance = _compute_moments(found, s)
        missing = wanted - mean
        is_open = np.abs(missing) > _MEAN_TOLERANCE * span
        if not is_open.any():
            break
        low, high = np.where(missing > 0, slopes, low), np.where(missing < 0, slopes, high)
        # The derivative of a mean by its slope is the variance of the scores.
        step = slopes + missing / np.maximum(variance, 1e-12)
        step = np.where((low < step) & (step < high), step, (low + high) / 2)
        slopes = np.where(is_open, step, slopes)
        found = logits + slopes[:, None] * s
    return found


def narrow(logits: Doubles, s: Doubles, means: Doubles, sharpness: float) -> Doubles:
    """Return log probabilities (rows, levels) of ``logits`` less ``sharpness`` s^2, tilted to these means (rows,)."""
    return np.asarray(log_softmax(tilt(logits - sharpness * s**2, s, means), axis=1))


def find_sharpness(logits: Doubles, s: Doubles, means: Doubles, variance: float) -> float:
    """Find the k with which the rows of ``logits`` (rows, levels) less k s^2 have this ``variance`` on average.

    The rows are tilted to their ``means``, see `tilt`. k is at least 0, because frequencies of many cases together are
    no narrower than those of one, and at most 2. Uses bisection.
    """
    low, high = 0.0, _MAX_SHARPNESS
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        variances = _compute_moments(tilt(logits - middle * s**2, s, means), s)[1]
        found = np.maximum(variances, MIN_VARIANCE).mean()
        low, high = (middle, high) if found > variance else (low, middle)
    return low


def raise_means(
    logits: Doubles, s: Doubles, offsets: Numbers, ids: Numbers, by: Doubles
) -> Doubles:
    """Find the slopes (cases,) that raise the mean score of every case by ``by`` (cases,).

    The ratings of case c are those of the visible units ``ids[offsets[c]:offsets[c + 1]]``, which have the ``logits``
    (visible, levels) without a slope. Takes four steps of Newton's method of at most 1: slopes are at most 4, and a
    case whose mean would be near an end of the scores is raised by less than ``by``.
    """
    sizes = np.diff(offsets)
    usual = _compute_moments(logits, s)[0]
    found = np.zeros(len(sizes))
    block = max(_NUMBERS_PER_BLOCK // len(s), 1)
    for _ in range(_SLOPE_STEPS):
        means, variances = np.zeros(len(sizes)), np.zeros(len(sizes))
        for start in range(0, len(ids), block):
            part = ids[start : start + block]
            places = np.arange(start, start + len(part))
            cases = np.searchsorted(offsets, places, side="right") - 1
            mean, variance = _compute_moments(logits[part] + found[cases, None] * s, s)
            means += np.bincount(cases, mean - usual[part], len(sizes))
            variances += np.bincount(cases, np.maximum(variance, MIN_VARIANCE), len(sizes))
        missing = sizes * by - means
        found += np.clip(missing / np.maximum(variances, MIN_VARIANCE), -1.0, 1.0)
    return found


def fit_level_probabilities(
    means: Floats, deviations: Floats, levels: Floats, counts: Floats
) -> Floats:
    """Compute probabilities (pairs, levels) with these ``means`` and ``deviations``, as far as the levels allow.

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
    for start in range(0, len(means), _PAIRS_PER_BLOCK):
        part = slice(start, start + _PAIRS_PER_BLOCK)
        mean = ((means[part] - levels[0]) / width).astype(np.float64)
        variance = (deviations[part] / width).astype(np.float64) ** 2
        found[part] = _fit_exponential_family(usual, s, mean, variance)
    return found


def _fit_exponential_family(
    usual: Doubles, s: Doubles, means: Doubles, variances: Doubles
) -> Doubles:
    """Compute distributions (rows, levels) of levels from 0 to 1, by Newton's method on the dual, which is concave."""
    means = means.clip(_END_MARGIN * s[1], 1 - _END_MARGIN * (1 - s[-2]))
    # The variance is least if only the two levels around the mean are used, and largest if only the two ends are.
    below = (np.searchsorted(s, means, side="right") - 1).clip(0, len(s) - 2)
    least = (means - s[below]) * (s[below + 1] - means)
    most = means * (1 - means)
    slack = _END_MARGIN * (most - least)
    squares = variances.clip(least + slack, most - slack) + means**2
    if len(s) == 2:  # the mean determines both probabilities
        return np.stack([1 - means, means], axis=1)
    powers = np.stack([s, s**2])
    wanted = np.stack([means, squares])
    # The dual is theta . wanted - log sum_k pi_k exp(theta . powers_k): its gradient is what is missing of the moments,
    # its Hessian minus their covariance (a, b; b, c), of the first four moments of each row.
    theta, lengths = np.zeros_like(wanted), np.ones(len(means))

    def at(theta: Doubles) -> tuple[Doubles, Doubles]:
        """Compute the distributions (rows, levels) of theta (2, rows), and the values of the dual (rows,)."""
        logits = usual + theta.T @ powers
        highest = logits.max(axis=1)
        chances = np.exp(logits - highest[:, None])
        totals = chances.sum(axis=1)
        value = (theta * wanted).sum(axis=0) - np.log(totals) - highest
        return chances / totals[:, None], value

    chances, value = at(theta)
    for _ in range(_NEWTON_STEPS):
        m1, m2, m3, m4 = (chances @ s**power for power in (1, 2, 3, 4))
        a, b, c = m2 - m1**2 + 1e-9, m3 - m1 * m2, m4 - m2**2 + 1e-9
        missing, determinant = wanted - np.stack([m1, m2]), a * c - b**2
        step = np.stack([c * missing[0] - b * missing[1], a * missing[1] - b * missing[0]])
        step /= determinant
        step *= lengths * np.minimum(
            1.0, _MAX_NEWTON_STEP / np.maximum(np.abs(step).max(axis=0), 1e-9)
        )
        tried, reached = at(theta + step)
        # A step that lowers the dual is not taken, and a quarter of it is tried next.
        better = reached >= value - 1e-12
        theta = np.where(better, theta + step, theta)
        chances, value = np.where(better[:, None], tried, chances), np.where(better, reached, value)
        lengths = np.where(better, np.minimum(1.0, 2 * lengths), lengths / 4)
        if np.abs(missing).max(initial=0.0) < 1e-9:
            break
    return np.asarray(chances)


def _compute_moments(logits: Doubles, s: Doubles) -> tuple[Doubles, Doubles]:
    """Compute mean and variance (rows,) of the scores under ``logits`` (rows, levels)."""
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    means = chances @ s
    return means, chances @ s**2 - means**2
