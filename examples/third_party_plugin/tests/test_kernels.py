import numpy as np
import pytest
from tacenda_classics.kernels import backend, decayed_sum, decayed_sum_naive

from tacenda import kernels
from tacenda.errors import KernelError
from tacenda.testing.kernels import KernelBackendTests, OwnOperation


def cases():
    """What is awkward about it, and the arguments."""
    for length in (0, 1, 2, 63):
        for width in (0, 1, 3):
            x = np.random.default_rng(length).standard_normal((length, width), np.float32)
            yield f"{length} tokens, {width} wide", (x, 0.5)
    yield "no memory", (np.ones((4, 2), np.float32), 0.0)


class TestBackend(KernelBackendTests):
    """What we share with Tacenda is held to its reference, what is new to ours."""

    backend = backend
    own = (OwnOperation("decayed_sum", decayed_sum, decayed_sum_naive, cases),)


def test_the_dispatcher_finds_our_operation():
    assert kernels.operations()["decayed_sum"] == ["classics"]


@pytest.mark.parametrize(
    ("x", "decay"), [([1, 2], 0.5), ([[1]], 1), ([[1]], -0.1), ([[1]], np.nan)]
)
def test_the_public_function_refuses_what_no_backend_could_use(x, decay):
    with pytest.raises(KernelError, match="decayed_sum takes a matrix"):
        decayed_sum(x, decay)
