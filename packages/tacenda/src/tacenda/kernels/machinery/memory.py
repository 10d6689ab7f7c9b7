"""Tables that begin at a line of the cache, as all their rows do if a row fills whole lines; these are read fastest."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

LINE = 64  # bytes of a line of the cache
WIDE = LINE // 4  # float32 numbers of a line


def aligned(array: NDArray[Any], columns: int = 1) -> NDArray[Any]:
    """Return an array (rows, width) in C order whose first row begins at a line of the cache.

    Its rows are padded with zeros to a multiple of ``columns``; every row begins at a line only if that makes rows of
    whole lines, as `WIDE` does for float32. An array that is so already is returned itself.
    """
    rows, width = array.shape
    padded = -(-width // columns) * columns
    if padded == width and array.flags.c_contiguous and array.ctypes.data % LINE == 0:
        return array
    copy = aligned_zeros(rows, padded, array.dtype)
    copy[:, :width] = array
    return copy


def aligned_zeros(rows: int, width: int, dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """Return zeros (rows, width) from the beginning of a line of the cache on; rows of whole lines begin at one too."""
    size = rows * width * np.dtype(dtype).itemsize
    memory = np.zeros(size + LINE, np.uint8)
    first = -memory.ctypes.data % LINE
    return memory[first : first + size].view(dtype).reshape(rows, width)
