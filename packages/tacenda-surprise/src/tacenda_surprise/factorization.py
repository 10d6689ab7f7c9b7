"""Options of `PMF` and `ConditionalPMF`, and what suits the ratings where an option is None.

What suits a hundred thousand ratings does not suit a hundred million. With s the standard deviation of the
ratings and

    t = (sum_u n_u^{1/2} + sum_i n_i^{1/2}) / N

over users with n_u and items with n_i of the N ratings, the penalty of a rating is lambda = 0.16 s t^{1/2}. A penalty
for each rating cuts off singular values of the table of ratings. Those of mere noise, s (n_u^{1/2} + n_i^{1/2}) for a
block of rows and columns that long, shrink against the rest as rows and columns fill, and s t is their average. The
factors of a user or an item with n ratings are penalized by lambda (n + kappa) in all, as a few ratings say little of
a hundred numbers. Their biases are penalized by sigma^2 / tau^2, whatever the number of ratings, with the variances
that `BiasOnly` estimates: where the biases of items differ little, those of rarely rated items stay near zero.

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
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda import devices
from tacenda.errors import ArtifactError, ConfigurationError
from tacenda.kernels.ratings.sgd import Penalties, Rates
from tacenda.ratings import Ratings
from tacenda.settings import option
from tacenda_surprise.algorithm import RatedSettings, SeededSettings
from tacenda_surprise.bias import alternate
from tacenda_surprise.catalogue import deviation, sparsity

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

# for ratings of unit deviation
_PENALTY, _RATE = 0.16, 0.14
_BIAS_RATE = 0.06  # the thesis has 0.001
_KAPPA = 10.0
START = 0.1  # length of a row of factors
LEAST_PENALTY = 1e-6
_ALS_BIAS_PENALTY = 0.08
_MOST = 16.0  # a larger penalty would make the steps of a bias unstable
_BIAS_SWEEPS = 6  # with which the variances of the biases are known well enough
_SIDE_PENALTY, _SIDE_RATE = 1.0, 1.4
_EPOCHS = {"sgd": 20, "als": 15}
_SLOWEST = 0.03  # to which part of them learning rates fall
_USUAL_RATINGS = 20.0  # of average noise, among those of every user
_HEAVIEST = 3.0  # a rating, against the average

_PARTS = {
    "bu": "users' biases",
    "bi": "items' biases",
    "pu": "users' factors",
    "qi": "items' factors",
}


def _rate(part: str) -> Any:
    return option(None, f"learning rate of the {_PARTS[part]}; None: lr_all", at_least=0)


def _penalty(part: str) -> Any:
    doc = f"weight of the squares of the {_PARTS[part]} in the loss, for each rating; None: reg_all"
    return option(None, doc, at_least=0)


@dataclass(frozen=True, kw_only=True)
class FactorizationSettings(SeededSettings):
    """Options that `PMF` and `ConditionalPMF` share, in Surprise's words. Where None is the default, see above."""

    n_factors: int = option(
        100, "D, the width of the factors; the thesis has 10 to 500", at_least=0
    )
    n_epochs: int | None = option(
        None,
        """passes over the ratings; None: 20, or 15 of alternating least squares; the thesis has at most
        250, with early stopping""",
        at_least=0,
    )
    biased: bool = option(
        True,
        """learn biases; False is what Surprise calls PMF, and leaves unknown users and items
        impossible""",
    )
    init_mean: float = option(0.0, "mean of the factors at the start")
    init_std_dev: float | None = option(
        None,
        """standard deviation of the factors at the start; None: 0.1 over the root of their number, for
        ratings of unit deviation""",
        at_least=0,
    )
    lr_all: float | None = option(
        None,
        """learning rate of factors and biases; None: 0.06 of the biases, and 0.14 over the standard
        deviation of the ratings of the factors""",
        at_least=0,
    )
    reg_all: float | None = option(
        None,
        """weight of the squared factors and biases in the loss, for each rating; None: what suits the
        ratings, and each user's and item's number of them""",
        at_least=0,
    )
    lr_bu: float | None = _rate("bu")
    lr_bi: float | None = _rate("bi")
    lr_pu: float | None = _rate("pu")
    lr_qi: float | None = _rate("qi")
    reg_bu: float | None = _penalty("bu")
    reg_bi: float | None = _penalty("bi")
    reg_pu: float | None = _penalty("pu")
    reg_qi: float | None = _penalty("qi")
    lr_decay: float | None = option(
        None,
        """factor on all learning rates after every epoch; None: by which they fall to 3% over all epochs
        (give it where a fit to less than 200,000 ratings is to go on from its checkpoints with more epochs;
        one to more begins afresh); the thesis has 1""",
        at_least=0,
        at_most=1,
    )
    noise_power: float = option(
        0.75,
        """how much less the ratings of unsteady users count: with 1 those of a user whose errors have twice the
        usual variance count half; 0, as in the thesis: all alike""",
        at_least=0,
        at_most=1,
    )
    validation: float = option(
        0.0, "part of the ratings held out to stop early; 0: none", at_least=0, below=1
    )
    patience: int | None = option(
        None,
        """epochs without improvement on the ratings held out before the fit stops; None: a third of all,
        as factors take a while to move; the thesis never stops, and restores the best epoch""",
        at_least=1,
    )
    refit: bool = option(
        True,
        """fit anew to all ratings, for as many epochs as were best on the ratings held out, or for all
        where that makes less than half a percent of difference; the thesis does not""",
    )
    device: str = devices.option(default="cpu")

    @property
    def by_als(self) -> bool:
        """Whether alternating least squares finds the factors."""
        return getattr(self, "solver", "sgd") == "als"

    def check(self) -> None:
        """Refuse what is no device, and ``lr_all`` or ``reg_all`` where the others leave it nothing to say."""
        devices.check(self)
        for what in ("lr", "reg"):
            names = [f"{what}_{part}" for part in _PARTS]
            if getattr(self, f"{what}_all") is not None and None not in self._values(names):
                listed = f"{', '.join(names[:-1])} and {names[-1]}"
                raise ConfigurationError(
                    f"{self.model()}: {what}_all has no effect beside {listed}; leave it out"
                )

    def _values(self, names: list[str]) -> list[Any]:
        return [getattr(self, name) for name in names]

    def idle(self) -> Mapping[str, str]:
        """Options that solver, biases and early stopping leave without effect."""
        found: dict[str, str] = {}
        if not self.validation:
            found |= dict.fromkeys(("patience", "refit"), "without validation")
        if self.by_als:
            rates = [f"lr_{part}" for part in ("all", "decay", *_PARTS)]
            found |= dict.fromkeys([*rates, "noise_power"], "with solver='als'")
        if not self.biased:
            biases = [f"{what}_{part}" for what in ("lr", "reg") for part in ("bu", "bi")]
            found |= dict.fromkeys(biases, "with biased=False")
        return found


@dataclass(frozen=True, kw_only=True)
class PMFSettings(FactorizationSettings):
    """Options of `PMF`."""

    solver: Literal["sgd", "als"] = option(
        "sgd",
        """what finds the factors: stochastic gradient descent, or alternating least squares, whose
        sweeps need no learning rate""",
    )


@dataclass(frozen=True, kw_only=True)
class ConditionalPMFSettings(FactorizationSettings, RatedSettings):
    """Options of `ConditionalPMF`."""

    lr_yj: float | None = option(
        None,
        """learning rate of the conditioning factors W, large, as a step is divided by the number of
        items rated; None: 1.4 over the standard deviation of the ratings; the thesis has 0.005, after
        every 100 ratings""",
        at_least=0,
    )
    reg_yj: float | None = option(
        None,
        """weight of the squared conditioning factors, for each user who has rated the item; None: the
        standard deviation of the ratings, times more where users and items have few ratings (0.23 for
        MovieLens-100K, 0.13 for MovieLens-1M); the thesis has 0.003""",
        at_least=0,
    )


def thesis_options(
    given: Mapping[str, Any], *, conditional: bool, penalties: bool = True
) -> dict[str, Any]:
    """Rates, penalties and early stopping of the thesis (section 5.4.2), but for what is ``given``.

    Two differences remain: a user's block of ratings is not cut at 100, so that the step of W is one
    of ``lr_yj`` on the summed gradient of all their ratings, and training stops after ``patience`` epochs without
    improvement. Without ``penalties`` it is the baseline of the thesis.
    """
    values: dict[str, Any] = {"n_epochs": 250, "lr_decay": 1.0, "noise_power": 0.0}
    values["validation"] = validation = given.get("validation", 0.05)
    if validation:
        values |= {"patience": 20, "refit": False}
    parts = {"pu": (0.01, 0.01), "qi": (0.01, 0.01)}
    if given.get("biased", True):
        parts |= {"bu": (0.001, 0.1), "bi": (0.001, 0.1)}
    if conditional:
        parts["yj"] = 0.005, 0.003
    for part, (rate, penalty) in parts.items():
        if "lr_all" not in given or part == "yj":
            values[f"lr_{part}"] = rate
        if "reg_all" not in given or part == "yj":
            values[f"reg_{part}"] = penalty if penalties else 0.0
    return {**values, **given}


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


class ResolvedOptions(NamedTuple):
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
    def of(cls, settings: FactorizationSettings, ratings: Ratings) -> ResolvedOptions:
        """Take the options, and what suits ``ratings`` where they are None."""
        unit, sparse, given = deviation(ratings), sparsity(ratings), settings
        epochs = _first(given.n_epochs, _EPOCHS["als" if given.by_als else "sgd"])
        rate, bias_rate = (_first(given.lr_all, usual) for usual in (_RATE / unit, _BIAS_RATE))
        suitable = Weight(_PENALTY * unit * sparse**0.5)
        if not given.by_als:
            suitable = suitable._replace(once=_KAPPA * suitable.each)
        of_users = of_items = Weight(_ALS_BIAS_PENALTY)
        penalties = _first(given.reg_bu, given.reg_all), _first(given.reg_bi, given.reg_all)
        if given.biased and not given.by_als and None in penalties:
            of_users, of_items = (Weight(0.0, once) for once in bias_penalties(ratings))
        return cls(
            epochs=epochs,
            decay=_first(given.lr_decay, _SLOWEST ** (1 / max(epochs, 1))),
            rates=Rates(
                _first(given.lr_pu, rate),
                _first(given.lr_qi, rate),
                _first(given.lr_bu, bias_rate) if given.biased else 0.0,
                _first(given.lr_bi, bias_rate) if given.biased else 0.0,
                _first(getattr(given, "lr_yj", None), _SIDE_RATE / unit),
            ),
            user_factors=_weight(suitable, given.reg_pu, given.reg_all),
            item_factors=_weight(suitable, given.reg_qi, given.reg_all),
            user_biases=_weight(of_users, given.reg_bu, given.reg_all),
            item_biases=_weight(of_items, given.reg_bi, given.reg_all),
            side=_first(getattr(given, "reg_yj", None), _SIDE_PENALTY * unit * sparse),
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
    def from_dict(cls, values: Mapping[str, Any]) -> ResolvedOptions:
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
    """sigma^2 / tau^2 of users and of items, see `tacenda_surprise.bias`."""
    users, items = alternate(ratings, ratings.mean, sweeps=_BIAS_SWEEPS).penalties
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
