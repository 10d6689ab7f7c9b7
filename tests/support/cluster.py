"""A Dask cluster for tests (extra ``dask``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from distributed import Client, LocalCluster

__all__ = ["two_workers"]


@contextmanager
def two_workers() -> Iterator[Client]:
    """Make a client of two workers of two threads each, in this process; it is not the current client."""
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=2, processes=False, dashboard_address=None
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client
