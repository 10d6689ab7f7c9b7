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

The numbers make a fit independent of the unit of the ratings: multiply the ratings by k, and x and q become k^{1/2}
times as long, the rates of factors 1/k times as large and their penalties k times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, cast

from tacenda.kernels.ratings import Rates
from tacenda.ratings import Ratings
from tacenda.settings import option
from tacenda_surprise.bias import alternate
from tacenda_surprise.catalogue import Doubles
from tacenda_surprise.options import RatedSettings, SeededSettings, StoppedSettings

# For ratings with a standard deviation of one.
_PENALTY, _RATE = 0.16, 0.14
_BIAS_RATE = 0.06  # the thesis has 0.001
_EXTRA_RATINGS = 10.0  # kappa
_ALS_BIAS_PENALTY = 0.08
_MAX_BIAS_PENALTY = 16.0  # a larger one would make the steps of a bias unstable
_BIAS_SWEEPS = 6  # enough to estimate the variances of the biases
_SIDE_PENALTY, _SIDE_RATE = 1.0, 1.4
_EPOCHS = {"sgd": 20, "als": 15}
_LAST_RATE_SHARE = 0.03  # of the learning rates, after all epochs

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
class FactorizationSettings(SeededSettings, StoppedSettings):
    """Options that `PMF` and `ConditionalPMF` share, in Surprise's words. Where None is the default, see above."""

    n_factors: int = option(
        100, "number of factors, D in the thesis, which has 10 to 500", at_least=0
    )
    n_epochs: int | None = option(
        None,
        """passes over the ratings; None: 20, or 15 with alternating least squares; in the thesis at most 250, with
        early stopping""",
        at_least=0,
    )
    biased: bool = option(
        True,
        """whether to learn biases; False is what Surprise calls PMF, which cannot predict unknown users and items""",
    )
    lr_all: float | None = option(
        None,
        """learning rate of factors and biases; None: 0.06 for the biases, and 0.14 divided by the standard
        deviation of the ratings for the factors""",
        at_least=0,
    )
    reg_all: float | None = option(
        None,
        """weight of the squared factors and biases in the loss, for each rating; None: chosen by the ratings, and
        by how many each user and item has""",
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
        """factor on all learning rates after every epoch; None: they fall to 3% over all epochs (set it if you
        will resume a fit to fewer than 200,000 ratings from its checkpoints with more epochs; a fit to more
        ratings starts again); 1 in the thesis""",
        at_least=0,
        at_most=1,
    )
    noise_power: float = option(
        0.75,
        """how much to reduce the weight of ratings by inconsistent users: with 1, the ratings of a user whose errors
        have twice the usual variance count half; with 0, as in the thesis, all count the same""",
        at_least=0,
        at_most=1,
    )
    patience: int | None = option(
        None,
        """epochs without improvement on the held-out ratings before the fit stops; None: a third of all epochs,
        because factors move late; the thesis never stops, and restores the best epoch""",
        at_least=1,
    )
    retired: ClassVar[Mapping[str, Any]] = MappingProxyType({"init_mean": ..., "init_std_dev": ...})
    # Options that one of the models alone declares, and so not annotated here.
    solver = "sgd"
    lr_yj = reg_yj = cast("float | None", None)

    def idle(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for what in ("lr", "reg"):
            names = [f"{what}_{part}" for part in _PARTS if self.biased or part in ("pu", "qi")]
            if all(getattr(self, name) is not None for name in names):
                found[f"{what}_all"] = f"next to {', '.join(names[:-1])} and {names[-1]}"
        if not self.validation:
            found |= dict.fromkeys(("patience", "refit"), "without validation")
        if self.solver == "als":
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
        """how to fit the factors: by stochastic gradient descent, or by alternating least squares, which needs no
        learning rate, and takes penalties of at least 0.0003 (times the standard deviation of the ratings for factors)
        """,
    )


@dataclass(frozen=True, kw_only=True)
class ConditionalPMFSettings(FactorizationSettings, RatedSettings):
    """Options of `ConditionalPMF`."""

    lr_yj: float | None = option(
        None,
        """learning rate of the conditioning factors W; it is large because a step is divided by the number of
        items rated; None: 1.4 divided by the standard deviation of the ratings; the thesis has 0.005, after
        every 100 ratings""",
        at_least=0,
    )
    reg_yj: float | None = option(
        None,
        """weight of the squared conditioning factors, for each user who has rated the item; None: the
        standard deviation of the ratings times their sparsity, which falls as users and items have more
        ratings (0.22 for MovieLens-100K, 0.13 for MovieLens-1M); the thesis has 0.003""",
        at_least=0,
    )


def thesis_options(
    given: Mapping[str, Any], *, conditional: bool, penalties: bool = True
) -> dict[str, Any]:
    """Return rates, penalties and early stopping of the thesis (section 5.4.2), overridden by the ``given`` options.

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

    def total(self, n: int) -> float:
        """The penalty of a row with ``n`` ratings."""
        return self.each * n + self.once


class ResolvedOptions(NamedTuple):
    """The options of a fit as numbers, including those that are chosen by the ratings."""

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
        """Resolve options that are None to what suits ``ratings``."""
        unit, sparse, given = ratings.std, ratings.sparsity, settings
        epochs, by_als = _first_given(given.n_epochs, _EPOCHS[given.solver]), given.solver == "als"
        rate = _first_given(given.lr_all, _RATE / unit)
        bias_rate = _first_given(given.lr_all, _BIAS_RATE)
        suitable = Weight(_PENALTY * unit * sparse**0.5)
        if not by_als:
            suitable = suitable._replace(once=_EXTRA_RATINGS * suitable.each)
        of_users = of_items = Weight(_ALS_BIAS_PENALTY)
        is_open = given.reg_all is None and None in (given.reg_bu, given.reg_bi)
        if given.biased and not by_als and is_open:
            # sigma^2 / tau^2, whatever the number of ratings
            found = alternate(ratings, ratings.mean, sweeps=_BIAS_SWEEPS).penalties
            of_users, of_items = (Weight(0.0, min(once, _MAX_BIAS_PENALTY)) for once in found)
        weights = (
            _first_given(given.reg_pu, given.reg_all, suitable),
            _first_given(given.reg_qi, given.reg_all, suitable),
            _first_given(given.reg_bu, given.reg_all, of_users),
            _first_given(given.reg_bi, given.reg_all, of_items),
        )
        p, q, b, c = (each if isinstance(each, Weight) else Weight(each) for each in weights)
        return cls(
            epochs,
            _first_given(given.lr_decay, _LAST_RATE_SHARE ** (1 / max(epochs, 1))),
            Rates(
                _first_given(given.lr_pu, rate),
                _first_given(given.lr_qi, rate),
                _first_given(given.lr_bu, bias_rate) if given.biased else 0.0,
                _first_given(given.lr_bi, bias_rate) if given.biased else 0.0,
                _first_given(given.lr_yj, _SIDE_RATE / unit),
            ),
            p, q, b, c,
            side=_first_given(given.reg_yj, _SIDE_PENALTY * unit * sparse),
        )  # fmt: skip

    def of_user(self, n: int) -> tuple[float, float | None]:
        """Return the penalties of the factors and of the bias of a user with ``n`` ratings; None without biases."""
        biased = self.rates.user_biases > 0
        return self.user_factors.total(n), self.user_biases.total(n) if biased else None

    def of_item(self, n: int) -> tuple[float, float | None]:
        """Return the penalties of an item with ``n`` ratings, as `of_user` does."""
        biased = self.rates.item_biases > 0
        return self.item_factors.total(n), self.item_biases.total(n) if biased else None

    @classmethod
    def of_numbers(cls, numbers: Doubles) -> ResolvedOptions:
        """Read all numbers in order (16,), as a model saves them."""
        n = numbers.tolist()
        p, q, b, c = (Weight(*n[k : k + 2]) for k in (7, 9, 11, 13))
        return cls(int(n[0]), n[1], Rates(*n[2:7]), p, q, b, c, side=n[15])


def _first_given(*values: Any) -> Any:
    """Return the first value that is not None, or None."""
    return next((value for value in values if value is not None), None)
