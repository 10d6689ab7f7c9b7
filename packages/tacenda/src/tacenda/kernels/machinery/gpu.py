"""Building blocks of Triton kernels, which import torch and triton: products of tiles, sums of rows, random numbers.

Products have the precision of their factors: float32 is not rounded to TF32 unless torch allows it (`precision`), so
such a product runs on the floating-point units and not on tensor cores; float64 runs on tensor cores, which support it.
Sums have a fixed order, which an index_add with atomics has not. The random numbers are those of
`tacenda.kernels.machinery.xorshift`, bit for bit.
"""

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from tacenda.array_ops import allows_tf32, to_tensors
from tacenda.kernels.machinery.xorshift import wrap_seed

_Ids = np.ndarray[Any, np.dtype[Any]]
_ROWS, _COLUMNS = 16, 128  # of the tiles of `sum_rows`


def tile(size: Any, most: int) -> int:
    """Return the side of a tile for ``size`` numbers: a power of two from 16, the least for tl.dot, to ``most``."""
    return int(max(16, min(most, triton.next_power_of_2(max(int(size), 1)))))


def precision(factors: torch.Tensor) -> str:
    """Return the PRECISION of products: "tf32" for float32 if `allows_tf32`, else "ieee".

    With "tf32" factors are rounded to three digits, and sums are float32.
    """
    return "tf32" if factors.dtype == torch.float32 and allows_tf32() else "ieee"


@triton.jit
def product(
    left, right, width, inside_left, inside_right, WIDTH: tl.constexpr, PRECISION: tl.constexpr
):
    """Return the products (m, n) of m rows at the addresses ``left`` and n rows at ``right``, of ``width`` numbers.

    Rows that are not inside count as zeros. The columns are read WIDTH at a time, so that a program holds one strip of
    each factor.
    """
    d = tl.arange(0, WIDTH)
    total = tl.zeros((left.shape[0], right.shape[0]), left.dtype.element_ty)
    for at in range(0, width, WIDTH):
        column = at + d
        exists = column < width
        x = tl.load(left[:, None] + column[None, :], inside_left[:, None] & exists[None, :], 0.0)
        y = tl.load(right[None, :] + column[:, None], inside_right[None, :] & exists[:, None], 0.0)
        total += tl.dot(x, y, input_precision=PRECISION)
    return total


def group_rows(groups: _Ids, n: int) -> tuple[_Ids, _Ids]:
    """Sort rows by group: return their order, stable within a group, and offsets of the ``n`` groups, both int64."""
    borders = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(groups, minlength=n), out=borders[1:])
    return np.argsort(groups, kind="stable").astype(np.int64), borders


@triton.jit
def _sum(values, order, borders, out, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Sum one group over one tile of columns: the group's rows in their order, ROWS at a time."""
    group = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    end = tl.load(borders + group + 1)
    total = tl.zeros((COLUMNS,), out.dtype.element_ty)
    for at in range(tl.load(borders + group), end, ROWS):
        place = at + tl.arange(0, ROWS)
        row = tl.load(order + place, place < end, 0)
        here = (place < end)[:, None] & inside[None, :]
        total += tl.sum(tl.load(values + row[:, None] * width + column[None, :], here, 0.0), 0)
    tl.store(out + group * width + column, total, inside)


def sum_rows(values: torch.Tensor, order: Any, borders: Any) -> torch.Tensor:
    """Return the sums (groups, width) of ``values[order[borders[g] : borders[g + 1]]]``, zeros for an empty group.

    Parameters
    ----------
    values
        (rows, width), in C order.
    order, borders
        int64 (n,) and (groups + 1,), as `group_rows` returns them, or tensors on the device.
    """
    out = values.new_empty((len(borders) - 1, values.shape[1]))
    if out.numel():
        places = to_tensors((order, borders), values.device)
        columns = min(_COLUMNS, triton.next_power_of_2(values.shape[1]))
        grid = len(out), triton.cdiv(values.shape[1], columns)
        with torch.cuda.device_of(values):
            _sum[grid](values, *places, out, values.shape[1], ROWS=_ROWS, COLUMNS=columns)
    return out


def load_seed(device: torch.device, seed: int) -> torch.Tensor:
    """Return the seed, modulo 2^64, as a tensor that a kernel loads: int64 (1,), of the same bits."""
    return torch.tensor([wrap_seed(seed).view(np.int64)], dtype=torch.int64, device=device)


@triton.jit
def seed_state(seed, row):
    """Return the first states of rows, uint64; seed and row are int64."""
    state = seed.to(tl.uint64) * 0x9E3779B97F4A7C15
    state += (row + 1).to(tl.uint64) * 0xBF58476D1CE4E5B9
    return ((state ^ (state >> 30)) * 0x94D049BB133111EB) | 1


@triton.jit
def advance(state):
    """Return the states after these."""
    state ^= state << 13
    state ^= state >> 7
    state ^= state << 17
    return state
