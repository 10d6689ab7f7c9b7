"""Every fast function agrees with its specification, and the kit finds backends that do not."""

import importlib
import types
from importlib.util import find_spec

import numpy as np
import pytest

from tacenda import kernels
from tacenda.kernels import backends
from tacenda.kernels.counts import cpu as counts_cpu
from tacenda.testing.kernels import SAMPLES, check_backend

OFFERED = kernels.operations()
NEEDS_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")


def of(name):
    return [operation for operation in SAMPLES if name in OFFERED[operation]]


def test_every_operation_has_samples():
    assert OFFERED.keys() - {"halved"} == SAMPLES.keys()


@pytest.mark.parametrize("operation", SAMPLES)
def test_every_sample_has_a_label_of_its_own(operation):
    labels = [label for label, _ in SAMPLES[operation]()]
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("operation", of("cpu"))
def test_the_cpu_conforms(operation):
    check_backend(backends.cpu, operation=operation)


@pytest.mark.parametrize("operation", of("reference"))
def test_the_reference_is_reentrant_and_leaves_its_inputs_alone(operation):
    check_backend(backends.reference, operation=operation)


@NEEDS_TORCH
@pytest.mark.parametrize("device", ["cpu:0", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("operation", of("torch"))
def test_torch_conforms_also_on_tensors_in_the_memory_of_the_host(operation, device):
    if device == "cuda" and not importlib.import_module("torch").cuda.is_available():
        pytest.skip("needs a CUDA device")
    check_backend(backends.CUDA_BACKENDS["torch"], device=device, operation=operation)


def backend_with(**operations):
    return kernels.Backend(priority=10, **operations)


def columns_reversed(stream, n_lags, vocabulary, n_history):
    counts = counts_cpu.lagged_counts(stream, n_lags, vocabulary, n_history)
    return [n._replace(indices=n.indices[::-1].copy()) for n in counts]


def spoils_its_input(stream, n_lags, vocabulary, n_history):
    counts = counts_cpu.lagged_counts(stream, n_lags, vocabulary, n_history)
    stream[:] = 0
    return counts


def declines(*arguments):
    raise kernels.UnsupportedShape("not today")


def returns_nothing(*arguments):
    counts_cpu.lagged_counts(*arguments)


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (columns_reversed, ": length 3, vocabulary"),
        (spoils_its_input, "changes argument 0: length 3"),
        (declines, "declines every input"),
        (returns_nothing, "length 0, .*: 0 arrays, not 3"),
    ],
)
def test_the_kit_finds_a_faulty_backend(operation, message):
    with pytest.raises(AssertionError, match=f"lagged_counts.*{message}"):
        check_backend(backend_with(lagged_counts=operation))


def divides_a_copy(X):
    return backends.cpu.unit_rows(X.copy())


def steps_on_copies(table, sums, rows, gradient, learning_rate, threads):
    return backends.cpu.adagrad(table.copy(), sums.copy(), rows, gradient, learning_rate, threads)


@pytest.mark.parametrize(
    ("name", "operation"), [("unit_rows", divides_a_copy), ("adagrad", steps_on_copies)]
)
def test_the_kit_finds_an_operation_that_leaves_alone_what_it_must_change(name, operation):
    with pytest.raises(AssertionError, match=f"{name} writes other numbers into argument 0: "):
        check_backend(backend_with(**{name: operation}), operation=name)


@NEEDS_TORCH
@pytest.mark.parametrize("spoiled", [0, 1])
def test_the_kit_watches_the_tensors_that_an_operation_is_given(spoiled):
    torch_backend = backends.CUDA_BACKENDS["torch"]

    def spoils_a_tensor(*arguments):
        states = torch_backend.linear_recurrence(*arguments).clone()
        arguments[spoiled].zero_()
        return states

    backend = backend_with(linear_recurrence=spoils_a_tensor)
    message = f"linear_recurrence changes argument {spoiled}: "
    with pytest.raises(AssertionError, match=message):
        check_backend(backend, device="cpu:0", operation="linear_recurrence")


def test_an_error_of_the_backend_says_for_which_input():
    with pytest.raises(IndexError) as caught:
        check_backend(backend_with(unit_rows=lambda X: [][0]))
    assert caught.value.__notes__ == ["unit_rows: 0 rows of 2"]


def test_the_kit_finds_an_operation_that_remembers_its_last_call():
    last = np.zeros(1, np.int32)

    def forgetless(stream, n_lags, vocabulary, n_history):
        last[0] += 1
        counts = counts_cpu.lagged_counts(stream, n_lags, vocabulary, n_history)
        return [n._replace(data=n.data + last[0]) for n in counts]

    with pytest.raises(AssertionError):
        check_backend(backend_with(lagged_counts=forgetless))


@kernels.operation
def halved(x):
    """Halve numbers: an operation that is not Tacenda's."""
    return x / 2


def samples():
    yield "some", (np.ones(3),)


def spoils_and_halves(x):
    x /= 2
    return x


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x / 3,
        declines,
        spoils_and_halves,
        lambda x: x / 2 + np.random.default_rng().random(),
    ],
)
def test_the_kit_holds_a_new_operation_to_its_own_specification(operation):
    check_backend(backend_with(halved=lambda x: x / 2), samples={"halved": samples})
    with pytest.raises(AssertionError):
        check_backend(backend_with(halved=operation), samples={"halved": samples})


@pytest.mark.parametrize("numbers", [[1.0, -np.inf], [1e-7, 3e-7], [np.inf, np.nan, 1]])
def test_the_kit_finds_wrong_signs_next_to_infinity_and_of_small_numbers(numbers):
    given = {"halved": lambda: iter([("some", (np.array(numbers),))])}
    check_backend(backend_with(halved=lambda x: x / 2), samples=given)
    with pytest.raises(AssertionError):
        check_backend(backend_with(halved=lambda x: np.abs(x) / -2), samples=given)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("halved", {"samples": {"halved": samples}}),
        ("adam", {"operation": "adam"}),
        ("adams", {"operation": "adams"}),
    ],
)
def test_the_kit_finds_an_operation_that_the_backend_does_not_offer(name, more):
    with pytest.raises(AssertionError, match=f"does not offer {name}"):
        check_backend(backend_with(), **more)


def test_the_kit_finds_an_operation_that_nothing_is_known_of():
    misspelled = backend_with(lagged_count=counts_cpu.lagged_counts)
    message = "no operation 'lagged_count': is 'lagged_counts' meant"
    with pytest.raises(AssertionError, match=message):
        check_backend(misspelled)


def test_the_kit_finds_a_public_function_that_asks_somebody_else(monkeypatch):
    def aside(x):
        return x / 2

    aside.specification = halved.specification
    monkeypatch.setitem(kernels.dispatch.OPERATIONS, "halved", aside)
    with pytest.raises(AssertionError, match="never calls it"):
        check_backend(backend_with(halved=lambda x: x / 2), samples={"halved": samples})


def test_a_module_is_a_backend_and_what_it_has_imported_is_none_of_its_operations():
    module = types.ModuleType("theirs")
    exec(
        "from tacenda.kernels.counts import merge_counts\n"
        "from tacenda.kernels.counts.cpu import lagged_counts as _fast\n"
        "kind, priority = 'kernels', 10\n"
        "def lagged_counts(*arguments):\n    return _fast(*arguments)\n",
        vars(module),
    )
    check_backend(module)


@pytest.mark.parametrize(
    ("backend", "message"),
    [
        (types.SimpleNamespace(priority=1), "kind must be"),
        (kernels.Backend(api_version=999), "api_version"),
        (kernels.Backend(priority=0), "only the reference"),
        (types.SimpleNamespace(kind="kernels"), "priority"),
        (kernels.Backend(devices="cpu"), "set of names"),
    ],
)
def test_the_kit_finds_a_backend_that_does_not_describe_itself(backend, message):
    with pytest.raises(AssertionError, match=message):
        check_backend(backend)
