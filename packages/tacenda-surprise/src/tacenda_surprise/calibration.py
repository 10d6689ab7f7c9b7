"""Standardized scores as ratings: their scale, and the noise that errors of held-out ratings show."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacenda.ratings import Ratings
from tacenda_surprise.catalogue import Doubles, Floats, Numbers
from tacenda_surprise.samples import Samples
from tacenda_surprise.variance import Curve, coverage_factor

_PRIOR_COUNT = 200  # held-out errors that the factor of the residuals counts as


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
