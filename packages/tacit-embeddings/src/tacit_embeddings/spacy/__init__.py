"""The spaCy side of the embeddings: pipeline components and model architectures."""
