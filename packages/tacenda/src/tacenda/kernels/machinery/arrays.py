"""What the dispatcher and the checks ask of an array, be it numpy's or a tensor of torch; imports no torch."""

from typing import Any

__all__ = ["describe", "device_of", "dtype_name", "in_c_order", "is_floating"]


def device_of(array: Any) -> str:
    """Where it is: "cuda:0" ...; numpy arrays, of whatever version, are on the CPU."""
    return str(getattr(array, "device", "cpu"))


def dtype_name(array: Any) -> str:
    """The name of its dtype, as numpy has it."""
    return str(array.dtype).removeprefix("torch.")


def is_floating(array: Any) -> bool:
    """Whether it is float32 or float64, which the kernels compute with."""
    return dtype_name(array) in ("float32", "float64")


def in_c_order(array: Any) -> bool:
    """Whether rows lie one after another, without gaps."""
    flags = getattr(array, "flags", None)
    return bool(array.is_contiguous() if flags is None else flags.c_contiguous)


def describe(array: Any) -> str:
    """Dtype and shape, for a message."""
    return f"{dtype_name(array)} {tuple(array.shape)}"
