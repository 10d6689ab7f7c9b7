"""Any registered rating model as a Surprise algorithm."""

from __future__ import annotations

from typing import Any

from tacenda.errors import ConfigurationError
from tacenda_surprise.algorithm import TacendaAlgorithm
from tacenda_surprise.making import make_model, model_class
from tacenda_surprise.models.base import RatingModel

__all__ = ["Recommender"]

_HOST = ("rated", "random_state", "verbose", "callbacks", "checkpoints")


class Recommender(TacendaAlgorithm):
    """Hosts the model that is registered under a name, whoever wrote it: `tacenda plugins recommenders`.

    Parameters
    ----------
    name
        Of the model.
    distribution
        That registers it, where several use the name.
    settings
        Of the model; ``rated``, ``random_state``, ``verbose``, ``callbacks`` and ``checkpoints`` are
        those of `TacendaAlgorithm`. The seed comes from ``random_state``.

    Raises
    ------
    PluginError
        There is no such model, or it cannot be loaded.

    Examples
    --------
    >>> cross_validate(Recommender("pmf", n_factors=20), data)
    >>> GridSearchCV(Recommender, {"name": ["pmf"], "n_factors": [10, 20]})
    """

    def __init__(
        self, name: str = "conditional_pmf", distribution: str | None = None, **settings: Any
    ) -> None:
        self.name = name
        self.distribution = distribution
        self._load()
        super().__init__(**{key: settings.pop(key) for key in _HOST if key in settings})
        if "seed" in settings:
            raise ConfigurationError("the seed of the model comes from random_state; give that")
        self.settings = settings

    @property
    def conditional(self) -> bool:  # type: ignore[override]
        """Whether the model says so."""
        return bool(getattr(self._load(), "conditional", False))

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), **self.settings}

    def _load(self) -> Any:
        return model_class(self.name, self.distribution)

    def _new_model(self, seed: int) -> RatingModel:
        return make_model(self.name, self.settings, seed=seed, distribution=self.distribution)
