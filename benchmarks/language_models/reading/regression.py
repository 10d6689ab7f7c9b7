"""What a linear model of log reading times gains by further predictors.

    log t_i = b_0 + sum_j b_j x_ij + e_i,   e_i ~ N(0, s^2),

fitted by least squares; its log-likelihood at the estimates is L = -n/2 (log(2 pi s^2) + 1) with s^2 = RSS / n, so a
model with more predictors gains n/2 log(RSS of the smaller / RSS of the larger), in natural units over all words.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Matrix: TypeAlias = npt.NDArray[np.float64]


def gain(times: Matrix, base: Matrix, further: Matrix, groups: npt.NDArray[Any]) -> dict[str, Any]:
    """Return the gain of ``further`` predictors over a base.

    Parameters
    ----------
    times
        (words,), logarithms.
    base, further
        (words, predictors).
    groups
        (words,): the story of each word.

    Returns
    -------
    ``gain`` of all words, with ``se``, the standard error of the sum of the words' differences; ``left out``, the gain
    where each story is predicted by a model that was fitted to the other stories, and ``better``, in how many stories
    it is above zero; ``words``.
    """
    small, large = _design(base), _design(np.hstack([base, further]))
    whole = np.ones(len(times), bool)
    differences = _log_likelihoods(times, large, whole) - _log_likelihoods(times, small, whole)
    stories = np.unique(groups)
    left_out = []
    for story in stories:
        others = groups != story
        scores = [_log_likelihoods(times, design, others) for design in (large, small)]
        left_out.append(float((scores[0] - scores[1])[~others].sum()))
    return {
        "gain": float(differences.sum()),
        "se": float(differences.std(ddof=1) * np.sqrt(len(times))),
        "left out": float(sum(left_out)),
        "better": sum(each > 0 for each in left_out),
        "words": len(times),
    }


def _design(predictors: Matrix) -> Matrix:
    """Predictors with a constant; standardised, which changes nothing but the rounding."""
    scaled = (predictors - predictors.mean(axis=0)) / predictors.std(axis=0)
    return np.hstack([np.ones((len(scaled), 1)), scaled])


def _log_likelihoods(times: Matrix, design: Matrix, fitted_on: npt.NDArray[np.bool_]) -> Matrix:
    """Of every word, by a model fitted to some of the words."""
    coefficients = np.linalg.lstsq(design[fitted_on], times[fitted_on], rcond=None)[0]
    residuals = times - design @ coefficients
    variance = (residuals[fitted_on] ** 2).mean()
    found: Matrix = -(np.log(2 * np.pi * variance) + residuals**2 / variance) / 2
    return found
