"""Random indexing as a Tacenda plugin: the embedder `RandomIndexing` and a kernel backend."""

from tacenda_random_indexing.embedder import RandomIndexing

__all__ = ["RandomIndexing"]
