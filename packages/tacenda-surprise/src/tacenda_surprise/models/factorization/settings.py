"""Settings of the factorizations.

Where one of them is None, `tacenda_surprise.models.factorization.defaults` finds what suits the ratings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from tacenda import devices
from tacenda.settings import Settings, group, option


@dataclass(frozen=True, kw_only=True)
class FactorizationAdvanced(Settings):
    """Options of `FactorizationSettings` that few need to change."""

    bias_learning_rate: float = option(
        0.06, "learning rate of the biases; the thesis has 0.001", at_least=0
    )
    bias_penalty: float | None = option(
        None,
        """weight of the squared biases in the loss, for each rating; None: the variance of the ratings
        over that of the biases, both estimated, for each user and item (0.08 for each rating with
        alternating least squares); the thesis has 0.1""",
        at_least=0,
    )
    rate_decay: float | None = option(
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
        """passes over the ratings; None: 20, or 15 of alternating least squares; the thesis has at most
        250, with early stopping""",
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
        """learning rate of the factors; None: 0.14 over the standard deviation of the ratings; the
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
        advanced: dict[str, Any] = {"rate_decay": 1.0, "noise_power": 0.0}
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
        items rated; None: 1.4 over the standard deviation of the ratings; the thesis has 0.005, after
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
        rates += ["learning_rate", "advanced.rate_decay", "advanced.noise_power"]
        found |= dict.fromkeys(rates, "with solver='als'")
    if not biased:
        biases = [path for path in _OF_SIDES if "bias" in path]
        found |= dict.fromkeys(biases, "with biased=False")
    return found
