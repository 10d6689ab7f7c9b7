import numpy as np
import pytest
from tacenda_classics import kernels as backend
from tacenda_classics.decayed_sums import decayed_sum

from tacenda import kernels
from tacenda.errors import KernelError
from tacenda.testing.kernels import check_backend


def samples():
    """Say what is awkward about it, and give the arguments."""
    for length in (0, 1, 2, 63):
        for width in (0, 1, 3):
            x = np.random.default_rng(length).standard_normal((length, width), np.float32)
            yield f"{length} tokens, {width} wide", (x, 0.5)
    yield "no memory", (np.ones((4, 2), np.float32), 0.0)


def test_what_we_share_with_tacenda_and_what_is_new_agree_with_their_specifications():
    check_backend(backend, samples={"decayed_sum": samples})


def test_the_dispatcher_finds_our_operation():
    assert kernels.operations()["decayed_sum"] == ["classics", "reference"]


@pytest.mark.parametrize("decay", [1, -0.1, np.nan])
def test_the_operation_refuses_what_no_backend_could_use(decay):
    with pytest.raises(KernelError, match=r"x must be float32 \(tokens, width\)"):
        decayed_sum([1, 2], 0.5)
    with pytest.raises(KernelError, match="decayed_sum takes 0 <= decay < 1"):
        decayed_sum([[1]], decay)
