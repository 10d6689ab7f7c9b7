import pytest


@pytest.fixture(scope="package")
def client():
    pytest.importorskip("distributed", reason="needs tacenda[dask]")
    from support.cluster import two_workers

    with two_workers() as client:
        yield client
