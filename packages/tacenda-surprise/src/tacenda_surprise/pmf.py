"""Matrix factorizations, and biases alone, as Surprise algorithms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar

from tacenda.settings import configured_by
from tacenda_surprise.algorithm import TacendaAlgorithm
from tacenda_surprise.models.bias import BiasModel, BiasSettings
from tacenda_surprise.models.bias import idle_options as idle_beside_biases
from tacenda_surprise.models.factorization.bayesian import (
    BayesianPMFModel,
    ConditionalBayesianPMFModel,
)
from tacenda_surprise.models.factorization.pmf import ConditionalPMFModel, PMFModel
from tacenda_surprise.models.factorization.settings import (
    BayesianSettings,
    ConditionalFactorizationSettings,
    FactorizationSettings,
    idle_options,
)
from tacenda_surprise.settings import AlgorithmSettings, RandomSettings, RatedSettings, argument

__all__ = ["PMF", "BayesianPMF", "BiasOnly", "ConditionalBayesianPMF", "ConditionalPMF"]

_SIDES = "user_", "item_"
_RATES, _PENALTIES = (
    tuple(
        f"advanced.{side}{bias}{what}" if side or bias else what
        for side in ("", *_SIDES)
        for bias in ("", "bias_")
    )
    for what in ("learning_rate", "penalty")
)


def _of(side: str, what: str) -> Any:
    """Declare what `SVD` of Surprise calls ``lr_bu``, ``reg_qi`` and so on."""
    whose = f"the {side[:4]}s' {'biases' if 'bias' in side else 'factors'}"
    doc = {
        "learning_rate": f"learning rate of {whose}; None: lr_all",
        "penalty": f"weight of the squares of {whose} in the loss, for each rating; None: reg_all",
    }[what]
    return argument(FactorizationSettings, f"advanced.{side}{what}", doc=doc)


@dataclass(frozen=True, kw_only=True)
class _MAPSettings(RandomSettings):
    """Arguments that `PMF` and `ConditionalPMF` share."""

    n_factors: int = argument(FactorizationSettings, "n_factors")
    n_epochs: int | None = argument(FactorizationSettings, "epochs")
    biased: bool = argument(
        FactorizationSettings,
        "biased",
        doc="""learn biases; False is what Surprise calls PMF, and leaves unknown users and items
        impossible""",
    )
    init_mean: float = argument(FactorizationSettings, "advanced.init_mean")
    init_std_dev: float | None = argument(FactorizationSettings, "advanced.init_std")
    lr_all: float | None = argument(
        FactorizationSettings,
        *_RATES,
        default=None,
        doc="""learning rate of factors and biases; None: 0.06 of the biases, and 0.14 over the standard
        deviation of the ratings of the factors""",
    )
    reg_all: float | None = argument(
        FactorizationSettings,
        *_PENALTIES,
        default=None,
        doc="""weight of the squared factors and biases in the loss, for each rating; None: what suits the
        ratings, and each user's and item's number of them""",
    )
    lr_bu: float | None = _of("user_bias_", "learning_rate")
    lr_bi: float | None = _of("item_bias_", "learning_rate")
    lr_pu: float | None = _of("user_", "learning_rate")
    lr_qi: float | None = _of("item_", "learning_rate")
    reg_bu: float | None = _of("user_bias_", "penalty")
    reg_bi: float | None = _of("item_bias_", "penalty")
    reg_pu: float | None = _of("user_", "penalty")
    reg_qi: float | None = _of("item_", "penalty")
    lr_decay: float | None = argument(FactorizationSettings, "advanced.rate_decay")
    noise_power: float = argument(FactorizationSettings, "advanced.noise_power")
    validation: float = argument(FactorizationSettings, "validation")
    patience: int | None = argument(FactorizationSettings, "patience")
    refit: bool = argument(FactorizationSettings, "refit")
    device: str = argument(FactorizationSettings, "device")

    def idle(self) -> Mapping[str, str]:
        """Options of the model that solver, biases and early stopping leave without effect."""
        return idle_options(getattr(self, "solver", "sgd"), self.validation, biased=self.biased)


@dataclass(frozen=True, kw_only=True)
class PMFSettings(_MAPSettings):
    """Arguments of `PMF`."""

    model_settings = FactorizationSettings

    solver: Literal["sgd", "als"] = argument(
        FactorizationSettings,
        "solver",
        doc="""what finds the factors: stochastic gradient descent, or alternating least squares, whose
        sweeps need no learning rate""",
    )


@dataclass(frozen=True, kw_only=True)
class ConditionalPMFSettings(_MAPSettings, RatedSettings):
    """Arguments of `ConditionalPMF`."""

    model_settings = ConditionalFactorizationSettings

    lr_yj: float | None = argument(ConditionalFactorizationSettings, "side_learning_rate")
    reg_yj: float | None = argument(ConditionalFactorizationSettings, "side_penalty")


@dataclass(frozen=True, kw_only=True)
class BayesianPMFSettings(RandomSettings):
    """Arguments of `BayesianPMF`."""

    model_settings = BayesianSettings

    n_factors: int | None = argument(BayesianSettings, "n_factors")
    burn_in: int | None = argument(BayesianSettings, "burn_in")
    n_samples: int | None = argument(BayesianSettings, "n_samples")
    n_kept: int = argument(BayesianSettings, "n_kept")
    rank: int = argument(BayesianSettings, "rank")
    device: str = argument(BayesianSettings, "device")


@dataclass(frozen=True, kw_only=True)
class ConditionalBayesianPMFSettings(BayesianPMFSettings, RatedSettings):
    """Arguments of `ConditionalBayesianPMF`."""


M = TypeVar("M", bound=_MAPSettings)


class _MAP(TacendaAlgorithm[M]):
    """What `PMF` and `ConditionalPMF` share."""

    @property
    def predicts_unknown(self) -> bool:
        """Whether there are biases, from which an unknown user or item is predicted."""
        return self.settings.biased

    @classmethod
    def thesis(cls, **arguments: Any) -> Self:
        """Make one with rates, penalties and early stopping of the thesis (section 5.4.2), but for ``arguments``."""
        return cls._preset("thesis", arguments)

    @classmethod
    def online_svd(cls, **arguments: Any) -> Self:
        """Make the baseline of the thesis: early stopping, no penalties; ``biased`` says which of its two forms."""
        return cls._preset("online_svd", arguments)

    @classmethod
    def _preset(cls, name: str, arguments: Mapping[str, Any]) -> Self:
        settings_class: Any = cls.settings_class
        deciding = {key: arguments[key] for key in ("biased",) if key in arguments}
        settings = getattr(settings_class.model_settings, name)(**deciding)
        return cls.from_settings(settings_class.arguments_for(settings, arguments))


class PMF(_MAP[PMFSettings]):
    """Probabilistic matrix factorization (Mnih 2010, section 5.3): the most probable parameters.

    `BayesianPMF` averages over the parameters instead, which predicts better and takes longer.
    """

    settings_class = PMFSettings
    model_class = PMFModel

    @configured_by(PMFSettings)
    def __init__(self, settings: PMFSettings) -> None:
        super().__init__(settings)


class ConditionalPMF(_MAP[ConditionalPMFSettings]):
    """Matrix factorization that also learns from which items a user has rated (Mnih 2010, eq 5.22).

    The one to reach for first: better than `PMF`, most of all for users with few ratings, and the only one
    with something to say about a user of whom nothing but the identities of rated items is known.
    """

    settings_class = ConditionalPMFSettings
    model_class = ConditionalPMFModel

    @configured_by(ConditionalPMFSettings)
    def __init__(self, settings: ConditionalPMFSettings) -> None:
        super().__init__(settings)


class BayesianPMF(TacendaAlgorithm[BayesianPMFSettings]):
    """Matrix factorization averaged over samples of its parameters (Salakhutdinov and Mnih 2008).

    Gibbs sampling predicts better than `PMF`, knows how sure it is and needs no tuning, but takes several times as
    long.
    """

    settings_class = BayesianPMFSettings
    model_class = BayesianPMFModel

    @configured_by(BayesianPMFSettings)
    def __init__(self, settings: BayesianPMFSettings) -> None:
        super().__init__(settings)


class ConditionalBayesianPMF(TacendaAlgorithm[ConditionalBayesianPMFSettings]):
    """`BayesianPMF` that also learns from which items a user has rated, as `ConditionalPMF` does."""

    settings_class = ConditionalBayesianPMFSettings
    model_class = ConditionalBayesianPMFModel

    @configured_by(ConditionalBayesianPMFSettings)
    def __init__(self, settings: ConditionalBayesianPMFSettings) -> None:
        super().__init__(settings)


@dataclass(frozen=True, kw_only=True)
class BiasOnlySettings(AlgorithmSettings):
    """Arguments of `BiasOnly`; nothing is random."""

    model_settings = BiasSettings

    biases: Literal["both", "items", "users", "none"] = argument(BiasSettings, "biases")
    n_epochs: int = argument(BiasSettings, "epochs")
    reg_u: float | None = argument(BiasSettings, "penalty_users")
    reg_i: float | None = argument(BiasSettings, "penalty_items")

    def idle(self) -> Mapping[str, str]:
        """Penalties of biases that are not learned."""
        return idle_beside_biases(self.biases)


class BiasOnly(TacendaAlgorithm[BiasOnlySettings]):
    """The mean rating and the biases of user and item: what everything else should be better than."""

    settings_class = BiasOnlySettings
    model_class = BiasModel

    @configured_by(BiasOnlySettings)
    def __init__(self, settings: BiasOnlySettings) -> None:
        super().__init__(settings)
