"""A device where there is none: its arrays are tensors in the memory of the host.

    with stand_in() as called:
        model.fit(text)             # on tensors, by the operations that CUDA devices have
    assert called == {...}

Every model then resolves its device to the stand-in. What plain torch does is done by torch; what Triton does is done
by the backend ``cpu``, over the same memory. So everything but the Triton kernels themselves is as on a device: what
lies there, what is copied, which operations run. NumPy's functions refuse its tensors, as they refuse tensors of CUDA.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from tacenda import devices, kernels, plugins
from tacenda.kernels import backends

__all__ = ["DEVICE", "stand_in", "tensor_cores"]

DEVICE = "cpu:0"
"""What models take it for. torch knows it as the memory of the host."""

_NAME = "stand_in"


@contextmanager
def stand_in() -> Iterator[set[str]]:
    """Let every model compute on tensors; yields the names of the operations that did. It needs torch."""
    import torch

    called: set[str] = set()
    by_torch = backends.CUDA_BACKENDS["torch"]
    offered: dict[str, Callable[..., Any]] = {}
    for name in kernels.operations():
        if by_torch.offers(name):
            offered[name] = _by_torch(name, getattr(by_torch, name), called)
        elif backends.CUDA_BACKENDS["triton"].offers(name):
            offered[name] = _on_tensors(name, getattr(backends.cpu, name), called)
    backend = kernels.Backend(priority=1, devices={"cpu", DEVICE}, **offered)
    plugins.register("kernels", _NAME, backend)
    try:
        with (
            mock.patch.object(devices, "resolve", return_value=DEVICE),
            mock.patch.object(torch.Tensor, "__array__", _refuse_array),
            kernels.use(f"{_NAME},cpu"),
        ):
            yield called
    finally:
        plugins.unregister("kernels", _NAME)


@contextmanager
def tensor_cores() -> Iterator[set[str]]:
    """Round the factors of torch's products of float32 matrices to TF32, as tensor cores do where torch allows it.

    Yields the names of the products that were made. Sums stay float32, and what is no function of torch, such as a
    kernel of Triton, stays as it is.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    made: set[str] = set()
    products = {"mm", "matmul", "__matmul__", "addmm", "einsum", "bmm", "linear"}

    class Rounding(TorchFunctionMode):  # type: ignore[misc]  # of torch, which mypy does not read
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            name = getattr(func, "__name__", "")
            if name in products:
                made.add(name)
                first = args[:1] if name == "addmm" else ()  # what is added is not rounded
                args = (*first, *(_to_tf32(each) for each in args[len(first) :]))
            return func(*args, **(kwargs or {}))

    def _to_tf32(value: Any) -> Any:
        """Keep 10 bits after the leading one; the gradient is that of what is kept."""
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
            return value
        bits = value.detach().contiguous().view(torch.int32)
        rounded = ((bits + 0x1000) & ~0x1FFF).view(torch.float32)
        return value + (rounded - value).detach()

    with Rounding():
        yield made


def _refuse_array(tensor: Any, *arguments: Any, **options: Any) -> Any:
    """Refuse to become an array of NumPy without ``cpu()``, as tensors of CUDA do."""
    raise TypeError("a tensor of a device is no array of the host: copy it there")


def _by_torch(name: str, target: Any, called: set[str]) -> Callable[..., Any]:
    """The operation of the backend ``torch``, for tensors alone."""

    def run(*arguments: Any) -> Any:
        _require_tensors(arguments)
        called.add(name)
        return target(*arguments)

    return run


def _on_tensors(name: str, target: Any, called: set[str]) -> Callable[..., Any]:
    """The operation of the backend ``cpu`` over the memory of tensors."""

    def run(*arguments: Any) -> Any:
        _require_tensors(arguments)
        called.add(name)
        return _mapped(_to_tensor, target(*(_mapped(_to_array, a) for a in arguments)))

    return run


def _require_tensors(arguments: tuple[Any, ...]) -> None:
    """Leave arrays of numpy to the backend ``cpu``."""
    first = _first_floats(arguments)
    if not hasattr(first, "detach"):
        raise kernels.UnsupportedShape("arrays of the host")


def _first_floats(value: Any) -> Any:
    """The first array or tensor of floating-point numbers in nested tuples."""
    if isinstance(value, tuple):
        found = (array for array in map(_first_floats, value) if array is not None)
        return next(found, None)
    kind = str(getattr(value, "dtype", "")).removeprefix("torch.")
    return value if kind.startswith("float") else None


def _mapped(convert: Callable[[Any], Any], value: Any) -> Any:
    """Nested tuples with every array converted."""
    if not isinstance(value, tuple):
        return convert(value)
    parts = [_mapped(convert, part) for part in value]
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)


def _to_array(value: Any) -> Any:
    return value.detach().numpy() if hasattr(value, "detach") else value


def _to_tensor(value: Any) -> Any:
    import torch

    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value
