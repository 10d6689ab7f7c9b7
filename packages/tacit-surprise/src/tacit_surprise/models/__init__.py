"""Rating models on plain arrays: they know nothing of Surprise."""

from tacit_surprise.models.base import FoldedUser, RatingModel
from tacit_surprise.models.catalogue import Catalogue
from tacit_surprise.models.factorization import (
    ConditionalPMFModel,
    FactorizationConfig,
    PMFModel,
)
from tacit_surprise.models.identities import Identities

__all__ = [
    "Catalogue",
    "ConditionalPMFModel",
    "FactorizationConfig",
    "FoldedUser",
    "Identities",
    "PMFModel",
    "RatingModel",
]
