"""Sums of groups of rows on a GPU, in an order that does not vary: what an index_add with atomics is not.

Imported on demand only, as it imports torch and triton.
"""

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from tacenda.kernels.machinery.tensors import to_device

__all__ = ["group_rows", "sum_rows"]

_Ids = np.ndarray[Any, np.dtype[Any]]
_ROWS, _COLUMNS = 16, 128  # of a tile


@triton.jit
def _sum(values, order, borders, out, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    """One program a group and tile of columns: rows of the group in their order, ROWS at a time."""
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


def group_rows(groups: _Ids, n: int) -> tuple[_Ids, _Ids]:
    """Rows sorted by group, those of a group in their order, and where each of ``n`` groups begins; int64."""
    borders = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(groups, minlength=n), out=borders[1:])
    return np.argsort(groups, kind="stable").astype(np.int64), borders


def sum_rows(values: torch.Tensor, order: _Ids, borders: _Ids) -> torch.Tensor:
    """The sums (groups, width) of ``values[order[borders[g] : borders[g + 1]]]``, zeros for a group without rows.

    Parameters
    ----------
    values
        (rows, width), C order.
    order, borders
        int64 (n,) and (groups + 1,), on the host.
    """
    out = values.new_empty((len(borders) - 1, values.shape[1]))
    if out.numel():
        places = to_device((order, borders), values.device)
        columns = min(_COLUMNS, triton.next_power_of_2(values.shape[1]))
        grid = len(out), triton.cdiv(values.shape[1], columns)
        with torch.cuda.device_of(values):
            _sum[grid](values, *places, out, values.shape[1], ROWS=_ROWS, COLUMNS=columns)
    return out
