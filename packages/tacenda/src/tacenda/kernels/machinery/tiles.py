"""Products of tiles on a GPU, which the softmaxes there are made of; imports torch and triton.

Sums are in the precision of the factors: float32 is not rounded to TF32 ("ieee"). A matrix product of such tiles runs
on the floating-point units, not on tensor cores; float64 runs on tensor cores, which have it.
"""

from typing import Any

import triton
import triton.language as tl

__all__ = ["product", "tile"]


@triton.jit
def product(left, right, width, inside_left, inside_right, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    """(m, n) of the m rows at the addresses ``left`` and the n rows at ``right``, all of ``width`` numbers; zeros where
    a row is not inside.
    """
    d = tl.arange(0, WIDTH)
    found = tl.zeros((left.shape[0], right.shape[0]), left.dtype.element_ty)
    for at in range(0, width, WIDTH):
        some = at + d < width
        x = tl.load(left[:, None] + (at + d)[None, :], inside_left[:, None] & some[None, :], 0.0)
        y = tl.load(right[None, :] + (at + d)[:, None], inside_right[None, :] & some[:, None], 0.0)
        found += tl.dot(x, y, input_precision="ieee")
    return found


def tile(size: Any, most: int) -> int:
    """The side of a tile for ``size`` numbers: a power of two that products take, at most ``most``."""
    return int(max(16, min(most, triton.next_power_of_2(max(int(size), 1)))))
