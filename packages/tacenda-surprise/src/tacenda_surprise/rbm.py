"""Restricted Boltzmann machines for ratings as Surprise algorithms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar

from tacenda.settings import configured_by
from tacenda_surprise.algorithm import TacendaAlgorithm
from tacenda_surprise.models.boltzmann.rbm import ConditionalRBMModel, RBMModel
from tacenda_surprise.models.boltzmann.settings import (
    BoltzmannSettings,
    ConditionalBoltzmannSettings,
    idle_options,
)
from tacenda_surprise.settings import RandomSettings, RatedSettings, argument

__all__ = ["RBM", "ConditionalRBM"]


@dataclass(frozen=True, kw_only=True)
class RBMSettings(RandomSettings):
    """Arguments of `RBM`."""

    model_settings = BoltzmannSettings

    n_hidden: int = argument(BoltzmannSettings, "n_hidden")
    n_epochs: int = argument(BoltzmannSettings, "epochs")
    orientation: Literal["item", "user"] = argument(BoltzmannSettings, "orientation")
    ordinal: bool = argument(BoltzmannSettings, "ordinal")
    offset: bool = argument(BoltzmannSettings, "offset")
    gibbs_steps: int = argument(BoltzmannSettings, "advanced.gibbs_steps")
    prediction: Literal["mean_field", "exact"] = argument(BoltzmannSettings, "advanced.prediction")
    lr_all: float = argument(BoltzmannSettings, "learning_rate")
    reg_all: float | None = argument(BoltzmannSettings, "penalty")
    lr_decay: float = argument(BoltzmannSettings, "advanced.rate_decay")
    optimizer: Literal["adam", "sgd"] = argument(BoltzmannSettings, "advanced.optimizer")
    lr_bias: float = argument(BoltzmannSettings, "advanced.bias_learning_rate")
    reg_bias: float = argument(BoltzmannSettings, "advanced.bias_penalty")
    batch_cases: int | None = argument(BoltzmannSettings, "advanced.batch_cases")
    persistent: bool = argument(BoltzmannSettings, "advanced.persistent")
    damping: float | None = argument(BoltzmannSettings, "advanced.damping")
    bins: int = argument(BoltzmannSettings, "advanced.bins")
    validation: float = argument(BoltzmannSettings, "validation")
    patience: int = argument(BoltzmannSettings, "patience")
    refit: bool = argument(BoltzmannSettings, "refit")
    device: str = argument(BoltzmannSettings, "device")

    def idle(self) -> Mapping[str, str]:
        """Options of the model that early stopping and the optimizer leave without effect."""
        return idle_options(self.validation, self.optimizer, offset=self.offset)


@dataclass(frozen=True, kw_only=True)
class ConditionalRBMSettings(RBMSettings, RatedSettings):
    """Arguments of `ConditionalRBM`."""

    model_settings = ConditionalBoltzmannSettings

    reg_side: float | None = argument(ConditionalBoltzmannSettings, "side_penalty")


M = TypeVar("M", bound=RBMSettings)


class _Machine(TacendaAlgorithm[M]):
    """What `RBM` and `ConditionalRBM` share."""

    @classmethod
    def thesis(cls, **arguments: Any) -> Self:
        """The machine of the thesis and its training, see `BoltzmannSettings.thesis`."""
        settings_class: Any = cls.settings_class
        length = {"n_epochs": "epochs", "validation": "validation"}  # by which patience goes
        given = {option: arguments[name] for name, option in length.items() if name in arguments}
        settings = settings_class.model_settings.thesis(**given)
        return cls.from_settings(settings_class.arguments_for(settings, arguments))


class RBM(_Machine[RBMSettings]):
    """A restricted Boltzmann machine with softmax visible units (Mnih 2010, section 5.2).

    It predicts a distribution over the ratings of the scale (``predict_proba``), and errs elsewhere than the
    factorizations do, which makes it worth blending with them.
    """

    settings_class = RBMSettings
    model_class = RBMModel

    @configured_by(RBMSettings)
    def __init__(self, settings: RBMSettings) -> None:
        super().__init__(settings)


class ConditionalRBM(_Machine[ConditionalRBMSettings]):
    """A machine that is also told what has been rated (Mnih 2010, eq 5.12): better than `RBM`.

    With items as cases (the default) it is told who has rated an item. To predict for users of whom only the
    identities of rated items are known, give ``orientation="user"``.
    """

    settings_class = ConditionalRBMSettings
    model_class = ConditionalRBMModel

    @configured_by(ConditionalRBMSettings)
    def __init__(self, settings: ConditionalRBMSettings) -> None:
        super().__init__(settings)
