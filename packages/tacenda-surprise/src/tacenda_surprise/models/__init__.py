"""Rating models on plain arrays: they know nothing of Surprise."""

from tacenda_surprise.models.base import FoldedUser, Loop, RatingModel, check_rated
from tacenda_surprise.models.bias import BiasModel, BiasSettings
from tacenda_surprise.models.blended import BlendModel
from tacenda_surprise.models.boltzmann.rbm import ConditionalRBMModel, RBMModel
from tacenda_surprise.models.boltzmann.settings import (
    BoltzmannSettings,
    ConditionalBoltzmannSettings,
)
from tacenda_surprise.models.catalogue import Catalogue
from tacenda_surprise.models.factorization.bayesian import (
    BayesianPMFModel,
    ConditionalBayesianPMFModel,
)
from tacenda_surprise.models.factorization.pmf import ConditionalPMFModel, PMFModel
from tacenda_surprise.models.factorization.settings import (
    BayesianSettings,
    ConditionalFactorizationSettings,
    FactorizationSettings,
)
from tacenda_surprise.models.identities import Identities

__all__ = [
    "BayesianPMFModel",
    "BayesianSettings",
    "BiasModel",
    "BiasSettings",
    "BlendModel",
    "BoltzmannSettings",
    "Catalogue",
    "ConditionalBayesianPMFModel",
    "ConditionalBoltzmannSettings",
    "ConditionalFactorizationSettings",
    "ConditionalPMFModel",
    "ConditionalRBMModel",
    "FactorizationSettings",
    "FoldedUser",
    "Identities",
    "Loop",
    "PMFModel",
    "RBMModel",
    "RatingModel",
    "check_rated",
]
