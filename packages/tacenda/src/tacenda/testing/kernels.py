"""Conformance of a kernel backend: subclass `KernelBackendTests` in a test file and say which.

    from tacenda.testing.kernels import KernelBackendTests
    from my_package import backend

    class TestMyBackend(KernelBackendTests):
        backend = backend

Every operation the backend shares with Tacenda is compared with the reference on the shapes that
break kernels, run from several threads at once, and watched for changes to its inputs. A backend may
decline a shape with `UnsupportedShape`, but not all of them.
"""

import copy
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

from tacenda import kernels, plugins
from tacenda.errors import PluginError
from tacenda.kernels.dispatch import REFERENCE
from tacenda.testing.kernel_cases import CASES, Case

_DISTRIBUTION = "<conformance>"


class KernelBackendTests:
    """Inherit, and set ``backend``.

    Attributes
    ----------
    backend
        The `tacenda.kernels.Backend` under test; it need not be installed.
    device
        Where its operations run. For "cuda" arrays are given as torch tensors there.
    rtol, atol
        Tolerances for floating results, ``atol`` relative to the largest magnitude expected.
        Integers must be equal.
    """

    backend: kernels.Backend
    device: str = "cpu"
    rtol: float = 1e-4
    atol: float = 1e-5

    @pytest.fixture(autouse=True)
    def _registered(self) -> Iterator[None]:
        """Put the backend where the dispatcher looks, unless it is there already."""
        installed = any(
            loaded is self.backend
            for loaded in (_get(record) for record in plugins.available("kernels"))
        )
        if installed:
            yield
            return
        plugins.register("kernels", self.backend.name, self.backend, distribution=_DISTRIBUTION)
        try:
            yield
        finally:
            plugins.unregister("kernels", self.backend.name, distribution=_DISTRIBUTION)

    def shared_operations(self) -> list[str]:
        """The operations of this backend that Tacenda has a specification and cases for."""
        return [name for name in CASES if name in self.backend.operations]

    def to_device(self, value: Any) -> Any:
        """Arguments as the device has them."""
        if self.device == "cpu" or not isinstance(value, np.ndarray):
            return value
        import torch

        return torch.from_numpy(value).to(self.device)

    def run(self, operation: str, arguments: tuple[Any, ...]) -> Any:
        """The operation on this backend alone."""
        with kernels.use(self.backend.name):
            return kernels.resolve(operation, self.device)(*map(self.to_device, arguments))

    def test_describes_itself(self) -> None:
        backend = self.backend
        assert isinstance(backend, kernels.Backend)
        assert backend.name
        assert backend.api_version == kernels.API_VERSION
        assert backend.devices
        assert backend.operations
        assert backend.name == REFERENCE or backend.priority > 0, "only the reference comes last"

    def test_every_operation_can_be_imported(self) -> None:
        with kernels.use(self.backend.name):
            for operation in self.backend.operations:
                assert callable(kernels.resolve(operation, self.device)), operation

    def test_agrees_with_the_reference(self) -> None:
        for operation in self.shared_operations():
            served = 0
            for label, arguments in CASES[operation]():
                try:
                    actual = self.run(operation, copy.deepcopy(arguments))
                except kernels.UnsupportedShape:
                    continue
                served += 1
                self._assert_close(actual, _expected(operation, arguments), f"{operation}: {label}")
            assert served, f"{operation} declines every case; leave it out of the backend"

    def test_leaves_its_inputs_alone(self) -> None:
        for operation in self.shared_operations():
            for label, arguments in CASES[operation]():
                outputs = _outputs(operation)
                before = copy.deepcopy(arguments)
                try:
                    self.run(operation, arguments)
                except kernels.UnsupportedShape:
                    continue
                for i, (now, then) in enumerate(zip(arguments, before, strict=True)):
                    if i not in outputs:
                        for a, b in zip(_arrays(now), _arrays(then), strict=True):
                            message = f"{operation} changes argument {i}: {label}"
                            np.testing.assert_array_equal(a, b, message)

    def test_is_reentrant_and_repeatable(self) -> None:
        for operation in self.shared_operations():
            once, again = list(CASES[operation]()), list(CASES[operation]())
            alone = [self._run_or_none(operation, case) for case in once]
            with ThreadPoolExecutor(4) as pool:
                together = list(pool.map(partial(self._run_or_none, operation), again))
            for (label, _), first, second in zip(once, alone, together, strict=True):
                for a, b in zip(_arrays(first), _arrays(second), strict=True):
                    message = f"{operation} differs between threads: {label}"
                    np.testing.assert_array_equal(a, b, message)

    def _run_or_none(self, operation: str, case: Case) -> Any:
        try:
            return self.run(operation, case[1])
        except kernels.UnsupportedShape:
            return None

    def _assert_close(self, actual: Any, expected: Any, message: str) -> None:
        pairs = list(zip(_arrays(actual), _arrays(expected), strict=True))
        for a, b in pairs:
            assert a.shape == b.shape, message
            assert a.dtype.kind == b.dtype.kind, message
            if b.dtype.kind != "f":
                np.testing.assert_array_equal(a, b, message)
                continue
            scale = np.abs(b).max(initial=1.0)
            np.testing.assert_allclose(a, b, self.rtol, self.atol * scale, err_msg=message)


def _expected(operation: str, arguments: tuple[Any, ...]) -> Any:
    with kernels.use(REFERENCE):
        return kernels.resolve(operation)(*copy.deepcopy(arguments))


def _outputs(operation: str) -> tuple[int, ...]:
    """Positions of arguments that are there to be written into."""
    outputs = {
        "sparse_product": (4,),
        "linear_recurrence": (5,),
        "modal_recurrence": (6,),
        "modal_scan": (7,),
        "rating_sgd": (4,),
        "rating_boltzmann": (14,),
        "row_steps": (0, 1),
        "tree_softmax_step": (3, 4, 6, 7),
    }
    return outputs.get(operation, ())


def _get(record: plugins.PluginRecord) -> Any:
    try:
        return plugins.get("kernels", record.name, distribution=record.distribution)
    except PluginError:
        return None


def _arrays(result: Any) -> list[np.ndarray[Any, Any]]:
    """All arrays of a result, in order, as numpy has them."""
    if result is None:
        return []
    if isinstance(result, list | tuple):
        return [array for part in result for array in _arrays(part)]
    if hasattr(result, "detach"):
        return [result.detach().cpu().numpy()]
    return [np.asarray(result)]
