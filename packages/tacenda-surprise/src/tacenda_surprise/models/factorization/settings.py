"""Settings of the factorizations, and the numbers that follow from the ratings where a setting is None.

What suits a hundred thousand ratings does not suit a hundred million. With s the standard deviation of the
ratings and

    t = (sum_u n_u^{1/2} + sum_i n_i^{1/2}) / N

over users with n_u and items with n_i of the N ratings, the penalty of a rating is lambda = 0.16 s t^{1/2}. A penalty
for each rating cuts off singular values of the table of ratings. Those of mere noise, s (n_u^{1/2} + n_i^{1/2}) for a
block of rows and columns that long, shrink against the rest as rows and columns fill, and s t is their average. The
factors of a user or an item with n ratings are penalized by lambda (n + kappa) in all, as a few ratings say little of
a hundred numbers. Their biases are penalized by sigma^2 / tau^2, whatever the number of ratings, with the variances
that `BiasModel` estimates: where the biases of items differ little, those of rarely rated items stay near zero.

The numbers make a fit independent of the unit of the ratings: multiply the ratings by k, and x and q become k^{1/2}
times as long, the rates of factors 1/k times as large and their penalties k times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacenda import devices
from tacenda.errors import ArtifactError
from tacenda.kernels.ratings.sgd import Penalties, Rates
from tacenda.ratings import Ratings
from tacenda.settings import Settings, group, option
from tacenda_surprise.models.bias import alternated
from tacenda_surprise.models.catalogue import deviation, noisiness

# for ratings of unit deviation
_PENALTY, _RATE = 0.16, 0.0225
_KAPPA = 10.0
_BIAS_RATE = 0.005
START = 0.1  # length of a row of factors
LEAST_PENALTY = 1e-6
_ALS_BIAS_PENALTY = 0.08
_MOST = 50.0  # a larger penalty would make the steps of a bias unstable
_BIAS_SWEEPS = 6  # with which the variances of the biases are known well enough
_SIDE_PENALTY, _SIDE_RATE = 1.0, 0.56
_WIDTH, _WIDTHS = 5.0, (8, 32)
_SAMPLES, _SWEPT = (160, 600), 3e7  # ratings visited, all samples together
_NUMBERS = 5e7  # in all samples, at most
_EPOCHS = {"sgd": 60, "als": 15}
_CONDITIONAL_EPOCHS = 40


@dataclass(frozen=True, kw_only=True)
class FactorizationAdvanced(Settings):
    """Options of `FactorizationSettings` that few need to change."""

    bias_learning_rate: float = option(
        0.02, "learning rate of the biases; the thesis has 0.001", at_least=0
    )
    bias_penalty: float | None = option(
        None,
        """weight of the squared biases in the loss, for each rating; None: the variance of the ratings
        over that of the biases, both estimated, for each user and item (0.08 for each rating with
        alternating least squares); the thesis has 0.1""",
        at_least=0,
    )
    rate_decay: float = option(
        0.97,
        "factor on all learning rates after every epoch; the thesis has 1",
        at_least=0,
        at_most=1,
    )
    init_mean: float = option(0.0, "mean of the factors at the start")
    init_std: float | None = option(
        None,
        """standard deviation of the factors at the start; None: 0.1 over the root of their number, for
        ratings of unit deviation""",
        at_least=0,
    )
    user_learning_rate: float | None = option(
        None, "learning rate of the users' factors; None: learning_rate", at_least=0
    )
    item_learning_rate: float | None = option(
        None, "learning rate of the items' factors; None: learning_rate", at_least=0
    )
    user_bias_learning_rate: float | None = option(
        None, "learning rate of the users' biases; None: bias_learning_rate", at_least=0
    )
    item_bias_learning_rate: float | None = option(
        None, "learning rate of the items' biases; None: bias_learning_rate", at_least=0
    )
    user_penalty: float | None = option(
        None, "penalty of the users' factors, for each rating; None: penalty", at_least=0
    )
    item_penalty: float | None = option(
        None, "penalty of the items' factors, for each rating; None: penalty", at_least=0
    )
    user_bias_penalty: float | None = option(
        None, "penalty of the users' biases, for each rating; None: bias_penalty", at_least=0
    )
    item_bias_penalty: float | None = option(
        None, "penalty of the items' biases, for each rating; None: bias_penalty", at_least=0
    )


@dataclass(frozen=True, kw_only=True)
class FactorizationSettings(Settings):
    """Settings of `PMFModel`. Where None is the default, the value follows from the ratings."""

    n_factors: int = option(
        100, "D, the width of the factors; the thesis has 10 to 500", at_least=0
    )
    epochs: int | None = option(
        None,
        """passes over the ratings; None: 60, or 40 of a conditional model, or 15 of alternating
        least squares; the thesis has at most 250, with early stopping""",
        at_least=0,
    )
    biased: bool = option(True, "whether users and items have biases")
    solver: Literal["sgd", "als"] = option(
        "sgd",
        """what finds the factors: stochastic gradient descent, or alternating least squares, whose
        sweeps need no learning rate and which does not condition on identities""",
    )
    learning_rate: float | None = option(
        None,
        """learning rate of the factors; None: 0.0225 over the standard deviation of the ratings; the
        thesis has 0.01""",
        at_least=0,
    )
    penalty: float | None = option(
        None,
        """weight of the squared factors in the loss, for each rating; None: what suits the number and
        the spread of the ratings (0.084 for MovieLens-100K, 0.063 for MovieLens-1M), and as if every
        user and item had 10 ratings more; the thesis has 0.01""",
        at_least=0,
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
    seed: int = option(0, "seed of the start and of the order of the ratings", at_least=0)
    device: str = devices.option(default="cpu")
    advanced: FactorizationAdvanced = group(FactorizationAdvanced)

    def check(self) -> None:
        """Refuse what is no device."""
        devices.check(self)

    def idle(self) -> Mapping[str, str]:
        """Options that solver, biases and early stopping leave without effect."""
        return idle_options(self.solver, self.validation, biased=self.biased)

    @classmethod
    def thesis(cls, **options: Any) -> Self:
        """Rates, penalties and early stopping of the thesis (section 5.4.2); ``options`` replace single ones.

        Two differences remain: a user's block of ratings is not cut at 100, so that the step of W is one
        of ``side_learning_rate`` on the summed gradient of all their ratings, and training stops after
        ``patience`` epochs without improvement.
        """
        values: dict[str, Any] = {
            "epochs": 250,
            "validation": 0.05,
            "patience": 20,
            "refit": False,
        }
        rates, penalties = (
            {"": options.pop("learning_rate", 0.01)},
            {"": options.pop("penalty", 0.01)},
        )
        given = dict(options.pop("advanced", {}))
        if options.get("biased", True):
            rates["bias_"] = given.pop("bias_learning_rate", 0.001)
            penalties["bias_"] = given.pop("bias_penalty", 0.1)
        advanced: dict[str, Any] = {"rate_decay": 1.0}
        for side in ("user_", "item_"):
            advanced |= {f"{side}{bias}learning_rate": rate for bias, rate in rates.items()}
            advanced |= {f"{side}{bias}penalty": penalty for bias, penalty in penalties.items()}
        advanced |= given
        return cls(**(values | cls._side(0.005, 0.003) | {"advanced": advanced} | options))

    @classmethod
    def online_svd(cls, **options: Any) -> Self:
        """Settings of the baseline of the thesis: early stopping, no penalties; ``biased`` says which of its forms."""
        advanced = options.pop("advanced", {})
        bare = {"penalty": 0.0, "biased": False, **cls._side(0.005, 0.0), **options}
        if bare["biased"]:
            advanced = {"bias_penalty": 0.0, **advanced}
        return cls.thesis(**bare, advanced=advanced)

    @classmethod
    def _side(cls, learning_rate: float, penalty: float) -> dict[str, float]:
        """Options of the conditioning factors, where the model has such."""
        return {}


@dataclass(frozen=True, kw_only=True)
class ConditionalFactorizationSettings(FactorizationSettings):
    """Settings of `ConditionalPMFModel`."""

    side_learning_rate: float | None = option(
        None,
        """learning rate of the conditioning factors W, large, as a step is divided by the number of
        items rated; None: 0.56 over the standard deviation of the ratings; the thesis has 0.005, after
        every 100 ratings""",
        at_least=0,
    )
    side_penalty: float | None = option(
        None,
        """weight of the squared conditioning factors, for each user who has rated the item; None: the
        standard deviation of the ratings, times more where users and items have few ratings (0.23 for
        MovieLens-100K, 0.13 for MovieLens-1M); the thesis has 0.003""",
        at_least=0,
    )

    def check(self) -> None:
        """Refuse what is no device, and the solver that cannot condition."""
        super().check()
        if self.solver == "als":
            self.refuse("solver", "'sgd', as 'als' does not condition")

    @classmethod
    def _side(cls, learning_rate: float, penalty: float) -> dict[str, float]:
        return {"side_learning_rate": learning_rate, "side_penalty": penalty}


@dataclass(frozen=True, kw_only=True)
class BayesianSettings(Settings):
    """Settings of `BayesianPMFModel` and `ConditionalBayesianPMFModel`."""

    n_factors: int | None = option(
        None,
        """D, the width of the factors; averaging keeps wide ones from overfitting, but they mix slowly
        and take longer; None: 8 to 32, more where users and items have more ratings (22 for
        MovieLens-100K, 32 for MovieLens-1M)""",
        at_least=0,
    )
    burn_in: int | None = option(
        None, "sweeps before the first sample is taken; None: a quarter of n_samples", at_least=0
    )
    n_samples: int | None = option(
        None,
        """sweeps after that; predictions are averages over all of them; None: 160 to 600, more where
        users and items have fewer ratings, whose factors every sweep draws anew (375 for
        MovieLens-100K, 160 for MovieLens-1M)""",
        at_least=1,
    )
    n_kept: int = option(
        40,
        "samples, evenly spaced, that are kept for deviations and for users folded in",
        at_least=1,
    )
    rank: int = option(
        128, "width to which the average over all samples is brought for predicting", at_least=1
    )
    seed: int = option(0, "seed of the chain", at_least=0)
    device: str = devices.option(default="cpu")

    def check(self) -> None:
        """Refuse what is no device."""
        devices.check(self)


_OF_SIDES = [
    f"advanced.{side}{bias}{what}"
    for side in ("", "user_", "item_")
    for bias in ("", "bias_")
    for what in ("learning_rate", "penalty")
    if side or bias
]


def idle_options(solver: str, validation: float, *, biased: bool) -> dict[str, str]:
    """Paths of the options of `FactorizationSettings` that these leave without effect, and why."""
    found: dict[str, str] = {}
    if not validation:
        found |= dict.fromkeys(("patience", "refit"), "without validation")
    if solver == "als":
        rates = [path for path in _OF_SIDES if path.endswith("learning_rate")]
        rates += ["learning_rate", "advanced.rate_decay"]
        found |= dict.fromkeys(rates, "with solver='als'")
    if not biased:
        biases = [path for path in _OF_SIDES if "bias" in path]
        found |= dict.fromkeys(biases, "with biased=False")
    return found


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
    rates: Rates
    user_factors: Weight
    item_factors: Weight
    user_biases: Weight
    item_biases: Weight
    side: float

    @classmethod
    def of(cls, settings: FactorizationSettings, ratings: Ratings, *, conditional: bool) -> Used:
        """Take the settings, and what suits ``ratings`` where they are None."""
        unit, more, als = deviation(ratings), settings.advanced, settings.solver == "als"
        epochs = _CONDITIONAL_EPOCHS if conditional else _EPOCHS[settings.solver]
        rate = _first(settings.learning_rate, _RATE / unit)
        bias_rate = more.bias_learning_rate if settings.biased else 0.0
        noise = noisiness(ratings)
        suitable = Weight(_PENALTY * unit * noise**0.5)
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
            epochs=_first(settings.epochs, epochs),
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
            side=_first(getattr(settings, "side_penalty", None), _SIDE_PENALTY * unit * noise),
        )

    def penalties(self, ratings: Ratings) -> Penalties:
        """The penalties of every user and item of ``ratings``."""
        users, items = np.diff(ratings.user_offsets), ratings.item_counts
        return Penalties(
            self.user_factors.a_rating(users),
            self.item_factors.a_rating(items),
            self.user_biases.a_rating(users),
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
        sizes = {"rates": len(Rates._fields), "epochs": 0, "side": 0}
        for name in cls._fields:
            found = values.get(name)
            numbers = found if isinstance(found, list) else [found]
            right = all(isinstance(n, int | float) and 0 <= n < math.inf for n in numbers)
            if not right or (len(found) if isinstance(found, list) else 0) != sizes.get(name, 2):
                raise ArtifactError(f"its {name} is {found!r}, which is no rate: it is damaged")
        weights = {name: Weight(*values[name]) for name in cls._fields[2:-1]}
        return cls(int(values["epochs"]), Rates(*values["rates"]), side=values["side"], **weights)


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


def bayesian_width(settings: BayesianSettings, ratings: Ratings) -> int:
    """The width of the factors of a chain: the more is known of every user and item, the wider."""
    if settings.n_factors is not None:
        return settings.n_factors
    if not len(ratings):
        return _WIDTHS[0]
    return int(np.clip(round(_WIDTH / noisiness(ratings)), *_WIDTHS))


def sweeps(settings: BayesianSettings, ratings: Ratings, width: int) -> tuple[int, int]:
    """How many sweeps before the first sample, and how many samples."""
    n = settings.n_samples
    if n is None:
        rows = max(ratings.n_users + ratings.n_items, 1) * (width + 1)
        wanted = min(_SWEPT / max(len(ratings), 1), _NUMBERS / rows)
        n = int(np.clip(wanted, *_SAMPLES))
    return n // 4 if settings.burn_in is None else settings.burn_in, n
