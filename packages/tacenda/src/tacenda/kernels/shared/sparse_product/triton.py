"""Sparse times dense on a GPU: a program makes one row of the result, for a tile of its columns.

The scalings are folded in, so that the dense operand is read as it is and nothing but the result is written. A row's
nonzeros are added in their order, which a sum by atomics would not be. Rows are started in their order: where ids are
sorted by frequency the longest come first, and the short ones fill the device when these end.

Tensors are torch's; the sparse operand may be arrays on the host, which are copied. float32 sums. Works under Triton's
interpreter.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.machinery.tensors import to_device

_NONZEROS, _COLUMNS = 16, 128


@triton.jit
def _multiply(  # type: ignore[no-untyped-def]
    indptr, indices, data, dense, row_scale, column_scale, out, width,
    NONZEROS: tl.constexpr, COLUMNS: tl.constexpr, BY_ROW: tl.constexpr, BY_COLUMN: tl.constexpr,
):  # fmt: skip
    """Make ``out[i] = r_i sum_p data[p] c[indices[p]] dense[indices[p]]`` for one row i and one tile of columns."""
    i = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    end = tl.load(indptr + i + 1)
    total = tl.zeros((COLUMNS,), tl.float32)
    for at in range(tl.load(indptr + i), end, NONZEROS):
        p = at + tl.arange(0, NONZEROS)
        some = p < end
        k = tl.load(indices + p, some, 0).to(tl.int64)
        weight = tl.load(data + p, some, 0).to(tl.float32)
        if BY_COLUMN:
            weight *= tl.load(column_scale + k, some, 0.0)
        there = some[:, None] & inside[None, :]
        rows = tl.load(dense + k[:, None] * width + column[None, :], there, 0.0)
        total += tl.sum(weight[:, None] * rows, 0)
    if BY_ROW:
        total *= tl.load(row_scale + i)
    tl.store(out + i * width + column, total, inside)


def multiply(
    indptr: Any,
    indices: Any,
    data: Any,
    dense: torch.Tensor,
    row_scale: torch.Tensor | None,
    column_scale: torch.Tensor | None,
    threads: int,
) -> torch.Tensor:
    """See `tacenda.kernels.shared.sparse_product.multiply`; ``threads`` is without effect."""
    if dense.dtype != torch.float32:
        raise UnsupportedShape(f"dense is {dense.dtype}, and only float32 is served")
    rows, (columns, width) = len(indptr) - 1, dense.shape
    out = dense.new_zeros((rows, width))
    if not out.numel() or not len(indices):
        return out
    starts, places, values = to_device((indptr, indices, data), dense.device)
    _check(starts, places, columns)
    if values.dtype not in (torch.int32, torch.float32):
        values = values.to(torch.float32)
    scales = [scale if scale is None else scale.contiguous() for scale in (row_scale, column_scale)]
    tile = min(_COLUMNS, triton.next_power_of_2(width))
    with torch.cuda.device_of(dense):
        _multiply[(rows, triton.cdiv(width, tile))](
            starts, places, values, dense.contiguous(), *(values if s is None else s for s in scales), out, width,
            NONZEROS=_NONZEROS, COLUMNS=tile, BY_ROW=row_scale is not None, BY_COLUMN=column_scale is not None,
            num_warps=4,
        )  # fmt: skip
    return out


def _check(starts: torch.Tensor, places: torch.Tensor, columns: int) -> None:
    """Raise KernelError unless all addresses exist; what is found out on the device is fetched once."""
    least, most = torch.aminmax(places)
    found = torch.stack([least, columns - 1 - most, starts.diff().min(), len(places) - starts[-1]])
    least_place, *room = found.tolist()
    if least_place < 0 or min(room) < 0:
        raise KernelError(
            f"the sparse operand has column indices outside 0 .. {columns - 1}, or an indptr that does not ascend: "
            "check its shape"
        )
