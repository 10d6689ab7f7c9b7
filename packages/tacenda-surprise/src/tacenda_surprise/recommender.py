"""Any registered rating model as a Surprise algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacenda import plugins
from tacenda.errors import ConfigurationError
from tacenda.settings import configured_by, option
from tacenda_surprise.algorithm import TacendaAlgorithm
from tacenda_surprise.models.base import RatingModel, new_model
from tacenda_surprise.settings import RandomSettings, RatedSettings

__all__ = ["Recommender"]


@dataclass(frozen=True, kw_only=True)
class RecommenderSettings(RandomSettings, RatedSettings):
    """Arguments of `Recommender`."""

    name: str = option("conditional_pmf", "name that the model is registered under")
    distribution: str | None = option(
        None, "distribution that registers it, needed where several use the name"
    )
    settings: Mapping[str, Any] | None = option(
        None, "options of the model, by its own names, but for its seed"
    )

    def check(self) -> None:
        """Refuse a seed beside ``random_state``."""
        if self.settings and "seed" in self.settings:
            raise ConfigurationError("the seed of the model comes from random_state; give that")


class Recommender(TacendaAlgorithm[RecommenderSettings]):
    """Hosts the model that is registered under a name, whoever wrote it: `tacenda plugins recommenders`.

    The model's seed follows from ``random_state``; a model without a seed draws no random numbers.

    Raises
    ------
    PluginError
        There is no such model, or it cannot be loaded.

    Examples
    --------
    >>> cross_validate(Recommender(name="pmf", settings={"n_factors": 20}), data)
    >>> GridSearchCV(Recommender, {"name": ["pmf", "rbm"], "random_state": [0]})
    """

    settings_class = RecommenderSettings

    @configured_by(RecommenderSettings)
    def __init__(self, settings: RecommenderSettings) -> None:
        self.model_class = plugins.get(
            "recommenders", settings.name, distribution=settings.distribution
        )
        super().__init__(settings)

    def _new_model(self) -> RatingModel:
        given = self.settings
        return new_model(
            given.name, given.settings or {}, seed=self._seed(), distribution=given.distribution
        )
