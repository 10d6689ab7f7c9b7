"""`ConfiguredRatingModel`: a rating model made from settings, and what it notes of a fit."""

from __future__ import annotations

from typing import Any, ClassVar, Self, TypeVar

from tacenda.artifact import OldConfigured
from tacenda.fitting import History
from tacenda.ratings import Ratings
from tacenda_surprise.models.base import RatingModel
from tacenda_surprise.models.settings import Settings

S = TypeVar("S", bound=Settings)


class ConfiguredRatingModel(RatingModel, OldConfigured[S]):
    """Base of the models of this package.

    Attributes
    ----------
    conditional
        Whether it conditions on the identities of rated items.
    history
        The course of the last fit.
    """

    conditional: ClassVar[bool] = False
    _fitted_to: ClassVar[str] = "ratings"

    def __init__(self, config: S | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        self.history = History()

    def _note(self, ratings: Ratings, history: History, criterion: str) -> None:
        n_users, n_items = ratings.n_users, ratings.n_items
        self.fitted_on = {"n_ratings": len(ratings), "n_users": n_users, "n_items": n_items}
        self.figures = [history.figure(criterion)]

    def with_settings(self, **settings: Any) -> Self:
        """An unfitted model of the same kind with other settings."""
        return type(self)(self.config, **settings)

    def config_dict(self) -> dict[str, Any]:
        """Settings and scale, as JSON values."""
        return {"settings": self.config.to_dict(), "catalogue": self.catalogue.config()}
