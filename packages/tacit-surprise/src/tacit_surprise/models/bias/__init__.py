"""Biases of users and items, and nothing else."""

from tacit_surprise.models.bias.config import BiasConfig
from tacit_surprise.models.bias.model import BiasModel

__all__ = ["BiasConfig", "BiasModel"]
