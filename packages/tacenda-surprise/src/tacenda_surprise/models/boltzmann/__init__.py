"""Restricted Boltzmann machines for ratings (Mnih 2010, section 5.2; Salakhutdinov et al. 2007)."""

from tacenda_surprise.models.boltzmann.config import BoltzmannConfig
from tacenda_surprise.models.boltzmann.model import ConditionalRBMModel, RBMModel

__all__ = ["BoltzmannConfig", "ConditionalRBMModel", "RBMModel"]
