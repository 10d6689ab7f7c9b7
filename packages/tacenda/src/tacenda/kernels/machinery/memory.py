"""Rows of large tables where the processor reads them fastest: at the beginnings of lines of its cache."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CHUNK", "LINE", "WIDE", "aligned"]

LINE = 64  # bytes of a line of the cache
WIDE = 16  # float32 in a line
CHUNK = 32  # whole numbers that are multiplied at a time, of 8 and of 16 bits


def aligned(array: NDArray[Any], columns: int) -> NDArray[Any]:
    """The rows of ``array`` (rows, width), padded with zeros to a multiple of ``columns``, each where a line of the
    cache begins if such a row fills lines. The array itself if it is so already.
    """
    rows, width = array.shape
    padded = -(-width // columns) * columns
    if padded == width and array.flags.c_contiguous and array.ctypes.data % LINE == 0:
        return array
    size = rows * padded * array.itemsize
    memory = np.zeros(size + LINE, np.uint8)
    first = -memory.ctypes.data % LINE
    found = memory[first : first + size].view(array.dtype).reshape(rows, padded)
    found[:, :width] = array
    return found
