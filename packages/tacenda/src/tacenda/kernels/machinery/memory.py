"""Rows of large tables where the processor reads them fastest: at the beginnings of lines of its cache."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

LINE = 64  # bytes of a line of the cache
WIDE = 16  # float32 in a line


def aligned(array: NDArray[Any], columns: int) -> NDArray[Any]:
    """The rows of ``array`` (rows, width), padded with zeros to a multiple of ``columns``; see `aligned_zeros`.

    The array itself if it is so already.
    """
    rows, width = array.shape
    padded = -(-width // columns) * columns
    if padded == width and array.flags.c_contiguous and array.ctypes.data % LINE == 0:
        return array
    found = aligned_zeros(rows, padded, array.dtype)
    found[:, :width] = array
    return found


def aligned_zeros(rows: int, width: int, dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """Zeros (rows, width) that begin where a line of the cache does, and so does every row that fills lines."""
    size = rows * width * np.dtype(dtype).itemsize
    memory = np.zeros(size + LINE, np.uint8)
    first = -memory.ctypes.data % LINE
    return memory[first : first + size].view(dtype).reshape(rows, width)
