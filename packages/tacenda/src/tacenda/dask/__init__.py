"""Text on a Dask cluster: files anywhere, cut into partitions, tokenized and counted by workers (extra ``dask``)."""

from tacenda.errors import importing

with importing("a cluster needs Dask", "tacenda[dask]"):
    import distributed  # noqa: F401
    import fsspec  # noqa: F401

from tacenda.dask.corpus import ClusterCorpus, Part, connected

__all__ = ["ClusterCorpus", "Part", "connected"]
