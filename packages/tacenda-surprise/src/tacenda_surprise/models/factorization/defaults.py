"""The numbers of a fit: those of the settings, and where a setting is None what suits the ratings.

What suits a hundred thousand ratings does not suit a hundred million. With s the standard deviation of the
ratings and

    t = (sum_u n_u^{1/2} + sum_i n_i^{1/2}) / N

over users with n_u and items with n_i of the N ratings, the penalty of a rating is lambda = 0.16 s t^{1/2}. A penalty
for each rating cuts off singular values of the table of ratings. Those of mere noise, s (n_u^{1/2} + n_i^{1/2}) for a
block of rows and columns that long, shrink against the rest as rows and columns fill, and s t is their average. The
factors of a user or an item with n ratings are penalized by lambda (n + kappa) in all, as a few ratings say little of
a hundred numbers. Their biases are penalized by sigma^2 / tau^2, whatever the number of ratings, with the variances
that `BiasModel` estimates: where the biases of items differ little, those of rarely rated items stay near zero.

Users differ in how steadily they rate. With v_u the mean square of a user's errors in the epoch before, as if 20
ratings of average noise were among them, the user's ratings weigh v_u^{-3/4} against those of others, and so do the
penalties of the user: it is the items, which users share, that hear less of an unsteady user. (Noise alone would have
v_u^{-1}; but part of v_u is what factors will explain.)

The numbers make a fit independent of the unit of the ratings: multiply the ratings by k, and x and q become k^{1/2}
times as long, the rates of factors 1/k times as large and their penalties k times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.errors import ArtifactError
from tacenda.kernels.ratings.sgd import Penalties, Rates
from tacenda.ratings import Ratings
from tacenda_surprise.models.base import Floats
from tacenda_surprise.models.bias import alternated
from tacenda_surprise.models.catalogue import deviation, sparsity
from tacenda_surprise.models.factorization.settings import BayesianSettings, FactorizationSettings

Doubles = npt.NDArray[np.float64]

# for ratings of unit deviation
_PENALTY, _RATE = 0.16, 0.14
_KAPPA = 10.0
START = 0.1  # length of a row of factors
LEAST_PENALTY = 1e-6
_ALS_BIAS_PENALTY = 0.08
_MOST = 16.0  # a larger penalty would make the steps of a bias unstable
_BIAS_SWEEPS = 6  # with which the variances of the biases are known well enough
_SIDE_PENALTY, _SIDE_RATE = 1.0, 1.4
_WIDTH, _WIDTHS = 5.0, (8, 32)
_SAMPLES, _SWEPT = (160, 600), 3e7  # ratings visited, all samples together
_NUMBERS = 5e7  # in all samples, at most
_EPOCHS = {"sgd": 20, "als": 15}
_SLOWEST = 0.03  # to which part of them learning rates fall
_USUAL_RATINGS = 20.0  # of average noise, among those of every user
_HEAVIEST = 3.0  # a rating, against the average


class Weight(NamedTuple):
    """A penalty on the row of a user or item with n ratings: each * n + once in all."""

    each: float
    once: float = 0.0

    def a_rating(self, counts: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """What counts for each of the ratings of rows with ``counts`` (rows,) of them."""
        return np.asarray(self.each + self.once / np.maximum(counts, 1), np.float32)

    def total(self, n: int) -> float:
        """What counts for a row with ``n`` ratings."""
        return self.each * n + self.once


class Used(NamedTuple):
    """The numbers of a fit, those that follow from the ratings included."""

    epochs: int
    decay: float
    rates: Rates
    user_factors: Weight
    item_factors: Weight
    user_biases: Weight
    item_biases: Weight
    side: float

    @classmethod
    def of(cls, settings: FactorizationSettings, ratings: Ratings) -> Used:
        """Take the settings, and what suits ``ratings`` where they are None."""
        unit, more, als = deviation(ratings), settings.advanced, settings.solver == "als"
        epochs = _first(settings.epochs, _EPOCHS[settings.solver])
        rate = _first(settings.learning_rate, _RATE / unit)
        bias_rate = more.bias_learning_rate if settings.biased else 0.0
        sparse = sparsity(ratings)
        suitable = Weight(_PENALTY * unit * sparse**0.5)
        if not als:
            suitable = suitable._replace(once=_KAPPA * suitable.each)
        biases = Weight(_ALS_BIAS_PENALTY), Weight(_ALS_BIAS_PENALTY)
        if (
            settings.biased
            and not als
            and None
            in (
                _first(more.user_bias_penalty, more.bias_penalty),
                _first(more.item_bias_penalty, more.bias_penalty),
            )
        ):
            biases = tuple(Weight(0.0, once) for once in bias_penalties(ratings))  # type: ignore[assignment]
        side_rate = getattr(settings, "side_learning_rate", None)
        return cls(
            epochs=epochs,
            decay=_first(more.rate_decay, _SLOWEST ** (1 / max(epochs, 1))),
            rates=Rates(
                _first(more.user_learning_rate, rate),
                _first(more.item_learning_rate, rate),
                _first(more.user_bias_learning_rate, bias_rate) if settings.biased else 0.0,
                _first(more.item_bias_learning_rate, bias_rate) if settings.biased else 0.0,
                _first(side_rate, _SIDE_RATE / unit),
            ),
            user_factors=_weight(suitable, more.user_penalty, settings.penalty),
            item_factors=_weight(suitable, more.item_penalty, settings.penalty),
            user_biases=_weight(biases[0], more.user_bias_penalty, more.bias_penalty),
            item_biases=_weight(biases[1], more.item_bias_penalty, more.bias_penalty),
            side=_first(getattr(settings, "side_penalty", None), _SIDE_PENALTY * unit * sparse),
        )

    def penalties(self, ratings: Ratings, weights: Floats) -> Penalties:
        """The penalties of every user and item of ``ratings``; ``weights`` (users,) are those of their ratings."""
        users, items = np.diff(ratings.user_offsets), ratings.item_counts
        return Penalties(
            weights * self.user_factors.a_rating(users),
            self.item_factors.a_rating(items),
            weights * self.user_biases.a_rating(users),
            self.item_biases.a_rating(items),
            self.side,
        )

    def to_dict(self) -> dict[str, Any]:
        """Numbers, and lists of them, as JSON values."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in self._asdict().items()
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Used:
        """Read the numbers of an artefact. Raises ArtifactError."""
        sizes = {"rates": len(Rates._fields), "epochs": 0, "decay": 0, "side": 0}
        for name in cls._fields:
            found = values.get(name)
            numbers = found if isinstance(found, list) else [found]
            right = all(isinstance(n, int | float) and 0 <= n < math.inf for n in numbers)
            if not right or (len(found) if isinstance(found, list) else 0) != sizes.get(name, 2):
                raise ArtifactError(f"its {name} is {found!r}, which is no rate: it is damaged")
        weights = {name: Weight(*values[name]) for name in cls._fields[3:-1]}
        return cls(
            epochs=int(values["epochs"]),
            decay=float(values["decay"]),
            rates=Rates(*values["rates"]),
            side=values["side"],
            **weights,
        )


def _first(*values: float | None) -> Any:
    """The first of them that is not None, or None."""
    return next((value for value in values if value is not None), None)


def _weight(suitable: Weight, *given: float | None) -> Weight:
    found = _first(*given)
    return suitable if found is None else Weight(found)


def bias_penalties(ratings: Ratings) -> tuple[float, float]:
    """sigma^2 / tau^2 of users and of items, see `tacenda_surprise.models.bias`."""
    users, items = alternated(ratings, ratings.mean, sweeps=_BIAS_SWEEPS).penalties
    return min(users, _MOST), min(items, _MOST)


def user_weights(squares: Doubles, counts: npt.NDArray[Any], power: float) -> Floats:
    """What a rating of each user counts (users,); 1 on average over the ratings.

    ``squares`` (users,) are the squared errors of their ratings, of which there are ``counts``.
    """
    usual = squares.sum() / max(counts.sum(), 1)
    noisier, ordinary = squares + _USUAL_RATINGS * usual, (counts + _USUAL_RATINGS) * usual
    if not 0 < usual < math.inf:  # without errors, or diverged
        return np.ones(len(counts), np.float32)
    weights = ((ordinary / noisier) ** power).clip(1 / _HEAVIEST, _HEAVIEST)
    return np.asarray(weights * (counts.sum() / (weights @ counts)), np.float32)


def bayesian_width(settings: BayesianSettings, ratings: Ratings) -> int:
    """The width of the factors of a chain: the more is known of every user and item, the wider."""
    if settings.n_factors is not None:
        return settings.n_factors
    if not len(ratings):
        return _WIDTHS[0]
    return int(np.clip(round(_WIDTH / sparsity(ratings)), *_WIDTHS))


def sweeps(settings: BayesianSettings, ratings: Ratings, width: int) -> tuple[int, int]:
    """How many sweeps before the first sample, and how many samples."""
    n = settings.n_samples
    if n is None:
        rows = max(ratings.n_users + ratings.n_items, 1) * (width + 1)
        wanted = min(_SWEPT / max(len(ratings), 1), _NUMBERS / rows)
        n = int(np.clip(wanted, *_SAMPLES))
    return n // 4 if settings.burn_in is None else settings.burn_in, n
