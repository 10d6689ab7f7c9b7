"""Tacit: probabilistic latent-variable models as plugins for the tools people already use."""

__version__ = "0.1.0"
