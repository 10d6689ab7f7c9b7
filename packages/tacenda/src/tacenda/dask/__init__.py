"""Text on a Dask cluster: files anywhere, cut into partitions, tokenized and counted by workers (extra ``dask``)."""

try:
    import distributed  # noqa: F401
    import fsspec  # noqa: F401
except ImportError as error:
    from tacenda.errors import ConfigurationError

    raise ConfigurationError(
        f"a cluster needs Dask, which cannot be imported ({error}): install 'tacenda[dask]'"
    ) from error

from tacenda.dask.corpus import ClusterCorpus, Part, connected

__all__ = ["ClusterCorpus", "Part", "connected"]
