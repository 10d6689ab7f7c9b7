"""Probabilistic matrix factorization and its conditional form (Mnih 2010, section 5.3)."""

from tacit_surprise.models.factorization.bayesian import (
    BayesianPMFModel,
    ConditionalBayesianPMFModel,
)
from tacit_surprise.models.factorization.config import BayesianConfig, FactorizationConfig
from tacit_surprise.models.factorization.model import ConditionalPMFModel, PMFModel

__all__ = [
    "BayesianConfig",
    "BayesianPMFModel",
    "ConditionalBayesianPMFModel",
    "ConditionalPMFModel",
    "FactorizationConfig",
    "PMFModel",
]
