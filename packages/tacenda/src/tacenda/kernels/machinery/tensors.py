"""Tensors of torch, in the form in which the kernels take and return them.

This module imports torch: import it only where torch is needed.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch


def to_array(tensor: Any) -> Any:
    """Return a tensor on the CPU as an array that shares its memory, another tensor as it is, and None as None."""
    if tensor is None:
        return tensor
    return tensor.detach().numpy() if tensor.device.type == "cpu" else tensor.detach()


def to_tensor(array: Any) -> Any:
    """Return the result of a kernel as a tensor."""
    return torch.from_numpy(array) if isinstance(array, np.ndarray) else array


def to_device(arrays: Iterable[Any], device: torch.device) -> list[torch.Tensor]:
    """Copy arrays to a device: those of numpy, and tensors that are elsewhere."""
    return [
        (array if isinstance(array, torch.Tensor) else _shared(array)).to(device)
        for array in arrays
    ]


def _shared(array: Any) -> torch.Tensor:
    """Return a tensor over the memory of an array, or of a copy where torch cannot use it."""
    array = np.ascontiguousarray(array)
    return torch.from_numpy(array if array.flags.writeable else array.copy())
