"""Weights of several models' predictions, fitted on ratings that none of them has seen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from tacenda.errors import DataError

Doubles = npt.NDArray[np.float64]


class Weights(NamedTuple):
    """prediction = center + sum_k weights_k (prediction_k - center).

    Attributes
    ----------
    weights
        (models,), not negative.
    center
        Mean of the ratings.
    """

    weights: Doubles
    center: float

    def combine(self, predictions: Doubles) -> Doubles:
        """Of (pairs, models), (pairs,)."""
        return np.asarray(self.center + (predictions - self.center) @ self.weights)


def fit_weights(predictions: Doubles, truth: Doubles, ridge: float = 0.05) -> Weights:
    """The weights with the least squared error that are not negative.

    Parameters
    ----------
    predictions
        (ratings, models).
    truth
        (ratings,).
    ridge
        Pulls towards the plain average, as a share of the ratings' spread: models that predict nearly
        the same have weights that are hardly determined.

    Raises
    ------
    DataError
        There is nothing to fit to.
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
