"""A weighted average of predictions: weights that ratings left out tell, and how far it may be off.

    prediction = center + sum_k w_k (prediction_k - center),    w_k >= 0

The weights have the least squared error, with a ridge that pulls towards the plain average. The standard deviation of a
rating is the average of those of the models with weights of sum one, times one factor, with which the errors of the
ratings left out are as large as it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from tacenda.errors import ArtifactError, DataError
from tacenda_surprise.models.spread import coverage_factor

Floats = npt.NDArray[np.float64]

_LARGEST = 1e12  # of a saved weight or factor, so that ratings remain finite in float32


class Weights(NamedTuple):
    """prediction = center + sum_k weights_k (prediction_k - center)."""

    weights: Floats  # (models,), not negative
    center: float  # mean of the ratings
    factor: float = 1.0  # of the standard deviations

    def combine(self, predictions: Floats) -> Floats:
        """Blend predictions (pairs, models) into (pairs,)."""
        return np.asarray(self.center + (predictions - self.center) @ self.weights)

    def deviations(self, deviations: Floats) -> Floats:
        """Average standard deviations (pairs, models) into (pairs,), by weights of sum one, times the factor."""
        total, n = self.weights.sum(), len(self.weights)
        share = self.weights / total if total > 0 else np.full(n, 1 / n)
        return np.asarray(self.factor * (deviations @ share))

    def config(self) -> dict[str, Any]:
        """The weights as JSON values."""
        return {"weights": self.weights.tolist(), "center": self.center, "factor": self.factor}

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], n_models: int, scale: tuple[float, float]
    ) -> Self:
        """Rebuild what `config` gave, for so many models of ratings on ``scale``. Raises ArtifactError."""
        weights = np.array(config["weights"], np.float64)
        center, factor = float(config["center"]), float(config["factor"])
        sound = weights.shape == (n_models,) and ((weights >= 0) & (weights < _LARGEST)).all()
        if not (sound and scale[0] <= center <= scale[1] and 0 < factor < _LARGEST):
            raise ArtifactError("the blend's weights are invalid: the folder is damaged")
        return cls(weights, center, factor)


def fit_weights(predictions: Floats, truth: Floats, ridge: float = 0.05) -> Weights:
    """Find the non-negative weights with the least squared error of ``predictions`` (ratings, models).

    ``truth`` (ratings,) are the ratings. ``ridge``, a share of the spread of the predictions, pulls towards the
    plain average: models that predict nearly the same have weights that are hardly determined.

    Raises DataError if there is nothing to fit to.
    """
    n, k = predictions.shape
    if not n or not k:
        raise DataError("a blend needs at least one model and one rating held out")
    center = float(truth.mean())
    X, y = predictions - center, truth - center
    size = np.sqrt(ridge * (X**2).mean() * n)
    X = np.concatenate([X, size * np.eye(k)])
    y = np.concatenate([y, np.full(k, size / k)])
    return Weights(nnls(X, y)[0], center)


def usual_errors(predictions: Floats, truth: Floats) -> Floats:
    """Root mean squared errors (models,) of ``predictions`` (ratings, models)."""
    return np.asarray(np.sqrt(np.mean((predictions - truth[:, None]) ** 2, axis=0)))


def deviation_factor(errors: Floats, deviations: Floats) -> float:
    """What ``deviations`` (ratings,) are to be multiplied by, so that they are as large as ``errors`` (ratings,)."""
    return float(np.sqrt(coverage_factor(errors / np.maximum(deviations, 1e-9))))
