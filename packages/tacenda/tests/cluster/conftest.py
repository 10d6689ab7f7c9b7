import pytest


@pytest.fixture(scope="package")
def client():
    """Two workers of two threads each, in this process."""
    distributed = pytest.importorskip("distributed", reason="needs tacenda[dask]")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client
