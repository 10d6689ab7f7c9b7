"""Devices on which models compute: the CPU or, through torch, a CUDA device.

A model declares one option and calls the functions of this module:

    device: str = devices.option()                                  # among its settings
    device = devices.resolve(settings, OPERATIONS)                  # when work begins: "cpu", "cuda", "cuda:1"
    devices.check_memory(needed, device, settings, "a smaller batch")
    with devices.out_of_memory(settings, "a smaller batch"):
        parameters = parameters.to(device)                          # kernels run where their arrays are
        ...
        parameters = parameters.to("cpu")                           # see `tacenda.arrays`

"auto" is the first CUDA device if there is one and it runs all operations of the model, and the CPU otherwise. torch is
imported only if a CUDA driver is installed or the option names a device.
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
from tacenda.array_ops import allows_tf32
from tacenda.errors import ConfigurationError, FittingError, KernelError
from tacenda.kernels import resolve as backend_for

#: Files of which one exists where a CUDA driver is installed; the last is that of Windows' Linux subsystem.
_DRIVERS = "/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg"
#: The file with a container's limit of memory, in bytes, or "max": cgroup version 2.
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
#: The share of free memory that can be used: allocators keep some of it in pieces that are too small.
_USABLE_SHARE = 0.95


def option(of: str = "training", default: str = "auto", *, last: bool = False) -> Any:
    """Declare the device of a model; ``of`` names the work that runs there, ``last`` is that of `settings.option`."""
    doc = f"""where {of} runs: "cpu", "cuda", "cuda:1", or "auto", which is a CUDA device where there is one;
    results differ by rounding only, and a model is saved without this option"""
    # torch takes no leading zeros, and "cuda:300" for "cuda:44"
    pattern = "auto|cpu|cuda(:(0|[1-9][0-9]?))?"
    allowed = '"auto", "cpu", "cuda" or "cuda:" and a number'
    return declared.option(default, doc, matches=(pattern, allowed), last=last)


def resolve(settings: Any, operations: Iterable[str]) -> str:
    """Return the device to work on: "cpu", "cuda" or "cuda:1".

    Parameters
    ----------
    settings
        Settings with the option that `option` declares.
    operations
        The operations of `tacenda.kernels` that the work calls.

    Raises
    ------
    ConfigurationError
        The option names a device that does not exist, or no installed backend runs the operations on it.
    """
    device: str = settings.device
    if device == "cpu" or (device == "auto" and not _may_have_cuda()):
        return "cpu"
    chosen, cause = device.replace("auto", "cuda"), None
    obstacle = _find_obstacle(chosen)
    if obstacle is None:
        try:
            for operation in operations:
                backend_for(operation, chosen)
        except KernelError as error:
            obstacle, cause = str(error), error
    if obstacle is None:
        return chosen
    if device == "auto":
        return "cpu"
    raise ConfigurationError(f"{settings.model()}: device is {device!r}, and {obstacle}") from cause


def _find_obstacle(device: str) -> str | None:
    """Return why a CUDA device cannot be used, as the second half of a sentence, or None."""
    if find_spec("torch") is None:
        return "torch is not installed: install tacenda[gpu]"
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        return (
            f'torch {torch.__version__} finds no CUDA device here: use device="cpu", or a machine with '
            "one and a torch that is built for it"
        )
    # torch checks the same before it raises a RuntimeError
    if torch.cuda._is_in_bad_fork():
        return (
            "this process was forked from one that uses it, which CUDA does not allow: start processes by "
            '"spawn", or use device="cpu"'
        )
    if int(device.partition(":")[2] or 0) >= count:
        return f"the last one here is cuda:{count - 1}"
    return None


@cache
def _may_have_cuda() -> bool:
    """Return whether a CUDA driver is installed, without importing torch, which takes seconds."""
    if os.name == "nt":
        return Path(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "nvcuda.dll").exists()
    return any(Path(place).exists() for place in _DRIVERS)


# -- memory ------------------------------------------------------------------------------------------


def available_memory(device: str) -> int:
    """Return the bytes that can be allocated: the free memory of a CUDA device, or all of the machine's for the CPU.

    In a container, the limit of the container counts (cgroup version 2). 0 means that the memory is not known.
    """
    if device.startswith("cuda"):
        import torch

        free, _ = torch.cuda.mem_get_info(device)
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(_USABLE_SHARE * (free + cached))
    try:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows
        return 0
    try:
        return min(physical, int(_CONTAINER_LIMIT.read_text(encoding="ascii")))
    except (OSError, ValueError):  # no such file, or "max"
        return physical


def check_memory(needed: int, device: str, settings: Any, advice: str) -> None:
    """Raise ConfigurationError if the device has less memory than ``needed``, in bytes.

    ``advice`` completes the message "give ...", such as "a smaller batch".
    """
    available = available_memory(device)
    if not available or needed <= available:
        return
    needs, has = _format_size(needed), _format_size(available)
    owner = f"the machine has {has}" if device == "cpu" else f"{device} has {has} free"
    raise ConfigurationError(
        f"{settings.model()}: training needs about {needs}, and {owner}: give {advice}"
    )


def _format_size(size: int) -> str:
    """Return a size in bytes as gigabytes, with two digits or more."""
    return f"{size / 1e9:,.0f} GB" if size >= 10e9 else f"{size / 1e9:.2g} GB"


@contextmanager
def out_of_memory(settings: Any, advice: str) -> Iterator[None]:
    """Replace torch's error for a full device by a FittingError, also for work on a fitted model.

    ``advice`` completes the message "give ...", such as "a smaller batch".
    """
    try:
        yield
    except RuntimeError as error:
        # compared by name, so that work on the CPU need not import torch
        if type(error).__name__ != "OutOfMemoryError":
            raise
        raise FittingError(
            f'{settings.model()}: the memory of the device was not enough: give {advice}, or use device="cpu"'
        ) from error


@contextmanager
def full_precision(device: str) -> Iterator[None]:
    """Make cuDNN deterministic, and disable TF32 in its LSTM, which uses it by default, unless torch's products may."""
    if not device.startswith("cuda"):
        yield
        return
    import torch

    cudnn, allowed = torch.backends.cudnn, allows_tf32()
    tf32: tuple[Any, str, Any] = cudnn, "allow_tf32", allowed
    if hasattr(cudnn, "rnn"):  # torch 2.9 or newer
        tf32 = cudnn.rnn, "fp32_precision", "tf32" if allowed else "ieee"
    chosen = (cudnn, "enabled", True), (cudnn, "deterministic", True), tf32
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in chosen]
    try:
        for switch in chosen:
            setattr(*switch)
        yield
    finally:
        for switch in before:
            setattr(*switch)
