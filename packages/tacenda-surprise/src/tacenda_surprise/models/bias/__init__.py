"""Biases of users and items, and nothing else."""

from tacenda_surprise.models.bias.config import BiasConfig
from tacenda_surprise.models.bias.model import BiasModel

__all__ = ["BiasConfig", "BiasModel"]
