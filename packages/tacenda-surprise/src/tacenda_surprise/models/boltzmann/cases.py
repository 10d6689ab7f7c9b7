"""Ratings as a Boltzmann machine sees them: cases, visible units, levels and the levels' scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tacenda.ratings import Ratings
from tacenda_surprise.models.base import Floats
from tacenda_surprise.models.catalogue import Catalogue
from tacenda_surprise.models.identities import Identities

_SPAN = 4.0  # of the scores, whatever the scale: that of five stars


@dataclass(frozen=True)
class Scale:
    """The scores s of the levels, and their way back to ratings.

    Attributes
    ----------
    levels
        (levels,) ratings, ascending.
    scores
        (levels,) float32, about zero at the mean rating.
    mean
        The rating whose score is zero.
    unit
        Rating units in one unit of score.
    """

    levels: Floats
    scores: Floats
    mean: float
    unit: float

    @classmethod
    def of(cls, catalogue: Catalogue, who: str) -> Scale:
        """That of a catalogue. Raises ConfigurationError for a continuous scale."""
        levels = catalogue.require_levels(who)
        unit = float(levels[-1] - levels[0]) / _SPAN or 1.0
        scores = ((levels - np.float32(catalogue.mean)) / np.float32(unit)).astype(np.float32)
        return cls(levels, scores, catalogue.mean, unit)

    def level_of(self, values: Floats) -> npt.NDArray[np.int32]:
        """The nearest level of each rating, as its number."""
        borders = (self.levels[1:] + self.levels[:-1]) / 2
        return np.searchsorted(borders, values).astype(np.int32)

    def ratings(self, scores: Floats) -> Floats:
        """Scores as ratings."""
        return np.asarray(np.float32(self.mean) + np.float32(self.unit) * scores, np.float32)


@dataclass(frozen=True)
class Cases:
    """The training data by case, and what is estimated from it beforehand.

    Attributes
    ----------
    ratings
        Users are the cases, items the visible units, whatever they were before.
    levels
        (ratings,) int32.
    slopes
        o (cases,): a case's mean score beyond those of its visible units, over the variance of the
        scores, as that is how far the slope of a softmax moves its mean; zeros without an offset.
    visible_biases
        (visible, levels): logarithms of smoothed frequencies.
    base
        (levels,): the same of all ratings together.
    identities
        Of the cases; None: no conditioning.
    """

    ratings: Ratings
    levels: npt.NDArray[np.int32]
    slopes: Floats
    visible_biases: Floats
    base: Floats
    identities: Identities | None

    @classmethod
    def of(
        cls,
        ratings: Ratings,
        scale: Scale,
        damping: float,
        *,
        offset: bool,
        identities: Identities | None,
    ) -> Cases:
        """``ratings`` by case already."""
        levels, n_levels = scale.level_of(ratings.values), len(scale.levels)
        scores = scale.scores[levels].astype(np.float64)
        visible, cases = ratings.item_ids, ratings.user_ids
        damped = max(damping, 1e-6)
        of_visible = _damped_means(visible, scores, ratings.n_items, damped)
        residuals = scores - of_visible[visible]
        of_case = _damped_means(cases, residuals, ratings.n_users, damped)
        variance = max(float(np.var(residuals - of_case[cases])), 0.05) if len(levels) else 1.0
        slopes = of_case / variance if offset else np.zeros(ratings.n_users)
        counts = np.zeros((ratings.n_items, n_levels))
        np.add.at(counts, (visible, levels), 1.0)
        share = (counts.sum(axis=0) + 0.1) / (counts.sum() + 0.1 * n_levels)
        smooth = counts + damped * share
        biases = np.log(smooth / smooth.sum(axis=1, keepdims=True))
        return cls(
            ratings,
            levels,
            slopes.astype(np.float32),
            biases.astype(np.float32),
            np.log(share).astype(np.float32),
            identities,
        )


def _damped_means(
    groups: npt.NDArray[np.int32], values: npt.NDArray[np.float64], n: int, damping: float
) -> npt.NDArray[np.float64]:
    totals = np.bincount(groups, values, n)
    return totals / (np.bincount(groups, minlength=n) + damping)
