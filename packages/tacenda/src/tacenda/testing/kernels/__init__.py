"""Conformance of a kernel backend: subclass `KernelBackendTests` in a test file and say which backend.

    from tacenda.testing.kernels import KernelBackendTests
    from my_package import backend

    class TestMyBackend(KernelBackendTests):
        backend = backend

Every operation that the backend shares with Tacenda is called through its public function, on the shapes that break
kernels. The kit compares the results with the reference, calls the operation from several threads at once, and watches
its inputs. A backend may decline a shape with `UnsupportedShape`, but not all of them.

An operation that is new is tested in the same way, once the class says what it is held to:

        own = (OwnOperation("my_operation", my_operation, my_plain_loop, my_cases),)
"""

import copy
import difflib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import pytest

from tacenda import kernels, plugins
from tacenda.kernels.backends import OPERATIONS
from tacenda.kernels.dispatch import REFERENCE, imported
from tacenda.testing.kernels import (
    boltzmann,
    dynamics,
    hidden_markov,
    log_bilinear,
    ratings,
    shared,
)
from tacenda.testing.kernels.shared import SPECIFICATION, Case

__all__ = ["CASES", "Case", "KernelBackendTests", "OwnOperation"]

CASES: dict[str, Callable[[], Iterator[Case]]] = {
    function.__name__: function
    for wing in (boltzmann, dynamics, hidden_markov, log_bilinear, ratings, shared)
    for function in wing.CASES
}
"""Operation -> its cases. Operations that are not here are a backend's own: it describes them as `OwnOperation`."""

# Operation -> the positions of the arguments that it writes into.
_OUTPUTS = {
    "modal_scan": (7,),
    "rating_sgd": (4,),
    "rating_visits": (4,),
    "boltzmann_divergence": (14,),
    "boltzmann_descent": (4, 5, 6, 7, 15),
    "row_steps": (0, 1),
    "adam_steps": (0, 1, 2),
    "tree_softmax_step": (3, 4, 6, 7),
    "tall_update": (0,),
    "unit_rows": (0,),
}


_OWNER = "<conformance>"  # the distribution of the backend under test


class OwnOperation(NamedTuple):
    """A new operation of a backend, and what it is held to.

    Attributes
    ----------
    name
        The name under which the backend offers it.
    public
        The function that users call. It checks the arguments, and hands them to what `tacenda.kernels.resolve` finds.
    reference
        The specification: a plain loop with the arguments of ``public``.
    cases
        Yields a label, which says what is awkward, and the positional arguments, made anew at every call.
    outputs
        The positions of the arguments that it writes into.
    """

    name: str
    public: Callable[..., Any]
    reference: Callable[..., Any]
    cases: Callable[[], Iterator[Case]]
    outputs: tuple[int, ...] = ()


class KernelBackendTests:
    """Tests that every backend must pass: inherit, and set ``backend``."""

    backend: kernels.Backend
    """The backend under test; it need not be installed."""
    device: str = "cpu"
    """Where its operations run. Unless this is "cpu", floating arrays are given as torch tensors there."""
    rtol: float = 1e-4
    """Relative tolerance of floating results; integers must be equal."""
    atol: float = 1e-5
    """Absolute tolerance of floating results, relative to the largest magnitude expected."""
    own: tuple[OwnOperation, ...] = ()
    """The operations that are new."""

    @pytest.fixture(autouse=True)
    def _registered(self) -> Iterator[None]:
        """Put the backend where the dispatcher looks, under a name of its own, and note which operations are called."""
        self._called: set[str] = set()
        noted = {
            name: _noted(name, target, self._called)
            for name, target in self.backend.operations.items()
        }
        plugins.register(
            "kernels",
            self.backend.name,
            replace(self.backend, operations=noted),
            distribution=_OWNER,
        )
        try:
            yield
        finally:
            plugins.unregister("kernels", self.backend.name, distribution=_OWNER)

    def test_describes_itself(self) -> None:
        """Name, contract version, devices and operations are there, and only the reference has priority 0."""
        backend = self.backend
        assert isinstance(backend, kernels.Backend)
        assert backend.name
        assert backend.api_version == kernels.API_VERSION
        assert backend.devices
        assert backend.operations
        assert backend.name == REFERENCE or backend.priority > 0, "only the reference comes last"

    def test_every_operation_can_be_imported(self) -> None:
        for operation, target in self.backend.operations.items():
            assert callable(imported(target)), operation

    def test_every_operation_is_held_to_something(self) -> None:
        """One that is neither Tacenda's nor in ``own`` would be tested by nothing; as a rule it is misspelt."""
        for operation in self.backend.operations.keys() - CASES.keys() - self._own().keys():
            near = difflib.get_close_matches(operation, CASES, n=1)
            meant = f"is {near[0]!r} meant? Else " if near else ""
            raise AssertionError(
                f"Tacenda has no operation {operation!r}: {meant}describe it as an OwnOperation"
            )

    def test_agrees_with_the_reference(self) -> None:
        """Every operation returns what the specification does, in all cases that it does not decline."""
        for operation in self._operations():
            served = 0
            for label, arguments in self._cases(operation):
                actual = self._run(operation, copy.deepcopy(arguments))
                if actual is None:
                    continue
                served += 1
                with kernels.use(SPECIFICATION):
                    expected = self._reference(operation)(*copy.deepcopy(arguments))
                self._assert_close(actual, expected, f"{operation}: {label}")
            assert served, f"{operation} declines every case; leave it out of the backend"
            assert operation in self._called, (
                f"the public function of {operation} never calls it: what was compared is not the backend's"
            )

    def test_leaves_its_inputs_alone(self) -> None:
        """Arguments are not written to, but for those that an operation names as its outputs."""
        for operation in self._operations():
            own = self._own().get(operation)
            outputs = own.outputs if own else _OUTPUTS.get(operation, ())
            for label, arguments in self._cases(operation):
                before = copy.deepcopy(arguments)
                self._run(operation, arguments)
                for i, (now, then) in enumerate(zip(arguments, before, strict=True)):
                    if i not in outputs:
                        _assert_same(now, then, f"{operation} changes argument {i}: {label}")

    def test_is_reentrant_and_repeatable(self) -> None:
        """Four threads at once get bit for bit what one gets."""
        for operation in self._operations():
            once, again = list(self._cases(operation)), list(self._cases(operation))
            alone = [self._run(operation, arguments) for _, arguments in once]
            with ThreadPoolExecutor(4) as pool:
                run = partial(self._run, operation)
                together = list(pool.map(run, [arguments for _, arguments in again]))
            for (label, _), first, second in zip(once, alone, together, strict=True):
                _assert_same(first, second, f"{operation} differs between threads: {label}")

    def _operations(self) -> list[str]:
        """The operations of this backend that there are a specification and cases for."""
        own = self._own()
        missing = own.keys() - self.backend.operations.keys()
        assert not missing, f"the backend does not offer {', '.join(sorted(missing))}"
        return [*(name for name in CASES if name in self.backend.operations), *own]

    def _own(self) -> dict[str, OwnOperation]:
        return {operation.name: operation for operation in self.own}

    def _cases(self, operation: str) -> Iterator[Case]:
        own = self._own().get(operation)
        return own.cases() if own else CASES[operation]()

    def _reference(self, operation: str) -> Callable[..., Any]:
        own = self._own().get(operation)
        return own.reference if own else _public(operation)

    def _run(self, operation: str, arguments: tuple[Any, ...]) -> Any:
        """What the public function returns with this backend alone, or None where the backend declines the shape."""
        try:
            with kernels.use(f"{self.backend.name}@{_OWNER}"):
                own = self._own().get(operation)
                public = own.public if own else _public(operation)
                return public(*map(self._to_device, arguments))
        except kernels.UnsupportedShape:
            return None

    def _to_device(self, value: Any) -> Any:
        """Floating arrays, also those in tuples, as the device has them."""
        if self.device == "cpu":
            return value
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            import torch

            return torch.from_numpy(value).to(self.device)
        if isinstance(value, tuple):
            parts = map(self._to_device, value)
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        return value

    def _assert_close(self, actual: Any, expected: Any, message: str) -> None:
        """Shapes and kinds are equal, and so are numbers, up to the tolerances for floating ones."""
        for a, b in zip(_arrays(actual), _arrays(expected), strict=True):
            assert a.shape == b.shape, message
            assert a.dtype.kind == b.dtype.kind, message
            if b.dtype.kind != "f":
                np.testing.assert_array_equal(a, b, message)
                continue
            scale = np.abs(b).max(initial=1.0)
            np.testing.assert_allclose(a, b, self.rtol, self.atol * scale, err_msg=message)


def _public(operation: str) -> Callable[..., Any]:
    """The public function of one of Tacenda's operations."""
    folder, function = OPERATIONS[operation].split(":")
    public: Callable[..., Any] = getattr(import_module(f"tacenda.kernels.{folder}"), function)
    return public


def _noted(name: str, target: str | Callable[..., Any], called: set[str]) -> Callable[..., Any]:
    """The operation, which puts its name into ``called`` when it has run."""

    def run(*arguments: Any, **more: Any) -> Any:
        result = imported(target)(*arguments, **more)
        called.add(name)
        return result

    return run


def _assert_same(first: Any, second: Any, message: str) -> None:
    """All arrays are equal, bit for bit."""
    for a, b in zip(_arrays(first), _arrays(second), strict=True):
        np.testing.assert_array_equal(a, b, message)


def _arrays(result: Any) -> list[np.ndarray[Any, Any]]:
    """All arrays of a result, in order, as numpy has them."""
    if result is None:
        return []
    if isinstance(result, list | tuple):
        return [array for part in result for array in _arrays(part)]
    if hasattr(result, "detach"):
        return [result.detach().cpu().numpy()]
    return [np.asarray(result)]
