"""Operations of several models on a GPU, in Triton."""

import torch
import triton
import triton.language as tl

from tacenda.array_ops import to_tensors
from tacenda.errors import KernelError
from tacenda.kernels.dispatch import UnsupportedShape
from tacenda.kernels.machinery.gpu import tile
from tacenda.kernels.shared import BETA_1, BETA_2, EPSILON

# -- adagrad ----------------------------------------------------------------------------------------
#
# The step on rows on a GPU: a program for each row, which reads gradient and row once and writes the row.
#
# Tensors are torch's; the numbers of the rows may be an array on the host. Works under Triton's interpreter.


_MAX_WIDTH = 1 << 14  # of a row, which one program holds


@triton.jit
def _step_row(table, sums, rows, gradient, rate, epsilon, width, WIDTH: tl.constexpr):
    """Step one row."""
    k = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, WIDTH)
    inside = d < width
    j = tl.load(rows + k).to(tl.int64)
    g = tl.load(gradient + k * width + d, inside, 0.0)
    total = tl.load(sums + j) + tl.sum(g * g, 0) / width
    row = tl.load(table + j * width + d, inside, 0.0)
    tl.debug_barrier()  # all threads have read the sum that one of them changes
    tl.store(sums + j, total)
    tl.store(table + j * width + d, row - rate / (tl.sqrt(total) + epsilon) * g, inside)


def adagrad(table, sums, rows, gradient, rate, threads=1):
    width = table.shape[1]
    if table.dtype != torch.float32 or width > _MAX_WIDTH:  # a launch takes its numbers as float32
        raise UnsupportedShape(f"rows of {width} numbers in {table.dtype}")
    if len(rows) and width:
        (at,) = to_tensors((rows,), table.device)
        size = tile(width, _MAX_WIDTH)
        with torch.cuda.device_of(table):
            _step_row[(len(rows),)](
                table, sums, at, gradient, float(rate), EPSILON, width,
                WIDTH=size, num_warps=max(1, min(8, size // 128)),
            )  # fmt: skip
    return table, sums


# -- adam -------------------------------------------------------------------------------------------
#
# The step of Adam on a GPU: one kernel that reads four arrays once and writes three.
#
# Works under Triton's interpreter.


_NUMBERS_AT_ONCE = 1024  # of a program


@triton.jit
def _step_numbers(
    table, mean, square, gradient, n, keep, keep_square, rate, scale, epsilon, AT_ONCE: tl.constexpr
):
    """Step some numbers; ``rate`` and ``scale`` correct both means for their start from zero."""
    at = tl.program_id(0).to(tl.int64) * AT_ONCE + tl.arange(0, AT_ONCE)
    inside = at < n
    g, m = tl.load(gradient + at, inside, 0.0), tl.load(mean + at, inside, 0.0)
    m += (1 - keep) * (g - m)
    v = keep_square * tl.load(square + at, inside, 0.0) + (1 - keep_square) * g * g
    tl.store(mean + at, m, inside)
    tl.store(square + at, v, inside)
    step = rate * m / (tl.sqrt(v) * scale + epsilon)
    tl.store(table + at, tl.load(table + at, inside, 0.0) - step, inside)


def adam(table, mean, square, gradient, rate, t):
    parts = table, mean, square
    if any(part.dtype != torch.float32 or not part.is_contiguous() for part in parts):
        # a launch takes its numbers as float32
        raise UnsupportedShape(f"tables of {table.dtype}, or not in C order")
    gradient = gradient.contiguous()
    if n := table.numel():
        with torch.cuda.device_of(table):
            _step_numbers[(triton.cdiv(n, _NUMBERS_AT_ONCE),)](
                table, mean, square, gradient, n, BETA_1, BETA_2, float(rate) / (1 - BETA_1**t),
                1 / (1 - BETA_2**t) ** 0.5, EPSILON, AT_ONCE=_NUMBERS_AT_ONCE,
            )  # fmt: skip
    return table, mean, square


# -- sparse product ---------------------------------------------------------------------------------
#
# Sparse times dense on a GPU: a program computes one tile of columns of one row of the result.
#
# The scales are folded in, so that no scaled copy of the dense operand is written. The nonzeros of a row are added in
# their order, which a sum by atomics could not do. Rows are started in their order: if ids are sorted by frequency the
# longest rows come first, and short rows fill the device when these end.
#
# Tensors are torch's; the sparse operand may be arrays on the host, which are copied. float32 sums. Works under
# Triton's interpreter.


_NONZEROS, _COLUMNS = 128, 128  # of the tile of a program


@triton.jit
def _sparse_product(
    indptr, indices, data, dense, row_scale, column_scale, out, width,
    NONZEROS: tl.constexpr, COLUMNS: tl.constexpr, BY_ROW: tl.constexpr, BY_COLUMN: tl.constexpr,
):  # fmt: skip
    """Fill ``out[i] = r_i sum_p data[p] c[indices[p]] dense[indices[p]]`` for one row i and one tile of columns."""
    i = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    end = tl.load(indptr + i + 1)
    total = tl.zeros((COLUMNS,), tl.float32)
    for at in range(tl.load(indptr + i), end, NONZEROS):
        p = at + tl.arange(0, NONZEROS)
        exists = p < end
        k = tl.load(indices + p, exists, 0).to(tl.int64)
        weight = tl.load(data + p, exists, 0).to(tl.float32)
        if BY_COLUMN:
            weight *= tl.load(column_scale + k, exists, 0.0)
        both = exists[:, None] & inside[None, :]
        rows = tl.load(dense + k[:, None] * width + column[None, :], both, 0.0)
        total += tl.sum(weight[:, None] * rows, 0)
    if BY_ROW:
        total *= tl.load(row_scale + i)
    tl.store(out + i * width + column, total, inside)


def sparse_product(indptr, indices, data, dense, row_scale, column_scale, threads):
    if dense.dtype != torch.float32:
        raise UnsupportedShape(f"dense is {dense.dtype}, and only float32 is served")
    if len(indptr) > 1 and dense.shape[1] and len(indices):
        indptr, indices, data = to_tensors((indptr, indices, data), dense.device)
        _check_indices(indptr, indices, len(dense))
    return multiply(indptr, indices, data, dense, row_scale, column_scale)


def multiply(indptr, indices, data, dense, row_scale=None, column_scale=None):
    """Return the product of tensors that are known to fit, without a check that would wait for the device."""
    rows, width = len(indptr) - 1, dense.shape[1]
    out = dense.new_zeros((rows, width))
    if not out.numel() or not len(indices):
        return out
    if data.dtype not in (torch.int32, torch.float32):
        data = data.to(torch.float32)
    scales = [s if s is None else s.float().contiguous() for s in (row_scale, column_scale)]
    columns = min(_COLUMNS, triton.next_power_of_2(width))
    with torch.cuda.device_of(dense):
        _sparse_product[(rows, triton.cdiv(width, columns))](
            indptr, indices, data, dense.contiguous(), *(data if s is None else s for s in scales), out, width,
            NONZEROS=_NONZEROS, COLUMNS=columns, BY_ROW=row_scale is not None, BY_COLUMN=column_scale is not None,
            num_warps=4,
        )  # fmt: skip
    return out


def _check_indices(indptr: torch.Tensor, indices: torch.Tensor, columns: int) -> None:
    """Raise KernelError unless all rows and column indices exist, with a single copy from the device."""
    least, most = torch.aminmax(indices)
    room = [least, columns - 1 - most, indptr.diff().min(), len(indices) - indptr[-1]]
    low, high, *of_rows = torch.stack(room).tolist()
    if min(of_rows) < 0:
        raise KernelError(
            f"the indptr of the sparse operand does not ascend up to {len(indices)}: check its shape"
        )
    if min(low, high) < 0:
        raise KernelError(
            f"the sparse operand has column indices outside 0 .. {columns - 1}: check its shape"
        )
