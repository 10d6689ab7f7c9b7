"""Cross-validation of rating models on compact arrays, without Surprise."""

from __future__ import annotations

import time
from copy import deepcopy
from typing import NamedTuple

import numpy as np

from tacenda.progress import track
from tacenda.ratings import Ratings, folds
from tacenda_surprise.models.base import RatingModel


class CrossValidated(NamedTuple):
    """Errors of a model on the test parts, predictions clipped to the scale.

    Attributes
    ----------
    model
        Its registered name.
    rmse
        Mean over the folds of the root mean squared error.
    deviation
        Its standard deviation over them.
    mae
        Mean absolute error.
    seconds
        To fit one fold, median.
    """

    model: str
    rmse: float
    deviation: float
    mae: float
    seconds: float


def cross_validated(
    model: RatingModel, ratings: Ratings, n_folds: int, seed: int
) -> CrossValidated:
    """Fits a copy of ``model`` to each of ``n_folds`` random parts of ``ratings``."""
    errors, absolute, seconds = [], [], []
    parts = folds(ratings, n_folds, seed=seed)
    for train, test in track(parts, f"{model.name}, folds", total=n_folds):
        start = time.perf_counter()
        fitted = deepcopy(model).fit(train)
        seconds.append(time.perf_counter() - start)
        scores = fitted.catalogue.clip(fitted.score_pairs(test.user_ids, test.item_ids))
        wrong = scores.astype(np.float64) - test.values
        errors.append(float(np.sqrt(np.mean(wrong**2))))
        absolute.append(float(np.mean(np.abs(wrong))))
    return CrossValidated(
        model.name,
        float(np.mean(errors)),
        float(np.std(errors)),
        float(np.mean(absolute)),
        float(np.median(seconds)),
    )
