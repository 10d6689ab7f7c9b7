"""Splitting groups of words in two, all groups of a level at once: mixtures of two spherical Gaussians by EM.

    p_j = pi_1 N(x_j; m_1, v_1 I) / sum_c pi_c N(x_j; m_c, v_c I)

(Mnih 2010, section 4.4.) Words can weigh more than others; the sums over a group are compiled loops. Import this
only where it is needed: it imports numba.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tacenda.kernels.machinery.compiled import njit

__all__ = ["add_rows", "log_odds"]

_LEAST = 1e-9  # of a component's weight and, relative to the group's, its variance


@njit(fastmath={"contract", "reassoc"})
def _dot(x, y):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for d in range(len(x)):
        total += x[d] * y[d]
    return total


@njit(fastmath={"contract", "reassoc"})
def _add(sums, scale, x):  # type: ignore[no-untyped-def]
    for d in range(len(x)):
        sums[d] += scale * x[d]


@njit
def _log_odds(x, weights, members, borders, p, steps, found):  # type: ignore[no-untyped-def]
    """Set the log-odds of the first component for all members; ``p`` holds the responsibilities to begin with."""
    width = x.shape[1]
    means = np.empty((2, width), np.float32)
    center = np.empty(width, np.float32)
    mass, spread, square = np.empty(2), np.empty(2), np.empty(2)
    for g in range(len(borders) - 1):
        first, last = borders[g], borders[g + 1]
        # the scatter about the group's centre, by which no variance is lost where groups are small and far out
        center[:] = 0
        for j in range(first, last):
            _add(center, np.float32(1.0 / (last - first)), x[members[j]])
        shift = np.float64(_dot(center, center))
        scatter = 0.0
        for j in range(first, last):
            row = x[members[j]]
            scatter += max(_dot(row, row) - 2 * _dot(row, center) + shift, 0.0)
        floor = max(_LEAST, 1e-6 * scatter / (last - first) / width)
        for _ in range(steps):
            means[:] = 0
            mass[:] = 0
            square[:] = 0
            # M step: mass, mean and variance of both components, from the responsibilities
            for j in range(first, last):
                row, w = x[members[j]], np.float64(weights[members[j]])
                length = _dot(row, row)
                for c in range(2):
                    share = w * (p[j] if c == 0 else 1.0 - p[j])
                    mass[c] += share
                    square[c] += share * length
                    _add(means[c], np.float32(share), row)
            for c in range(2):
                total = max(mass[c], _LEAST)
                for d in range(width):
                    means[c, d] = means[c, d] / total
                of_mean = np.float64(_dot(means[c], means[c]))
                spread[c] = max((square[c] / total - of_mean) / width, floor)
            # E step: the log-odds of every member from its distances to both means
            base = math.log(max(mass[0], _LEAST)) - math.log(max(mass[1], _LEAST))
            base -= 0.5 * width * (math.log(spread[0]) - math.log(spread[1]))
            n0, n1 = np.float64(_dot(means[0], means[0])), np.float64(_dot(means[1], means[1]))
            for j in range(first, last):
                row = x[members[j]]
                length = np.float64(_dot(row, row))
                d0 = length - 2 * np.float64(_dot(row, means[0])) + n0
                d1 = length - 2 * np.float64(_dot(row, means[1])) + n1
                odds = base - 0.5 * (d0 / spread[0] - d1 / spread[1])
                found[j] = odds
                p[j] = 1.0 / (1.0 + math.exp(-min(max(odds, -500.0), 500.0)))


def log_odds(
    vectors: npt.NDArray[np.float32],
    weights: npt.NDArray[np.float32],
    members: npt.NDArray[np.int32],
    borders: npt.NDArray[np.int64],
    responsibilities: npt.NDArray[np.float64],
    steps: int,
) -> npt.NDArray[np.float64]:
    """Return log p / (1 - p) of every member of every group after some steps of EM, float64 (members,).

    ``members`` are words, group after group; ``borders`` (groups + 1,) say where each group begins. ``weights``
    (words,), positive, say how much each word counts; ``responsibilities`` (members,) are p to begin with.
    """
    found = np.zeros(len(members))
    _log_odds(vectors, weights, members, borders, responsibilities.copy(), steps, found)
    return found


@njit
def add_rows(sums, words, rows):  # type: ignore[no-untyped-def]
    """Add every row to the sum of its word, in float64."""
    for t in range(len(words)):
        into, row = sums[words[t]], rows[t]
        for d in range(len(row)):
            into[d] += row[d]
