"""Random indexing as a Tacit plugin: the embedder `RandomIndexing` and a kernel backend."""

from tacit_random_indexing.embedder import RandomIndexing

__all__ = ["RandomIndexing"]
