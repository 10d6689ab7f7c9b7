"""The variance of a rating about its prediction, for every pair, fitted to the errors of held-out ratings.

    Var(r_ui) = (sigma^2 g_u + a_U / (1 + n_u / k_U) + a_I / (1 + n_i / k_I)) exp(d t_ui + f t_ui^2)

The first term is the noise of the ratings; g_u says how much noisier than others user u is: the mean square of the
user's residuals over that of all, after adding nu ratings of average noise. The other two terms are the uncertainty of
users and items with n_u and n_i ratings. t_ui is the standardized prediction: ratings predicted close to the end of a
scale have little room on that side. The parameters maximize the Gaussian likelihood of the errors, with
a prior that a hundred errors outweigh; then one factor brings the share of errors within one and two deviations to
68% and 95%. On a continuous scale a rating has the density of a normal distribution with this variance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from tacenda.arrays import (
    LARGEST,
    Array,
    Arrays,
    Constraint,
    Float32,
    Float64,
    at_least,
    named,
    positive,
    up_to,
)
from tacenda.kernels.ratings import Tables, rating_scores
from tacenda.ratings import Ratings
from tacenda_surprise.catalogue import Doubles, Floats, Numbers
from tacenda_surprise.identities import places_of_users, users_at
from tacenda_surprise.rows import Touched

Reals = npt.NDArray[np.floating[Any]]

_MAX_STANDARDIZED = 2.5  # predictions: the curve is flat beyond it
# Logarithms of sigma^2, a_U, k_U, a_I, k_I and nu, of unit errors; slope and bend of the curve.
_PRIOR_MEANS = np.array([*np.log([0.8, 0.2, 5.0, 0.2, 5.0, 20.0]), 0.0, 0.0])
_PRIOR_WIDTHS = np.array([0.7, 0.7, 0.7, 0.7, 0.7, 1.0, 0.3, 0.15])
_MIN_ERRORS = 50  # fewer say too little about the last factor
_MAX_COMPARED_ERRORS = 20_000  # of all ratings, with which the errors of new ratings are compared


class Sizes(NamedTuple):
    """Numbers of ratings of the rows of one side, and sums of squared residuals of these ratings (rows,)."""

    counts: Doubles
    squares: Doubles

    @classmethod
    def of(cls, ids: Numbers, residuals: Reals, n: int) -> Sizes:
        """Sum over the ratings of ``n`` users (or items), whose ``ids`` and ``residuals`` (ratings,) are given."""
        squares = residuals.astype(np.float64) ** 2
        counts = np.bincount(ids, minlength=n).astype(np.float64)
        return cls(counts, np.asarray(np.bincount(ids, squares, n), np.float64))

    @property
    def mean_square(self) -> float:
        """Mean square of the residuals of all ratings; 1 if it is 0."""
        return float(self.squares.sum() / max(self.counts.sum(), 1.0)) or 1.0


class Curve(NamedTuple):
    """exp(slope t + bend t^2) with t = (prediction - center) / width, (4,) numbers."""

    center: float = 0.0
    width: float = 1.0
    slope: float = 0.0
    bend: float = 0.0

    def factors(self, predictions: Reals) -> Doubles:
        """Compute the factors on the variances of ratings with these predictions."""
        t = ((predictions - self.center) / self.width).clip(-_MAX_STANDARDIZED, _MAX_STANDARDIZED)
        return np.asarray(np.exp(self.slope * t + self.bend * t**2), np.float64)


#: Require the numbers of a `Curve`.
is_curve = Constraint(
    lambda array, sizes: None if array[1] > 0 else "holds no curve, whose width is positive"
)


_squares = up_to(LARGEST**2)  # in squared units of the ratings


class PredictiveVariance(Arrays):
    """Variances that users and items add; the last row of either is for the unknown."""

    of_users: Float32[Array, "users+1", positive, _squares, named("users")]
    of_items: Float32[Array, "items+1", at_least(0), _squares, named("items")]
    curve: Float32[Array, "4", is_curve]
    #: sigma^2, a_U and k_U, of a user of whom only n is known
    user: Float32[Array, "3", positive, _squares]

    def of_new_user(self, n: int) -> float:
        """Return the variance that a user with ``n`` ratings and average noise adds."""
        noise, a_u, k_u = self.user.tolist()
        return float(noise + a_u / (1 + n / k_u))

    def deviations(
        self, users: Numbers, items: Numbers, scores: Reals, scale: tuple[float, float]
    ) -> Floats:
        """Compute standard deviations (pairs,) of ratings with these scores, which are clipped to ``scale`` first."""
        variances = self.of_users[users] + self.of_items[items]
        factors = Curve(*self.curve.tolist()).factors(np.clip(scores, *scale))
        return np.asarray(np.sqrt(variances * factors), np.float32)


class Variances(Arrays):
    """Parameters of the variances, which `spread` applies to users and items whatever their numbers."""

    theta: Float64[Array, "8"]  # as `_PRIOR_MEANS`
    unit: Float64[Array, ""]  # squares of errors in it are about one
    curve: Float64[Array, "4", is_curve]

    def spread(self, users: Sizes, items: Sizes) -> PredictiveVariance:
        """Compute the variances of these users and items, and of unknown ones, who have no ratings."""
        users, items = (Sizes(*(np.append(part, 0.0) for part in side)) for side in (users, items))
        of_users, of_items = _compute_terms(self.theta, users, items, users.mean_square)
        unit = float(self.unit) ** 2
        noise, a_u, k_u = np.exp(self.theta[:3])
        parts = of_users * unit, of_items * unit, self.curve, (noise * unit, a_u * unit, k_u)
        return PredictiveVariance(*(np.array(part, np.float32) for part in parts))


def fit_variances(
    errors: Reals,
    predictions: Reals,
    pairs: tuple[Numbers, Numbers],
    sizes: tuple[Sizes, Sizes],
    unit: float,
) -> Variances:
    """Fit the variances to ``errors`` (errors,), at least one, of ratings that were left out of a fit.

    ``pairs`` are the users and items of these ratings, ``sizes`` belong to all users and items in the fit, and ``unit``
    is the standard deviation of the ratings, which counts as one more error.
    """
    unit = float(np.sqrt((np.sum(errors.astype(float) ** 2) + unit**2) / (len(errors) + 1)))
    squares = (errors.astype(np.float64) / unit) ** 2
    flat, mean_square = _make_flat_curve(predictions, unit), sizes[0].mean_square
    of_user, of_item = (
        Sizes(*(part[ids] for part in side)) for side, ids in zip(sizes, pairs, strict=True)
    )

    def compute(theta: Doubles) -> Doubles:
        of_users, of_items = _compute_terms(theta, of_user, of_item, mean_square)
        curve = flat._replace(slope=theta[6], bend=theta[7])
        return (of_users + of_items) * curve.factors(predictions) + 1e-9

    bounds = [(-7, 7)] * 6 + [(-1, 1)] * 2
    theta = _maximize_posterior(squares, compute, _PRIOR_MEANS, _PRIOR_WIDTHS, bounds)
    curve = flat._replace(slope=float(theta[6]), bend=float(theta[7]))
    if len(errors) >= _MIN_ERRORS:
        # One factor on the variances sigma^2, a_U and a_I; k_U, k_I and nu are no variances.
        theta[[0, 1, 3]] += np.log(coverage_factor(np.sqrt(squares / compute(theta))))
    return Variances(theta, np.float64(unit), np.array(curve))


def _maximize_posterior(
    squares: Doubles,
    compute: Callable[[Doubles], Doubles],
    means: Doubles,
    widths: Doubles,
    bounds: list[tuple[int, int]],
) -> Doubles:
    """Find the most probable parameters (n,) of the variances (errors,) that ``compute`` returns for them.

    The prior is normal with ``means`` and deviations ``widths`` (n,), and errors with these ``squares`` are normal.
    """
    found = minimize(
        lambda theta: 0.5 * float(
            np.sum(squares / (variances := compute(theta)) + np.log(variances))
            + np.sum(((theta - means) / widths) ** 2)
        ),
        means, method="L-BFGS-B", jac="3-point", bounds=bounds, tol=1e-10,
    )  # fmt: skip
    return np.asarray(found.x)


def update_spread(
    variances: Variances,
    before: PredictiveVariance,
    ratings: Ratings,
    tables: Tables,
    mean: float,
    touched: Touched,
) -> PredictiveVariance:
    """Return the variances with other rows for the users and items of new ratings; ``tables`` are those after them."""
    x, q, b, c, _ = tables

    def find_errors(places: Numbers) -> tuple[Numbers, Numbers, Floats]:
        users, items = users_at(ratings.user_offsets, places), ratings.item_ids[places]
        scores = rating_scores(users, items, x, q, b, c, mean).clip(*ratings.scale)
        return users, items, ratings.values[places] - scores

    new_users, new_items = np.unique(touched.users), np.unique(touched.items)
    ids, _, errors = find_errors(places_of_users(ratings.user_offsets, new_users))
    users = Sizes.of(ids, errors, ratings.n_users)
    _, ids, errors = find_errors(np.flatnonzero(np.isin(ratings.item_ids, new_items)))
    items = Sizes.of(ids, errors, ratings.n_items)
    step = max(len(ratings) // _MAX_COMPARED_ERRORS, 1)
    ids, _, errors = find_errors(np.arange(0, len(ratings), step))
    mean_square = Sizes.of(ids, errors, ratings.n_users).mean_square
    terms, unit = _compute_terms(variances.theta, users, items, mean_square), variances.unit**2
    of_users = repeat_last(before.of_users, ratings.n_users + 1)
    of_items = repeat_last(before.of_items, ratings.n_items + 1)
    of_users[new_users] = terms[0][new_users] * unit
    of_items[new_items] = terms[1][new_items] * unit
    return replace(before, of_users=of_users, of_items=of_items)


def repeat_last(table: Floats, n: int) -> Floats:
    """Lengthen a table to (n,) by its last row, which is for the unknown."""
    return np.append(table, np.full(n - len(table), table[-1]))


def fit_no_variances(unit: float) -> Variances:
    """Return the variances of a model whose ratings are too few to leave any out."""
    return Variances(_PRIOR_MEANS.copy(), np.float64(unit), np.array(Curve(width=unit)))


def fit_curve(z: Reals, predictions: Reals, unit: float) -> tuple[Curve, float]:
    """Fit how the variance of errors ``z`` (errors,), about one, depends on the predictions; and a factor on it."""
    flat, squares = _make_flat_curve(predictions, unit), z.astype(np.float64) ** 2

    def compute(theta: Doubles) -> Doubles:
        curve = flat._replace(slope=theta[1], bend=theta[2])
        return np.asarray(np.exp(theta[0]) * curve.factors(predictions))

    bounds = [(-3, 3), (-1, 1), (-1, 1)]
    widths = np.array([0.3, 0.3, 0.15])
    theta = _maximize_posterior(squares, compute, np.zeros(3), widths, bounds)
    curve, factor = flat._replace(slope=float(theta[1]), bend=float(theta[2])), np.exp(theta[0])
    if len(z) >= _MIN_ERRORS:
        factor *= coverage_factor(z / np.sqrt(factor * curve.factors(predictions)))
    return curve, float(factor)


def _make_flat_curve(predictions: Reals, unit: float) -> Curve:
    """Make a curve that is one everywhere, in units of the predictions' deviation; of ``unit`` if all are equal."""
    width = float(np.std(predictions))
    return Curve(float(np.mean(predictions)), width if width > 1e-6 * unit else unit)


def coverage_factor(z: Reals) -> float:
    """Return the factor on the variance with which 68% of the standardized errors are within 1 and 95% within 2."""
    one, two = np.quantile(np.abs(z), [0.6827, 0.9545])
    return float(np.clip(one * two / 2.0, 0.25, 4.0))


def _compute_terms(
    theta: Doubles, users: Sizes, items: Sizes, mean_square: float
) -> tuple[Doubles, Doubles]:
    """Compute the terms of the variance, in squared units, of users (with their noise) and of items."""
    noise, a_u, k_u, a_i, k_i, nu = np.exp(theta[:6])
    uneven = (nu + users.squares / mean_square) / (nu + users.counts)
    of_users = noise * uneven + a_u / (1 + users.counts / k_u)
    return of_users, a_i / (1 + items.counts / k_i)
