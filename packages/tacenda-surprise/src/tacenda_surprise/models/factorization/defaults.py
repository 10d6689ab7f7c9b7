"""Settings that follow from the ratings: what suits a hundred thousand of them does not suit a hundred million.

With s the standard deviation of the ratings and

    t = (sum_u n_u^{1/2} + sum_i n_i^{1/2}) / N

over users with n_u and items with n_i of the N ratings, lambda = 0.16 s t^{1/2}. A penalty for each rating cuts
off singular values of the table of ratings; those of mere noise, s (n_u^{1/2} + n_i^{1/2}) for a block of rows and
columns that long, shrink against the rest as rows and columns fill, and s t is their average. The exponent is
what did best on parts of MovieLens-1M, from a twentieth to all of it. Everything else makes a fit independent of
the unit of the ratings: multiply them by k, and x and q become k^{1/2} times as long, rates of factors 1/k times
as large and their penalties k times.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tacenda.ratings import Ratings
from tacenda_surprise.models.factorization.config import BayesianConfig, FactorizationConfig

_PENALTY, _RATE, _SIDE_PENALTY, _SIDE_RATE = (
    0.16,
    0.0225,
    0.62,
    0.56,
)  # for ratings of unit deviation
_WIDTH, _WIDTHS = 2.2, (8, 32)
_EPOCHS = {"sgd": 60, "als": 15}
_CONDITIONAL_EPOCHS = 40


def resolved(
    config: FactorizationConfig, ratings: Ratings, *, conditional: bool
) -> FactorizationConfig:
    """``config`` with numbers in the place of None."""
    unit = deviation(ratings)
    epochs = _CONDITIONAL_EPOCHS if conditional else _EPOCHS[config.solver]
    found = {
        "n_epochs": epochs,
        "lr_factors": _RATE / unit,
        "lr_side": _SIDE_RATE / unit,
        "reg_factors": _PENALTY * unit * noisiness(ratings) ** 0.5,
        "reg_side": _SIDE_PENALTY * unit,
    }
    missing = {name: value for name, value in found.items() if getattr(config, name) is None}
    return replace(config, **missing)


def bayesian_width(config: BayesianConfig, ratings: Ratings) -> int:
    """The width of the factors of a chain: the more is known of every user and item, the wider."""
    if config.n_factors is not None:
        return config.n_factors
    return (
        int(np.clip(round(_WIDTH / noisiness(ratings)), *_WIDTHS)) if len(ratings) else _WIDTHS[0]
    )


def deviation(ratings: Ratings) -> float:
    """Standard deviation of the ratings; where they are all alike, of what the scale would permit."""
    found = float(ratings.values.std(dtype=np.float64)) if len(ratings) > 1 else 0.0
    low, high = ratings.scale
    return found if found > 1e-6 else (high - low) / 4 or 1.0


def noisiness(ratings: Ratings) -> float:
    """The t of this module: 2 if every user and item has one rating, towards 0 as they have more."""
    roots = _roots(np.diff(ratings.user_offsets)) + _roots(ratings.item_counts)
    return roots / max(len(ratings), 1)


def _roots(counts: npt.NDArray[np.int64]) -> float:
    return float(np.sqrt(counts).sum())
