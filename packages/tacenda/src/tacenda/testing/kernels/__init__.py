"""Conformance of a kernel backend: one call checks everything.

    from tacenda.testing.kernels import check_backend

    def test_my_backend():
        check_backend(my_package.kernels)

Every operation that the backend has is called through its public function, on the shapes that break kernels. Results
are compared with the specification, also those that are written into arguments, the operation is called from several
threads at once, and its other inputs are watched. A backend may decline a shape with `UnsupportedShape`, but not all
of them. For an operation of your own, say what to call it with:

    check_backend(my_package.kernels, samples={"my_operation": my_samples})

where ``my_samples()`` yields a label, which says what is awkward, and newly made positional arguments.
"""

import copy
import difflib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from inspect import signature
from typing import Any, get_args, get_type_hints

import numpy as np

from tacenda import kernels, plugins
from tacenda.errors import KernelError
from tacenda.kernels import dispatch
from tacenda.kernels.machinery.arguments import in_place
from tacenda.kernels.trees import Codes
from tacenda.testing.kernels.samples import SAMPLES, Sample, run_specification

__all__ = ["SAMPLES", "check_backend"]

Samples = Callable[[], Iterator[Sample]]

_NAME, _OWNER = "under_test", "<conformance>"


def check_backend(
    backend: Any,
    *,
    device: str = "cpu",
    samples: Mapping[str, Samples] | None = None,
    operation: str | None = None,
    threads: int = 4,
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> None:
    """Check a backend, which need not be installed. Raises AssertionError, naming the operation and its input.

    An error that the backend raises is not caught; a note on it names both.

    Parameters
    ----------
    backend
        A module or an object, see `tacenda.kernels.dispatch`.
    device
        Where its operations run. On any other device than "cpu", floating arrays are torch tensors on that device.
    samples
        Inputs for operations of your own, by name.
    operation
        Check this one only.
    threads
        Threads that call an operation at once.
    rtol, atol
        Tolerances of floating results; ``atol`` is relative to the largest finite magnitude of the expected
        result. Integers must be equal.
    """
    dispatch.define_operations()
    own = dict(samples or {})
    inputs = {**SAMPLES, **own}
    _check_description(backend, own.keys())
    chosen = [] if operation is None else [operation]
    called: set[str] = set()
    offered = {name: getattr(backend, name) for name in inputs if dispatch.offers(backend, name)}
    for name in (*own, *chosen):
        assert name in offered, f"the backend does not offer {name}"
    with _registered(backend, offered, device, called):
        for name in chosen or offered:
            _check_operation(name, inputs[name], device, threads, rtol, atol)
            assert name in called, (
                f"the public function of {name} never calls it: what was compared is not the backend's"
            )


def _check_description(backend: Any, own: Any) -> None:
    """Priority, version and devices can be used, and every function is an operation that something is known of."""
    kind, version = getattr(backend, "kind", None), getattr(backend, "api_version", 1)
    assert kind == "kernels", f"kind must be 'kernels', not {kind!r}"
    assert version == kernels.API_VERSION, f"api_version is {version!r}"
    try:
        dispatch.check_attributes(_NAME, backend)
    except KernelError as error:
        raise AssertionError(str(error)) from None
    reference = getattr(backend, "file", None) == dispatch.REFERENCE
    assert reference or backend.priority > 0, "only the reference comes last"
    for name in dispatch.functions_of(backend):
        if name not in SAMPLES and name not in own:
            near = difflib.get_close_matches(name, SAMPLES, n=1)
            meant = f"is {near[0]!r} meant? Else " if near else ""
            raise AssertionError(
                f"Tacenda has no operation {name!r}: {meant}define it with tacenda.kernels.operation and give samples"
            )


@contextmanager
def _registered(
    backend: Any, offered: Mapping[str, Any], device: str, called: set[str]
) -> Iterator[None]:
    """Put the backend where the dispatcher looks, under a name of its own, and note which operations are called."""

    def note_calls(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            result = function(*arguments)
            called.add(name)
            return result

        return run

    devices = {device, device.partition(":")[0]}
    functions = {name: note_calls(name, function) for name, function in offered.items()}
    proxy = kernels.Backend(priority=max(backend.priority, 0), devices=devices, **functions)
    plugins.register("kernels", _NAME, proxy, distribution=_OWNER)
    try:
        yield
    finally:
        plugins.unregister("kernels", _NAME, distribution=_OWNER)


def _check_operation(
    name: str, samples: Samples, device: str, threads: int, rtol: float, atol: float
) -> None:
    """Compare an operation with its specification on all samples, and with itself in several threads."""
    public = dispatch.OPERATIONS[name]
    outputs = _outputs(public.specification)  # type: ignore[attr-defined]
    alone = []
    for label, arguments in samples():
        before = copy.deepcopy(arguments)
        given = _to_device(tuple(arguments), device)
        alone.append(actual := _run(name, (label, given)))
        for i, (now, then) in enumerate(zip(given, before, strict=True)):
            if i not in outputs:
                _assert_same(now, then, f"{name} changes argument {i}: {label}")
        if actual is not None:
            expected = _arrays(run_specification(public, *before))  # it writes into its arguments
            _assert_close(actual, expected, f"{name}: {label}", rtol, atol)
            for i in outputs.intersection(range(len(given))):
                message = f"{name} writes other numbers into argument {i}: {label}"
                _assert_close(_arrays(given[i]), _arrays(before[i]), message, rtol, atol)
    assert any(actual is not None for actual in alone), (
        f"{name} declines every input; leave it out of the backend"
    )
    again = [(label, _to_device(tuple(arguments), device)) for label, arguments in samples()]
    with ThreadPoolExecutor(threads) as pool:
        together = list(pool.map(lambda sample: _run(name, sample), again))
    for (label, _), first, second in zip(again, alone, together, strict=True):
        _assert_same(first, second, f"{name} differs between threads: {label}")


def _outputs(specification: Callable[..., Any]) -> set[int]:
    """Return the positions of the arguments that an operation writes into."""
    hints = get_type_hints(specification, include_extras=True)

    def writes(hint: Any) -> bool:
        marks = getattr(hint, "__metadata__", ())
        if in_place in marks or any(in_place in getattr(m, "constraints", ()) for m in marks):
            return True
        fields = get_type_hints(hint, include_extras=True) if hasattr(hint, "_fields") else {}
        return any(map(writes, (*fields.values(), *get_args(hint))))

    names = list(signature(specification).parameters)
    return {at for at, name in enumerate(names) if writes(hints.get(name))}


def _run(name: str, sample: Sample) -> list[Any] | None:
    """Return the arrays that a public function makes with this backend alone, or None where the backend declines."""
    label, arguments = sample
    try:
        with kernels.use(f"{_NAME}@{_OWNER}"):
            return _arrays(dispatch.OPERATIONS[name](*arguments))
    except kernels.UnsupportedShape:
        return None
    except Exception as error:
        error.add_note(f"{name}: {label}")
        raise


def _to_device(value: Any, device: str) -> Any:
    """Return floating arrays, also those in tuples, as the device has them."""
    if device == "cpu":
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        import torch

        return torch.from_numpy(value).to(device)
    if isinstance(value, tuple):
        parts = [_to_device(each, device) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def _assert_close(
    actual: list[Any], expected: list[Any], message: str, rtol: float, atol: float
) -> None:
    """Shapes and kinds are equal, and so are numbers, up to the tolerances for floating ones."""
    assert len(actual) == len(expected), f"{message}: {len(actual)} arrays, not {len(expected)}"
    finite = [b[np.isfinite(b)] for b in expected if b.dtype.kind == "f"]
    scale = max((float(np.abs(b).max(initial=0)) for b in finite), default=0.0)
    for a, b in zip(actual, expected, strict=True):
        assert a.shape == b.shape, message
        assert a.dtype.kind == b.dtype.kind, message
        if b.dtype.kind != "f":
            np.testing.assert_array_equal(a, b, message)
            continue
        np.testing.assert_allclose(a, b, rtol, atol * scale, err_msg=message)


def _assert_same(first: Any, second: Any, message: str) -> None:
    """Both have the same arrays."""
    arrays, others = _arrays(first), _arrays(second)
    assert len(arrays) == len(others), message
    for a, b in zip(arrays, others, strict=True):
        np.testing.assert_array_equal(a, b, message)


def _arrays(result: Any) -> list[np.ndarray[Any, Any]]:
    """Return all arrays of a result or an argument, in order, as numpy has them."""
    if result is None:
        return []
    if isinstance(result, Codes):
        result = result.arrays
    if isinstance(result, list | tuple):
        return [array for part in result for array in _arrays(part)]
    if hasattr(result, "detach"):
        return [result.detach().cpu().numpy()]
    return [np.asarray(result)]
