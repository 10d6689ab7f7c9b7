"""Probabilistic matrix factorization and its conditional form (Mnih 2010, section 5.3)."""

from tacit_surprise.models.factorization.config import FactorizationConfig
from tacit_surprise.models.factorization.model import ConditionalPMFModel, PMFModel

__all__ = ["ConditionalPMFModel", "FactorizationConfig", "PMFModel"]
