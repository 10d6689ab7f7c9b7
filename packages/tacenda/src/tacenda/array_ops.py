"""Functions for arrays of NumPy and tensors of torch alike; torch is imported for tensors only.

There are two exceptions: `sum_rows` takes arrays of NumPy only, and `allows_tf32` reads a setting of torch.

Conversions between the two:

=============  ======================  =========================================================
function       takes                   returns
=============  ======================  =========================================================
`to_device`    an array or tensor      an array for "cpu", a tensor on any other device
`to_numpy`     an array or tensor      an array; without a copy from the CPU
`to_tensors`   arrays and tensors      tensors on a device of torch, "cpu" too; always on it
`from_tensor`  a tensor                an argument for a kernel where the tensor is, over its memory
=============  ======================  =========================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

Array = Any
"""An array of NumPy on the CPU, a tensor of torch elsewhere."""

#: The largest array, in bytes, that is copied by way of pinned memory: torch keeps such memory for reuse, and the
#: system cannot swap it out.
_LARGEST_PINNED = 1 << 20


def to_device(array: Any, device: str) -> Any:
    """Return an array or tensor as the kernels of a device take it: an array for "cpu", else a tensor there."""
    if device == "cpu":
        return to_numpy(array)
    import torch

    return to_tensors((array,), torch.device(device))[0]


def to_tensors(arrays: Iterable[Any], device: Any) -> list[Any]:
    """Return arrays, and tensors of any device, as tensors on one device of torch.

    Small arrays go to a CUDA device by way of pinned memory, so that the host need not wait for the work queued there.
    """
    import torch

    def to_tensor(array: Any) -> Any:
        if isinstance(array, torch.Tensor):
            return array.to(device)
        array = np.asarray(array, order="C")
        tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
        if torch.device(device).type == "cuda" and array.nbytes <= _LARGEST_PINNED:
            return tensor.pin_memory().to(device, non_blocking=True)
        return tensor.to(device)

    return [to_tensor(array) for array in arrays]


def from_tensor(tensor: Any) -> Any:
    """Return a tensor as kernels take it: from the CPU an array that shares its memory."""
    return tensor.detach().numpy() if tensor.device.type == "cpu" else tensor.detach()


def to_numpy(array: Any) -> Any:
    """Return an array or tensor as an array; an array is returned itself, and a tensor on the CPU shares its memory."""
    return array.detach().cpu().numpy() if hasattr(array, "detach") else array


def copy(array: Array) -> Array:
    """Return a copy of an array of any device, where it is."""
    return array.clone() if hasattr(array, "clone") else array.copy()


def assign(target: Array, array: Any) -> None:
    """Copy an array of NumPy into an array or tensor of the same shape."""
    if not hasattr(target, "copy_"):
        target[...] = array
    else:
        target.copy_(to_tensors((array,), "cpu")[0])


def zeros(shape: tuple[int, ...], like: Array) -> Array:
    """Return zeros of the dtype and on the device of another array."""
    return np.zeros(shape, like.dtype) if isinstance(like, np.ndarray) else like.new_zeros(shape)


def in_c_order(array: Array, dtype: Any = None) -> Array:
    """Return an array of any device in C order, in another dtype if one is given; copied only if necessary."""
    if isinstance(array, np.ndarray):
        return np.asarray(array, dtype, order="C")
    return array.to(dtype or array.dtype).contiguous()


def allows_tf32() -> bool:
    """Tell whether torch may round factors of float32 products to TF32 on CUDA, by either of its two switches."""
    import torch

    try:
        return bool(torch.get_float32_matmul_precision() != "highest")
    except RuntimeError:  # the user set fp32_precision
        return bool(torch.backends.cuda.matmul.fp32_precision == "tf32")


def library(array: Array) -> Any:
    """Return the module whose functions take the array: numpy or torch.

    Many functions have the same name in both, and torch accepts ``axis`` and ``keepdims`` too, so that code which uses
    only these runs on any device.
    """
    if isinstance(array, np.ndarray):
        return np
    import torch

    return torch


class DeviceCSR(NamedTuple):
    """A sparse table whose column ids and values are on a device, row after row."""

    offsets: Array  # int64 (rows + 1,), on the host
    ids: Array  # int32
    values: Array  # float32

    @classmethod
    def of(cls, table: Any, device: str) -> DeviceCSR:
        """Put a CSR table of SciPy on ``device``; on the CPU memory is shared if the dtypes are these."""
        parts = (
            table.indices.astype(np.int32, copy=False),
            table.data.astype(np.float32, copy=False),
        )
        offsets = table.indptr.astype(np.int64, copy=False)
        return cls(offsets, *(to_device(part, device) for part in parts))


def append_column(matrix: Array, value: float) -> Array:
    """Return a copy of a matrix of any device with one more column, filled with ``value``."""
    if isinstance(matrix, np.ndarray):
        return np.append(matrix, np.full((len(matrix), 1), value, matrix.dtype), axis=1)
    import torch

    return torch.cat([matrix, matrix.new_full((len(matrix), 1), value)], dim=1)


def merge_rows(ids: Array, *arrays: Array) -> tuple[Array, list[Array]]:
    """Return the distinct ids in ascending order, and the sums of the rows of each.

    ``ids`` (rows,) are integers, and the arrays (rows, width) are on their device. The order of the additions depends
    on the ids and the shapes only, so sums are the same in every run.
    """
    if isinstance(ids, np.ndarray):
        distinct, places = np.unique(ids, return_inverse=True)
        return distinct, [sum_rows(places, array, len(distinct)) for array in arrays]
    if not len(ids):
        return ids, [array[:0] for array in arrays]
    import torch

    order = torch.argsort(ids, stable=True)
    ordered = ids[order]
    distinct, lengths = torch.unique_consecutive(ordered, return_counts=True)
    options: dict[str, Any] = {"lengths": lengths, "axis": 0, "initial": 0, "unsafe": True}
    return distinct, [torch.segment_reduce(array[order], "sum", **options) for array in arrays]


def sum_rows(places: Array, values: Array, n: int) -> Array:
    """Return sums (n, width), for NumPy: place i has that of the ``values`` (rows, width) whose place is i."""
    from scipy.sparse import csc_array

    # a sparse product adds in one pass over the values; np.add.at and sorting copy them or jump around
    ones, rows = np.ones(len(places), values.dtype), len(places)
    adder = csc_array((ones, places, np.arange(rows + 1)), shape=(n, rows))
    return np.asarray(adder @ values)


def multiply_into(left: Array, right: Array, out: Array) -> None:
    """Write the product of two matrices into ``out``, which may be some columns of a larger matrix."""
    if isinstance(left, np.ndarray):
        np.matmul(left, right, out=out)
        return
    import torch

    torch.mm(left, right, out=out)
