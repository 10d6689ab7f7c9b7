"""Tensors of torch as the kernels take them, and the few functions that numpy and torch spell differently.

Imported on demand only, as it imports torch. What is written with these functions runs on numpy arrays, which share
their memory with tensors on the CPU, and on tensors of other devices.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from tacenda.errors import KernelError
from tacenda.kernels.machinery.arrays import device_of

__all__ = [
    "exp",
    "on_host",
    "one_device",
    "put_at",
    "sum_at",
    "take_at",
    "to_array",
    "to_device",
    "to_tensor",
]

_Ids = np.ndarray[Any, np.dtype[np.int64]]


def to_array(tensor: Any) -> Any:
    """What a kernel takes: numpy's array of the same memory on the CPU, else the tensor; None stays."""
    if tensor is None:
        return tensor
    return tensor.detach().numpy() if tensor.device.type == "cpu" else tensor.detach()


def to_tensor(array: Any) -> Any:
    """What a kernel gave, as a tensor."""
    return torch.from_numpy(array) if isinstance(array, np.ndarray) else array


def on_host(integers: Any) -> np.ndarray[Any, Any]:
    """Ids and offsets as numpy's array: the checks look at them, on the host."""
    return np.asarray(integers.cpu() if isinstance(integers, torch.Tensor) else integers)


def one_device(tensors: dict[str, Any]) -> torch.device:
    """The device of all of them that are not None. Raises KernelError where they are not tensors on one."""
    places = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    first, at = next(iter(places)), device_of(next(iter(places.values())))
    for name, tensor in places.items():
        if not isinstance(tensor, torch.Tensor):
            raise KernelError(f"{name} must be a tensor on {at}, not {type(tensor).__name__}")
        if str(tensor.device) != at:
            raise KernelError(f"{name} is on {tensor.device} and {first} on {at}: move one of them")
    return torch.device(at)


def to_device(arrays: Iterable[np.ndarray[Any, Any]], device: torch.device) -> list[torch.Tensor]:
    """Each on the device."""
    return [torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in arrays]


# -- one spelling for numpy's arrays and tensors ---------------------------------------------------


def exp(array: Any) -> Any:
    """Elementwise."""
    return array.exp() if isinstance(array, torch.Tensor) else np.exp(array)


def take_at(table: Any, rows: _Ids, columns: _Ids) -> Any:
    """``table[rows, :, columns]`` (n, middle) of (rows, middle, columns), in C order."""
    if isinstance(table, torch.Tensor):
        first, last = to_device((rows, columns), table.device)
        return table[first, :, last].contiguous()
    return table[rows, :, columns]


def put_at(like: Any, rows: _Ids, columns: _Ids, values: Any) -> Any:
    """Zeros in the shape of ``like`` but for ``[rows, :, columns] = values``; no place occurs twice."""
    if isinstance(like, torch.Tensor):
        first, last = to_device((rows, columns), like.device)
        found = torch.zeros_like(like)
        found[first, :, last] = values
        return found
    table = np.zeros_like(like)
    table[rows, :, columns] = values
    return table


def sum_at(like: Any, rows: _Ids, values: Any) -> Any:
    """In the shape of ``like`` the sums of the ``values`` of each row, in an order that does not vary."""
    if isinstance(like, torch.Tensor):
        # unlike index_add, puts that accumulate sort their indices on CUDA, and use no atomics
        at = tuple(to_device((rows,), like.device))
        return torch.zeros_like(like).index_put_(at, values, accumulate=True)
    table = np.zeros_like(like)
    np.add.at(table, rows, values)
    return table
