"""Biases alone as a Surprise algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tacenda.settings import configured_by
from tacenda_surprise.algorithm import TacendaAlgorithm
from tacenda_surprise.models.bias import BiasModel, BiasSettings, idle_options
from tacenda_surprise.settings import AlgorithmSettings, argument

__all__ = ["BiasOnly"]


@dataclass(frozen=True, kw_only=True)
class BiasOnlySettings(AlgorithmSettings):
    """Arguments of `BiasOnly`; nothing is random."""

    model_settings = BiasSettings

    biases: Literal["both", "items", "users", "none"] = argument(BiasSettings, "biases")
    n_epochs: int = argument(BiasSettings, "epochs")
    reg_u: float = argument(BiasSettings, "penalty_users")
    reg_i: float = argument(BiasSettings, "penalty_items")

    def idle(self) -> Mapping[str, str]:
        """Penalties of biases that are not learned."""
        return idle_options(self.biases)


class BiasOnly(TacendaAlgorithm[BiasOnlySettings]):
    """The mean rating and the biases of user and item: what everything else should be better than."""

    settings_class = BiasOnlySettings
    model_class = BiasModel

    @configured_by(BiasOnlySettings)
    def __init__(self, settings: BiasOnlySettings) -> None:
        super().__init__(settings)
