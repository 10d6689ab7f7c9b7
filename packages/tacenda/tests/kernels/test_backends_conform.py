import importlib
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from tacenda import kernels
from tacenda.kernels import backends
from tacenda.kernels.dynamics.lagged_counts import cpu as counts_cpu
from tacenda.testing.kernels import KernelBackendTests, OwnOperation

TORCH = find_spec("torch") is not None


class TestCpu(KernelBackendTests):
    backend = backends.cpu


class TestReference(KernelBackendTests):
    backend = backends.reference


class TestTorch(KernelBackendTests):
    """What CUDA devices run, on tensors in the memory of the host."""

    backend = (
        replace(backends.torch, name="kit", devices=frozenset({"cpu", "cuda"})) if TORCH else None
    )
    device = "cpu:0"
    pytestmark = pytest.mark.skipif(not TORCH, reason="needs torch")


@pytest.mark.gpu
class TestTorchOnTheDevice(TestTorch):
    device = "cuda"

    @pytest.fixture(autouse=True)
    def _there(self):
        if not importlib.import_module("torch").cuda.is_available():
            pytest.skip("needs a CUDA device")


def _backend_with(**operations):
    return kernels.Backend("suspect", kernels.API_VERSION, 10, operations)


def _run(test_name, backend, **more):
    """Run one test of the kit on a backend, as a subclass in a test file would."""
    suspect = type("Suspect", (KernelBackendTests,), {"backend": backend, **more})()
    registered = KernelBackendTests._registered.__wrapped__(suspect)
    next(registered)
    try:
        getattr(suspect, test_name)()
    finally:
        next(registered, None)


def _columns_reversed(stream, n_lags, vocabulary, n_history):
    counts = counts_cpu.lagged_counts(stream, n_lags, vocabulary, n_history)
    return [n._replace(indices=n.indices[::-1].copy()) for n in counts]


def _spoils_its_input(stream, n_lags, vocabulary, n_history):
    counts = counts_cpu.lagged_counts(stream, n_lags, vocabulary, n_history)
    stream[:] = 0
    return counts


def _declines(*arguments):
    raise kernels.UnsupportedShape("not today")


@pytest.mark.parametrize(
    ("test_name", "operation"),
    [
        ("test_agrees_with_the_reference", _columns_reversed),
        ("test_agrees_with_the_reference", _declines),
        ("test_leaves_its_inputs_alone", _spoils_its_input),
    ],
)
def test_the_kit_finds_a_faulty_backend(test_name, operation):
    with pytest.raises(AssertionError):
        _run(test_name, _backend_with(lagged_counts=operation))


def test_the_kit_finds_an_operation_that_remembers_its_last_call():
    last = np.zeros(1, np.int32)

    def forgetless(stream, n_lags, vocabulary, n_history):
        last[0] += 1
        counts = counts_cpu.lagged_counts(stream, n_lags, vocabulary, n_history)
        return [n._replace(data=n.data + last[0]) for n in counts]

    with pytest.raises(AssertionError):
        _run("test_is_reentrant_and_repeatable", _backend_with(lagged_counts=forgetless))


def test_the_kit_finds_a_name_that_cannot_be_imported():
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        _run("test_every_operation_can_be_imported", _backend_with(new="nowhere:at_all"))


def _halved(x):
    """The public function of a new operation."""
    return kernels.resolve("halved")(x)


def _spoils_and_halves(x):
    x /= 2
    return x


_HALVED = OwnOperation("halved", _halved, lambda x: x / 2, lambda: iter([("some", (np.ones(3),))]))


@pytest.mark.parametrize(
    ("test_name", "operation"),
    [
        ("test_agrees_with_the_reference", lambda x: x / 3),
        ("test_agrees_with_the_reference", _declines),
        ("test_leaves_its_inputs_alone", _spoils_and_halves),
        ("test_is_reentrant_and_repeatable", lambda x: x / 2 + np.random.default_rng().random()),
    ],
)
def test_the_kit_holds_a_new_operation_to_its_own_specification(test_name, operation):
    _run(test_name, _backend_with(halved=lambda x: x / 2), own=(_HALVED,))
    with pytest.raises(AssertionError):
        _run(test_name, _backend_with(halved=operation), own=(_HALVED,))


def test_the_kit_finds_a_new_operation_that_the_backend_does_not_offer():
    with pytest.raises(AssertionError, match="does not offer halved"):
        _run("test_agrees_with_the_reference", _backend_with(), own=(_HALVED,))


def test_the_kit_finds_an_operation_that_nothing_holds_to_anything():
    with pytest.raises(
        AssertionError, match="no operation 'lagged_count': is 'lagged_counts' meant"
    ):
        _run(
            "test_every_operation_is_held_to_something",
            _backend_with(lagged_count=counts_cpu.lagged_counts),
        )
    _run(
        "test_every_operation_is_held_to_something",
        _backend_with(halved=lambda x: x / 2),
        own=(_HALVED,),
    )


def test_the_kit_finds_a_public_function_that_asks_somebody_else():
    aside = _HALVED._replace(public=lambda x: x / 2)
    with pytest.raises(AssertionError, match="never calls it"):
        _run("test_agrees_with_the_reference", _backend_with(halved=lambda x: x / 2), own=(aside,))


def test_the_kit_tests_a_backend_whose_name_is_taken():
    taken = replace(_backend_with(lagged_counts=_columns_reversed), name="cpu")
    with pytest.raises(AssertionError):
        _run("test_agrees_with_the_reference", taken)
