"""Where a model computes: on the CPU or, through torch, on a CUDA device.

A model has one option for it, and knows no more of devices than this module tells it:

    device: str = devices.option()                                  # among its settings
    device = devices.resolve(settings, OPERATIONS)                  # when work begins: "cpu", "cuda", "cuda:1"
    devices.check_memory(needed, device, settings, "a smaller batch")
    with devices.out_of_memory(settings, "a smaller batch"):
        parameters = parameters.to(device)                          # kernels run where their arrays are
        ...
        parameters = parameters.to("cpu")                           # see `tacenda.arrays`

"auto" is the first CUDA device where there is one and all operations of the model run there, and the CPU otherwise.
torch is imported only where a CUDA driver is installed, or a device is asked for by name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tacenda import settings as declared
from tacenda.errors import ConfigurationError, FittingError, KernelError
from tacenda.kernels import resolve as backend_for

_DRIVERS = "/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg"
_IN_USE = 0.95  # of free memory: allocators keep some of it in pieces that are too small


def option(of: str = "training", default: str = "auto", *, last: bool = False) -> Any:
    """Declare the device of a model; ``of`` says what runs there, ``last`` is as in `tacenda.settings.option`."""
    doc = f"""where {of} runs: "cpu", "cuda", "cuda:1", or "auto", which is a CUDA device where there is one;
    results differ by rounding only, and a model is saved without this option"""
    names = r"auto|cpu|cuda(:\d{1,3})?", '"auto", "cpu", "cuda" or "cuda:" and a number'
    return declared.option(default, doc, matches=names, last=last)


def resolve(settings: Any, operations: Iterable[str]) -> str:
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
    device: str = settings.device
    if device == "cpu" or (device == "auto" and not _may_have_cuda()):
        return "cpu"
    chosen, cause = device.replace("auto", "cuda"), None
    why_not = _find_obstacle(chosen)
    if why_not is None:
        try:
            for operation in operations:
                backend_for(operation, chosen)
        except KernelError as error:
            why_not, cause = str(error), error
    if why_not is not None and device != "auto":
        raise ConfigurationError(
            f"{settings.model()}: device is {device!r}, and {why_not}"
        ) from cause
    return chosen if why_not is None else "cpu"


def _find_obstacle(device: str) -> str | None:
    """Return why there is no such CUDA device, as the second half of a sentence."""
    if find_spec("torch") is None:
        return "torch is not installed: install tacenda[gpu]"
    import torch

    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not found:
        return (
            f'torch {torch.__version__} finds no CUDA device here: use device="cpu", or a machine with '
            "one and a torch that is built for it"
        )
    if torch.cuda._is_in_bad_fork():  # what torch itself asks before it raises
        return (
            "this process was forked from one that uses it, which CUDA does not allow: start processes by "
            '"spawn", or use device="cpu"'
        )
    if int(device.partition(":")[2] or 0) >= found:
        return f"the last one here is cuda:{found - 1}"
    return None


@cache
def _may_have_cuda() -> bool:
    """Return whether a CUDA driver is installed: what can be known without importing torch, which takes seconds."""
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


def check_memory(needed: int, device: str, settings: Any, lower: str) -> None:
    """Raise ConfigurationError where ``needed`` bytes are more than the device has; ``lower`` says what to give."""
    there = memory(device)
    if not there or needed <= there:
        return
    sizes = [f"{n / 1e9:,.0f} GB" if n >= 10e9 else f"{n / 1e9:.2g} GB" for n in (needed, there)]
    has = f"the machine has {sizes[1]}" if device == "cpu" else f"{device} has {sizes[1]} free"
    raise ConfigurationError(
        f"{settings.model()}: training needs about {sizes[0]}, and {has}: give {lower}"
    )


@contextmanager
def out_of_memory(settings: Any, lower: str) -> Iterator[None]:
    """Turn torch's error of a device that is full into a FittingError, which says what to give instead."""
    try:
        yield
    except RuntimeError as error:
        if type(error).__name__ != "OutOfMemoryError":
            raise
        raise FittingError(
            f'{settings.model()}: the memory of the device was not enough: give {lower}, or use device="cpu"'
        ) from error
