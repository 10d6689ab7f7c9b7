"""Where a model computes: on the CPU or, through torch, on a CUDA device.

A model has one option for it, and knows no more of devices than this module tells it:

    device: str = devices.option()                                  # among its settings
    devices.check(settings)                                         # in their check(): is it such a name?
    device = devices.resolve(settings, OPERATIONS)                  # when work begins: "cpu", "cuda", "cuda:1"
    devices.check_memory(needed, device, settings, "a smaller batch")
    with devices.out_of_memory(settings, "a smaller batch"):
        table = devices.put(table, device)                          # kernels run where their arrays lie
        ...
        table = devices.fetch(table)

What is no kernel is written once for both, with the functions that numpy and torch share (`library`).

"auto" is the first CUDA device where there is one and all operations of the model run there, and the CPU otherwise.
torch is imported only where a CUDA driver is installed, or a device is asked for by name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tacenda import settings as declared
from tacenda.errors import ConfigurationError, FittingError, KernelError
from tacenda.kernels import resolve as backend_for

__all__ = [
    "Array",
    "assign",
    "beside",
    "check",
    "check_memory",
    "copied",
    "fetch",
    "library",
    "memory",
    "merged_rows",
    "multiply_into",
    "option",
    "out_of_memory",
    "put",
    "resolve",
    "without_device",
]

Array = Any
"""What has a row for each of many things: an array of numpy on the CPU, a tensor of torch elsewhere."""

_NAME = re.compile(r"auto|cpu|cuda(:\d{1,3})?")
_DRIVERS = "/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg"
_IN_USE = 0.95  # of free memory: allocators keep some of it in pieces that are too small


class HasDevice(Protocol):
    """Settings with the option `option` declares."""

    @property
    def device(self) -> str:
        """What the user chose."""
        ...

    def refuse(self, name: str, wanted: str) -> None:
        """Raise ConfigurationError: see `tacenda.settings.Settings.refuse`."""
        ...

    def model(self) -> str:
        """Whose settings these are."""
        ...


def option(of: str = "training", default: str = "auto") -> Any:
    """Declare the device of a model; ``of`` says what runs there."""
    doc = f"""where {of} runs: "cpu", "cuda", "cuda:1", or "auto", which is a CUDA device where there is one that can;
    results differ by rounding only, and a model is saved without this option"""
    return declared.option(default, doc)


def check(settings: HasDevice) -> None:
    """Refuse, in ``settings.check()``, a device that is none. Raises ConfigurationError."""
    if not _NAME.fullmatch(settings.device):
        settings.refuse("device", '"auto", "cpu", "cuda" or "cuda:" and a number')


def without_device(settings: declared.Settings) -> dict[str, Any]:
    """Return the settings but for the device, as JSON values: what a saved model and a checkpoint hold."""
    values = settings.to_dict()
    values.pop("device", None)
    return values


def resolve(settings: HasDevice, operations: Iterable[str]) -> str:
    """Return the device to work on: "cpu", "cuda" or "cuda:1".

    Parameters
    ----------
    settings
        With the option `option` declares.
    operations
        The operations of `tacenda.kernels` that the work is made of.

    Raises
    ------
    ConfigurationError
        The device asked for is not there, or no installed backend runs the operations on it.
    """
    device = settings.device
    if device == "cpu" or (device == "auto" and not _may_have_cuda()):
        return "cpu"
    try:
        _require(device if device != "auto" else "cuda", operations)
    except _Absent as error:
        if device == "auto":
            return "cpu"
        raise ConfigurationError(
            f"{settings.model()}: device is {device!r}, and {error}"
        ) from error.__cause__
    return "cuda" if device == "auto" else device


class _Absent(Exception):  # noqa: N818 - caught here, always
    """Why a device cannot be used, as the second half of a sentence."""


def _require(device: str, operations: Iterable[str]) -> None:
    """Raise `_Absent` unless the device is there and runs the operations."""
    if find_spec("torch") is None:
        raise _Absent("torch is not installed: install tacenda[gpu]")
    import torch

    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not found:
        raise _Absent(
            f'torch {torch.__version__} finds no CUDA device here: use device="cpu", or a machine with '
            "one and a torch that is built for it"
        )
    if int(device.partition(":")[2] or 0) >= found:
        raise _Absent(f"the last one here is cuda:{found - 1}")
    try:
        for operation in operations:
            backend_for(operation, device)
    except KernelError as error:
        raise _Absent(str(error)) from error


@cache
def _may_have_cuda() -> bool:
    """Whether a CUDA driver is installed: what can be known without importing torch, which takes seconds."""
    if os.name == "nt":
        return Path(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "nvcuda.dll").exists()
    return any(Path(place).exists() for place in _DRIVERS)


# -- memory ------------------------------------------------------------------------------------------


def memory(device: str) -> int:
    """Return the bytes that can be allocated there: free ones of a CUDA device, all of the machine's on the CPU.

    0 where they cannot be known.
    """
    if device.startswith("cuda"):
        import torch

        free, _ = torch.cuda.mem_get_info(device)
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(_IN_USE * (free + kept))
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 0


def check_memory(needed: int, device: str, settings: HasDevice, lower: str) -> None:
    """Raise ConfigurationError where ``needed`` bytes are more than the device has; ``lower`` says what to give."""
    there = memory(device)
    if not there or needed <= there:
        return
    has = "the machine has" if device == "cpu" else f"{device} has"
    free = "" if device == "cpu" else " free"
    raise ConfigurationError(
        f"{settings.model()}: training needs about {_gigabytes(needed)}, and {has} {_gigabytes(there)}{free}: "
        f"give {lower}"
    )


@contextmanager
def out_of_memory(settings: HasDevice, lower: str) -> Iterator[None]:
    """Turn torch's error of a device that is full into a FittingError, which says what to give instead."""
    try:
        yield
    except RuntimeError as error:
        if type(error).__name__ != "OutOfMemoryError":
            raise
        raise FittingError(
            f'{settings.model()}: the memory of the device was not enough: give {lower}, or use device="cpu"'
        ) from error


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.0f} GB" if size >= 10e9 else f"{size / 1e9:.2g} GB"


# -- arrays ------------------------------------------------------------------------------------------


def put(array: Any, device: str) -> Any:
    """Return a numpy array as the kernels of a device take it: itself on the CPU, else a tensor there."""
    if device == "cpu":
        return array
    import torch

    from tacenda.kernels.machinery.tensors import to_device

    return to_device((array,), torch.device(device))[0]


def fetch(array: Any) -> Any:
    """Return an array of any device as numpy has it; on the CPU the array itself."""
    return array.detach().cpu().numpy() if hasattr(array, "detach") else array


def library(array: Array) -> Any:
    """Return the module whose functions take the array: numpy, or torch.

    Much of numpy has the same name and the same arguments in torch, which takes ``axis`` and ``keepdims`` too: what is
    written with no more than that runs where its arrays lie.
    """
    if isinstance(array, np.ndarray):
        return np
    import torch

    return torch


def merged_rows(ids: Array, *arrays: Array) -> tuple[Array, list[Array]]:
    """Return the different ids ascending, and the sums of the rows of each, in the order in which they stand.

    ``ids`` (rows,) are integers, the arrays (rows, ...) lie where they do. Nothing is added by atomics.
    """
    if not len(ids):
        return ids, [array[:0] for array in arrays]
    order = library(ids).argsort(ids, stable=True)
    ordered = ids[order]
    if isinstance(ids, np.ndarray):
        begins = np.flatnonzero(np.diff(ordered, prepend=-1))
        return ordered[begins], [np.add.reduceat(array[order], begins, axis=0) for array in arrays]
    import torch

    found, lengths = torch.unique_consecutive(ordered, return_counts=True)
    how: dict[str, Any] = {"lengths": lengths, "axis": 0, "initial": 0, "unsafe": True}
    return found, [torch.segment_reduce(array[order], "sum", **how) for array in arrays]


def copied(array: Array) -> Array:
    """Return a copy of an array of any device, where it lies."""
    return array.clone() if hasattr(array, "clone") else array.copy()


def beside(matrix: Array, value: float) -> Array:
    """Return a copy of a matrix of any device with one more column, filled with ``value``."""
    if isinstance(matrix, np.ndarray):
        return np.append(matrix, np.full((len(matrix), 1), value, matrix.dtype), axis=1)
    import torch

    return torch.cat([matrix, matrix.new_full((len(matrix), 1), value)], dim=1)


def assign(target: Array, array: Any) -> None:
    """Copy a numpy array over an array of any device, of the same shape."""
    if not hasattr(target, "copy_"):
        target[...] = array
        return
    import torch

    target.copy_(torch.from_numpy(array.copy() if not array.flags.writeable else array))


def multiply_into(left: Array, right: Array, out: Array) -> None:
    """Write the product of two matrices into ``out``, which may be some columns of a larger matrix."""
    if isinstance(left, np.ndarray):
        np.matmul(left, right, out=out)
        return
    import torch

    torch.mm(left, right, out=out)
