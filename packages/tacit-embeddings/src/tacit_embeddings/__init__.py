"""Token embeddings from latent-variable models."""

__version__ = "0.1.0"
