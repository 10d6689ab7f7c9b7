"""Tensors of torch as the kernels take them, and the functions that numpy and torch spell differently.

Import this where torch is needed only, as it imports torch. Code written with these functions runs on numpy arrays,
which share their memory with tensors on the CPU, and on tensors of other devices.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

__all__ = ["exp", "put_at", "sum_at", "take_at", "to_array", "to_device", "to_tensor"]

_Ids = np.ndarray[Any, np.dtype[np.int64]]


def to_array(tensor: Any) -> Any:
    """What a kernel takes: a numpy array over the memory of a tensor on the CPU, else the tensor; None stays None."""
    if tensor is None:
        return tensor
    return tensor.detach().numpy() if tensor.device.type == "cpu" else tensor.detach()


def to_tensor(array: Any) -> Any:
    """What a kernel returned, as a tensor."""
    return torch.from_numpy(array) if isinstance(array, np.ndarray) else array


def to_device(arrays: Iterable[np.ndarray[Any, Any]], device: torch.device) -> list[torch.Tensor]:
    """Copies of numpy arrays on a device."""
    return [torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in arrays]


def exp(array: Any) -> Any:
    """The exponential, elementwise."""
    return array.exp() if isinstance(array, torch.Tensor) else np.exp(array)


def take_at(table: Any, rows: _Ids, columns: _Ids) -> Any:
    """``table[rows, :, columns]`` (n, middle) of a table (rows, middle, columns), in C order."""
    if isinstance(table, torch.Tensor):
        first, last = to_device((rows, columns), table.device)
        return table[first, :, last].contiguous()
    return table[rows, :, columns]


def put_at(like: Any, rows: _Ids, columns: _Ids, values: Any) -> Any:
    """Zeros in the shape of ``like``, but ``[rows, :, columns] = values``; no place may occur twice."""
    if isinstance(like, torch.Tensor):
        first, last = to_device((rows, columns), like.device)
        found = torch.zeros_like(like)
        found[first, :, last] = values
        return found
    table = np.zeros_like(like)
    table[rows, :, columns] = values
    return table


def sum_at(like: Any, rows: _Ids, values: Any) -> Any:
    """Sums, in the shape of ``like``, of the ``values`` that belong to each row, always in the same order."""
    if isinstance(like, torch.Tensor):
        # Unlike index_add, which uses atomics on CUDA, an accumulating index_put_ sorts its indices first.
        at = tuple(to_device((rows,), like.device))
        return torch.zeros_like(like).index_put_(at, values, accumulate=True)
    table = np.zeros_like(like)
    np.add.at(table, rows, values)
    return table
