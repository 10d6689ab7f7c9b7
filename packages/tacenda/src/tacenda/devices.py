"""Where a model computes: on the CPU or, through torch, on a CUDA device.

A model has one option for it, and knows no more of devices than this module tells it:

    device: str = devices.option()                                  # among its settings
    devices.check(settings)                                         # in their check(): is it such a name?
    device = devices.resolve(settings, OPERATIONS)                  # when work begins: "cpu", "cuda", "cuda:1"
    devices.check_memory(needed, device, settings, "a smaller batch")
    with devices.out_of_memory(settings, "a smaller batch"):
        parameters = parameters.to(device)                          # kernels run where their arrays are
        ...
        parameters = parameters.to_numpy()                          # see `tacenda.arrays`

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

from tacenda import settings as declared
from tacenda.errors import ConfigurationError, FittingError, KernelError
from tacenda.kernels import resolve as backend_for

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


def option(of: str = "training", default: str = "auto", *, last: bool = False) -> Any:
    """Declare the device of a model; ``of`` says what runs there, ``last`` is as in `tacenda.settings.option`."""
    doc = f"""where {of} runs: "cpu", "cuda", "cuda:1", or "auto", which is a CUDA device where there is one that can;
    results differ by rounding only, and a model is saved without this option"""
    return declared.option(default, doc, last=last)


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
