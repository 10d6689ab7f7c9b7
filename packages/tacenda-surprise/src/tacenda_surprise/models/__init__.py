"""Rating models on plain arrays: they know nothing of Surprise."""

from tacenda_surprise.models.base import FoldedUser, RatingModel
from tacenda_surprise.models.bias import BiasConfig, BiasModel
from tacenda_surprise.models.boltzmann import BoltzmannConfig, ConditionalRBMModel, RBMModel
from tacenda_surprise.models.catalogue import Catalogue
from tacenda_surprise.models.factorization import (
    BayesianConfig,
    BayesianPMFModel,
    ConditionalBayesianPMFModel,
    ConditionalPMFModel,
    FactorizationConfig,
    PMFModel,
)
from tacenda_surprise.models.identities import Identities

__all__ = [
    "BayesianConfig",
    "BayesianPMFModel",
    "BiasConfig",
    "BiasModel",
    "BoltzmannConfig",
    "Catalogue",
    "ConditionalBayesianPMFModel",
    "ConditionalPMFModel",
    "ConditionalRBMModel",
    "FactorizationConfig",
    "FoldedUser",
    "Identities",
    "PMFModel",
    "RBMModel",
    "RatingModel",
]
