"""The step on rows on a GPU: a program for each row, which reads gradient and row once and writes the row.

Tensors are torch's; the numbers of the rows may be an array on the host. Works under Triton's interpreter.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.machinery.gpu import tile
from tacenda.kernels.machinery.tensors import to_device
from tacenda.kernels.shared.row_steps import EPSILON

_MOST_WIDTH = 1 << 14


@triton.jit
def _steps(table, sums, rows, gradient, rate, epsilon, width, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    """Take the step on one row."""
    k = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, WIDTH)
    inside = d < width
    j = tl.load(rows + k).to(tl.int64)
    g = tl.load(gradient + k * width + d, inside, 0.0)
    so_far = tl.load(sums + j) + tl.sum(g * g, 0) / width
    tl.store(sums + j, so_far)
    row = tl.load(table + j * width + d, inside, 0.0)
    tl.store(table + j * width + d, row - rate / (tl.sqrt(so_far) + epsilon) * g, inside)


def adagrad(
    table: torch.Tensor,
    sums: torch.Tensor,
    rows: Any,
    gradient: torch.Tensor,
    rate: float,
    threads: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """See `tacenda.kernels.shared.row_steps.adagrad`; ``threads`` is without effect."""
    width = table.shape[1]
    if table.dtype != torch.float32 or width > _MOST_WIDTH:  # a launch takes its numbers as float32
        raise UnsupportedShape(f"rows of {width} numbers in {table.dtype}")
    if len(rows) and width:
        (at,) = to_device((rows,), table.device)
        size = tile(width, _MOST_WIDTH)
        with torch.cuda.device_of(table):
            _steps[(len(rows),)](
                table, sums, at, gradient, rate, EPSILON, width,
                WIDTH=size, num_warps=max(1, min(8, size // 128)),
            )  # fmt: skip
    return table, sums
