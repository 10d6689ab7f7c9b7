"""Checks of arguments that several operations share, of numpy arrays and torch tensors alike.

The public function of an operation checks what it is given, once; backends rely on it. Nothing here imports torch
unless it is given tensors.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.offsets import checked_offsets

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def common_device(**arrays: Any) -> str:
    """The device on which all the arrays lie that are not None: "cpu" for numpy, else "cuda:0" and the like.

    Raises
    ------
    KernelError
        Tensors are mixed with numpy arrays, or lie on different devices.
    """
    given = {name: array for name, array in arrays.items() if array is not None}
    if all(isinstance(array, np.ndarray) for array in given.values()):
        return "cpu"
    first, leader = next(iter(given.items()))
    device = str(getattr(leader, "device", "cpu"))
    for name, array in given.items():
        if isinstance(array, np.ndarray) != isinstance(leader, np.ndarray):
            raise KernelError(
                f"{name} is a {type(array).__name__} and {first} a {type(leader).__name__}: "
                "give all as numpy arrays or all as tensors"
            )
        here = str(getattr(array, "device", "cpu"))
        if here != device:
            raise KernelError(f"{name} is on {here} and {first} on {device}: move one of them")
    return device


def given(array: Any) -> Any:
    """An array or a tensor as it is, anything else, such as a list or a scalar of numpy, as an array."""
    if isinstance(array, np.ndarray):
        return array
    return array if hasattr(array, "shape") and not np.isscalar(array) else np.asarray(array)


def in_c_order(array: Any, dtype: Any = None) -> Any:
    """The array or tensor, or a copy of it, in C order and in another dtype if one is given."""
    if isinstance(array, np.ndarray):
        return np.ascontiguousarray(array, dtype)
    return array.to(dtype or array.dtype).contiguous()


def as_type(array: Any, dtype: Any, like: Any = None) -> Any:
    """The array or tensor in C order and in a dtype of numpy's, and where ``like`` lies; not copied if it is so."""
    if isinstance(array, np.ndarray) and (like is None or isinstance(like, np.ndarray)):
        return np.ascontiguousarray(array, dtype)
    import torch

    from tacenda.kernels.machinery.tensors import to_device

    where = array.device if like is None else like.device
    (found,) = to_device((array,), where)
    return found.to(getattr(torch, np.dtype(dtype).name)).contiguous()


def broadcast(array: Any, shape: tuple[int, ...], name: str) -> Any:
    """The array or tensor broadcast to ``shape``, in C order. Raises KernelError."""
    try:
        if isinstance(array, np.ndarray):
            return np.ascontiguousarray(np.broadcast_to(array, shape))
        return array.broadcast_to(shape).contiguous()
    except (ValueError, RuntimeError):
        raise KernelError(
            f"the {name} are {tuple(array.shape)} and must be {shape}, or broadcast to it"
        ) from None


def zeros(shape: tuple[int, ...], like: Any) -> Any:
    """Zeros of the dtype of ``like``, and on its device."""
    if isinstance(like, np.ndarray):
        return np.zeros(shape, like.dtype)
    return like.new_zeros(shape)


def empty(shape: tuple[int, ...], like: Any) -> Any:
    """An array to be filled, of the dtype of ``like`` and on its device."""
    return np.empty(shape, like.dtype) if isinstance(like, np.ndarray) else like.new_empty(shape)


def on_host(integers: Any) -> NDArray[Any]:
    """Ids or offsets as a numpy array, wherever they lie."""
    return np.asarray(integers.cpu() if hasattr(integers, "cpu") else integers)


def check_floats(array: Any, dimensions: int, name: str) -> None:
    """Raise `KernelError` unless the array is float32 or float64 with so many dimensions."""
    if len(array.shape) != dimensions or not (
        array.dtype in _FLOATS or str(array.dtype) in ("torch.float32", "torch.float64")
    ):
        raise KernelError(
            f"{name} must be float32 or float64 in {dimensions} dimensions, not {_describe(array)}"
        )


def check_array(array: Any, shape: tuple[int, ...], like: Any, name: str) -> None:
    """Raise `KernelError` unless the array has this shape, the dtype of ``like`` and C order."""
    flags = getattr(array, "flags", None)
    contiguous = array.is_contiguous() if flags is None else flags.c_contiguous
    if tuple(array.shape) != tuple(shape) or array.dtype != like.dtype or not contiguous:
        raise KernelError(
            f"{name} must be {_dtype(like)} {tuple(shape)} in C order, not {_describe(array)}"
        )


def as_offsets(
    offsets: Any, total: int, name: str = "offsets", pieces: int | None = None
) -> NDArray[np.int64]:
    """Return ``offsets`` as `checked_offsets` does, wherever they lie. Raises KernelError."""
    return checked_offsets(on_host(offsets), total, what=name, pieces=pieces, error=KernelError)


def check_range(ids: Any, n: int, name: str, lowest: int = 0) -> None:
    """Raise `KernelError` unless the ids are integers from ``lowest`` to ``n - 1`` in one dimension.

    Compiled loops index with such ids and do not look at them again.
    """
    kind = getattr(ids.dtype, "kind", None)  # of numpy: a name takes longer than all else here
    whole = kind in "iu" if kind else _dtype(ids).lstrip("u").startswith("int")
    if ids.ndim != 1 or (not whole and len(ids)):
        raise KernelError(f"{name} must be integers in one dimension, not {_describe(ids)}")
    if not len(ids):
        return
    if isinstance(ids, np.ndarray):
        least, most = ids.min(), ids.max()
    else:
        import torch

        least, most = torch.stack(ids.aminmax()).tolist()  # a device is waited for once
    if least < lowest or most >= n:
        raise KernelError(f"{name} run from {int(least)} to {int(most)}, and there are {n} rows")


def _dtype(array: Any) -> str:
    """The name of an array's dtype, as numpy has it."""
    return str(array.dtype).removeprefix("torch.")


def _describe(array: Any) -> str:
    """An array's dtype and shape, for a message."""
    return f"{_dtype(array)} {tuple(array.shape)}"
