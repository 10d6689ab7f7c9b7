"""Rating models on plain arrays: they know nothing of Surprise."""

from tacit_surprise.models.base import FoldedUser, RatingModel
from tacit_surprise.models.bias import BiasConfig, BiasModel
from tacit_surprise.models.boltzmann import BoltzmannConfig, ConditionalRBMModel, RBMModel
from tacit_surprise.models.catalogue import Catalogue
from tacit_surprise.models.factorization import (
    BayesianConfig,
    BayesianPMFModel,
    ConditionalBayesianPMFModel,
    ConditionalPMFModel,
    FactorizationConfig,
    PMFModel,
)
from tacit_surprise.models.identities import Identities

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
