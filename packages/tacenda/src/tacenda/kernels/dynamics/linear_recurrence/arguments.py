"""The checks that the recurrences share: packed sequences and what belongs to them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError

_Array = NDArray[Any]


def check_packed(rows: _Array, offsets: _Array, what: str) -> tuple[_Array, NDArray[np.int64]]:
    """``rows`` (tokens, states) float32 or float64, and ``offsets`` (sequences + 1,) into it."""
    rows = np.asarray(rows)
    if rows.ndim != 2 or rows.dtype not in (np.float32, np.float64):
        raise KernelError(
            f"{what} must be (tokens, states) in float32 or float64, not {rows.dtype} {rows.shape}"
        )
    return rows, check_offsets(offsets, len(rows), what)


def check_offsets(offsets: _Array, tokens: int, what: str) -> NDArray[np.int64]:
    """``offsets`` (sequences + 1,) into the ``tokens`` of ``what``."""
    offsets = np.asarray(offsets)
    if offsets.ndim != 1 or len(offsets) == 0 or not np.issubdtype(offsets.dtype, np.integer):
        raise KernelError(
            f"offsets must be (sequences + 1,) integers, not {offsets.dtype} {offsets.shape}"
        )
    offsets = offsets.astype(np.int64, copy=False)
    if offsets[0] != 0 or offsets[-1] != tokens or (np.diff(offsets) < 0).any():
        raise KernelError(
            f"offsets must ascend from 0 to the {tokens} tokens of {what}, and run from "
            f"{offsets[0]} to {offsets[-1]}"
        )
    return offsets


def check_like(array: _Array | None, shape: tuple[int, ...], like: _Array, name: str) -> _Array:
    """``array`` in the dtype of ``like``; zeros where it is None."""
    if array is None:
        return np.zeros(shape, like.dtype)
    array = np.asarray(array)
    if array.shape != shape:
        raise KernelError(f"{name} must be {shape}, not {array.shape}")
    return np.ascontiguousarray(array, like.dtype)


def check_out(out: _Array | None, like: _Array) -> _Array:
    """``out`` if it can take the result in place of a new array."""
    if out is None:
        return np.empty(like.shape, like.dtype)
    if out.shape != like.shape or out.dtype != like.dtype or not out.flags.c_contiguous:
        raise KernelError(
            f"out must be {like.dtype} {like.shape} in C order, not {out.dtype} {out.shape}"
        )
    return out


def square(F: _Array, u: _Array) -> _Array:
    """F (states, states) for the states of ``u``, in its dtype."""
    F, states = np.asarray(F), u.shape[1]
    if F.shape != (states, states):
        raise KernelError(f"F must be ({states}, {states}) as u has {states} states, not {F.shape}")
    return F.astype(u.dtype, copy=False)
