"""Probabilistic matrix factorization and its conditional form (Mnih 2010, section 5.3)."""

from tacenda_surprise.models.factorization.bayesian import (
    BayesianPMFModel,
    ConditionalBayesianPMFModel,
)
from tacenda_surprise.models.factorization.config import BayesianConfig, FactorizationConfig
from tacenda_surprise.models.factorization.model import ConditionalPMFModel, PMFModel

__all__ = [
    "BayesianConfig",
    "BayesianPMFModel",
    "ConditionalBayesianPMFModel",
    "ConditionalPMFModel",
    "FactorizationConfig",
    "PMFModel",
]
