import numpy as np
import pytest
from tacenda_random_indexing.kernels import backend, decayed_sum

from tacenda import kernels
from tacenda.testing.kernels import KernelBackendTests


class TestBackend(KernelBackendTests):
    """The operations we share with Tacenda are held to its reference."""

    backend = backend


@pytest.mark.parametrize("length", [0, 1, 2, 63])
def test_our_own_operation_agrees_with_the_plain_loop(length):
    x = np.random.default_rng(length).standard_normal((length, 3)).astype(np.float32)
    y = decayed_sum(x, 0.5)
    assert y.dtype == np.float32
    state = np.zeros(3)
    for t in range(length):
        state = x[t] + 0.5 * state
        np.testing.assert_allclose(y[t], state, rtol=1e-5)


def test_the_dispatcher_finds_our_operation():
    assert kernels.operations()["decayed_sum"] == ["random_indexing"]
