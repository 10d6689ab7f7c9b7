"""Settings of the factorizations, and the numbers that follow from the ratings where a setting is None.

What suits a hundred thousand ratings does not suit a hundred million. With s the standard deviation of the
ratings and

    t = (sum_u n_u^{1/2} + sum_i n_i^{1/2}) / N

over users with n_u and items with n_i of the N ratings, the penalty is lambda = 0.16 s t^{1/2}. A penalty for
each rating cuts off singular values of the table of ratings. Those of mere noise, s (n_u^{1/2} + n_i^{1/2}) for a
block of rows and columns that long, shrink against the rest as rows and columns fill, and s t is their average.
The exponent is the one that did best on parts of MovieLens-1M, from a twentieth to all of it. The other numbers
make a fit independent of the unit of the ratings: multiply the ratings by k, and x and q become k^{1/2} times as
long, the rates of factors 1/k times as large and their penalties k times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacenda.errors import ArtifactError
from tacenda.ratings import Ratings
from tacenda.settings import Settings, group, option

# for ratings of unit deviation
_PENALTY, _RATE = 0.16, 0.0225
_SIDE_PENALTY, _SIDE_RATE = 0.62, 0.56
_WIDTH, _WIDTHS = 2.2, (8, 32)
_EPOCHS = {"sgd": 60, "als": 15}
_CONDITIONAL_EPOCHS = 40


@dataclass(frozen=True, kw_only=True)
class FactorizationAdvanced(Settings):
    """Options of `FactorizationSettings` that few need to change."""

    bias_learning_rate: float = option(
        0.02, "learning rate of the biases; the thesis has 0.001", at_least=0
    )
    bias_penalty: float = option(
        0.08,
        "weight of the squared biases in the loss, for each rating; the thesis has 0.1",
        at_least=0,
    )
    rate_decay: float = option(
        0.97,
        "factor on all learning rates after every epoch; the thesis has 1",
        at_least=0,
        at_most=1,
    )
    init_std: float = option(
        0.1, "length that a row of factors has at the start, on average", at_least=0
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
        the spread of the ratings (0.084 for MovieLens-100K, 0.063 for MovieLens-1M); the thesis
        has 0.01""",
        at_least=0,
    )
    validation: float = option(
        0.0, "part of the ratings held out to stop early; 0: none", at_least=0, below=1
    )
    patience: int = option(
        3,
        """epochs without improvement on the ratings held out before the fit stops; the thesis never
        stops, and restores the best epoch""",
        at_least=1,
    )
    refit: bool = option(
        True,
        """fit anew to all ratings, for as many epochs as were best on the ratings held out; the
        thesis does not""",
    )
    seed: int = option(0, "seed of the start and of the order of the ratings", at_least=0)
    advanced: FactorizationAdvanced = group(FactorizationAdvanced)

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
            "learning_rate": 0.01,
            "penalty": 0.01,
            "validation": 0.05,
            "patience": 20,
            "refit": False,
        }
        advanced: dict[str, Any] = {"rate_decay": 1.0}
        if options.get("biased", True):
            advanced |= {"bias_learning_rate": 0.001, "bias_penalty": 0.1}
        advanced |= options.pop("advanced", {})
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
        """weight of the squared conditioning factors, for each user who has rated the item; None: 0.62
        times the standard deviation of the ratings; the thesis has 0.003""",
        at_least=0,
    )

    def check(self) -> None:
        """Refuse the solver that cannot condition."""
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
        and take longer; None: 8 to 32, more where users and items have more ratings (10 for
        MovieLens-100K, 18 for MovieLens-1M)""",
        at_least=0,
    )
    burn_in: int = option(40, "sweeps before the first sample is taken", at_least=0)
    n_samples: int = option(
        160, "sweeps after that; predictions are averages over all of them", at_least=1
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


def idle_options(solver: str, validation: float, *, biased: bool) -> dict[str, str]:
    """Paths of the options of `FactorizationSettings` that these leave without effect, and why."""
    found: dict[str, str] = {}
    if not validation:
        found |= dict.fromkeys(("patience", "refit"), "without validation")
    if solver == "als":
        rates = "learning_rate", "advanced.bias_learning_rate", "advanced.rate_decay"
        found |= dict.fromkeys(rates, "with solver='als'")
    if not biased:
        biases = "advanced.bias_learning_rate", "advanced.bias_penalty"
        found |= dict.fromkeys(biases, "with biased=False")
    return found


class Rates(NamedTuple):
    """The numbers of a fit, those that follow from the ratings included."""

    epochs: int
    learning_rate: float
    penalty: float
    side_learning_rate: float
    side_penalty: float

    @classmethod
    def of(cls, settings: FactorizationSettings, ratings: Ratings, *, conditional: bool) -> Rates:
        """Take the settings, and what suits ``ratings`` where they are None."""
        unit = deviation(ratings)
        suitable = cls(
            epochs=_CONDITIONAL_EPOCHS if conditional else _EPOCHS[settings.solver],
            learning_rate=_RATE / unit,
            penalty=_PENALTY * unit * noisiness(ratings) ** 0.5,
            side_learning_rate=_SIDE_RATE / unit,
            side_penalty=_SIDE_PENALTY * unit,
        )
        given = {name: getattr(settings, name, None) for name in cls._fields}
        return suitable._replace(**{n: value for n, value in given.items() if value is not None})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Rates:
        """Read the numbers of an artefact. Raises ArtifactError."""
        numbers = {name: values.get(name) for name in cls._fields}
        for name, number in numbers.items():
            if not isinstance(number, int | float) or not 0 <= number < math.inf:
                raise ArtifactError(f"its {name} is {number!r}, which is no rate: it is damaged")
        return cls(**{**numbers, "epochs": int(values["epochs"])})  # type: ignore[arg-type]


def bayesian_width(settings: BayesianSettings, ratings: Ratings) -> int:
    """The width of the factors of a chain: the more is known of every user and item, the wider."""
    if settings.n_factors is not None:
        return settings.n_factors
    if not len(ratings):
        return _WIDTHS[0]
    return int(np.clip(round(_WIDTH / noisiness(ratings)), *_WIDTHS))


def deviation(ratings: Ratings) -> float:
    """Standard deviation of the ratings; where all are alike, a quarter of the scale."""
    found = float(ratings.values.std(dtype=np.float64)) if len(ratings) > 1 else 0.0
    low, high = ratings.scale
    return found if found > 1e-6 else (high - low) / 4 or 1.0


def noisiness(ratings: Ratings) -> float:
    """The t of this module: 2 if every user and item has one rating, towards 0 as they have more."""
    roots = _roots(np.diff(ratings.user_offsets)) + _roots(ratings.item_counts)
    return roots / max(len(ratings), 1)


def _roots(counts: npt.NDArray[np.int64]) -> float:
    return float(np.sqrt(counts).sum())
